"""Warnings of Mercer."""


class DegenerateKernelWarning(UserWarning):
    """A kernel that sees all training points as equal, or no two of them as similar.

    Its Gram matrix is nearly constant or nearly the identity.  The remedy is a range that suits the
    data: ``kernel.scaled_to(X)``.
    """


class IndefiniteKernelWarning(UserWarning):
    """A Gram matrix has negative eigenvalues, so nothing can certify the machine.

    Searches and comparisons do not issue this warning: their tables say which kernels are not positive
    semidefinite.
    """
