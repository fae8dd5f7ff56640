"""The shape of the project: short files, light imports, documents that run."""

import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path

import pytest

import mercer

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mercer"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


def test_packages_with_many_modules_have_subpackages() -> None:
    for package in {path.parent for path in PACKAGE.rglob("*.py")}:
        modules = [path for path in package.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= 16 or any(package.glob("*/__init__.py")), package


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


def public_classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(mercer.__path__, "mercer."):
        if module.name == "mercer.__main__":
            continue
        try:
            found = import_module(module.name)
        except ImportError:  # an optional package is not installed
            continue
        for kind in vars(found).values():
            if inspect.isclass(kind) and kind.__module__ == module.name and kind.__name__[0] != "_":
                yield kind


def test_public_methods_have_docstrings() -> None:
    methods = (property, cached_property, classmethod, staticmethod)
    for kind in public_classes():
        for name, member in vars(kind).items():
            if name[0] != "_" and (inspect.isfunction(member) or isinstance(member, methods)):
                docs = [getattr(vars(base).get(name), "__doc__", None) for base in kind.__mro__]
                assert any(docs), f"{kind.__module__}.{kind.__name__}.{name}"


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_in_documents_runs(path: Path, tmp_path, monkeypatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.M | re.S)
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__document__"}
    for block in blocks:
        exec(compile(block, str(path), "exec"), namespace)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_line_of_a_paragraph_begins_a_list(path: Path) -> None:
    """Markdown takes a number or a sign at the beginning of a line for an item."""
    text = re.sub(r"(```|:::|\$\$).*?\1", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.findall(r"^[^\s\d\-+*|#>:].*\n(?:1\.|[-+*]) .*", text, re.MULTILINE) == []


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
