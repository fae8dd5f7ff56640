"""Regression on UCI sets with the published splits: accuracy, test log-likelihood, coverage and time.

``python -m benchmarks.experiments.uci FOLDER`` reads ``FOLDER/uci_regression``; ``--splits 2`` takes two
splits of each set, ``--features 500`` is the number of harmonics and of inducing points.  GPyTorch's
SGPR is there if ``gpytorch`` is installed.  Sets without published splits get random ones of a tenth.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from mercer.gp import SphericalGPRegressor
from mercer.kernels import Heat, Matern
from mercer.spaces import Sphere

SETS = ["energy", "concrete", "airfoil", "kin8nm", "powerplant", "protein"]
#: Rows that the exact process is given.
EXACT = 2000

#: Training rows and targets, test rows; predictive mean and standard deviation of the targets.
Method = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Rows, targets and the test rows of each split."""
    frame = pd.read_csv(folder / f"{name}.csv.gz")
    X, y = frame.drop(columns="y").to_numpy(float), frame["y"].to_numpy(float)
    path = folder / f"{name}_test_splits.txt.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            return X, y, [np.array(line.split(), dtype=int) for line in file]
    rng = np.random.default_rng(0)
    return X, y, [rng.permutation(len(y))[: len(y) // 10] for _ in range(20)]


def harmonics(kernel, features: int, **options) -> Method:
    def fit(X, y, new):
        model = SphericalGPRegressor(kernel, inputs="table", max_features=features, **options)
        return model.fit(X, y).predict(new, return_std=True)

    return fit


def exact(X, y, new):
    chosen = np.random.default_rng(0).permutation(len(y))[:EXACT]
    scaler = StandardScaler().fit(X)
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True)
    model.fit(scaler.transform(X[chosen]), y[chosen])
    return model.predict(scaler.transform(new), return_std=True)


def boosting(X, y, new):
    model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    return model.predict(new), np.full(len(new), np.std(y - model.predict(X)))


def sgpr(features: int) -> Method | None:
    """GPyTorch's collapsed inducing points, with input scales, as in its documentation."""
    try:
        import gpytorch
        import torch
    except ImportError:
        return None

    class Model(gpytorch.models.ExactGP):
        def __init__(self, X, y, likelihood, inducing):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, inducing, likelihood)

        def forward(self, X):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def fit(X, y, new):
        torch.manual_seed(0)
        scaler, mean, std = StandardScaler().fit(X), y.mean(), y.std()
        rows = torch.as_tensor(scaler.transform(X))
        targets = torch.as_tensor((y - mean) / std)
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        inducing = rows[torch.randperm(len(rows))[:features]].clone()
        model = Model(rows, targets, likelihood, inducing).double()
        model.train(), likelihood.train()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        for _ in range(100):
            optimiser.zero_grad()
            loss = -bound(model(rows), targets)
            loss.backward()
            optimiser.step()
        model.eval(), likelihood.eval()
        with torch.no_grad():
            predicted = likelihood(model(torch.as_tensor(scaler.transform(new))))
        return (
            mean + std * predicted.mean.numpy(),
            std * predicted.variance.sqrt().numpy(),
        )

    return fit


def methods(features: int, ard: bool) -> dict[str, Method]:
    chosen: dict[str, Method | None] = {
        "ArcCosine": harmonics(None, features),
        "Matern 5/2": harmonics(Matern(Sphere(), nu=2.5), features),
        "Heat": harmonics(Heat(Sphere()), features),
        f"exact GP, {EXACT} rows": exact,
        "SGPR": sgpr(features),
        "gradient boosting": boosting,
    }
    if ard:
        chosen["ArcCosine, input scales"] = harmonics(None, features, ard=True)
    return {name: method for name, method in chosen.items() if method is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--ard", action="store_true", help="also learn input scales")
    arguments = parser.parse_args()
    table = Table("set", "method", "RMSE", "log-likelihood", "covered by 95 %", "processor seconds")
    for name in arguments.sets:
        X, y, splits = read(arguments.folder / "uci_regression", name)
        for label, method in methods(arguments.features, arguments.ard).items():
            scores = []
            for test in splits[: arguments.splits]:
                train = np.setdiff1d(np.arange(len(y)), test)
                start = time.process_time()
                mean, std = method(X[train], y[train], X[test])
                spent = time.process_time() - start
                error = y[test] - mean
                likelihood = norm.logpdf(error, scale=std).mean()
                covered = (np.abs(error) < 1.96 * std).mean()
                scores.append((np.sqrt((error**2).mean()), likelihood, covered, spent))
            averages = np.mean(scores, axis=0)
            table.add_row(name, label, *(f"{value:.3g}" for value in averages))
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
