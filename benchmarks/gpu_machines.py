"""Exact machines with a million rows on a CUDA device: seconds, memory, certificates.

python -m benchmarks.gpu_machines [--only NAME ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn import svm as libsvm
from sklearn.datasets import make_classification

from mercer.kernels import Heat
from mercer.machines import SVC, KernelRidge
from mercer.spaces import Sphere

KERNEL = Heat(Sphere())


def classification(rows: int, columns: int, flipped: float) -> tuple[torch.Tensor, np.ndarray]:
    """Rows of two classes on the device, in single precision, and their labels."""
    X, y = make_classification(
        rows, columns, n_informative=columns // 2, n_redundant=0, n_clusters_per_class=8,
        flip_y=2 * flipped, shuffle=True, random_state=0,
    )  # fmt: skip
    return torch.tensor(X, dtype=torch.float32, device="cuda"), y


def field(rows: int, columns: int) -> tuple[torch.Tensor, np.ndarray]:
    """Directions, and a smooth random field on them with a fifth of noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    W = rng.normal(size=(columns, 200))
    f = np.concatenate(
        [np.cos(2 * part @ W + np.arange(200)).mean(axis=1) for part in np.array_split(X, 100)]
    )
    f = (f - f.mean()) / f.std()
    return torch.tensor(X, device="cuda"), f + rng.normal(scale=0.5, size=rows)


def measured(name: str, work: Callable[[], object]) -> object:
    """Run, and print seconds and memory above what there was."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, start = torch.cuda.memory_allocated(), time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    seconds, memory = time.perf_counter() - start, torch.cuda.max_memory_allocated() - before
    print(f"{name}: {seconds:.1f} s, {memory / 1e9:.2f} GB above the input", flush=True)
    return found


def svm(rows: int, columns: int, flipped: float, C: float, tol: float) -> None:
    """A support vector machine, and libsvm's objective on a part of the rows."""
    X, y = classification(rows, columns, flipped)
    kernel = KERNEL.scaled_to(X[:2000], 0.3)
    part = slice(0, min(rows, 10_000))
    small = X[part].cpu().numpy()
    K = kernel(small.astype(float))
    peer = libsvm.SVC(kernel="precomputed", C=C, cache_size=1000).fit(K, y[part])
    a = np.zeros(len(small))
    a[peer.support_] = peer.dual_coef_[0]
    ours = SVC(kernel, C=C, tol=tol, max_memory=1e-3).fit(X[part], y[part])
    print(
        f"  {len(small)} rows: libsvm {np.abs(a).sum() - a @ K @ a / 2:.4f}, ours {ours.objective_:.4f}"
    )
    for name in ("first, with compilation", "again"):
        model = measured(
            f"SVM {rows} x {columns}, C = {C:g}, gap {tol:g}, {name}",
            lambda: SVC(kernel, C=C, tol=tol, max_memory=4.0).fit(X, y),
        )
    print(f"  gap {model.dual_gap_:.2e}, {len(model.support_)} support vectors, {model.n_iter_} steps")
    measured(f"  {min(rows, 10**5)} predictions", lambda: model.predict(X[: 10**5]))


def ridge(rows: int, columns: int) -> None:
    """Ridge regression by conjugate gradients."""
    X, y = field(rows, columns)
    kernel = KERNEL.scaled_to(X[:2000], 0.3)
    # The tolerance that is a relative residual of 1e-4.
    tol = 1e-4 * float(np.linalg.norm(y) / y.std()) / 2
    model = measured(
        f"ridge {rows} x {columns}, alpha = 1",
        lambda: KernelRidge(kernel, alpha=1.0, tol=tol, max_memory=8.0).fit(X, y),
    )
    print(
        f"  relative residual {model.residual_ / np.linalg.norm(y):.1e}, {model.n_iter_} iterations, "
        f"{model.certificate_}"
    )


def process(rows: int) -> None:
    """GPyTorch's exact Gaussian process on the operator, hyperparameters learnt."""
    import gpytorch

    from mercer.gpytorch import Heat as OperatorHeat
    from mercer.gpytorch import kernels

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(OperatorHeat(Sphere(), t_star=0.5))

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    X, y = field(rows + 2000, 8)
    y = torch.tensor(y, dtype=torch.float32, device="cuda")
    Xnew, ynew = X[rows:], y[rows:]

    def learnt(rows: int, cholesky: int) -> float:
        model = Process(X[:rows], y[:rows]).cuda()
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        with gpytorch.settings.max_cholesky_size(cholesky):
            for _ in range(30):
                optimiser.zero_grad()
                (-objective(model(X[:rows]), y[:rows])).backward()
                optimiser.step()
            model.eval()
            with torch.no_grad(), gpytorch.settings.skip_posterior_variances():
                error = model(Xnew).mean - ynew
        time = float(model.kernel.base_kernel.t_star)
        print(f"  t_star {time:.3f}, scale {float(model.kernel.outputscale):.3f}, ", end="")
        print(f"noise {float(model.likelihood.noise):.3f}, ", end="")
        return float(error.square().mean().sqrt())

    dense, kernels.DENSE = kernels.DENSE, 10**6
    print(f"  dense, 10000 rows: RMSE {learnt(10_000, 10**6):.4f}")
    kernels.DENSE = dense
    print(f"  operator, 10000 rows: RMSE {learnt(10_000, 0):.4f}")
    error = measured(f"GPyTorch, {rows} x 8, 30 steps", lambda: learnt(rows, 0))
    print(f"  RMSE {error:.4f}")


WORK: dict[str, Callable[[], None]] = {
    "svm-small": lambda: svm(20_000, 64, 0.05, 10.0, 1e-3),
    "ridge-small": lambda: ridge(50_000, 64),
    "svm": lambda: svm(10**5, 400, 0.05, 10.0, 1e-3),
    "ridge-million": lambda: ridge(10**6, 64),
    "process": lambda: process(10**5),
    "svm-million": lambda: svm(10**6, 64, 0.02, 1.0, 1e-2),
}


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=WORK, default=list(WORK))
    print(torch.cuda.get_device_name())
    for name in parser.parse_args().only:
        WORK[name]()


if __name__ == "__main__":
    main()
