"""Diffusion time, absolute or in the unit that suits the dimension."""

from __future__ import annotations

import math
from typing import Any

from mercer.kernels.base import Kernel, check_positive, number


class DiffusionTime(Kernel):
    """A kernel with a time: ``t``, or ``t_star`` in units of ``log(n) / n``.

    On the sphere the heat kernel turns from local to constant around ``t = log(n) / n``, so t_star of
    order one is the place to look in every dimension.
    """

    t: Any
    t_star: Any

    def continuous(self) -> tuple[str, ...]:
        """The time, in the form it was given."""
        return ("t",) if self.t is not None else ("t_star",)

    def time(self, n: int) -> float:
        """Diffusion time in dimension n."""
        return number(self._time(n))

    def _time(self, n: int) -> Any:
        return self.t if self.t is not None else self.t_star * (math.log(n) / n)

    def _check_time(self) -> None:
        check_positive(self, *self.continuous())
        if self.t is not None and self.t_star != 1.0:
            raise ValueError(
                f"give t or t_star, not both: t={self.t!r}, t_star={self.t_star!r} "
                "(set t=None to use t_star; t_star=1 counts as not given)"
            )
