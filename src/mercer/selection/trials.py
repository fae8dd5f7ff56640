"""What a search tries: kernels, and parameters of the estimator, with defaults from the data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags

from mercer.kernels import Gaussian, Linear
from mercer.rkhs import distances
from mercer.selection import families
from mercer.selection.evaluation import Task
from mercer.spaces import Euclidean

#: Values of C for kernels with k(x, x) = 1 on average; others have them divided by that average.
C_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
#: Values of the ridge, multiplied by the average of k(x, x).
ALPHA_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_PREFIX = "kernel__"


@dataclass(frozen=True)
class Setting:
    """A kernel, by its number, and parameters of the estimator."""

    kernel: int
    params: dict[str, Any]


@dataclass(frozen=True)
class Trials:
    """All that is tried."""

    kernels: list[Kernel]
    #: Name of each kernel's family.
    families: list[str]
    settings: list[Setting]

    def tasks(self, folds: int) -> list[Task]:
        """Every setting on every fold, setting by setting."""
        return [Task(s.kernel, fold, s.params) for s in self.settings for fold in range(folds)]


def named_kernels(kernels: Any) -> list[tuple[str, Kernel]]:
    """Kernels with the names of their families: the keys of a dict, or the names of their classes."""
    if isinstance(kernels, Kernel):
        kernels = [kernels]
    if isinstance(kernels, Mapping):
        named = [
            (str(name), kernel)
            for name, members in kernels.items()
            for kernel in ([members] if isinstance(members, Kernel) else members)
        ]
    elif isinstance(kernels, Sequence) and not isinstance(kernels, str):
        named = [(type(kernel).__name__, kernel) for kernel in kernels]
    else:
        raise TypeError(f"kernels must be a kernel, a list or a dict of lists of them, got {kernels!r}")
    for name, kernel in named:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernels holds {kernel!r} ({name}), which is no kernel of mercer.kernels")
    if not named:
        raise ValueError("kernels is empty; give one kernel at least")
    return named


def default_kernels(X: Any, random_state: int, classifier: bool) -> list[tuple[str, Kernel]]:
    """Kernels that fit the kind of data, without those that refuse a point of it.

    Regression solves with the Gram matrix, so that kernels which are not positive semidefinite are
    left to classifiers.
    """
    try:
        found = families.candidates(X, "auto", random_state).families
    except ValueError as error:
        rows = Euclidean().check(X)  # refuses what is no table of numbers either
        warnings.warn(f"kernels of directions and counts are left out: {error}", stacklevel=4)
        found = _flat(rows, random_state)
    named = []
    for name, kernel in named_kernels(found):
        if not (classifier or kernel.positive_semidefinite):
            continue
        try:
            kernel.diag(X)
        except ValueError as error:
            warnings.warn(f"{kernel!r} is left out: {error}", stacklevel=4)
        else:
            named.append((name, kernel))
    return named


def _flat(X: Any, random_state: int) -> dict[str, list[Kernel]]:
    chosen = np.random.default_rng(random_state).permutation(X.shape[0])[:500]
    width = families.median_of_pairs(distances(Linear()(X[chosen])))
    scales = [factor * width for factor in families.WIDTH_GRID]
    return {"linear": [Linear()], "Gaussian": [Gaussian(length_scale=scale) for scale in scales]}


def precomputed(estimator: Any) -> tuple[Any, str]:
    """The estimator, cloned, taking Gram matrices; and the prefix of its own parameters."""
    model = clone(estimator)
    params = model.get_params(deep=True)
    names = [name for name in params if name == "kernel" or name.endswith("__kernel")]
    for name in names:
        owner = params[name.removesuffix("__kernel")] if "__" in name else model
        owner.set_params(kernel="precomputed")
        if get_tags(owner).input_tags.pairwise:
            return model, name.removesuffix("kernel")
    raise TypeError(
        f'estimator must take kernel="precomputed", as SVC(), SVR(), NuSVC() and KernelRidge() do, '
        f"got {estimator!r}"
    )


def expand(
    named: Sequence[tuple[str, Kernel]], param_grid: Any, estimator: Any, prefix: str, X: Any, y: Any
) -> Trials:
    """Every kernel with every setting, in the order of scikit-learn's ParameterGrid."""
    if param_grid is None:
        return _default(named, estimator, prefix, X, y)
    result = Trials([], [], [])
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    for grid in grids:
        if "kernel" in grid:
            raise ValueError("param_grid holds 'kernel'; give kernels by kernels=[...]")
        own = list(ParameterGrid({k: v for k, v in grid.items() if k.startswith(_PREFIX)}))
        rest = {k: v for k, v in grid.items() if not k.startswith(_PREFIX)}
        numbers: dict[tuple[int, int], int] = {}
        for setting in ParameterGrid({"kernel": range(len(named)), _PREFIX: range(len(own)), **rest}):
            base, moved = setting.pop("kernel"), setting.pop(_PREFIX)
            if (base, moved) not in numbers:
                numbers[base, moved] = len(result.kernels)
                family, kernel = named[base]
                values = {k.removeprefix(_PREFIX): v for k, v in own[moved].items()}
                result.kernels.append(clone(kernel).set_params(**values))
                result.families.append(family)
            result.settings.append(Setting(numbers[base, moved], setting))
    if not result.settings:
        raise ValueError("param_grid is empty; leave it out for default values, or give {}")
    clone(estimator).set_params(**result.settings[0].params)  # refuses unknown names
    return result


def _default(named: Sequence[tuple[str, Kernel]], estimator: Any, prefix: str, X: Any, y: Any) -> Trials:
    """C or the ridge, in the units of each kernel."""
    params = estimator.get_params(deep=True)
    sizes = [_size(kernel, X) for _, kernel in named]
    spread = 1.0 if get_tags(estimator).estimator_type == "classifier" else _spread(y)
    settings: list[tuple[int, dict[str, Any]]]
    if f"{prefix}C" in params:
        settings = [
            (k, {f"{prefix}C": c * spread / size}) for c in C_GRID for k, size in enumerate(sizes)
        ]
    elif f"{prefix}alpha" in params:
        settings = [
            (k, {f"{prefix}alpha": a * size}) for a in ALPHA_GRID for k, size in enumerate(sizes)
        ]
    else:
        settings = [(k, {}) for k in range(len(named))]
    kernels = [clone(kernel) for _, kernel in named]
    return Trials(kernels, [name for name, _ in named], [Setting(*s) for s in settings])


def _size(kernel: Kernel, X: Any) -> float:
    size = float(np.mean(kernel.diag(X)))
    return size if 0 < size < np.inf else 1.0


def _spread(y: Any) -> float:
    spread = float(np.std(y))
    return spread if 0 < spread < np.inf else 1.0
