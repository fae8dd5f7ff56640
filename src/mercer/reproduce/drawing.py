"""Points and plots that several experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.reproduce.experiment import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of the kernels, distinguishable with colour blindness.
COLORS = ("#999999", "#E69F00", "#56B4E9", "#009E73", "#D55E00")


def great_circle(n: int, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of S^(n-1) at the angles theta from the first unit vector."""
    points = np.zeros((theta.size, n))
    points[:, 0], points[:, 1] = np.cos(theta), np.sin(theta)
    return points


def published_beside(
    ax: Axes, rows: Mapping[Any, Sequence[Measured]], names: Sequence[str], xlabel: str
) -> None:
    """Plot our scores with intervals, and the published ones as open marks to their right."""
    for i, (name, color) in enumerate(zip(names, COLORS, strict=False)):
        place = np.arange(len(rows)) + 0.16 * (i - (len(names) - 1) / 2)
        cells = [row[i] for row in rows.values()]
        values = np.array([cell.value for cell in cells])
        reach = np.array(
            [np.subtract(cell.interval or (cell.value,) * 2, cell.value) for cell in cells]
        ).T
        ax.errorbar(place, values, np.abs(reach), fmt="o", ms=5, color=color, capsize=2, label=name)
        known = [np.nan if cell.published is None else cell.published for cell in cells]
        ax.plot(place + 0.05, known, "D", ms=5, mfc="none", color=color)
    ax.set_xticks(np.arange(len(rows)), [str(key) for key in rows])
    ax.set(xlabel=xlabel, ylabel="accuracy in %")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(
        frameon=False, ncols=len(names), fontsize=9, title="ours; open marks: published",
        loc="lower center", bbox_to_anchor=(0.5, 1.0),
    )  # fmt: skip
