"""GPyTorch's collapsed inducing points (SGPR), trained until the bound stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

#: Steps of Adam at most, their rate, and when they stop: so many steps without a gain of so much a row.
STEPS, RATE, PATIENCE, GAIN = 300, 0.1, 20, 1e-3


def sgpr(points: int, nu: float | None = None) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Squared exponential or Matern kernel with a scale for each column; points are learnt too."""

    def fit(X, y, new):
        import gpytorch
        import torch

        torch.manual_seed(0)
        scaler, mean, std = StandardScaler().fit(X), y.mean(), y.std()
        rows = torch.as_tensor(scaler.transform(X))
        targets = torch.as_tensor((y - mean) / std)
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        inducing = rows[torch.randperm(len(rows))[:points]].clone()
        model = _model(rows, targets, likelihood, inducing, nu)
        _train(model, likelihood, rows, targets)
        model.eval(), likelihood.eval()
        with torch.no_grad():
            predicted = likelihood(model(torch.as_tensor(scaler.transform(new))))
        return mean + std * predicted.mean.numpy(), std * predicted.variance.sqrt().numpy()

    return fit


def _model(rows: Any, targets: Any, likelihood: Any, inducing: Any, nu: float | None) -> Any:
    import gpytorch

    scales = {"ard_num_dims": rows.shape[1]}
    law = (
        gpytorch.kernels.RBFKernel(**scales)
        if nu is None
        else gpytorch.kernels.MaternKernel(nu, **scales)
    )

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(rows, targets, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(law)
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, inducing, likelihood)

        def forward(self, X):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    return Model().double()


def _train(model: Any, likelihood: Any, rows: Any, targets: Any) -> None:
    import gpytorch
    import torch

    model.train(), likelihood.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    best, since = np.inf, 0
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = -bound(model(rows), targets)
        loss.backward()
        optimiser.step()
        best, since = (loss.item(), 0) if loss.item() < best - GAIN else (best, since + 1)
        if since == PATIENCE:
            return
