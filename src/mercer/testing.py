"""Checks that every kernel and every space must pass; public, for kernels of your own.

>>> from mercer.kernels import Heat
>>> from mercer.spaces import Sphere
>>> from mercer.testing import check_kernel
>>> check_kernel(Heat(Sphere(), t=0.2))
"""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from mercer.engine.operands import SparseDifferences, invariants
from mercer.kernels import Kernel
from mercer.laws import Diffusion
from mercer.spaces import Space
from mercer.special.zonal import SlowDecay

__all__ = ["check_kernel", "check_space"]

#: Number of points examined, and of features compared with their Gram matrix.
_SIZE, _FEATURES = 40, 300
#: Diffusion time on spaces without a natural unit.
_TIME = 0.5


def check_kernel(
    kernel: Kernel,
    X: Any = None,
    *,
    isometry: Callable[[Any], Any] | None = None,
    random_state: int = 0,
) -> None:
    """Raise an AssertionError that names the failed check, unless the kernel passes all of them.

    The kernel first learns what it needs from the points (:meth:`~mercer.kernels.Kernel.learnt_from`).
    Then these are checked: symmetry; eigenvalues on scattered and on clustered points, none of which
    may be negative if the kernel says that it is positive semidefinite; ``k(X) == k(X, X)``; subsets;
    ``diag``; ``matvec``; gradients, against differences; products with scalars on either side; clone,
    pickle and repr; precision; contributions that add up; features against the Gram matrix, and sparse
    and torch arrays, where they apply; and that bad input is refused.

    Parameters
    ----------
    kernel : Kernel
    X : points, optional
        By default random points that suit the kernel, and clusters of them.
    isometry : callable, optional
        A map of points under which the kernel must not change; by default the space's own.
    random_state : int

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Simplex
    >>> from mercer.testing import check_kernel
    >>> check_kernel(Heat(Simplex(), t_star=0.5))
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"give a kernel, such as Heat(Sphere()), not {kernel!r}")
    rng = np.random.default_rng(random_state)
    samples = [X] if X is not None else list(_samples(kernel, rng))
    kernel = _learnt(kernel, samples[0])
    for points in samples:
        for check in (_symmetry, _subset, _diagonal, _matvec, _eigenvalues, _gradient, _precision):
            _run(check, kernel, points)
    X = points
    for check in (_scalars, _copies, _contributions):
        _run(check, kernel, X)
    isometry = isometry or kernel.isometry(rng)
    if isometry is not None:
        _invariance(kernel, X, isometry)
    if kernel.point_space is not None:
        _run(_features, kernel, X)
        if kernel.requires_vector_input:
            for check in (_sparse_arrays, _torch, _bad_rows):
                _run(check, kernel, X)


def _learnt(kernel: Kernel, X: Any) -> Kernel:
    """The kernel with what it learns from points; an error is a failed check."""
    try:
        return kernel.learnt_from(X)
    except Exception as error:
        raise AssertionError(f"learning: {type(error).__name__}: {error}") from error


def _run(check: Callable[[Kernel, Any], None], kernel: Kernel, X: Any) -> None:
    """Run one check; an error raised by the kernel is a failure too."""
    try:
        check(kernel, X)
    except AssertionError:
        raise
    except Exception as error:
        name = check.__name__.strip("_").replace("_", " ")
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error


def check_space(space: Space, X: Any = None, *, random_state: int = 0) -> None:
    """Raise an AssertionError that says why, unless the space keeps its promises.

    Points are checked without being changed, alone and in pairs of sets.  The invariant of a pair, or
    its heat kernel where one number is not enough, is symmetric and does not depend on other points;
    ``self_invariant`` is on the diagonal; sparse rows stay sparse.  An isometry changes nothing.
    Distances are symmetric, zero between equal points, and no longer than any detour.  The space is
    hashable, shared by ``clone`` and survives pickling.  Empty and flat input is refused, and rows with
    NaN by name.

    Parameters
    ----------
    space : Space
    X : points, optional
        By default ``space.sample``.
    random_state : int

    Examples
    --------
    >>> from mercer.spaces import Torus
    >>> from mercer.testing import check_space
    >>> check_space(Torus(period=24))
    """
    if not isinstance(space, Space):
        raise TypeError(f"give a space, such as Sphere(), not {space!r}")
    rng = np.random.default_rng(random_state)
    X = space.sample(_SIZE, rng) if X is None else X
    before = copy.deepcopy(X)
    compare = _heat if space.embedding is None else _invariants
    values = compare(space, X)
    _require(
        np.array_equal(np.asarray(before), np.asarray(X)), "checking or embedding changed its input"
    )
    _close(values, values.T, "the distances from X to Y and from Y to X differ", 1e-12)
    _close(compare(space, X, X[:3]), values[:, :3], "a pair depends on the other points", 1e-10)
    isometry = space.isometry(rng)
    if isometry is not None:
        moved = isometry(X)
        try:
            before, after = _heat(space, X), _heat(space, moved)
        except TypeError:  # the space has no Laplacian
            before, after = values, compare(space, moved)
        _close(after, before, "an isometry changes what it must not", 1e-7)
        _close(space.distances(moved), space.distances(X), "an isometry changes distances", 1e-7)
    _metric(space, X)
    if space.embedding is not None:
        own = space.embedding.self_invariant(space.check(X))
        _close(np.diag(values), own, "self_invariant is off", 1e-12)
    if space.requires_vector_input and space.takes_sparse:
        _close(compare(space, sparse.csr_matrix(X)), values, "sparse and dense rows differ", 1e-10)
    dumped = _dumped(space)
    if dumped is not None:
        _require(hash(space) == hash(pickle.loads(dumped)), "pickling changed the space")
    _require(clone(space, safe=False) is space, "clone copied the space")
    if space.requires_vector_input:
        _refuses(space.check, X)
    _error(space.check, X[:0])
    _error(space.check, np.array(0.0))


def _metric(space: Space, X: Any) -> None:
    """Distances form a metric, even if some are infinite."""
    D = np.asarray(space.distances(X))
    _close(np.diag(D), np.zeros(len(D)), "a point has a positive distance from itself", 1e-7)
    _close(np.asarray(space.distances(X, X[:3])), D[:, :3], "a distance depends on other points", 1e-7)
    _require(np.array_equal(D, D.T) or np.allclose(D, D.T, rtol=1e-9), "distances are not symmetric")
    detours = (D[:, :, None] + D[None]).min(axis=1)
    _require(np.all(detours * (1 + 1e-9) + 1e-9 >= D), "a detour is shorter than the distance")


def _invariants(space: Space, X: Any, Y: Any = None) -> np.ndarray:
    """Invariants of all pairs."""
    embedding = space.embedding
    assert embedding is not None
    L, R = embedding.embed(*space.check_pair(X, Y))
    if sparse.issparse(X):
        sparser = all(sparse.issparse(Z) or isinstance(Z, SparseDifferences) for Z in (L, R))
        _require(sparser, "sparse rows were densified")
    source = invariants(L, R, symmetric=False)
    values = np.empty(source.shape)
    source.write(slice(0, source.shape[0]), slice(0, source.shape[1]), values)
    return values


def _heat(space: Space, X: Any, Y: Any = None) -> np.ndarray:
    """The normalised heat kernel of all pairs."""
    P, Q = space.check_pair(X, Y)
    n = space.columns(P)
    return np.asarray(space.realise(Diffusion(space.natural_time(n) or _TIME), n).gram(P, Q))


def _samples(kernel: Kernel, rng: np.random.Generator) -> Iterator[Any]:
    """Scattered points, and points in clusters, the last of which are equal."""
    yield kernel.sample(_SIZE, rng)
    points = kernel.sample(_SIZE, rng, clusters=3)
    points[-3:] = [points[0]] * 3
    yield points


def _symmetry(kernel: Kernel, X: Any) -> None:
    K = kernel(X)
    _require(np.isfinite(K).all(), "k(X) is not finite")
    _require(np.array_equal(K, K.T), "k(X) is not symmetric")
    _close(K, kernel(X, X), "k(X) and k(X, X) differ", 1e-12)
    again = kernel(X, X.copy() if hasattr(X, "copy") else X)
    # Equal points in two arrays meet with a rounding error, which rough kernels magnify.
    _close(K, again, "k(X) and k(X, copy of X) differ", 1e-5)


def _subset(kernel: Kernel, X: Any) -> None:
    K = kernel(X)
    _close(K[:7, :7], kernel(X[:7]), "k(X)[:m, :m] and k(X[:m]) differ", 1e-10)
    _close(K[:7, 9:], kernel(X[:7], X[9:]), "k(X)[:m, p:] and k(X[:m], X[p:]) differ", 1e-10)
    _require(kernel(X[:1]).shape == (1, 1), "one point does not give a 1 x 1 matrix")


def _diagonal(kernel: Kernel, X: Any) -> None:
    _close(np.diag(kernel(X)), kernel.diag(X), "diag(X) is not the diagonal of k(X)", 1e-12)


def _matvec(kernel: Kernel, X: Any) -> None:
    K = kernel(X)
    v = np.random.default_rng(0).normal(size=(len(K), 2))
    _close(kernel.matvec(X, None, v), K @ v, "matvec is not k(X) @ v", 1e-10)
    _close(kernel.matvec(X, X, v[:, 0]), K @ v[:, 0], "matvec is not k(X) @ v", 1e-10)


def _eigenvalues(kernel: Kernel, X: Any) -> None:
    if kernel.positive_semidefinite:
        values = np.linalg.eigvalsh(kernel(X))
        bound = -1e-12 * len(values) * max(1.0, float(values[-1]))
        _require(values[0] >= bound, f"k(X) has the eigenvalue {values[0]:.3g}")


def _gradient(kernel: Kernel, X: Any) -> None:
    theta = kernel.theta
    K, gradient = kernel(X, eval_gradient=True)
    _close(K, kernel(X), "k(X, eval_gradient=True) changes k(X)", 1e-12)
    _require(gradient.shape == (*K.shape, len(theta)), "the gradient has the wrong shape")
    for i in range(len(theta)):
        step = np.zeros_like(theta)
        step[i] = 1e-4
        ahead, behind = (kernel.clone_with_theta(theta + s)(X) for s in (step, -step))
        numeric = (ahead - behind) / 2e-4
        _close(gradient[:, :, i], numeric, f"gradient {i} is not the derivative", 1e-6)


def _precision(kernel: Kernel, X: Any) -> None:
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return
    single = kernel(X.astype(np.float32))
    _require(single.dtype == np.float32, "float32 rows do not give a float32 matrix")
    _require(np.isfinite(single).all(), "float32 rows give values that are not finite")


def _scalars(kernel: Kernel, X: Any) -> None:
    K = kernel(X)
    cases: tuple[tuple[Any, Any], ...] = (
        (2.0 * kernel, 2 * K),
        (kernel * 2.0, 2 * K),
        (kernel + 1.0, K + 1),
        (1.0 + kernel, K + 1),
        (kernel**2, K**2),
        (kernel + kernel, 2 * K),
        (kernel * kernel, K**2),
    )
    for combined, expected in cases:
        _close(combined(X), expected, f"{combined!r} has wrong values", 1e-12)
    for combine, operand in ((operator.mul, -1.0), (operator.sub, kernel), (operator.pow, 0.5)):
        try:
            combine(kernel, operand)
        except (TypeError, ValueError):
            continue
        raise AssertionError(f"{combine.__name__} with {operand!r} is not a kernel but was not refused")


def _copies(kernel: Kernel, X: Any) -> None:
    K = kernel(X)
    copy = clone(kernel)
    _require(copy == kernel or repr(copy) == repr(kernel), "clone differs")
    _close(copy(X), K, "a clone has different values", 0)
    dumped = _dumped(kernel)
    if dumped is not None:
        _close(pickle.loads(dumped)(X), K, "a pickled kernel has different values", 0)
        _require(repr(pickle.loads(dumped)) == repr(kernel), "a pickled kernel has a different repr")


def _dumped(thing: Any) -> bytes | None:
    """A pickle; None for functions and classes of the user's own that cannot be imported."""
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError):
        return None


