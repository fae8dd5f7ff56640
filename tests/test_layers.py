"""Who may know whom, read off the syntax trees.

Each rule is a function of a module's syntax tree that yields what breaks it.  It is tried on a few
lines that were made up, and then runs over every module.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "mercer"
Rule = Callable[[str, ast.AST], Iterator[str]]
MODULES = {p.relative_to(PACKAGE).as_posix(): ast.parse(p.read_text()) for p in PACKAGE.rglob("*.py")}

#: A module may import from its own layer and from those before it.
LAYERS = [
    {"__version__", "_arrays", "_files", "_progress", "_repr", "exceptions"},
    {"_memory", "_threads", "_validation"},
    {"_arrow", "_npz"},
    {"compiled"},
    {"profiles"},
    {"special"},
    {"contributions", "laws"},
    {"engine"},
    {"spaces"},
    {"kernels"},
    {"harmonics"},
    {"rkhs", "features", "testing", "datasets", "bounds"},
    {"rows"},
    {"gp", "machines"},
    {"gpytorch"},
    {"selection"},
    {"explain"},
    {"plotting"},
    {"report"},
    {"reproduce"},
    {"outputs"},
    {"cli", "__init__"},
    {"__main__"},
]

#: Modules that are imported where they are needed first, and why.
LAZY = {
    "dask": "optional",
    "distributed": "optional",
    "networkx": "optional",
    "pyarrow": "optional",
    "torch": "optional",
    "mercer.engine.autograd": "imports torch",
    "mercer.engine.fused": "imports triton",
    "mercer.engine.tensors": "imports torch",
    "mercer.gp.scales": "imports torch",
    "mercer.compiled": "imports numba, which takes longer than all the rest",
    "flint": "0.02 s, for the few profiles that need exact sums",
    "matplotlib": "0.2 s, for figures only",
    "rich": "0.1 s, for bars that seldom appear",
    "sklearn.linear_model": "0.02 s, for the weights of kernels only",
    "sklearn.svm": "as sklearn.linear_model",
    "skops": "seconds, for models on disk only",
    "mercer.kernels.algebra": "sums of kernels are kernels, and kernels add up to sums",
}
#: The command line imports what a command needs when it runs: ``mercer --help`` answers at once.
LAZY_COMMANDS = {
    "mercer.engine.cuda",
    "mercer.datasets",
    "mercer.explain",
    "mercer.report",
    "mercer.reproduce",
    "mercer.selection",
    "pandas",
    "sklearn",
}

#: Questions about an array that only the engine and the helpers below it may ask.
QUESTIONS = {
    "is_array_api_obj",
    "is_cupy_array",
    "is_dask_array",
    "is_foreign",
    "is_jax_array",
    "is_numpy_array",
    "is_torch_array",
}
TRAITS = {"cpu", "detach", "device", "grad", "numpy", "requires_grad"}

#: Properties that users may ask for; scikit-learn has some of them among its tags.
PROPERTIES = {
    "is_isotropic",
    "is_stationary",
    "is_zonal",
    "positive_semidefinite",
    "requires_vector_input",
    "takes_sparse",
}
#: Attributes that arrays, data frames, networkx graphs and estimators have too.
COMMON = {"base", "columns", "get_params", "kernel", "kind", "nodes", "shape"}
#: Named tuples and the operating system have public names with an underscore.
PUBLIC = {"_asdict", "_exit", "_fields", "_replace"}


def imported(tree: ast.AST) -> Iterator[str]:
    """Full names of the modules that are imported anywhere below a node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "mercer":
            yield from (f"mercer.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def within(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def last_name(node: ast.AST) -> str:
    """``Sphere`` of both ``Sphere`` and ``spaces.Sphere``; empty of scikit-learn's and anything else."""
    if isinstance(node, ast.Attribute):
        return "" if last_name(node.value) == "sk" else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.Call) and last_name(n.func) in names)


