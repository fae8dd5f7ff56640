"""Who may know whom, read off the syntax trees.

Lists that begin with ``STILL`` name the places that do not keep to a rule yet.  They are compared
exactly: whoever mends a place takes it off the list, and nothing is ever added.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "mercer"
MODULES = sorted(PACKAGE.rglob("*.py"))

#: A module may import from its own layer and from those before it.
LAYERS = [
    {"_arrays", "_files", "_progress", "_repr", "exceptions"},
    {"_memory", "_threads", "_validation"},
    {"_arrow", "_npz"},
    {"compiled"},
    {"profiles"},
    {"special"},
    {"laws"},
    {"engine"},
    {"spaces"},
    {"kernels"},
    {"harmonics"},
    {"rkhs", "features", "testing", "datasets", "bounds", "families"},
    {"gp", "machines"},
    {"gpytorch"},
    {"selection"},
    {"plotting"},
    {"report"},
    {"reproduce"},
    {"outputs"},
    {"cli"},
]
STILL_UPWARD = {
    "engine/mixtures.py": {"spaces"},
    "engine/clouds.py": {"spaces"},
}

#: Questions about an array that only the engine and the helpers below it may ask.
QUESTIONS = {
    "is_foreign",
    "is_array_api_obj",
    "is_cupy_array",
    "is_dask_array",
    "is_jax_array",
    "is_numpy_array",
    "is_torch_array",
}
TRAITS = {"cpu", "detach", "device", "grad", "numpy", "requires_grad"}
STILL_CHOOSE = {
    "features/gram.py": {"is_foreign"},
    "features/spectral.py": {"is_foreign"},
    "kernels/algebra.py": {"is_foreign", "detach"},
    "kernels/heat.py": {"requires_grad"},
    "kernels/matern.py": {"requires_grad"},
    "kernels/counts/posterior.py": {"is_foreign"},
    "kernels/realised.py": {"is_foreign", "requires_grad"},
    "kernels/sphere.py": {"is_foreign"},
    "spaces/graph.py": {"is_foreign"},
    "special/harmonics.py": {"is_foreign"},
}

#: Modules that are imported where they are first needed: optional ones, and those that compile.
LAZY = {
    "dask",
    "distributed",
    "mercer.compiled",
    "mercer.engine.autograd",
    "numba",
    "pyarrow",
    "skops",
    "torch",
}
STILL_LAZY = {
    "_progress.py": {"rich.console", "rich.progress", "rich.text"},
    "cli.py": {
        "importlib",
        "mercer.__version__",
        "mercer._files",
        "mercer._progress",
        "mercer._threads",
        "mercer.datasets",
        "mercer.report",
        "mercer.reproduce",
        "mercer.reproduce.output",
        "mercer.selection",
        "mercer.selection.comparison",
        "mercer.selection.kinds",
        "numpy",
        "pandas",
        "sklearn.metrics",
    },
    "datasets/docstrings.py": {"sklearn.feature_extraction.text"},
    "datasets/matrices.py": {"sklearn.datasets"},
    "datasets/structured.py": {"pandas"},
    "datasets/tables.py": {"pandas", "sklearn.datasets"},
    "gp/regressor.py": {"mercer.gp.scales"},
    "kernels/base.py": {"mercer.kernels.algebra"},
    "plotting.py": {"matplotlib.colors", "matplotlib.pyplot", "matplotlib.tri"},
    "profiles/profile.py": {"array_api_compat"},
    "report/html.py": {"jinja2"},
    "reproduce/gbm.py": {"pandas"},
    "reproduce/output.py": {"matplotlib"},
    "reproduce/sp500.py": {"pandas"},
    "reproduce/sphere_heat.py": {"scipy.stats"},
    "reproduce/standin.py": {"pandas"},
    "spaces/graph.py": {"networkx"},
    "special/balls.py": {"flint"},
    "special/heat_expansion.py": {"flint"},
    "special/hyperbolic.py": {"flint"},
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


each_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


def imported(tree: ast.AST) -> Iterator[str]:
    """Full names of the modules that are imported anywhere below a node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "mercer":
            yield from (f"mercer.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def layer(name: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if name in names)


def check(path: Path, found: set[str], still: dict[str, set[str]], complaint: str) -> None:
    listed = still.get(name_of(path), set())
    assert not found - listed, f"{name_of(path)} {complaint}: {sorted(found - listed)}"
    assert not listed - found, f"mended: take {sorted(listed - found)} of {name_of(path)} off the list"


@each_module
def test_imports_go_downward_only(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    parts = {name.split(".")[1] for name in imported(ast.parse(path.read_text())) if "mercer." in name}
    upward = {part for part in parts - {"__version__"} if layer(part) > layer(own)}
    check(path, upward, STILL_UPWARD, "imports from above")


def array_questions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in QUESTIONS:
            yield node.id
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr"):
            trait = node.args[1]
            if isinstance(trait, ast.Constant) and trait.value in TRAITS:
                yield trait.value


@each_module
def test_the_engine_alone_asks_where_an_array_lives(path: Path) -> None:
    if name_of(path).startswith("engine/") or name_of(path) in ("_arrays.py", "_validation.py"):
        return
    found = set(array_questions(ast.parse(path.read_text())))
    check(path, found, STILL_CHOOSE, "asks where an array lives; use engine_for")


@each_module
def test_imports_inside_functions(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = {name for function in functions(tree) for name in imported(function)}
    found = {n for n in names if not any(n == lazy or n.startswith(f"{lazy}.") for lazy in LAZY)}
    check(path, found, STILL_LAZY, "imports inside a function")


@each_module
def test_one_pool_and_one_bar(path: Path) -> None:
    tree = ast.parse(path.read_text())
    if name_of(path) not in ("_threads.py", "_progress.py"):
        pools = {"concurrent.futures", "multiprocessing", "rich.progress", "threadpoolctl"}
        assert not pools & set(imported(tree))
    assert not any(isinstance(n, ast.Attribute) and n.attr == "cpu_count" for n in ast.walk(tree))


def test_lists_name_modules_that_exist() -> None:
    names = set(map(name_of, MODULES))
    for still in (STILL_UPWARD, STILL_CHOOSE, STILL_LAZY):
        assert set(still) <= names
