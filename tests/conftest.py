"""What all tests share."""

import os
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import mpmath
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


@pytest.fixture(autouse=True)
def digits():
    """Sixty digits for mpmath in every test, whatever the test before has set."""
    with mpmath.workdps(60):
        yield
