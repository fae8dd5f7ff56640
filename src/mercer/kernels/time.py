"""Diffusion time, absolute or in the natural unit of the space."""

from __future__ import annotations

from typing import Any

from mercer._arrays import number
from mercer.kernels.base import Kernel


class DiffusionTime(Kernel):
    """Base class of kernels with a time: ``t``, or ``t_star`` in the natural unit of the space."""

    space: Any
    t: Any
    t_star: Any

    def continuous(self) -> tuple[str, ...]:
        """See :class:`Kernel`; the one of ``t`` and ``t_star`` that is in use."""
        return ("t",) if self.t is not None else ("t_star",)

    def range_parameter(self) -> str:
        """See :class:`Kernel`."""
        return "t" if self._unit(2) is None else self.continuous()[0]

    def time(self, n: int) -> float:
        """Diffusion time for n columns."""
        return number(self._time(n))

    def _unit(self, n: int) -> float | None:
        """The unit of ``t_star``; None if there is none."""
        return self.space.natural_time(n)

    def _time(self, n: int) -> Any:
        return self.t if self.t is not None else self.t_star * self._unit(n)

    def validate(self) -> None:
        """See :class:`Kernel`."""
        if self.t is None and self._unit(2) is None:
            owner = type(self).__name__
            raise ValueError(
                f"give {owner} the time itself: {owner}({self.space!r}, t=1.0), or take it from the "
                "data: scaled_to(X)"
            )
        super().validate()
        if self.t is not None and self.t_star != 1.0:
            raise ValueError(
                f"give t or t_star, not both: t={self.t!r}, t_star={self.t_star!r} (set t=None to use "
                "t_star; t_star=1.0 counts as not given)"
            )
