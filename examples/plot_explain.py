"""
What made a prediction
======================

A prediction of a kernel machine is a sum over training rows, and a sum of kernels is a sum over its
parts. :func:`~mercer.explain.explain` splits it. The left figure shows the parts of one decision
value, which add up to it exactly. The middle one shows words, labels and columns: words of tf-idf are
exact, columns of the Gaussian kernel of first order. The right one shows how much the accuracy on new
rows drops if the columns of a part are shuffled.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer.explain import explain, importance
from mercer.kernels import Gaussian, Heat, On, Spectrum, TfIdf
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

kernel = (
    On(["ph", "depth"], Gaussian(2.0))
    + On("water", Heat(Categories()))
    + On("note", TfIdf())
    + On("barcode", Spectrum(3))
)
model = SVC(kernel).fit(table[:200], y[:200])
found = explain(model, table[200:])

row = int(np.argmax(found.values[:, found.outputs.index("algae")]))
parts = found.parts(row)
columns = found.columns(row, top=400)
columns = columns[columns["kind"] != "substring"].head(8)
losses = importance(model, table[200:], y[200:])

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
output = found.outputs.index(found.predicted[row])
labels = ["intercept", *parts["part"]]
left.barh(labels, [found.intercept[output], *parts["contribution"]], color="C0")
left.set(title=f"{found.predicted[row]}: {found.values[row, output]:.2f}", xlabel="contribution")
colours = ["C0" if exact else "C1" for exact in columns["exact"]]
middle.barh(columns["name"], columns["contribution"], color=colours)
middle.set(title=table["note"].iloc[200 + row], xlabel="contribution (orange: first order)")
right.barh(losses["block"], losses["importance"], xerr=losses["standard_error"], color="C2")
right.set(title="all new rows", xlabel="loss of accuracy")
for ax in (left, middle, right):
    ax.invert_yaxis()
plt.show()
