"""A small comparison of every kind of data, for the tests of the report."""

from functools import cache

import networkx as nx
import numpy as np
import pandas as pd
from scipy import sparse

from mercer.kernels import Cosine, Gaussian, Heat, Linear, MeanEmbedding, Power, Spectrum, TraceKernel
from mercer.selection import Comparison, compare
from mercer.spaces import Graph, Simplex, Sphere

HOSTILE = "<script>alert(1)</script> & \"b\" '</script>' {{ 7 * 7 }} \u2028"
KINDS = (
    "counts",
    "directions",
    "regression",
    "strings",
    "nodes",
    "clouds",
    "mixed",
    "many classes",
    "one family",
)


@cache
def comparison(kind: str) -> Comparison:
    rng = np.random.default_rng(0)
    two = np.repeat(["a", "b"], 15)
    counts = np.vstack([rng.multinomial(30, p, size=15) for p in rng.dirichlet(np.ones(6), size=2)])
    flat = {"linear": [Linear()], "Gaussian": [Gaussian(5.0), Gaussian(20.0)]}
    heat = [Heat(Simplex(), t_star=t) for t in (0.5, 1.0)]
    if kind == "counts":
        return compare(counts, two, kernels=flat | {"exact heat": heat}, folds=2, n_jobs=1)
    if kind == "directions":
        X = rng.normal(size=(30, 3)) + np.repeat([[1.0], [-1.0]], 15, axis=0)
        kernels = {"linear": [Linear()], "cosine": [Cosine(Sphere())]}
        return compare(X, two, kernels=kernels, folds=2, repeats=2, n_jobs=1)
    if kind == "regression":
        kernels = {"Gaussian": flat["Gaussian"], "exact heat": heat}
        return compare(counts, counts[:, 0] + rng.normal(size=30), kernels=kernels, folds=2, n_jobs=1)
    if kind == "strings":
        strings = [
            "".join(rng.choice(list("ACGT"), 80 if i < 2 else 12)) + 4 * "AT"[i % 2] for i in range(30)
        ]
        kernels = {"letter counts": [Spectrum(1)], "spectrum": [Spectrum(2), Spectrum((1, 3))]}
        return compare(strings, np.resize(two[::15], 30), kernels=kernels, folds=2, n_jobs=1)
    if kind == "nodes":
        graph = Graph(nx.stochastic_block_model([15, 15], [[0.5, 0.1], [0.1, 0.5]], seed=1))
        kernels = {
            "shared neighbours": [Power(graph, 2)],
            "heat": [Heat(graph, t=t) for t in (1.0, 2.0)],
        }
        return compare(np.arange(30), two, kernels=kernels, space=graph, folds=2, n_jobs=1)
    if kind == "clouds":
        clouds = [rng.normal(size=(4 + i % 3, 2)) + 2 * (i // 15) for i in range(30)]
        kernels = {"mean embedding": [MeanEmbedding(Gaussian(s)) for s in (1.0, 3.0)]}
        return compare(
            clouds, two, kernels=kernels | {"trace": [TraceKernel(Gaussian(2.0))]}, folds=2, n_jobs=1
        )
    if kind == "mixed":
        table = pd.DataFrame(counts[:, :2] + 0.5, columns=["a", "b"])
        table[HOSTILE.strip()] = np.where(rng.random(30) < 0.8, two, "c")
        table["id"] = range(30)
        return compare(table, two, folds=2, n_jobs=1)
    if kind == "many classes":
        X = np.vstack([rng.multinomial(60, p, size=6) for p in rng.dirichlet(np.full(40, 0.2), size=33)])
        labels = np.repeat([f"{HOSTILE} and more of it, number {i}" for i in range(33)], 6)
        return compare(X, labels, kernels={"linear": [Linear()]}, folds=2, n_jobs=1)
    assert kind == "one family"
    return compare(sparse.csr_matrix(counts), two, kernels=Heat(Simplex()), folds=2, n_jobs=1)
