"""Word counts of mails in three classes, with a number to predict and kernels for them."""

import numpy as np

from mercer.kernels import Heat
from mercer.spaces import Simplex

_RNG = np.random.default_rng(0)
_CLASSES = ["ham", "news", "spam"]
_MODELS = _RNG.dirichlet(np.full(12, 0.7), size=3)
LABELS = np.repeat(_CLASSES, 30)[_RNG.permutation(90)]
COUNTS = np.array([_RNG.multinomial(9, _MODELS[_CLASSES.index(label)]) for label in LABELS]).astype(
    float
)
TARGET = np.log1p(COUNTS[:, 0]) + 0.1 * _RNG.normal(size=90)
HEATS = [Heat(Simplex(), t_star=t) for t in (0.2, 0.5, 1.0)]


def hits(y, predicted) -> float:
    """Number of right predictions, a metric that is not scikit-learn's."""
    return float(np.sum(y == predicted))
