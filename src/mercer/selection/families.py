"""Which kernels are compared on which kind of data, with grids that suit the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.kernels import (
    Cosine,
    Exponential,
    FullSpectrum,
    GappySubsequence,
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Kernel,
    Linear,
    Matern,
    MeanEmbedding,
    Parametrix,
    Power,
    Spectrum,
    TraceKernel,
    VonNeumann,
    WeightedDegree,
)
from mercer.rkhs import distances
from mercer.selection.kinds import recognise
from mercer.spaces import Graph, Simplex, Sphere, SphericalSpace
from mercer.spaces.clouds import check_clouds
from mercer.spaces.sequences import encode

Array = NDArray[np.float64]
SpaceName = Literal["auto", "simplex", "sphere"]
Kind = Literal["counts", "directions", "strings", "nodes of a graph", "clouds"]

#: Times of the exact kernel, in units of log(n) / n.
T_STAR_GRID = (0.1, 0.25, 0.5, 1.0, 2.0)
#: Widths of the Gaussian and, squared, times of the parametrix, in units of the data's own median.
WIDTH_GRID = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Length scales on a graph with the normalised Laplacian; t is half the square.
SCALE_GRID = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
#: Lengths of substrings in the spectrum.
SUBSTRING_GRID = (2, 3, 4, 5, 6, 8)
#: Characters squared up to which subsequences with gaps are affordable.
_GAPPY_LIMIT = 3e9


@dataclass(frozen=True, eq=False)
class Candidates:
    """Points of one kind, and the families of kernels to compare on them."""

    kind: Kind
    #: What there is of each point, for people.
    facts: str
    X: Any
    rows: int
    families: dict[str, list[Kernel]]
    #: Families that make no use of the data's structure, and a word for them and for the others.
    plain: tuple[str, ...]
    plain_word: str
    rich_word: str
    columns: int | None = None
    #: What was left out, and why.
    notes: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """What one calls several of the points."""
        return {"nodes of a graph": "nodes"}.get(
            self.kind, self.kind if self.columns is None else "rows"
        )


def candidates(X: Any, space: SpaceName | Graph, random_state: int) -> Candidates:
    """Find out what kind of points X holds, check them and choose kernels."""
    if isinstance(space, Graph):
        return _nodes(X, space)
    if space not in ("auto", "simplex", "sphere"):
        raise ValueError(f"space must be 'auto', 'simplex', 'sphere' or a Graph, got {space!r}")
    kind = recognise(X)
    if kind == "strings":
        return _strings(X)
    if kind == "clouds":
        return _clouds(X, random_state)
    return _table(X, space, random_state)


def _table(X: Any, space: SpaceName, random_state: int) -> Candidates:
    geometry = _choose_space(X, space)
    X = geometry.check(X)
    rows = X[np.random.default_rng(random_state).permutation(X.shape[0])[:500]]
    width = median_of_pairs(distances(Linear()(rows)))
    angle = median_of_pairs(np.arccos(np.clip(Cosine(geometry)(rows), -1, 1)))
    families: dict[str, list[Kernel]] = {
        "linear": [Linear()],
        "Gaussian": [Gaussian(length_scale=factor * width) for factor in WIDTH_GRID],
        "cosine": [Cosine(geometry)],
        "parametrix": [Parametrix(geometry, t=(factor * angle) ** 2 / 2) for factor in WIDTH_GRID],
        "exact heat": [Heat(geometry, t_star=t) for t in T_STAR_GRID],
    }
    kind: Kind = "counts" if isinstance(geometry, Simplex) else "directions"
    facts = f"{X.shape[1]} columns"
    plain = ("linear", "Gaussian")
    return Candidates(
        kind, facts, X, X.shape[0], families, plain, "flat", "geometric", columns=X.shape[1]
    )


def _choose_space(X: Any, space: SpaceName) -> SphericalSpace:
    if space != "auto":
        return Simplex() if space == "simplex" else Sphere()
    values = X.data if sparse.issparse(X) else np.asarray(X)
    signed = np.asarray(values < 0).any() if values.dtype.kind in "fiub" else False
    return Sphere() if signed else Simplex()


def _strings(X: Any) -> Candidates:
    lengths = encode(X)[0].lengths
    shortest, longest = int(lengths.min()), int(lengths.max())
    unit = {"normalized": True}
    # A shorter string has no such substrings, and no length to be normalised by.
    pure = [length for length in SUBSTRING_GRID if length <= shortest]
    families: dict[str, list[Kernel]] = {
        "letter counts": [Spectrum(1, **unit)],
        "spectrum": [Spectrum(length, **unit) for length in (*pure, (1, 2), (1, 3), (1, 4))],
        "full spectrum": [FullSpectrum(decay, **unit) for decay in (0.25, 0.5, 0.75, 1.0)],
    }
    notes = []
    wanted = [length for length in SUBSTRING_GRID if length <= longest]
    if wanted and shortest < wanted[-1]:
        short = int((lengths < wanted[-1]).sum())
        notes.append(
            f"substrings longer than {shortest} were left out, but for ranges from 1 on: {short} of "
            f"{len(lengths)} strings are shorter than {wanted[-1]} (row {lengths.argmin()} has length "
            f"{shortest}); drop such strings to compare them"
        )
    if shortest < 2:
        notes.append(
            f"subsequences with gaps were left out: row {lengths.argmin()} has length 1, and none"
        )
    elif lengths.sum() ** 2.0 > _GAPPY_LIMIT:
        notes.append(
            f"subsequences with gaps were left out: {lengths.sum()} letters are too many for them "
            f"(their cost is quadratic; the limit is {int(_GAPPY_LIMIT**0.5)})"
        )
    else:
        families["subsequences with gaps"] = [
            GappySubsequence(length, decay, **unit)
            for length in (2, 3)
            if length <= shortest
            for decay in (0.3, 0.6)
        ]
    if shortest == longest:
        families["weighted degree"] = [WeightedDegree(degree) for degree in (2, 4, 8, 16, 24)]
    else:
        usual = int(np.bincount(lengths).argmax())
        notes.append(
            f"weighted degree was left out: it needs strings of one length, and "
            f"{int((lengths != usual).sum())} of {len(lengths)} are not of length {usual} "
            f"(the first is row {int((lengths != usual).argmax())})"
        )
    facts = f"length {shortest}" if shortest == longest else f"lengths {shortest} to {longest}"
    return Candidates(
        "strings", facts, X, len(lengths), families, ("letter counts",), "letter-count", "string",
        notes=tuple(notes),
    )  # fmt: skip


def _nodes(X: Any, graph: Graph) -> Candidates:
    X = graph.check(X)
    # By position, whatever the labels are.
    even = Graph(graph.adjacency, laplacian="normalized", similarity="normalized")
    walks = Graph(graph.adjacency)
    radius = max(float(walks.operator("similarity").top), 1e-12)
    families: dict[str, list[Kernel]] = {
        "shared neighbours": [Power(walks, 2)],
        "walks": [Exponential(walks, beta=c / radius, normalized=True) for c in (1.0, 3.0, 10.0)],
        "heat": [Heat(even, t=scale**2 / 2) for scale in SCALE_GRID],
        "Matern": [Matern(even, nu=nu, length_scale=s) for nu in (1.0, 2.0, 3.0) for s in SCALE_GRID],
        "von Neumann": [VonNeumann(even, beta=scale**2, normalized=True) for scale in SCALE_GRID],
    }
    parts = int(graph.components.max()) + 1
    facts = f"a graph of {graph.size} nodes in {parts} component{'s' if parts > 1 else ''}"
    lonely = int((graph.degrees[X] == 0).sum())
    if lonely:
        facts += f", {lonely} of the labelled nodes without an edge"
    return Candidates(
        "nodes of a graph", facts, X, len(X), families, ("shared neighbours",), "neighbour-count",
        "diffusion",
    )  # fmt: skip


def _clouds(X: Any, random_state: int) -> Candidates:
    try:
        clouds = check_clouds(X, "X", vectors=True, rescale=False)
    except ValueError as error:
        # Here is no kernel yet that could be told to rescale.
        raise ValueError(str(error).replace(", or use rescale_weights=True", "")) from None
    points = np.asarray(clouds.points, dtype=float)
    chosen = np.random.default_rng(random_state).permutation(len(points))[:500]
    width = median_of_pairs(distances(Linear()(points[chosen])))
    bases = [Gaussian(length_scale=factor * width) for factor in WIDTH_GRID[:3]]
    families: dict[str, list[Kernel]] = {
        "mean embedding": [MeanEmbedding(base) for base in bases],
        "Gaussian of embeddings": [
            GaussianEmbedding(base, length_scale=s) for base in bases for s in (0.1, 0.3, 1.0)
        ],
        "trace": [TraceKernel(base, t=t) for base in bases for t in (0.03, 0.1, 0.3)],
        "generalised variance": [
            InverseGeneralizedVariance(base, eta=eta) for base in bases for eta in (0.01, 0.1)
        ],
    }
    sizes = clouds.sizes
    facts = f"{sizes.min()} to {sizes.max()} points in {points.shape[1]} dimensions"
    plain = ("mean embedding", "Gaussian of embeddings")
    return Candidates("clouds", facts, X, len(sizes), families, plain, "mean-embedding", "spectral")


def median_of_pairs(pairs: Array) -> float:
    """Median over different points, or 1 where most points are equal."""
    median = float(np.median(pairs[np.triu_indices(len(pairs), 1)])) if len(pairs) > 1 else 0.0
    return median if median > 0 else 1.0
