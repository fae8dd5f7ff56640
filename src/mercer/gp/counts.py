"""Regression of counts."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin

from mercer.gp.base import VariationalGP
from mercer.gp.likelihoods import Poisson


class SphericalGPPoissonRegressor(RegressorMixin, VariationalGP):
    """Gaussian process regression of counts by spherical harmonics.

    ``y ~ Poisson(exp(f(x) + c))``, where f is a Gaussian process with a zonal kernel and c the
    logarithm of the average count.  Inference and cost are those of :class:`SphericalGPClassifier`.

    Parameters
    ----------
    kernel, max_features, levels, inputs, bias, amplitude
        See :class:`SphericalGPClassifier`, also for the rest.
    optimize, n_restarts, max_iter, tol, random_state

    Attributes
    ----------
    kernels_, amplitudes_ : list of one Kernel, array of shape (1,)
        Hyperparameters in use.
    elbo_ : float
        Bound on the log evidence.
    n_iter_ : int
        Number of passes.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.gp import SphericalGPPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(500, 1))
    >>> y = rng.poisson(np.exp(1 + np.sin(2 * X[:, 0])))
    >>> model = SphericalGPPoissonRegressor(max_features=20).fit(X, y)
    >>> bool(abs(model.predict([[0.785]])[0] - np.exp(2)) < 1.5)
    True
    """

    likelihood = Poisson()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
