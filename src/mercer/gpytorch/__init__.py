"""Kernels of the sphere and the simplex for GPyTorch and BoTorch.

:class:`Heat`, :class:`Matern` and :class:`ArcCosine` are ``gpytorch.kernels.Kernel`` with the values of
the kernels of the same names in :mod:`mercer.kernels`.  Their hyperparameters are GPyTorch parameters
with constraints and priors; inputs may be batches; gradients with respect to inputs and hyperparameters
come from tables, not from a differentiated series.

Gram matrices with more than 4096 rows are never made: GPyTorch gets an operator whose products, and
derivatives of products, take memory in proportion to the rows.
"""

from mercer.gpytorch.kernels import ArcCosine, Heat, Matern

__all__ = ["ArcCosine", "Heat", "Matern"]
