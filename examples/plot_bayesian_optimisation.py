"""
Bayesian optimisation on the sphere
===================================

Where on the globe is a function largest, when each look is expensive? BoTorch models the function by a
Gaussian process and looks next where the expected improvement is largest. The process gets the heat
kernel of the sphere from :mod:`mercer.gpytorch`. Time, scale and noise are refitted every fifth look.

It is compared with the Gaussian (RBF) kernel of longitude and latitude, which tears the globe apart
along a meridian and at the poles; with the Gaussian kernel of the three coordinates, which does not;
and with random search. The function has one high and two lower peaks. It is turned at random for
each of four runs.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from mercer.gpytorch import Heat
from mercer.spaces import Sphere

plt.rcParams.update({"font.size": 11})
torch.set_num_threads(1)
LOOKS, FIRST, RUNS = 20, 5, 4

PEAKS = torch.tensor([[0, 0, 1], [1, 0, 0], [-0.6, 0.8, 0], [0, -0.8, -0.6]], dtype=torch.float64)
HEIGHTS = torch.tensor([1.0, 0.6, 0.6, -0.5], dtype=torch.float64)
WIDTHS = torch.tensor([5.0, 3.0, 3.0, 2.0], dtype=torch.float64)


def objective(X, turn):
    """Three peaks and a hollow."""
    return (HEIGHTS * torch.exp(WIDTHS * (X @ turn @ PEAKS.T - 1))).sum(dim=1, keepdim=True)


def longitude_latitude(X):
    return torch.stack([torch.atan2(X[:, 1], X[:, 0]), torch.asin(X[:, 2].clamp(-1, 1))], dim=1)


# Two thousand places, spread evenly along a spiral from pole to pole.
height = 1 - (2 * np.arange(2000) + 1) / 2000
angle = np.pi * (1 + 5**0.5) * np.arange(2000)
radius = np.sqrt(1 - height**2)
places = torch.tensor(np.column_stack([radius * np.cos(angle), radius * np.sin(angle), height]))


def optimise(kernel, inputs, values, chosen):
    """Look at one place after the other, where the expected improvement is largest."""
    chosen, fitted = list(chosen), {}
    for look in range(LOOKS):
        model = SingleTaskGP(inputs[chosen], values[chosen], covar_module=ScaleKernel(kernel()))
        model.load_state_dict(fitted, strict=False)
        if look % 5 == 0:
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            parts = ("covar_module", "likelihood")
            fitted = {k: v for k, v in model.state_dict().items() if k.startswith(parts)}
        gain = LogExpectedImprovement(model, best_f=values[chosen].max())
        with torch.no_grad():
            gains = gain(inputs[:, None])
        gains[chosen] = -torch.inf
        chosen.append(int(gains.argmax()))
    return chosen


def missing(values, path):
    """What the best value so far falls short of the maximum."""
    return (values.max() - torch.cummax(values[path, 0], dim=0).values).numpy()


METHODS = {
    "heat kernel of the sphere": (lambda: Heat(Sphere()), places),
    "Gaussian, three coordinates": (RBFKernel, places),
    "Gaussian, longitude and latitude": (RBFKernel, longitude_latitude(places)),
}
regrets = {name: [] for name in (*METHODS, "at random")}
for seed in range(RUNS):
    generator = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    values = objective(places, turn)
    order = torch.randperm(len(places), generator=generator).tolist()
    paths = {}
    for name, (kernel, inputs) in METHODS.items():
        with validate_input_scaling(False):  # directions need not fill the unit cube
            paths[name] = optimise(kernel, inputs, values, order[:FIRST])
    for name, path in paths.items():
        regrets[name].append(missing(values, path))
    for _ in range(50):
        later = FIRST + torch.randperm(len(places) - FIRST, generator=generator)[:LOOKS]
        path = order[:FIRST] + [order[i] for i in later]
        regrets["at random"].append(missing(values, path))
    if seed == 0:
        shown, seen = values[:, 0], paths["heat kernel of the sphere"]

for name, curves in regrets.items():
    print(f"{name}: still missing {np.mean(curves, axis=0)[-1]:.3f} after {LOOKS} looks")

# %%
# The first run of the heat kernel on the map, and what is still missing to the maximum, on average over
# the runs. White: the five places to begin with. Red: places chosen, with the number of the look.

fig = plt.figure(figsize=(8, 9), layout="constrained")
globe = fig.add_subplot(2, 1, 1, projection="mollweide")
where = longitude_latitude(places).numpy()
image = globe.tricontourf(where[:, 0], where[:, 1], shown.numpy(), levels=20, cmap="cividis")
fig.colorbar(image, ax=globe, shrink=0.8)
globe.plot(*where[seen[:FIRST]].T, "o", mfc="white", mec="black", ms=7)
globe.plot(*where[seen[FIRST:]].T, "o", mfc="crimson", mec="white", ms=12)
for look, (x, y) in enumerate(where[seen[FIRST:]], start=1):
    globe.text(x, y, str(look), color="white", fontsize=7, ha="center", va="center")
globe.set_xticklabels([])
globe.set_title("function, and where the heat kernel looks")

ax = fig.add_subplot(2, 1, 2)
for (name, curves), style in zip(regrets.items(), ["-", "--", "-.", ":"], strict=True):
    ax.plot(np.arange(LOOKS + 1), np.mean(curves, axis=0)[FIRST - 1 :], style, lw=2, label=name)
ax.set(xlabel="looks after the first five", ylabel="missing to the maximum", ylim=(0, None))
ax.legend(frameon=False)
ax.xaxis.get_major_locator().set_params(integer=True)
plt.show()

# %%
# In these four runs both kernels that know the sphere's distances find the peak; in two dimensions they
# are nearly the same kernel. That is no ranking. The peaks were chosen after a first trial, and with
# others the order of the models changes: with narrower ones (WIDTHS of 8, 4, 4 and 3) longitude and
# latitude came closest after twenty looks (0.007 missing), before the heat kernel (0.037) and the three
# coordinates (0.104). Four runs are too few to tell the models apart. The example shows how to use the
# kernel, not that it wins.
