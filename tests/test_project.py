"""The shape of the project: layers, light imports, documents that run."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mercer"

#: A module may import from its own layer and from those before it.
LAYERS = [
    {"_files", "_memory", "exceptions"},
    {"_arrow", "_npz"},
    {"compiled", "profiles"},
    {"spaces"},
    {"engine"},
    {"kernels"},
    {"harmonics"},
    {"rkhs", "features", "testing", "datasets", "bounds"},
    {"gp"},
    {"gpytorch"},
    {"selection"},
    {"plotting"},
    {"report"},
    {"reproduce"},
    {"progress", "outputs"},
    {"cli"},
]


def imports(path: Path) -> set[str]:
    """Parts of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module] if node.module != "mercer" else [f"mercer.{a.name}" for a in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        found |= {
            n.split(".")[1] for n in names if n.startswith("mercer.") and n != "mercer.__version__"
        }
    return found


def layer(name: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if name in names)


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_go_downward_only(path: Path) -> None:
    parts = path.relative_to(PACKAGE).parts
    own = parts[0].removesuffix(".py")
    if own != "__init__":
        for name in imports(path):
            assert layer(name) <= layer(own), f"{own} imports {name}"


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
    for module in ("mercer.kernels", "mercer.spaces", "mercer.features", "mercer.rkhs"):
        extra = {name.split(".")[0] for name in loaded_by(f"import {module}") - baseline}
        assert not {"numba", "torch", "matplotlib", "pandas", "flint"} & extra


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
