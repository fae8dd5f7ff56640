"""Gradient boosting beside the kernels of a table of several kinds."""

import numpy as np
import pandas as pd
import pytest

from mercer.selection import compare, yardstick

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(60, 3)), columns=["a", "b", "c"]).assign(
    town=RNG.choice(["u", "v", None], size=60), d=RNG.integers(4, size=60) / 2
)
LABELS = np.where(TABLE.a + TABLE.d > 0.7, "yes", "no")


def test_empty_bins_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 20 000 columns of counts nearly all of the time, minutes, went into such bins."""
    found = compare(TABLE, LABELS, folds=3).yardstick
    used = []
    few = yardstick._bins
    monkeypatch.setattr(yardstick, "_bins", lambda *given: used.append(few(*given)) or 255)
    usual = compare(TABLE, LABELS, folds=3).yardstick
    assert used == [60]
    assert found is not None
    assert usual is not None
    np.testing.assert_array_equal(found.scores, usual.scores)


def test_it_counts_as_work_and_can_be_stopped() -> None:
    """The bar was full before it began, and Ctrl-C lost all that was finished."""
    kernels, shares = [], []

    def stop_in_the_end(done: int, total: int) -> None:
        if len(kernels) == 5:
            raise KeyboardInterrupt
        shares.append(done / total)

    part = compare(TABLE, LABELS, folds=3, progress=stop_in_the_end, finished=kernels.append)
    assert 0.7 < shares[-1] < 0.9
    assert len(part.scores) == 5
    assert part.yardstick is None
    assert part.unfinished == ("gradient boosting",)
    assert "interrupted before gradient boosting" in part.notes[-1]
