"""The pages of full runs say what their runs found."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mercer import reproduce
from mercer.reproduce import output

PAGES = Path(__file__).parents[2] / "docs" / "reproduce"


@pytest.mark.parametrize("name", reproduce.NAMES)
def test_page_is_what_the_run_wrote(name: str) -> None:
    found = json.loads((PAGES / f"{name}.json").read_text())
    page, heading, discussion = (PAGES / f"{name}.md").read_text().partition("\n## Discussion\n")
    assert page == output.page(found, reproduce.find(name))
    assert heading
    assert len(discussion.split()) > 8
    assert found["warnings"] == [], "a full run on the real data"
    assert found["run"]["command"].split()[:3] == ["mercer", "reproduce", name]
    assert "--quick" not in found["run"]["command"]
    assert found["claims"]
    for ending in found["figures"]:
        assert (PAGES / f"{name}-{ending}.svg").stat().st_size > 5000
        assert not (PAGES / f"{name}-{ending}.png").exists(), "one format for each figure"


def test_index_names_every_page() -> None:
    index = (PAGES / "index.md").read_text()
    listed = re.search(r"```{toctree}.*?\n\n(.*?)```", index, flags=re.DOTALL)
    assert listed is not None
    assert sorted(listed[1].split()) == sorted(reproduce.NAMES)
    assert all(f"| `{name}` |" in index for name in reproduce.NAMES)


_PAGES = """
from pathlib import Path
from mercer.reproduce import find, output
from mercer.reproduce.experiment import Result, Table
run = output.Run(find("sphere-heat"), "command", True, True, False, 1.0, 1.0)
for _ in range(2):
    output.write(Result([Table("\\u03b7 small", ("n",), [(1,)])], []), run, Path("."))
"""


def test_pages_are_written_in_any_locale(tmp_path) -> None:
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", _PAGES], cwd=tmp_path, env=plain, capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    for ending in ("md", "json"):
        assert "\u03b7 small" in (tmp_path / f"sphere-heat.{ending}").read_text(encoding="utf-8")
