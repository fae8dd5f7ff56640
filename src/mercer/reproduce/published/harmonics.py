"""Spectra of zonal kernels, what their levels reconstruct, and harmonics by dimension."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import gammaln

from mercer.harmonics import SphericalHarmonics, multiplicity
from mercer.kernels import ArcCosine, Kernel, Matern
from mercer.reproduce.drawing import great_circle
from mercer.reproduce.experiment import Claim, Context, Experiment, Result, Table
from mercer.spaces import Sphere
from mercer.special.dai_xu import dai_xu

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
LEVELS = 7
#: Coefficients of ``sin + (pi - theta) cos``, from exact arithmetic.
ARC_COSINE = {
    3: (1.1780972, 0.52359878, 0.073631078, 0.0, 0.0020453077, 0.0, 0.0002876214),
    5: (1.1044662, 0.31415927, 0.030679616, 0.0, 0.000479369, 0.0, 4.314321e-5),
    9: (1.0570086, 0.17453293, 0.010570086, 0.0, 7.3403378e-5, 0.0, 3.3705633e-6),
}
#: Dimension from which the harmonics of the supplement are unstable, as it reports.
UNSTABLE = 10
DIMENSIONS = (3, 5, 8, 10, 12, 16, 20, 30, 50)
KERNELS: dict[str, Kernel] = {
    "arc-cosine, order 1": ArcCosine(order=1, normalized=True),
    "Matérn 1/2": Matern(Sphere(), nu=0.5, length_scale=1.0),
    "Matérn 3/2": Matern(Sphere(), nu=1.5, length_scale=1.0),
    "Matérn 5/2": Matern(Sphere(), nu=2.5, length_scale=1.0),
}


def gegenbauer(n: int, level: int, w: Array) -> Array:
    """Gegenbauer polynomial divided by its value at 1, by the recurrence."""
    before, now = np.ones_like(w), w
    if level == 0:
        return before
    for k in range(1, level):
        before, now = now, ((2 * k + n - 2) * w * now - k * before) / (k + n - 2)
    return now


def gegenbauer_by_sum(n: int, level: int, w: Array) -> Array:
    """The same by the alternating sum of powers of the supplement."""
    alpha = n / 2 - 1
    total = np.zeros_like(w)
    for k in range(level // 2 + 1):
        log_size = (
            gammaln(level - k + alpha) - gammaln(alpha) - gammaln(k + 1) - gammaln(level - 2 * k + 1)
        )
        total += (-1) ** k * math.exp(log_size) * (2 * w) ** (level - 2 * k)
    log_end = gammaln(2 * alpha + level) - gammaln(2 * alpha) - gammaln(level + 1)
    return total / math.exp(log_end)


def funk_hecke(n: int, level: int) -> float:
    """Coefficient of the arc-cosine kernel by quadrature of the Funk-Hecke integral."""

    def integrand(x: float) -> float:
        shape = math.sin(x) + (math.pi - x) * math.cos(x)
        return shape * float(gegenbauer(n, level, np.array([math.cos(x)]))[0]) * math.sin(x) ** (n - 2)

    log_areas = gammaln(n / 2) - gammaln((n - 1) / 2) - 0.5 * math.log(math.pi)
    return math.exp(log_areas) * float(quad(integrand, 0, math.pi, epsabs=1e-13, limit=200)[0])


def reconstruction(kernel: Kernel, n: int, levels: int) -> float:
    """Largest error of the sum over the first levels of a kernel."""
    points = great_circle(n, np.linspace(0, math.pi, 181))
    weights = kernel.level_weights(n, range(levels)).weights
    total = sum(a * multiplicity(n, k) * gegenbauer(n, k, points[:, 0]) for k, a in enumerate(weights))
    return float(np.abs(total - kernel(np.eye(1, n), points)[0]).max())


def addition_error(n: int, level: int, seed: int, published: bool = False) -> float:
    """Largest error of ``sum_k phi_k(x) phi_k(y) / N_l = P_l(x.y)``, in units of ``N_l^(-1/2)``.

    This unit is the root mean square of P_l over the sphere.  N_l functions of a level that satisfy the
    equation are orthonormal: the right side, times N_l, is the reproducing kernel of the level.
    ``published`` takes the supplement's construction, with its sums of powers.
    """
    X = np.random.default_rng(seed).normal(size=(60, n))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    values = dai_xu(X, level, powers=True) if published else SphericalHarmonics(n, [level])(X)
    size = multiplicity(n, level)
    gap = np.abs(values @ values.T / size - gegenbauer(n, level, X @ X.T)).max()
    return float(gap) * math.sqrt(size)


def sum_error(n: int, level: int = 20) -> float:
    """Largest error of the sum of powers at random points, in the same units."""
    points = np.random.default_rng(0).normal(size=(60, n))
    w = points[:, 0] / np.linalg.norm(points, axis=1)
    gap = np.abs(gegenbauer_by_sum(n, level, w) - gegenbauer(n, level, w)).max()
    return float(gap) * math.sqrt(multiplicity(n, level))


def highest_level(n: int, most: int = 6000) -> int:
    """The highest level up to 20 with at most that many harmonics."""
    return max(level for level in range(21) if multiplicity(n, level) <= most)


def run(context: Context) -> Result:
    """Spectra, reconstruction, orthonormality."""
    spectra, worst = _spectra()
    numbers = (1, 2, 4, 8) if context.quick else (1, 2, 4, 8, 16, 32, 64)
    errors = {
        (name, n): [reconstruction(kernel, n, levels) for levels in numbers]
        for n in ((3,) if context.quick else (3, 8))
        for name, kernel in KERNELS.items()
    }
    dimensions = DIMENSIONS[:4] if context.quick else DIMENSIONS
    ours = {
        n: (level, addition_error(n, level, context.seed))
        for n in dimensions
        for level in [highest_level(n)]
    }
    theirs = {
        n: addition_error(n, level, context.seed, published=True) for n, (level, _) in ours.items()
    }
    sums = {n: sum_error(n) for n in dimensions}
    tables = [
        *spectra,
        _reconstruction_table(numbers, errors),
        _orthonormality_table(ours, theirs, sums),
    ]
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_reconstruction(left, numbers, errors)
    _draw_orthonormality(right, ours, sums)
    high = {n: error for n, (_, error) in ours.items() if n >= UNSTABLE}
    claims = [
        Claim(
            f"Arc-cosine coefficients equal the integral of Funk and Hecke to {worst:.0e}.", worst < 1e-9
        ),
        Claim(
            f"From dimension {UNSTABLE} on, where the supplement reports that its own harmonics become "
            "unstable, ours are orthonormal within 1e-10: the largest error of the addition theorem is "
            f"{max(high.values()):.0e} at n = {', '.join(map(str, high))}.",
            max(high.values()) < 1e-10,
        ),
        Claim(
            f"The textbook construction with sums of powers is unstable from dimension {UNSTABLE} on: "
            f"rebuilt, its largest error there is {max(theirs[n] for n in high):.0e}.",
            max(theirs[n] for n in high) > 1e-6,
        ),
    ]
    return Result(tables, claims, {"levels": figure})


def _spectra() -> tuple[list[Table], float]:
    rows: list[list[Any]] = []
    worst = 0.0
    for n, known in ARC_COSINE.items():
        weights = math.pi * ArcCosine().level_weights(n, range(LEVELS)).weights
        integrals = [funk_hecke(n, level) for level in range(LEVELS)]
        worst = max(worst, float(np.abs(weights - integrals).max()))
        rows.append([n, "ours", *(f"{value:.8g}" for value in weights)])
        rows.append(
            [n, "integral", *(f"{abs(value):.8g}" if abs(value) > 1e-12 else "0" for value in integrals)]
        )
        rows.append([n, "known", *(f"{value:.8g}" for value in known)])
    levels = [f"l = {level}" for level in range(LEVELS)]
    arc = Table(
        "Arc-cosine kernel of order 1", ["n", "coefficients", *levels], rows,
        "Of the shape sin θ + (π - θ) cos θ.  Levels 3, 5, ... have none.",
    )  # fmt: skip
    lines: list[list[Any]] = []
    for n in (3, 9):
        for nu in (0.5, 1.5, 2.5):
            kernel = Matern(Sphere(), nu=nu, length_scale=1.0)
            weights = kernel.level_weights(n, range(LEVELS)).weights
            lines.append([n, nu, "ours", *(f"{value:.4g}" for value in weights / weights[0])])
            printed = [
                (1 + 4 * math.pi**2 * k * (k + n - 2) / (2 * nu)) ** -(nu + n / 2) for k in range(LEVELS)
            ]
            lines.append([n, nu, "as printed", *(f"{value:.4g}" for value in printed)])
    matern = Table(
        "Matérn kernels, length scale 1, over the weight of level 0", ["n", "nu", "weights", *levels],
        lines,
        "As printed: Equations 33 and 34 of the supplement, which take the ordinary frequency (4π² ω²) "
        "and the exponent nu + n/2.  Ours: angular frequency and the sphere's own dimension, "
        "nu + (n - 1)/2.",
    )  # fmt: skip
    return [arc, matern], worst


def _reconstruction_table(numbers: tuple[int, ...], errors: dict[tuple[str, int], list[float]]) -> Table:
    return Table(
        "Largest error of a kernel summed over its first levels",
        ["kernel", "n", *(f"{k} level{'s' * (k > 1)}" for k in numbers)],
        [[name, n, *(f"{value:.1e}" for value in values)] for (name, n), values in errors.items()],
        "Kernels with k(x, x) = 1, over 181 angles.",
    )


def _orthonormality_table(
    ours: dict[int, tuple[int, float]], theirs: dict[int, float], sums: dict[int, float]
) -> Table:
    return Table(
        "Orthonormality by dimension",
        ["n", "level", "harmonics", "error of ours", "error of theirs", "error of the sum"],
        [
            [n, level, multiplicity(n, level), f"{error:.1e}", f"{theirs[n]:.1e}", f"{sums[n]:.1e}"]
            for n, (level, error) in ours.items()
        ],
        "Errors of ours and theirs: largest error of the addition theorem at 60 random points, in the "
        "highest level (to 20) with at most 6000 harmonics; theirs are the construction of Dai and Xu "
        "with the supplement's sums of powers.  Error of the sum: the alternating sum of the "
        "supplement's Equation 6 against the recurrence, level 20, 60 random points.  All in units of "
        "the root mean square of the polynomial over the sphere.",
    )  # fmt: skip


def _draw_reconstruction(ax: Axes, numbers: Any, errors: dict[tuple[str, int], list[float]]) -> None:
    for (name, n), values in errors.items():
        ax.loglog(numbers, values, "o-" if n == 3 else "s--", ms=4, label=f"{name}, n = {n}")
    ax.set(xlabel="levels", ylabel="largest error", title="a kernel from its first levels")
    ax.legend(frameon=False, fontsize=7)


def _draw_orthonormality(ax: Axes, ours: dict[int, tuple[int, float]], sums: dict[int, float]) -> None:
    ax.loglog(list(ours), [error for _, error in ours.values()], "o-", label="our harmonics")
    ax.loglog(list(sums), list(sums.values()), "s--", label="sum of powers, level 20")
    ax.axvline(UNSTABLE, color="0.6", lw=1)
    ax.set_xticks(list(ours), [str(n) for n in ours], minor=False)
    ax.set_xticks([], minor=True)
    ax.set(xlabel="dimension n", ylabel="relative error", title="addition theorem")
    ax.legend(frameon=False)


EXPERIMENT = Experiment(
    name="harmonics",
    title="Spherical harmonics and spectra of zonal kernels",
    source=(
        'V. Dutordoir, N. Durrande, J. Hensman, "Sparse Gaussian processes with spherical harmonic '
        'features", ICML 2020, supplement.'
    ),
    differs=(
        "The supplement prints no numbers.  Its number of harmonics has Γ(d - 2) where Γ(d - 1) is "
        "meant, its integral of sin and cos has the cases of odd and even n exchanged, and its Matérn "
        "spectrum mixes ordinary and angular frequency; ours are corrected.  Its n is called d."
    ),
    run=run,
)
