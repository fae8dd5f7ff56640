"""Kernels of unit vectors, with hyperparameters as GPyTorch has them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from mercer import kernels
from mercer.engine import GramOptions, engine_for
from mercer.engine.equal import row_keys
from mercer.gpytorch.operator import DENSE, GramOperator
from mercer.kernels.base import check_spherical
from mercer.kernels.realised import RealisedKernel
from mercer.spaces import Euclidean, RadialSpace, Space, SphericalSpace
from mercer.spaces.realisations.base import parameters

with warnings.catch_warnings():
    # GPyTorch compiles functions in a way that torch deprecates, which is not our users' concern.
    warnings.simplefilter("ignore", DeprecationWarning)
    import gpytorch
    from gpytorch.constraints import GreaterThan, Interval
    from gpytorch.priors import Prior

__all__ = ["ArcCosine", "Heat", "Matern"]

#: Smallest time and length scale without a constraint: there is no table at zero, and tables of Matern
#: close to it take long.
_LEAST = 1e-4


class ZonalKernel(gpytorch.kernels.Kernel):
    """Base of the kernels of unit vectors, ``k(x, y) = s(x) s(y) f(x.y)``.

    Parameters
    ----------
    law : RealisedKernel
        The kernel of :mod:`mercer.kernels` that defines f; its hyperparameter is a placeholder.
    space : RadialSpace
        What a row means.
    **options
        Options of ``gpytorch.kernels.Kernel``.
    """

    #: A function of the angle between two rows, not of their difference.
    is_stationary = False
    active_dims: torch.Tensor | None
    #: Name of the hyperparameter, if there is one.
    _form: str | None = None

    def __init__(self, law: RealisedKernel, space: RadialSpace, **options: Any) -> None:
        super().__init__(**options)
        self.law, self.space = law, space

    def forward(
        self,
        x1: torch.Tensor,
        x2: torch.Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> torch.Tensor | GramOperator:
        """Gram matrix (..., N, M) of rows (..., N, n) and (..., M, n), or its diagonal.

        With many rows and without a batch, the result is an operator.  It costs a matrix product, one
        table lookup per pair (two in training), and a new table for each new value of the
        hyperparameter.
        """
        value, batch = self._hyperparameter(), tuple(self.batch_shape)
        one = x1 is x2
        if (
            not (diag or last_dim_is_batch or batch)
            and x1.ndim == x2.ndim == 2
            and (max(len(x1), len(x2)) > DENSE)
        ):
            return self._operator(x1, x2, one, value)
        if last_dim_is_batch:
            x1, x2 = (x.transpose(-1, -2).unsqueeze(-1) for x in (x1, x2))
            value, batch = None if value is None else value.unsqueeze(-3), (*batch, 1)
        left, left_scale = self._embed(x1, "x1")
        right, right_scale = (left, left_scale) if one else self._embed(x2, "x2")
        # A point meets itself at exactly one.  But k(x, y) at equal x and y has derivatives in each.
        moving = torch.is_grad_enabled() and (x1.requires_grad or x2.requires_grad)
        w = _cosines(left, right, one, diag, moving)
        pairs = 1 if diag else 2
        if diag and value is not None:
            value = value.squeeze(-1)
        outer = torch.broadcast_shapes(batch, w.shape[:-pairs])
        values = self._values(w.expand(*outer, *w.shape[-pairs:]), left, value)
        if left_scale is None or right_scale is None:
            return values
        if diag:
            return values * left_scale * right_scale
        return values * left_scale[..., :, None] * right_scale[..., None, :]

    def _operator(
        self, x1: torch.Tensor, x2: torch.Tensor, one: bool, value: torch.Tensor | None
    ) -> GramOperator:
        """The Gram matrix of many rows, as an operator."""
        rows = (self._rows(x1),) if one or torch.equal(x1, x2) else (self._rows(x1), self._rows(x2))
        range_ = () if value is None else (value.reshape(()),)
        return GramOperator(
            *rows, torch.ones((), dtype=x1.dtype, device=x1.device), *range_, law=self.law
        )

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        """Rows as the law takes them."""
        return x

    def _values(self, w: torch.Tensor, x: torch.Tensor, value: torch.Tensor | None) -> torch.Tensor:
        """The law at cosines w of vectors like x, with one hyperparameter per part of the batch."""
        if value is not None and value.numel() > 1:
            axis = next(i for i in range(-value.ndim, 0) if value.shape[i] > 1)
            parts = zip(w.split(1, axis), value.split(1, axis), strict=True)
            return torch.cat([self._values(part, x, own) for part, own in parts], axis)
        law = copy.copy(self.law)
        if value is not None:
            setattr(law, law.continuous()[0], value.reshape(()))
        rows = x.reshape(-1, x.shape[-1])
        # Tables are applied to matrices; a batch is one with more rows.
        values = engine_for(w).apply(
            w.reshape(-1, w.shape[-1]),
            law.profile(rows.shape[1]),
            GramOptions(parameters=parameters(law.moving(rows, rows.shape[1]))),
        )
        return values.reshape(w.shape)

    def _hyperparameter(self) -> torch.Tensor | None:
        """The hyperparameter, of shape batch_shape + (1, 1), or None."""
        return None if self._form is None else self._get(self._form)

    def _embed(self, x: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Unit vectors in place of rows, and the factors s."""
        rows = self.space.check(x.reshape(-1, x.shape[-1]), name)
        points, scales = self._points(rows, name)
        points = points.reshape(*x.shape[:-1], -1)
        return points, None if scales is None else scales.reshape(x.shape[:-1])

    def _points(self, rows: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.space.embed(rows)[0], None

    def _register(
        self, name: str, value: float, prior: Prior | None, constraint: Interval | None
    ) -> None:
        """Make a hyperparameter a GPyTorch parameter called ``raw_<name>``."""
        self.register_parameter(f"raw_{name}", torch.nn.Parameter(torch.zeros(*self.batch_shape, 1, 1)))
        self.register_constraint(f"raw_{name}", constraint or GreaterThan(_LEAST))
        if prior is not None:
            if not isinstance(prior, Prior):
                raise TypeError(f"{name}_prior must be a gpytorch.priors.Prior, got {prior!r}")
            # Functions of the kernel that can be pickled, unlike those made from a name by GPyTorch.
            self.register_prior(
                f"{name}_prior",
                prior,
                partial(ZonalKernel._get, name=name),
                partial(ZonalKernel._set, name=name),
            )
        self._set(value, name)

    def _set(self, value: Any, name: str) -> None:
        if name != self._form:
            raise ValueError(f"this kernel has its range as {self._form}; set that")
        raw = getattr(self, f"raw_{name}")
        constraint = getattr(self, f"raw_{name}_constraint")
        value = torch.as_tensor(value, dtype=raw.dtype, device=raw.device)
        if not bool(torch.isfinite(value).all()) or not constraint.check(value):
            raise ValueError(f"{name} = {value.tolist()} is not inside its constraint, {constraint}")
        self.initialize(**{f"raw_{name}": constraint.inverse_transform(value)})

    def _get(self, name: str) -> torch.Tensor | None:
        if name != self._form:
            return None
        return getattr(self, f"raw_{name}_constraint").transform(getattr(self, f"raw_{name}"))

    def __getitem__(self, index: Any) -> ZonalKernel:
        with self._all_columns() as columns:
            part = super().__getitem__(index)
        part.active_dims = columns
        return part

    def expand_batch(self, *sizes: Any) -> ZonalKernel:
        """See ``gpytorch.kernels.Kernel``."""
        with self._all_columns() as columns:
            expanded = super().expand_batch(*sizes)
        expanded.active_dims = columns
        return expanded

    @contextmanager
    def _all_columns(self) -> Iterator[torch.Tensor | None]:
        """Hide ``active_dims`` from GPyTorch, which treats all buffers as parts of the batch."""
        columns, self.active_dims = self.active_dims, None
        try:
            yield columns
        finally:
            self.active_dims = columns

    def extra_repr(self) -> str:
        """Space and options."""
        return repr(self.space)


def _cosines(
    left: torch.Tensor, right: torch.Tensor, one: bool, diag: bool, moving: bool
) -> torch.Tensor:
    """Inner products of unit vectors, all pairs or those of the diagonal; exact where they are one."""
    if diag:
        w = torch.ones_like(left[..., 0]) if one else (left * right).sum(-1)
        same = None if one else (left == right).all(-1)
    else:
        w = left @ right.mT
        same = _row_keys(left)[..., :, None] == _row_keys(right)[..., None, :]
        if one:
            w.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    if same is None or not bool(same.any()):
        return w
    # With derivatives those of the product are kept, also where the value is known.
    return w + torch.where(same, 1.0 - w.detach(), 0.0) if moving else w.masked_fill(same, 1.0)


def _row_keys(x: torch.Tensor) -> torch.Tensor:
    """One number for each row (..., N) of (..., N, n), the same for equal rows."""
    keys = row_keys(x.detach().reshape(-1, x.shape[-1])).view(np.int64)
    return torch.as_tensor(keys, device=x.device).reshape(x.shape[:-1])


def _range(form: str, text: str) -> property:
    """A hyperparameter as a property."""
    return property(
        lambda kernel: kernel._get(form), lambda kernel, value: kernel._set(value, form), doc=text
    )


def _only_for(form: str, options: dict[str, Any]) -> Any:
    """Prior and constraint of the chosen form of the range; those of the other form are refused."""
    (other,) = options.keys() - {form}
    if options[other] != (None, None):
        raise ValueError(
            f"{other}_prior and {other}_constraint are for a range given as {other}; this one is given "
            f"as {form}"
        )
    return options[form]


class Heat(ZonalKernel):
    """The exact heat kernel on the sphere or the simplex, for GPyTorch.

    ``k(x, y) = sum_l exp(-l (l + n - 2) t) N_l P_l(x.y)`` over its value at equal points; see
    :class:`mercer.kernels.Heat`.

    The time is the parameter ``raw_t_star``, or ``raw_t`` if ``t`` is given.  A new time takes a few
    milliseconds.

    Parameters
    ----------
    space : Sphere or Simplex
    t : float, optional
        Initial absolute time.
    t_star : float
        Initial time in units of ``log(n) / n``, used unless ``t`` is given.
    normalized : bool
        Divide by the value at equal points.
    t_prior, t_star_prior : gpytorch.priors.Prior, optional
        Prior of the time, in the form it is given.
    t_constraint, t_star_constraint : gpytorch.constraints.Interval, optional
        Range of the time; by default from 1e-4.
    batch_shape : torch.Size
        A time of its own for each part of a batch.
    active_dims : sequence of int, optional
        Columns to use.

    Examples
    --------
    >>> import torch
    >>> from mercer.gpytorch import Heat
    >>> from mercer.spaces import Simplex
    >>> kernel = Heat(Simplex(), t_star=0.5).double()
    >>> counts = torch.tensor([[3.0, 0, 1], [2, 1, 1], [0, 5, 0]], dtype=torch.float64)
    >>> kernel(counts).to_dense().detach().round(decimals=4)
    tensor([[1.0000, 0.6972, 0.0433],
            [0.6972, 1.0000, 0.2464],
            [0.0433, 0.2464, 1.0000]], dtype=torch.float64)
    """

    def __init__(
        self,
        space: SphericalSpace,
        t: float | None = None,
        t_star: float = 1.0,
        normalized: bool = True,
        t_prior: Prior | None = None,
        t_star_prior: Prior | None = None,
        t_constraint: Interval | None = None,
        t_star_constraint: Interval | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008 (sizes are immutable)
        active_dims: Any = None,
    ) -> None:
        law = kernels.Heat(space, t=t, t_star=t_star, normalized=normalized)
        check_spherical(law)
        law.require_levels()
        super().__init__(law, space, batch_shape=batch_shape, active_dims=active_dims)
        options = {"t": (t_prior, t_constraint), "t_star": (t_star_prior, t_star_constraint)}
        (self._form,) = law.continuous()
        self._register(self._form, getattr(law, self._form), *_only_for(self._form, options))

    t = _range("t", "The absolute time, or None if ``t_star`` was given.")
    t_star = _range("t_star", "The time in units of ``log(n) / n``, or None if ``t`` was given.")


class Matern(ZonalKernel):
    """The Matern kernel of the sphere or the simplex, for GPyTorch.

    ``k(x, y) = sum_l a_l N_l P_l(x.y)`` with
    ``a_l = (2 nu / lengthscale^2 + l (l + n - 2))^(-nu - (n - 1) / 2)``, over its value at equal points;
    see :class:`mercer.kernels.Matern`.

    The mean time is the parameter ``raw_t_star``, or the length scale ``raw_lengthscale`` if that is
    given.  In few dimensions a new one takes some tenths of a second; :class:`Heat` is faster to train.

    Parameters
    ----------
    space : Sphere or Simplex
    nu : float
        Smoothness, any positive number; it is not learned.
    length_scale : float, optional
        Initial angle over which the kernel falls.
    t_star : float
        Initial mean diffusion time in units of ``log(n) / n``, used unless ``length_scale`` is given.
    normalized : bool
        Divide by the value at equal points.
    lengthscale_prior, t_star_prior : gpytorch.priors.Prior, optional
        Prior of the range, in the form it is given.
    lengthscale_constraint, t_star_constraint : gpytorch.constraints.Interval, optional
        Range for it; by default from 1e-4.
    batch_shape : torch.Size
        A range of its own for each part of a batch.
    active_dims : sequence of int, optional
        Columns to use.

    Examples
    --------
    >>> import torch
    >>> from mercer.gpytorch import Matern
    >>> from mercer.spaces import Sphere
    >>> kernel = Matern(Sphere(), nu=1.5, length_scale=0.5)
    >>> kernel(torch.tensor([[0.0, 0, 1], [0, 1, 1]])).to_dense().detach().round(decimals=4)
    tensor([[1.0000, 0.2657],
            [0.2657, 1.0000]])
    """

    def __init__(
        self,
        space: SphericalSpace,
        nu: float = 2.5,
        length_scale: float | None = None,
        t_star: float = 1.0,
        normalized: bool = True,
        lengthscale_prior: Prior | None = None,
        t_star_prior: Prior | None = None,
        lengthscale_constraint: Interval | None = None,
        t_star_constraint: Interval | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008 (sizes are immutable)
        active_dims: Any = None,
    ) -> None:
        law = kernels.Matern(
            space, nu=nu, length_scale=length_scale, t_star=t_star, normalized=normalized
        )
        check_spherical(law)
        law.require_levels()
        options = {
            "lengthscale": (lengthscale_prior, lengthscale_constraint),
            "t_star": (t_star_prior, t_star_constraint),
        }
        # GPyTorch asks for it when it makes the kernel.
        self._form = "t_star" if length_scale is None else "lengthscale"
        chosen = _only_for(self._form, options)
        own: dict[str, Any] = {}
        if self.has_lengthscale:
            own["lengthscale_prior"] = chosen[0]
            own["lengthscale_constraint"] = chosen[1] or GreaterThan(_LEAST)
        super().__init__(law, space, batch_shape=batch_shape, active_dims=active_dims, **own)
        if self.has_lengthscale:
            self._set(length_scale, "lengthscale")
        else:
            self._register("t_star", t_star, *chosen)

    t_star = _range(
        "t_star", "The mean time in units of ``log(n) / n``, or None if a length scale was given."
    )

    @property
    def has_lengthscale(self) -> bool:
        """Whether the range is given as a length scale."""
        return self._form == "lengthscale"

    def _set_lengthscale(self, value: Any) -> None:  # called by GPyTorch
        self._set(value, "lengthscale")

    def extra_repr(self) -> str:
        """Space and smoothness."""
        return f"{self.space!r}, nu={self.law.nu}"


class ArcCosine(ZonalKernel):
    """The arc-cosine kernel, for GPyTorch: infinitely wide networks of step or ReLU units.

    ``k(x, y) = |x|^p |y|^p s(theta)``; see :class:`mercer.kernels.ArcCosine`.  On sphere and simplex
    rows have length one, and the kernel is the shape s alone.

    It has nothing to learn; put it into a ``ScaleKernel``.

    Parameters
    ----------
    space : Euclidean, Sphere or Simplex
        Rows with their lengths, directions, or compositions.
    order : {0, 1, 2}
        Degree of the units.
    depth : int
        Number of layers.
    normalized : bool
        The shape s alone, without the norms.
    batch_shape : torch.Size
        Shape that results are expanded to.
    active_dims : sequence of int, optional
        Columns to use.

    Examples
    --------
    >>> import torch
    >>> from mercer.gpytorch import ArcCosine
    >>> ArcCosine(order=1)(torch.tensor([[1.0, 0.0], [0.0, 2.0]])).to_dense().round(decimals=4)
    tensor([[1.0000, 0.6366],
            [0.6366, 4.0000]])
    """

    law: kernels.ArcCosine

    def __init__(
        self,
        space: Euclidean | SphericalSpace = Euclidean(),  # noqa: B008 (spaces are frozen)
        order: int = 1,
        depth: int = 1,
        normalized: bool = False,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008 (sizes are immutable)
        active_dims: Any = None,
    ) -> None:
        if not isinstance(space, Space):
            raise TypeError(f"space must be Euclidean(), Sphere() or Simplex(), got {space!r}")
        space.require_vectors()
        law = kernels.ArcCosine(order, depth, normalized)
        law.require_levels()
        super().__init__(law, space, batch_shape=batch_shape, active_dims=active_dims)
        # GPyTorch reads precision, device and batch shape off the parameters: there must be one.
        place = torch.nn.Parameter(torch.empty(*self.batch_shape, 0), requires_grad=False)
        self.register_parameter("place", place)

    def _points(self, rows: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self.space.directions() == self.space:
            return super()._points(rows, name)
        return self.law.directions(rows, name), self.law.row_scale(rows)

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.space.directions() != self.space else self.space.embed(self.space.check(x))[0]

    def extra_repr(self) -> str:
        """Space and law."""
        return f"{self.space!r}, {self.law!r}"
