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
    TfIdf,
    TraceKernel,
    VonNeumann,
    WeightedDegree,
)
from mercer.selection.kinds import recognise
from mercer.selection.scales import SIMILARITIES, Template
from mercer.spaces import Graph, Simplex, Sphere, SphericalSpace
from mercer.spaces.clouds import check_clouds
from mercer.spaces.sequences import encode

Array = NDArray[np.float64]
SpaceName = Literal["auto", "simplex", "sphere"]
Kind = Literal["counts", "directions", "strings", "nodes of a graph", "clouds"]

#: Similarities on a graph: most nodes are far apart, and what is near them counts.
GRAPH_SIMILARITIES = (1e-8, 1e-5, 1e-3, 0.03, 0.3, 0.9)
#: Similarities that base kernels give to points of clouds, and kernels of clouds to clouds.
BASE_SIMILARITIES, CLOUD_SIMILARITIES = (0.001, 0.1, 0.6), (0.3, 0.9)
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
    families: dict[str, list[Template]]
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


def candidates(X: Any, space: SpaceName | Graph) -> Candidates:
    """Find out what kind of points X holds, check them and choose kernels."""
    if isinstance(space, Graph):
        return _nodes(X, space)
    if space not in ("auto", "simplex", "sphere"):
        raise ValueError(f"space must be 'auto', 'simplex', 'sphere' or a Graph, got {space!r}")
    kind = recognise(X)
    if kind == "strings":
        return _strings(X)
    if kind == "clouds":
        return _clouds(X)
    return _table(X, space)


def flat() -> dict[str, list[Template]]:
    """Kernels that see the rows of a table as they are."""
    return {
        "linear": [Template(Linear())],
        "Gaussian": [Template(Gaussian(), SIMILARITIES)],
        "standardised Gaussian": [Template(Gaussian(column_scales="std"), SIMILARITIES)],
    }


def _table(X: Any, space: SpaceName) -> Candidates:
    geometry = _choose_space(X, space)
    X = geometry.check(X)
    families = flat()
    if isinstance(geometry, Simplex) and _whole(X):
        families["tf-idf"] = [Template(TfIdf()), Template(TfIdf(sublinear=True))]
    plain = tuple(families)
    families |= {
        "cosine": [Template(Cosine(geometry))],
        "parametrix": [Template(Parametrix(geometry), SIMILARITIES)],
        "exact heat": [Template(Heat(geometry), SIMILARITIES)],
    }
    kind: Kind = "counts" if isinstance(geometry, Simplex) else "directions"
    facts = f"{X.shape[1]} columns"
    return Candidates(
        kind, facts, X, X.shape[0], families, plain, "flat", "geometric", columns=X.shape[1]
    )


def _whole(X: Any) -> bool:
    """Tell whether a table holds whole numbers, as counts are."""
    values = X.data if sparse.issparse(X) else X
    return bool(np.all(values == np.floor(values)))


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
        "strings", facts, X, len(lengths), _as_they_are(families), ("letter counts",), "letter-count",
        "string", notes=tuple(notes),
    )  # fmt: skip


def _nodes(X: Any, graph: Graph) -> Candidates:
    X = graph.check(X)
    # By position, whatever the labels are.
    even = Graph(graph.adjacency, laplacian="normalized", similarity="normalized")
    walks = Graph(graph.adjacency)
    families = {
        "shared neighbours": [Template(Power(walks, 2))],
        "walks": [
            Template(Exponential(walks, beta=_gentle(walks), normalized=True), GRAPH_SIMILARITIES)
        ],
        "heat": [Template(Heat(even, t=1.0), GRAPH_SIMILARITIES)],
        "Matern": [Template(Matern(even, nu=2.0, length_scale=1.0), GRAPH_SIMILARITIES)],
        "von Neumann": [Template(VonNeumann(even, beta=1.0, normalized=True), GRAPH_SIMILARITIES)],
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


def _gentle(graph: Graph) -> float:
    """A rate of diffusion at which no walk is out of the floating range."""
    return 1 / max(float(graph.operator("similarity").top), 1e-12)


def _as_they_are(families: dict[str, list[Kernel]]) -> dict[str, list[Template]]:
    return {name: [Template(kernel) for kernel in members] for name, members in families.items()}


def _clouds(X: Any) -> Candidates:
    try:
        clouds = check_clouds(X, "X", vectors=True, rescale=False)
    except ValueError as error:
        # Here is no kernel yet that could be told to rescale.
        raise ValueError(str(error).replace(", or use rescale_weights=True", "")) from None
    gauss = Gaussian()
    kernels: dict[str, Kernel] = {
        "Gaussian of embeddings": GaussianEmbedding(gauss),
        "trace": TraceKernel(gauss),
        "generalised variance": InverseGeneralizedVariance(gauss),
    }
    families = {"mean embedding": [Template(MeanEmbedding(gauss), (), s) for s in BASE_SIMILARITIES]}
    families |= {
        name: [Template(kernel, CLOUD_SIMILARITIES, s) for s in BASE_SIMILARITIES]
        for name, kernel in kernels.items()
    }
    sizes = clouds.sizes
    facts = f"{sizes.min()} to {sizes.max()} points in {clouds.points.shape[1]} dimensions"
    plain = ("mean embedding", "Gaussian of embeddings")
    return Candidates("clouds", facts, X, len(sizes), families, plain, "mean-embedding", "spectral")
