"""Draw docs/_static/profiles.png, the figure of the README.

Run it as ``python docs/make_readme_figure.py``.
"""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from mercer.kernels import Heat, Parametrix
from mercer.spaces import Sphere

TARGET = Path(__file__).parent / "_static" / "profiles.png"
DIMENSIONS = (3, 50, 400)
#: Similarities of orthogonal points, and their colours.
SIMILARITIES = {0.1: "#440154", 0.3: "#31688e", 0.6: "#35b779", 0.9: "#e0a100"}


def profile(kernel, n, theta):
    """Values of a kernel between e_1 and the point at angle theta from it."""
    points = np.zeros((theta.size, n))
    points[:, 0], points[:, 1] = np.cos(theta), np.sin(theta)
    return kernel(np.eye(1, n), points)[0]


def main():
    """Draw the figure."""
    plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
    theta = np.linspace(0, np.pi, 300)
    fig, axes = plt.subplots(1, 3, figsize=(14, 4.9), sharey=True)
    for ax, n in zip(axes, DIMENSIONS, strict=True):
        for similarity, color in SIMILARITIES.items():
            heat, short = (k(Sphere()).scaled_to(np.eye(2, n), similarity) for k in (Heat, Parametrix))
            ax.plot(np.degrees(theta), profile(heat, n, theta), color=color, lw=2.6)
            ax.plot(np.degrees(theta), profile(short, n, theta), "--", color=color, lw=1.6)
            left = 93 if similarity > 0.2 else 14  # where no other curve passes
            ax.text(left, similarity + 0.02, f"t* = {heat.t_star:.2f}", color=color)
        ax.axvline(90, color="0.88", lw=1, zorder=0)
        ax.set_title(f"n = {n}", fontsize=15)
        ax.set(xlabel="angle between two points (degrees)", xlim=(0, 180), xticks=range(0, 181, 45))
    axes[0].set(ylabel="kernel (1 at angle 0)", ylim=(-0.02, 1.03))
    handles = [
        Line2D([], [], color="0.25", lw=2.6, label="exact heat kernel"),
        Line2D([], [], color="0.25", lw=1.6, ls="--", label="parametrix exp(-angle²/4t)"),
    ]
    fig.legend(handles=handles, loc="lower center", ncols=2, frameon=False, fontsize=13)
    fig.subplots_adjust(left=0.055, right=0.985, top=0.91, bottom=0.23, wspace=0.08)
    fig.savefig(TARGET, dpi=100, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main()