def _contributions(kernel: Kernel, X: Any) -> None:
    """Exact contributions of features to weighted sums of a kernel are the terms of those sums."""
    for part in (term for _, term in kernel.terms() if isinstance(term, Kernel)):
        K = part(X[:7], X[9:])
        weights = np.random.default_rng(0).normal(size=K.shape)
        for found in part.contributions(X[:7], X[9:], weights):
            shape = len(K), len(found.names)
            _require(found.values.shape == shape, f"contributions do not have shape {shape}")
            if found.exact and found.kind != "label":  # of a label it is what another would lose
                complaint = f"contributions by {found.kind} do not add up to sums of the kernel"
                _close(found.values.sum(axis=1), (weights * K).sum(axis=1), complaint, 1e-8)


def _invariance(kernel: Kernel, X: Any, isometry: Callable[[Any], Any]) -> None:
    _close(kernel(isometry(X)), kernel(X), "the kernel changes under an isometry of its space", 1e-7)


def _features(kernel: Any, X: Any) -> None:
    """Explicit features, where the kernel has them, against the Gram matrix."""
    P = kernel.space.check(X)
    try:
        features = kernel.feature_map(kernel.space.columns(P), _FEATURES, 0)
    except (TypeError, SlowDecay):
        return  # eigenfunctions of the space are not known, or weights too rough to be summed
    F = features(P)
    G, K, error = F @ F.T, kernel(X), float(features.error)
    if kernel.normalized:  # features are those of the plain form, up to a factor
        lengths = np.sqrt(np.diagonal(G))
        G, error = G / np.outer(lengths, lengths), 4 * error / float(lengths.min()) ** 2
    if error < 0.1:  # relative to the largest value, where rows keep their lengths
        _close(G, K, "inner products of features are not k(X)", error + 1e-6)


