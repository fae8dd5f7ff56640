"""Faults that a review of Gaussian processes, and of what came with them, has found."""

import os
import subprocess
import sys

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
