"""What all tests share."""

import os
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import mpmath
import numpy as np
import pytest
import sklearn
from hypothesis import settings

# Without a device, kernels of the CUDA engine run in Triton's interpreter.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The checks of scikit-learn 1.6 can be imported only with this variable; SciPy has read it before.
if sklearn.__version__ < "1.7":
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIPY_ARRAY_API", "1")
        import_module("sklearn.utils.estimator_checks")

# Examples may take long on a busy machine.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

#: Torch is an extra.  Without it, files that need it are left out, and single tests are skipped.
NEEDS_TORCH = re.compile(
    r"^(import torch|from mercer import gpytorch|from mercer\.gpytorch)", re.MULTILINE
)
collect_ignore: list[str] = []
if find_spec("torch") is None:
    here = Path(__file__).parent
    collect_ignore += [
        str(path.relative_to(here))
        for path in here.rglob("test_*.py")
        if NEEDS_TORCH.search(path.read_text(encoding="utf-8"))
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    try:
        return (yield)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "gpytorch"):
            pytest.skip(f"{error.name} is not installed")
        raise


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch) -> None:
    """Keep the command's cache of finished fits out of the user's, and tests out of each other's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


#: Where the generators of random numbers of a module are before its first test, by name.
STARTS = pytest.StashKey[dict[str, dict[str, object]]]()


@pytest.fixture(autouse=True)
def same_numbers_in_any_order(request) -> None:
    """Let a module's generators begin anew in every test, whichever tests have drawn before."""
    module = request.node.getparent(pytest.Module)
    parts = {} if module is None else vars(module.obj)
    generators = {name: part for name, part in parts.items() if isinstance(part, np.random.Generator)}
    if generators:
        states = {name: generator.bit_generator.state for name, generator in generators.items()}
        starts = module.stash.setdefault(STARTS, states)
        for name, generator in generators.items():
            generator.bit_generator.state = starts[name]


@pytest.fixture(autouse=True)
def digits():
    """Sixty digits for mpmath in every test, whatever the test before has set."""
    with mpmath.workdps(60):
        yield