def _sparse_arrays(kernel: Kernel, X: Any) -> None:
    if not kernel.space.takes_sparse:
        return
    K = kernel(X)
    for form in (sparse.csr_matrix, sparse.csc_array):
        _close(kernel(form(X)), K, "sparse and dense rows give different values", 1e-7)
    _close(kernel(sparse.csr_matrix(X), X[:5]), K[:, :5], "sparse with dense rows differ", 1e-5)
    v = np.ones(len(X))
    _close(kernel.matvec(sparse.csr_matrix(X), None, v), K @ v, "matvec of sparse rows differs", 1e-7)


def _torch(kernel: Kernel, X: Any) -> None:
    try:
        import torch
    except ImportError:
        return
    K = kernel(torch.as_tensor(X))
    _require(isinstance(K, torch.Tensor), "tensors do not give a tensor")
    _close(K.numpy(), kernel(X), "tensors and arrays give different values", 1e-7)


def _bad_rows(kernel: Kernel, X: Any) -> None:
    _refuses(kernel, X)
    try:
        kernel(X, X[:, :-1])
    except ValueError:
        return
    raise AssertionError("arguments with different numbers of columns were not refused")


def _refuses(call: Callable[[Any], Any], X: np.ndarray) -> None:
    """Check that NaN, infinity, empty and flat input raises ValueError, naming the row."""
    for bad in (np.nan, np.inf):
        spoilt = np.array(X, dtype=float)
        spoilt[4, 0] = bad
        message = _error(call, spoilt)
        _require("4" in message, f"the message for {bad} in row 4 does not name it: {message}")
    for shape in (X[:0], X[:, :0], X[0]):
        _error(call, shape)


def _error(call: Callable[[Any], Any], X: Any) -> str:
    try:
        call(X)
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"input of shape {np.shape(X)} is not a set of points but was not refused")


def _require(condition: Any, complaint: str) -> None:
    if not condition:
        raise AssertionError(complaint)


def _close(got: Any, expected: Any, complaint: str, tolerance: float) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    _require(got.shape == expected.shape, f"{complaint}: shapes {got.shape}, {expected.shape}")
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    worst = float(np.abs(got - expected).max(initial=0.0))
    _require(worst <= tolerance * scale, f"{complaint}: by {worst:.3g}")
