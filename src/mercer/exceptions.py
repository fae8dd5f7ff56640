"""Warnings of Mercer."""


class DegenerateKernelWarning(UserWarning):
    """A kernel tells no two training points apart, or finds nothing in common between any two.

    Its Gram matrix is nearly constant or nearly the identity.  The remedy is a range that suits the
    data: ``kernel.scaled_to(X)``.
    """


class IndefiniteKernelWarning(UserWarning):
    """A Gram matrix has negative eigenvalues, so that no duality gap can certify a machine.

    Searches and comparisons do not issue it: their tables say which kernels are not positive
    semidefinite.
    """
