"""The worked examples of a textbook chapter on kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Exponential, Linear, Polynomial, Spectrum, VonNeumann
from mercer.reproduce.experiment import Claim, Context, Experiment, Result, Table
from mercer.spaces import Graph

Array = NDArray[np.float64]

#: Two columns of five irises.  The slides of the chapter print the first two, the book prints all.
IRISES = np.array([[5.9, 3.0], [6.9, 3.1], [6.6, 2.9], [4.6, 3.2], [6.0, 2.2]])
LINEAR = [
    [43.81, 50.01, 47.64, 36.74, 42.00],
    [50.01, 57.22, 54.53, 41.66, 48.22],
    [47.64, 54.53, 51.97, 39.64, 45.98],
    [36.74, 41.66, 39.64, 31.40, 34.64],
    [42.00, 48.22, 45.98, 34.64, 40.84],
]
SEQUENCE, LETTERS = "ACAGCAGTA", [0.44, 0.22, 0.22, 0.11]
QUADRATIC = [34.81, 9.0, 25.03]
ADJACENCY = np.array(
    [[0, 0, 1, 1, 0], [0, 0, 1, 0, 1], [1, 1, 0, 1, 0], [1, 0, 1, 0, 1], [0, 1, 0, 1, 0]]
)
BETA = 0.2
EIGENVALUES = [0.0, -1.38, -2.38, -3.62, -4.62]
EIGENVECTORS = [
    [0.45, -0.63, 0.00, 0.63, 0.00],
    [0.45, 0.51, -0.60, 0.20, -0.37],
    [0.45, -0.20, -0.37, -0.51, 0.60],
    [0.45, -0.20, 0.37, -0.51, -0.60],
    [0.45, 0.51, 0.60, 0.20, 0.37],
]
EXPONENTIAL = [
    [0.70, 0.01, 0.14, 0.14, 0.01],
    [0.01, 0.70, 0.13, 0.03, 0.14],
    [0.14, 0.13, 0.59, 0.13, 0.03],
    [0.14, 0.03, 0.13, 0.59, 0.13],
    [0.01, 0.14, 0.03, 0.13, 0.70],
]
VON_NEUMANN = [
    [0.75, 0.02, 0.11, 0.11, 0.02],
    [0.02, 0.74, 0.10, 0.03, 0.11],
    [0.11, 0.10, 0.66, 0.10, 0.03],
    [0.11, 0.03, 0.10, 0.66, 0.10],
    [0.02, 0.11, 0.03, 0.10, 0.74],
]
#: Half a unit of the last printed digit.
PRINTED = 0.005


def letters() -> Array:
    """Fractions of A, C, G and T in the sequence, by the spectrum kernel of length 1."""
    return Spectrum(length=1)([SEQUENCE], list("ACGT"))[0] / len(SEQUENCE)


def quadratic(x: Array) -> Array:
    """Coordinates of the homogeneous quadratic kernel ``(x.y)^2``, from values of the kernel.

    ``k(x, e_i)`` is the i-th square, and the rest of ``k(x, (1, 1))`` is ``2 x_1 x_2``.
    """
    kernel = Polynomial(degree=2, coef0=0.0)
    first, second, both = kernel([x], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])[0]
    return np.array([first, second, (both - first - second) / np.sqrt(2)])


def diffusion() -> dict[str, tuple[Array, Any]]:
    """Kernels between the nodes of the graph, and the spectrum that follows from them."""
    graph, nodes = Graph(ADJACENCY, similarity="laplacian"), np.arange(5)
    exponential = Exponential(graph, beta=BETA)(nodes)
    values, vectors = np.linalg.eigh(exponential)
    values, vectors = np.log(values[::-1]) / BETA, vectors[:, ::-1]
    vectors = vectors * np.sign(np.sum(vectors * np.array(EIGENVECTORS), axis=0))
    return {
        "eigenvalues of S": (values, EIGENVALUES),
        "eigenvectors of S": (vectors, EIGENVECTORS),
        "exponential kernel": (exponential, EXPONENTIAL),
        "von Neumann kernel": (VonNeumann(graph, beta=BETA)(nodes), VON_NEUMANN),
    }


def run(context: Context) -> Result:
    """Compare every printed number with ours."""
    numbers = {
        "letters of ACAGCAGTA": (letters(), LETTERS),
        "quadratic map of (5.9, 3)": (quadratic(IRISES[0]), QUADRATIC),
        "linear kernel of five irises": (np.asarray(Linear()(IRISES)), LINEAR),
        **diffusion(),
    }
    rows: list[list[Any]] = []
    wrong = count = 0
    for name, (ours, printed) in numbers.items():
        gaps = np.abs(np.asarray(ours) - np.array(printed)).ravel()
        misses = int((gaps > PRINTED + 1e-12).sum())
        rows.append([name, gaps.size, gaps.size - misses, f"{gaps.max():.4f}"])
        wrong, count = wrong + misses, count + gaps.size
    tables = [
        Table(
            "All worked numbers", ["what", "numbers", "as printed", "largest gap"], rows,
            "As printed: ours rounds to the printed digits.",
        ),
        *(_values(name, *numbers[name]) for name in numbers),
    ]  # fmt: skip
    text = f"{count - wrong} of {count} printed numbers are ours when rounded."
    return Result(tables, [Claim(text, wrong == 0)])


def _values(name: str, ours: Any, printed: Any) -> Table:
    """A table of our numbers with the printed ones."""
    ours, printed = np.atleast_2d(ours), np.atleast_2d(np.array(printed))
    rows = [
        [f"{a + 0.0:.4f} ({b:.2f})" for a, b in zip(*lines, strict=True)]
        for lines in zip(ours, printed, strict=True)
    ]
    return Table(name[0].upper() + name[1:], [str(j + 1) for j in range(ours.shape[1])], rows)


EXPERIMENT = Experiment(
    name="textbook",
    title="The worked numbers of a textbook",
    source=(
        'M. J. Zaki, W. Meira, "Data mining and analysis: fundamental concepts and algorithms", '
        "Cambridge University Press, chapter 5."
    ),
    differs=(
        "Nothing.  Eigenvectors are taken from the exponential kernel's Gram matrix, with the signs of "
        "the book; eigenvalues of S are the logarithms of its eigenvalues over beta."
    ),
    run=run,
)
