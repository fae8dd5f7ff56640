"""The shape of the project: short files, light imports, documents that run."""

import re
import subprocess
import sys
from functools import cached_property
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from types import FunctionType

import pytest

import mercer

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mercer"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_imports_are_light() -> None:
    assert not {"numba", "torch", "matplotlib", "pandas", "sklearn"} & loaded_by("import mercer")
    baseline = loaded_by("import sklearn.gaussian_process, sklearn.preprocessing")
    found = loaded_by("import mercer.kernels, mercer.spaces, mercer.features, mercer.rkhs")
    extra = {name.split(".")[0] for name in found - baseline}
    assert not {"numba", "torch", "matplotlib", "pandas", "flint"} & extra


def test_public_methods_are_documented() -> None:
    """By themselves, or by what they override, whose documentation they inherit."""
    for package in mercer.__all__:
        import_module(f"mercer.{package}")
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("mercer.")]
    methods = {
        (kind, name)
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and kind.__name__[0] != "_"
        for name, method in vars(kind).items()
        if name[0] != "_" and isinstance(method, FunctionType | property | cached_property | classmethod)
    }
    assert len(methods) > 1000
    assert not [f"{kind}.{name}" for kind, name in methods if not getdoc(getattr(kind, name))]


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_in_documents_runs(path: Path, tmp_path, monkeypatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.M | re.S)
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__document__"}
    for block in blocks:
        exec(compile(block, str(path), "exec"), namespace)


def test_readme_has_examples() -> None:
    assert (ROOT / "README.md").read_text().count("```python") >= 3


def test_every_card_of_the_front_page_has_a_link() -> None:
    docs = ROOT / "docs"
    cards = (docs / "index.md").read_text().split(":::{grid-item-card} ")[1:]
    assert len(cards) >= 12
    for card in cards:
        link = re.match(r".+\n:link: (\S+)\n:link-type: doc\n", card)
        assert link is not None, card
        assert (docs / f"{link[1]}.md").exists(), card
