"""
A table with columns of several kinds
=====================================

Each row has two numbers, a label, a short text and a string of letters; the class depends on the first
number and on the text. A kernel on each kind of column (:class:`~mercer.kernels.On`) sees a part of
that. Their sum sees all of it, and :class:`~mercer.kernels.MultipleKernel` learns how much of each to
take: the string, which is uninformative, gets no weight. The right figure shows the path of the
weights: parts enter one by one, the best first.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer.kernels import Gaussian, Heat, MultipleKernel, On, Spectrum, TfIdf
from mercer.machines import SVC
from mercer.spaces import Categories

plt.rcParams.update({"font.size": 11})

rng = np.random.default_rng(0)
rows, words = 400, ["clear", "green", "warm", "cold", "weeds"]
table = pd.DataFrame({
    "ph": rng.normal(7, 0.5, size=rows),
    "depth": rng.lognormal(2, 1, size=rows),
    "water": rng.choice(["lake", "river", "sea"], size=rows),
    "note": [" ".join(rng.choice(words, size=5)) for _ in range(rows)],
    "barcode": ["".join(rng.choice(list("ACGT"), size=20)) for _ in range(rows)],
})  # fmt: skip
signs = 2 * (table.ph - 7) + table.note.str.count("green") - table.note.str.count("clear")
y = np.where(signs + 0.5 * (table.water == "sea") > 0.2, "algae", "none")
train, test = slice(0, 200), slice(200, None)

parts = {
    "numbers": On(["ph", "depth"], Gaussian(2.0)),
    "label": On("water", Heat(Categories())),
    "words": On("note", TfIdf()),
    "letters": On("barcode", Spectrum(3)),
}
kernels = list(parts.values())
rivals = {**parts, "sum": sum(kernels[1:], start=kernels[0]), "learnt": MultipleKernel(kernels)}
scores = {
    name: SVC(k).fit(table[train], y[train]).score(table[test], y[test]) for name, k in rivals.items()
}
path = MultipleKernel(kernels).weight_path(table[train], y[train])

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.bar(list(scores), list(scores.values()), color=["C0", "C1", "C2", "C3", "0.5", "0.2"])
left.set(ylim=(0.4, 1), ylabel="accuracy on new rows")
for name, weights in zip(parts, path.T, strict=True):
    right.plot(weights, marker="o", label=name)
right.set(xlabel="step", ylabel="share of the kernel")
right.legend()
plt.show()