def classes_below(package: str, root: str) -> set[str]:
    """Classes of a package that derive from a root, without the root."""
    bases = {
        node.name: {last_name(base) for base in node.bases}
        for module, tree in MODULES.items()
        if module.startswith(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {root}
    while more := {name for name in bases if bases[name] & found} - found:
        found |= more
    return found - {root}


def members(package: str) -> Iterator[ast.stmt]:
    """What stands in the bodies of a package's classes."""
    for module, tree in MODULES.items():
        for node in ast.walk(tree) if module.startswith(package) else ():
            if isinstance(node, ast.ClassDef):
                yield from node.body


def flags_of(package: str) -> set[str]:
    """Attributes and methods of a package's classes that are always yes or always no."""
    found, parameters = set(), set()
    for node in members(package):
        if isinstance(node, ast.Assign) and is_answer(node.value):
            found |= set(map(last_name, node.targets))
        elif isinstance(node, ast.FunctionDef):
            last = node.body[-1]
            if isinstance(last, ast.Return) and is_answer(last.value) and len(node.body) < 3:
                found.add(node.name)
            if node.name == "__init__":
                parameters |= {argument.arg for argument in node.args.args}
        elif isinstance(node, ast.AnnAssign):  # a field of a data class
            parameters.add(last_name(node.target))
    return found - parameters - PROPERTIES


def is_answer(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def names_of(package: str) -> set[str]:
    """Names of the public attributes and methods of a package's classes."""
    functions = {node.name for node in members(package) if isinstance(node, ast.FunctionDef)}
    fields = {last_name(node.target) for node in members(package) if isinstance(node, ast.AnnAssign)}
    return {name for name in functions | fields if not name.startswith("__")} - COMMON


SPACES = classes_below("spaces/", "Space")
KERNELS = classes_below("kernels/", "Kernel")
SPACE_FLAGS = flags_of("spaces/")
KERNEL_FLAGS = flags_of("kernels/")
NAMES = names_of("spaces/") | names_of("kernels/") | names_of("laws")


def upward_imports(module: str, tree: ast.AST) -> Iterator[str]:
    def layer(name: str) -> int:
        return next(i for i, names in enumerate(LAYERS) if name in names)

    own = layer(module.split("/")[0].removesuffix(".py"))
    parts = {name.split(".")[1] for name in imported(tree) if name.startswith("mercer.")}
    return (part for part in parts if layer(part) > own)


def inner_imports(module: str, tree: ast.AST) -> Iterator[str]:
    lazy = set(LAZY) | (LAZY_COMMANDS if module == "cli.py" else set())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (name for name in imported(function) if not within(name, lazy))


def array_questions(module: str, tree: ast.AST) -> Iterator[str]:
    if module.startswith("engine/") or module in ("_arrays.py", "_validation.py"):
        return
    yield from (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in QUESTIONS)
    for call in calls(tree, "hasattr", "getattr"):
        if isinstance(call.args[1], ast.Constant) and call.args[1].value in TRAITS:
            yield call.args[1].value


def asked_types(tree: ast.AST) -> Iterator[str]:
    """Names of classes that something is compared with, or looked up by."""
    for call in calls(tree, "isinstance", "issubclass"):
        yield from map(last_name, ast.walk(call.args[1]))
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass):
            yield last_name(node.cls)
        if isinstance(node, ast.Compare) and any(calls(node, "type")):
            yield from map(last_name, ast.walk(node))
        if isinstance(node, ast.Dict):
            yield from (last_name(key) for key in node.keys if key is not None)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield from map(last_name, node.elts)


def space_questions(module: str, tree: ast.AST) -> Iterator[str]:
    if not module.startswith("spaces/"):
        yield from (name for name in asked_types(tree) if name in SPACES)


def kernel_questions(module: str, tree: ast.AST) -> Iterator[str]:
    if not module.startswith("kernels/"):
        yield from (name for name in asked_types(tree) if name in KERNELS)


def conditions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.BoolOp | ast.UnaryOp):
            yield node
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def flags(module: str, tree: ast.AST) -> Iterator[str]:
    """Flags of spaces and kernels that decide something elsewhere."""
    own = {"spaces": SPACE_FLAGS, "kernels": KERNEL_FLAGS}.get(module.split("/")[0], set())
    asked = (SPACE_FLAGS | KERNEL_FLAGS) - own
    for condition in conditions(tree):
        for node in ast.walk(condition):
            if isinstance(node, ast.Attribute) and node.attr in asked:
                yield node.attr


def attribute_questions(module: str, tree: ast.AST) -> Iterator[str]:
    """Attributes of our own classes that are looked for instead of being there."""
    for call in calls(tree, "hasattr", "getattr"):
        absent = last_name(call.func) == "hasattr" or len(call.args) == 3
        name = call.args[1].value if isinstance(call.args[1], ast.Constant) else None
        if absent and name in NAMES - PROPERTIES:
            yield name


def private_attributes(module: str, tree: ast.AST) -> Iterator[str]:
    """Private attributes of what another module defines."""
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        mine = isinstance(node, ast.Attribute) and last_name(node.value) in ("self", "cls")
        if isinstance(getattr(node, "ctx", None), ast.Store) and (mine or isinstance(node, ast.Name)):
            own.add(last_name(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and last_name(node.value) not in ("self", "cls"):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if private and node.attr not in own | PUBLIC and not any(calls(node.value, "super")):
                yield node.attr


#: The rules, each with a module and lines in it, all of which break the rule.
RULES: dict[Rule, tuple[str, list[str]]] = {
    upward_imports: (
        "engine/a.py",
        ["from mercer.spaces import Sphere", "import mercer.gp", "from mercer import kernels"],
    ),
    inner_imports: ("gp/a.py", ["def f():\n    import pandas", "def f():\n    from mercer import gp"]),
    array_questions: ("spaces/a.py", ["is_torch_array(X)", "hasattr(X, 'detach')"]),
    space_questions: (
        "kernels/a.py",
        [
            "isinstance(space, Sphere | Torus)",
            "issubclass(kind, (spaces.Sphere, int))",
            "match space:\n    case Sphere(): pass",
            "type(space) is Sphere",
            "{Sphere: 1, Torus: 2}[type(space)]",
            "ROUND = (Sphere, Simplex)",
        ],
    ),
    kernel_questions: ("gp/a.py", ["isinstance(kernel, Heat)", "type(kernel) in [Heat, Matern]"]),
    flags: ("gp/a.py", ["1 if space.computes_in_double else 2", "[k for k in x if not k.magnifies]"]),
    attribute_questions: ("gp/a.py", ["hasattr(space, 'realise')", "getattr(k, 'space', None)"]),
    private_attributes: ("gp/a.py", ["kernel._x", "class A:\n    def f(self, b):\n        b._y = 1"]),
}
#: Lines that keep to every rule.
HARMLESS = """
from mercer.spaces import Space, Sphere
from mercer.kernels import Kernel
def f(x, kernel: Kernel, space=Sphere()):
    from mercer.compiled import rows
    if not isinstance(space, Space) or space != Sphere() or kernel.requires_vector_input:
        return hasattr(x, "shape"), type(x).__name__
class A:
    _y = 1
    def f(self, other):
        return self._x + other._y
"""
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)


@each_rule
def test_rule(rule: Rule) -> None:
    found = {module: set(rule(module, tree)) for module, tree in MODULES.items()}
    assert {module: broken for module, broken in found.items() if broken} == {}


def test_layers_are_those_that_are_drawn() -> None:
    guide = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = guide.split("| part of `src/mercer` |")[1].split("\n\n")[0]
    rows = [set(re.findall(r"`(\w+)/?`", line.split("|")[1])) for line in table.splitlines()[2:]]
    layers = iter(names - {"__version__", "__init__"} for names in LAYERS[:-1])
    for row in rows:
        drawn = set()
        while drawn < row:
            drawn |= next(layers)
        assert drawn == row
    assert next(layers, None) is None
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set().union(*rows) == parts - {"__init__", "__main__", "__pycache__"}


def test_one_pool_and_one_bar() -> None:
    pools = {"concurrent.futures", "multiprocessing", "rich.progress", "threadpoolctl"}
    for module, tree in MODULES.items():
        if module not in ("_threads.py", "_progress.py"):
            assert not pools & set(imported(tree)), module
        assert not any(isinstance(n, ast.Attribute) and n.attr == "cpu_count" for n in ast.walk(tree))


@each_rule
def test_rules_can_be_broken(rule: Rule) -> None:
    module, sources = RULES[rule]
    for source in sources:
        assert set(rule(module, ast.parse(source))), source
    assert not set(rule("gp/a.py", ast.parse(HARMLESS)))
