"""Names that users and issues rely on, and the way of a call through the package."""

import re
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import mercer
from mercer.kernels import Heat
from mercer.spaces import Simplex

PACKAGE = Path(mercer.__file__).parent
CONTRACT = {
    "mercer.spaces": """Sphere Simplex Euclidean Hyperbolic NormalFamily NormalProduct Graph Torus
        Rotations Categories ProductSpace""",
    "mercer.kernels": """Heat AxialHeat Matern Spectral Cosine ArcCosine Parametrix Linear Polynomial
        Gaussian PosteriorHeat KullbackLeibler Exponential VonNeumann Power Spectrum FullSpectrum
        Mismatch GappySubsequence WeightedDegree TraceKernel InverseGeneralizedVariance MixtureMoment
        RegularizedMoment MeanEmbedding GaussianEmbedding On Diffused""",
    "mercer.rkhs": """norms distances mean_norm total_variance center normalize correlation
        empirical_map mercer_map diagnose""",
    "mercer.harmonics": "SphericalHarmonics",
    "mercer.features": "SpectralFeatures GramTransformer",
    "mercer.gp": "SphericalGPRegressor SphericalGPClassifier SphericalGPPoissonRegressor",
    "mercer.selection": "KernelSearchCV compare representatives",
    "mercer.bounds": "vc_bound effective_sample_size generalization_bound covering_bound",
    "mercer.testing": "check_kernel check_space",
    "mercer.gpytorch": "Heat Matern ArcCosine",
}


@pytest.mark.parametrize("module", CONTRACT)
def test_public_names(module: str) -> None:
    there = import_module(module)
    assert not [name for name in CONTRACT[module].split() if not hasattr(there, name)]


@pytest.mark.parametrize("name", mercer.__all__)
def test_packages_are_loaded_on_demand(name: str) -> None:
    assert getattr(mercer, name) is import_module(f"mercer.{name}")


def module_of(frame: FrameType) -> str | None:
    """A module of the package, unless it is a compiled loop."""
    inside = frame.f_code.co_filename.removeprefix(f"{PACKAGE}/").removesuffix(".py")
    return None if inside.startswith(("/", "<", "compiled/")) else inside


def modules_on_the_way(t_star: float) -> list[set[str]]:
    """Modules on the stack at each call inside the package."""
    stacks: list[set[str]] = []

    def record(frame: FrameType | None, event: str, _: object) -> None:
        if event == "call" and frame is not None and module_of(frame):
            stacks.append(set())
            while frame is not None:
                stacks[-1] |= {module_of(frame) or ""} - {""}
                frame = frame.f_back

    counts = np.random.default_rng(0).poisson(1.0, size=(200, 30)) + 1
    Heat(Simplex())(counts)  # loops are compiled
    sys.setprofile(record)
    try:
        Heat(Simplex(), t_star=t_star)(counts)
    finally:
        sys.setprofile(None)
    return stacks


def test_the_walk_is_as_it_is_drawn() -> None:
    guide = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walk = guide.split("## A walk through the code")[1].split("##")[0]
    drawn = set(
        re.findall(r"\b(?:kernels|spaces|engine)/[\w/]+|\b(?:laws|special|profiles)\b|\b_[a-z]+", walk)
    )
    stacks = modules_on_the_way(0.7654321)  # with a table that is not there yet
    met = {name for stack in stacks for name in stack}
    assert {"kernels/heat", "engine/numpy", "special/zonal"} <= met
    assert {name if name in drawn else name.split("/")[0] for name in met} == drawn
    again = {name for stack in modules_on_the_way(0.7654321) for name in stack}
    counts = re.search(r"code of (\d+) modules, and of (\d+) once", walk).groups()
    assert [len(met), len(again)] == list(map(int, counts))
    assert max(sum(not name.startswith("_") for name in stack) for stack in stacks) <= 7
    assert len(set(re.findall(r"^\d  (\S+)", walk, re.MULTILINE))) == 8
