"""Fisher kernels and posterior averages against plain kernels of word counts, on docstrings.

``python -m benchmarks.experiments.fisher``: the library of a docstring from its words, five folds.  What
kernels learn, and C, come from the training part of each fold.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.datasets import load_docstrings
from mercer.features import GramTransformer
from mercer.kernels import Cosine, FisherMultinomial, Linear, PosteriorCosine, TfIdf
from mercer.spaces import Simplex

KERNELS = {
    "linear, on counts": Linear(),
    "tf-idf": TfIdf(sublinear=True),
    "cosine": Cosine(Simplex()),
    "posterior cosine, alpha = 0.01": PosteriorCosine(alpha=0.01, normalized=True),
    "posterior cosine, alpha = 0.5": PosteriorCosine(alpha=0.5, normalized=True),
    "Fisher": FisherMultinomial(normalized=True),
    "Fisher, without the information": FisherMultinomial(information=False, normalized=True),
}
PENALTIES = tuple(10.0 ** np.arange(-3, 5))


def main() -> None:
    data = load_docstrings()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    table = Table("kernel", "accuracy in %", "standard deviation", title=f"{data.X.shape} counts")
    for name, kernel in KERNELS.items():
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": PENALTIES}, cv=3)
        model = make_pipeline(GramTransformer(kernel), search)
        scores = 100 * cross_val_score(model, data.X, data.y, cv=folds)
        table.add_row(name, f"{scores.mean():.1f}", f"{scores.std(ddof=1):.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
