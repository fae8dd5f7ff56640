"""
A motif in DNA, seen by four string kernels
===========================================

Half of the strings hide the word TATAAT near their middle; each of its letters is replaced by a random
one with probability 0.1. The others are noise. How well a support vector machine separates them
depends on what its kernel compares:

* :class:`~mercer.kernels.WeightedDegree`: substrings at the same place in both strings;
* :class:`~mercer.kernels.Spectrum`: substrings of length 5 anywhere;
* :class:`~mercer.kernels.Mismatch`: words of length 6 anywhere, up to one wrong letter;
* :class:`~mercer.kernels.GappySubsequence`: letters in the same order, gaps weighed down.

The word is moved by a random shift, and the shifts grow from one experiment to the next.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from mercer.kernels import GappySubsequence, Mismatch, Spectrum, WeightedDegree

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

LETTERS, MOTIF, LENGTH, PLACE = "ACGT", "TATAAT", 40, 17
rng = np.random.default_rng(0)


def strings(size, shift):
    """Strings and whether they hold the motif, moved by at most the shift."""
    letters = rng.choice(list(LETTERS), size=(size, LENGTH))
    y = rng.integers(2, size=size)
    for i in np.flatnonzero(y):
        place = PLACE + rng.integers(-shift, shift + 1)
        kept = rng.uniform(size=len(MOTIF)) < 0.9
        letters[i, place : place + len(MOTIF)][kept] = np.array(list(MOTIF))[kept]
    return ["".join(row) for row in letters], y


# %%
# Nothing is tuned: C is 1 throughout, and all kernels are normalised.

kernels = {
    "weighted degree, D = 6": WeightedDegree(6, normalized=True),
    "spectrum, l = 5": Spectrum(5, normalized=True),
    "mismatch, l = 6, m = 1": Mismatch(6, 1, normalized=True),
    "gappy subsequences, n = 5": GappySubsequence(5, decay=0.4, normalized=True),
}
shifts = (0, 1, 2, 4, 8, 16)
accuracy = {name: [] for name in kernels}
for shift in shifts:
    X, y = strings(300, shift)
    X_test, y_test = strings(400, shift)
    for name, kernel in kernels.items():
        model = SVC(kernel=kernel).fit(X, y)
        accuracy[name].append(model.score(X_test, y_test))

# %%
# To see what a machine has learnt, take other strings with the motif, put each letter at each place, and
# compare the decision value with its mean over the four letters. With the weighted degree kernel and no
# shift, the motif can be read off.

X, y = strings(300, 0)
model = SVC(kernel=kernels["weighted degree, D = 6"]).fit(X, y)
planted = [s for s, c in zip(*strings(60, 0), strict=True) if c][:20]
changed = [s[:i] + a + s[i + 1 :] for s in planted for a in LETTERS for i in range(LENGTH)]
value = model.decision_function(changed).reshape(len(planted), len(LETTERS), LENGTH)
effect = (value - value.mean(axis=1, keepdims=True)).mean(axis=0)

# %%
# Left: accuracies on 400 other strings. Right: the effect of each letter at each place.

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(1, 1.35))
styles = ("o-", "s--", "^:", "D-.")
colors = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
for (name, values), style, color in zip(accuracy.items(), styles, colors, strict=True):
    left.plot(range(len(shifts)), values, style, color=color, lw=2, ms=6, label=name)
left.set_xticks(range(len(shifts)), labels=["0", *(f"±{s}" for s in shifts[1:])])
left.axhline(0.5, color="0.7", lw=1)
left.set(xlabel="shift of the motif", ylabel="accuracy", ylim=(0.45, 1.02))
left.legend(frameon=False, fontsize=9)

top = np.abs(effect).max()
image = right.imshow(effect, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto")
right.set_yticks(range(4), labels=LETTERS)
right.set(xlabel="place", title="effect on the decision value (weighted degree)")
for k, letter in enumerate(MOTIF):
    right.text(
        PLACE + k, LETTERS.index(letter), letter, ha="center", va="center", color="w", weight="bold"
    )
right.spines[["left", "bottom"]].set_visible(False)
fig.colorbar(image, ax=right, shrink=0.9)
plt.show()
