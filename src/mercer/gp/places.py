"""The search for places of zonal features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from mercer.engine.threads import progress, threads_for_runs
from mercer.gp.evidence import descending
from mercer.gp.inputs import InputMap
from mercer.gp.placed import PlacedEvidence, unit
from mercer.gp.rows import Block
from mercer.gp.zonal import ZonalFeatures, Zones, with_fixed_parameters

Array = NDArray[np.float64]

#: Rows and places of the first search.
FEW, SCOUTS = 2000, 200
#: Steps of L-BFGS in it, and then with all places: fewer where rows are few, for most are places.
FIRST_STEPS, STEPS, MORE_STEPS = 20, 20, 30
#: Where the search may begin: common factors of the columns in units of the usual one, or parts of the
#: ranges of the kernel's hyperparameters.
_STARTS = (0.3, 0.6, 1.2, 2.5, 5.0, 10.0)
_PARTS = np.linspace(0.1, 0.9, 9)
#: Ratio of the longest to the shortest length scales and times that are tried at the start.
_LENGTHS, _TIMES = 1e4, 1e6
#: Most that the unit of a place's coordinates is in standardised columns, or coordinates of the sphere.
#: Usually it is the width of the kernel: a place matters far less than a scale, being one of hundreds,
#: and L-BFGS needs far fewer steps if a unit of each matters alike.
_FARTHEST = 10.0
#: Steps that amplitude and noise of a start are found in.
_TRIAL_STEPS = 10
#: Widest kernel, as an angle, that scales are learnt with: the cap of the sphere that rows fill is then
#: nearly flat, and scales can make up for everything else.
_WIDEST = 0.3
#: Numbers in an array that the C library learns from how much memory to retain (32 MB at most).
_RETAINED = 4_000_000
#: Steps that L-BFGS remembers at least and at most, and numbers that it may remember.
_MEMORY, _NUMBERS = (5, 30), 10**7


def learn_places(
    inputs: InputMap, kernel: Any, own: Array, rows: Block, size: int, scaled: bool, seed: int
) -> tuple[Array, ZonalFeatures]:
    """Zonal features that maximise the bound of some rows, and the factors of columns they go with.

    Places begin at random rows.  The search begins with a few rows and goes on with all of them.

    Parameters
    ----------
    inputs, kernel, rows, scaled
        See :class:`PlacedEvidence`.  With factors the kernel's own hyperparameters stay as they are,
        unless it is wide: they stretch the same thing.
    own : array
        Where :class:`Evidence` starts.
    size : int
        Most places.
    seed : int

    Returns
    -------
    factors : array of shape (d,)
    features : ZonalFeatures
        Their kernel has the hyperparameters that were found, fixed.
    """
    rng = np.random.default_rng(seed)
    if rows.weight is not None:
        rows = rows.take(np.flatnonzero(rows.weight))
    rows = rows.take(rng.permutation(len(rows.y)))
    # Coordinates of a place: columns of a table, or those of the space around the sphere.
    columns = inputs.dimension(rows.X.shape[1]) - inputs.is_table
    if scaled:
        kernel, own = with_fixed_parameters(_narrowed(kernel, columns + 1)), own[:2]
    task = PlacedEvidence(inputs, kernel, rows, scaled, np.ones(columns))
    few = replace(task, rows=rows.take(np.arange(min(FEW, len(rows.y)))))
    points = task.points[:, :columns] if inputs.is_table else unit(task.points)[0]
    # A row that occurs several times is no likelier than others, and is one place.
    places = rng.permutation(np.unique(points, axis=0))[:size]
    steps = STEPS if len(rows.y) <= FEW else MORE_STEPS
    # The C library gives freed arrays back to the system, and a step would wait for all of them anew,
    # unless one as large has been freed before; this one is never touched.
    np.empty(_RETAINED)
    with threads_for_runs(), progress(FIRST_STEPS + steps, "places") as advance:
        theta = _begin(few, own, places[:SCOUTS])
        few, theta = _with_units(few, theta)
        theta = _climb(few, theta, FIRST_STEPS, advance)
        factors, own, moved = few.split(theta)
        theta = task.theta(factors, own, np.concatenate([moved, places[SCOUTS:]]))
        task, theta = _with_units(task, theta)
        theta = _climb(task, theta, steps, advance)
    factors, parameters, _ = task.split(theta)
    features = task.features(theta)
    fixed = with_fixed_parameters(kernel.clone_with_theta(parameters[2:]))
    return factors, ZonalFeatures.of(fixed, features.inputs, features.places)


def _narrowed(kernel: Any, n: int) -> Any:
    """A kernel of moderate width, if its hyperparameters can make it so."""
    if len(kernel.theta) == 0 or Zones.of(kernel, n).width <= _WIDEST:
        return kernel
    low, high = _window(kernel)
    for part in reversed(_PARTS):
        narrower = kernel.clone_with_theta(low + part * (high - low))
        if Zones.of(narrower, n).width <= _WIDEST:
            break
    return narrower


def _window(kernel: Any) -> tuple[Array, Array]:
    """Where starts are looked for: the upper part of the bounds, which hold for all dimensions."""
    low, high = kernel.bounds.T
    free = [h.name for h in kernel.hyperparameters if not h.fixed]
    spans = [_LENGTHS if name.endswith("length_scale") else _TIMES for name in free]
    return np.maximum(low, high - np.log(spans)), high


def _starts(task: PlacedEvidence, own: Array) -> list[tuple[Array, Array]]:
    """Factors of columns and parameters of Evidence, from long ranges of the kernel to short ones."""
    ones = np.ones(task.units.size)
    if task.scaled:
        return [(ones * start * task.usual_factor, own) for start in _STARTS]
    if len(own) == 2:
        return [(ones, own)]
    low, high = _window(task.kernel)
    thetas = [own[2:], *(low + part * (high - low) for part in _PARTS)]
    return [(ones, np.concatenate([own[:2], theta])) for theta in thetas]


def _begin(task: PlacedEvidence, own: Array, places: Array) -> Array:
    """The best of the starts, each at its best amplitude and noise; those that fail are left out."""
    found, failure = [], None
    for factors, parameters in _starts(task, own):
        try:
            features = task.features(task.theta(factors, parameters, places))
        except ValueError as error:  # out of the floating range
            failure = error
            continue
        # A kernel of long range hardly varies from row to row, unless its amplitude is large: from a
        # small one the way leads to noise alone.
        usual = parameters[:2] - [math.log(features.variation), 0.0]
        best, value = task.evidence(features).maximise(usual, 0, np.random.default_rng(0), _TRIAL_STEPS)
        found.append((value, task.theta(factors, np.concatenate([best, parameters[2:]]), places)))
    if failure is not None and not found:
        raise failure
    return max(found, key=lambda pair: pair[0])[1]


def _with_units(task: PlacedEvidence, theta: Array) -> tuple[PlacedEvidence, Array]:
    """The same with units of places that suit the factors of theta, and theta in them."""
    factors, own, places = task.split(theta)
    task = replace(task, units=np.minimum(task.width(own) / factors, _FARTHEST))
    return task, task.theta(factors, own, places)


def _climb(task: PlacedEvidence, theta: Array, steps: int, advance: Callable[[], None]) -> Array:
    """Maximise the bound over everything, by L-BFGS."""
    own = task.bounds
    bounds = np.concatenate([own, np.tile((-np.inf, np.inf), (len(theta) - len(own), 1))])
    memory = int(np.clip(_NUMBERS // len(theta), *_MEMORY))
    found = minimize(
        descending(task.value_and_gradient, task.rows.target_weight), theta, jac=True,
        method="L-BFGS-B", bounds=bounds, callback=lambda _: advance(),
        options={"maxiter": steps, "maxcor": memory, "ftol": 1e-7, "gtol": 1e-6},
    )  # fmt: skip
    return np.asarray(found.x)
