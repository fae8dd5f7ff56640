"""Loops of the multinomial posterior: moments of the Bhattacharyya coefficient of two Dirichlet laws.

With gamma variables in place of Dirichlet ones ``w`` becomes a sum of independent terms, and its
moments are coefficients of a product of power series, one for each category.  All numbers are
positive: nothing cancels.
"""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit

#: Terms that add less than this to a value between 0 and 1, and far less in total, are dropped.
_NEGLIGIBLE = 1e-20


@jit()
def category_series(b, root, c, other_root, inverse, steps, reach, out):
    """Moments ``E g^(m/2) E h^(m/2) / m!`` of gamma variables of shapes b and c, and how many matter.

    ``inverse`` holds the reciprocal scales of the two rows.  A term of order m enters the result
    with a factor of at most ``reach^m``.
    """
    out[0] = 1.0
    # One row at a time: the product of two reciprocal scales may underflow.
    out[1] = (root * np.sqrt(inverse[0])) * (other_root * np.sqrt(inverse[1]))
    power = reach * reach
    factor = power
    # The limit of the ratio of terms: if it is below one, small terms are followed by smaller ones.
    fading = 0.25 * power * inverse[0] * inverse[1] < 1.0
    for m in range(out.size - 2):
        out[m + 2] = out[m] * ((b + 0.5 * m) * inverse[0]) * ((c + 0.5 * m) * inverse[1]) * steps[m]
        small = out[m + 1] * factor < _NEGLIGIBLE * reach and out[m + 2] * factor < _NEGLIGIBLE
        if small and fading and out[m + 2] * power < out[m]:
            return m + 1
        factor *= reach
    return out.size


@jit(fastmath={"contract", "reassoc"})
def multiply(product, factor, terms):
    """Multiply a power series by the first terms of another that begins with 1, in place."""
    # Unsigned, since numba would count negative indices from the end.
    one = np.uint64(1)
    k = np.uint64(product.size)
    while k > one:
        k -= one
        total = product[k]
        for m in range(one, min(k + one, np.uint64(terms))):
            total += factor[m] * product[k - m]
        product[k] = total


@jit()
def multiply_power(product, factor, terms, exponent, spare):
    """Multiply a power series by a whole power of another, by squaring; the other is used up."""
    factor[terms:] = 0.0
    while exponent > 0:
        if exponent & 1:
            multiply(product, factor, terms)
        exponent >>= 1
        if exponent:
            spare[:] = factor
            multiply(factor, spare, terms)
            terms = min(2 * terms - 1, factor.size)


@jit()
def pair_series(i, j, P, Q, n, usual, steps, product, factor, spare):
    """Product over all categories for row i of P and row j of Q, in ``product``.

    P and Q are the arrays of CSR matrices of shapes ``b = x + alpha`` with the mean roots of their
    gamma variables, and for each row its reciprocal scale and its reach; ``usual`` holds shape and mean
    root of a zero count and of the most frequent other one.  Categories where both rows are zero, or
    one is and the other has the frequent count, are only counted: they enter as powers.
    """
    starts, columns, shapes, roots, inverses, reaches = P
    their_starts, their_columns, their_shapes, their_roots, their_inverses, their_reaches = Q
    inverse = (inverses[i], their_inverses[j])
    reach = product.size * reaches[i] * their_reaches[j]
    alpha, bare, frequent, frequent_root = usual
    product[:] = 0.0
    product[0] = 1.0
    here, there = starts[i], their_starts[j]
    zeros, ours, theirs = n, 0, 0
    while here < starts[i + 1] or there < their_starts[j + 1]:
        column = columns[here] if here < starts[i + 1] else n
        other = their_columns[there] if there < their_starts[j + 1] else n
        b, root, c, other_root = alpha, bare, alpha, bare
        if column <= other:
            b, root = shapes[here], roots[here]
            here += 1
        if other <= column:
            c, other_root = their_shapes[there], their_roots[there]
            there += 1
        zeros -= 1
        if column < other and b == frequent:
            ours += 1
        elif other < column and c == frequent:
            theirs += 1
        else:
            terms = category_series(b, root, c, other_root, inverse, steps, reach, factor)
            multiply(product, factor, terms)
    terms = category_series(frequent, frequent_root, alpha, bare, inverse, steps, reach, factor)
    multiply_power(product, factor, terms, ours + theirs, spare)
    terms = category_series(alpha, bare, alpha, bare, inverse, steps, reach, factor)
    multiply_power(product, factor, terms, zeros, spare)


@jit()
def posterior_rows(begin, end, P, Q, n, usual, steps, norms, their_norms, polynomial, symmetric, out):
    """Expectations of a polynomial of w for rows ``begin:end`` of P and all of Q.

    ``polynomial[k]`` is the coefficient of ``w^k`` times ``k!``; ``norms[i, k]`` turns gamma variables
    into Dirichlet ones.  Only half of a symmetric result is computed.
    """
    product, factor, spare = np.empty((3, polynomial.size))
    for i in range(begin, end):
        for j in range(i if symmetric else 0, out.shape[1]):
            pair_series(i, j, P, Q, n, usual, steps, product, factor, spare)
            total = 0.0
            for k in range(polynomial.size):
                total += polynomial[k] * product[k] * norms[i, k] * their_norms[j, k]
            out[i, j] = total
            if symmetric:
                out[j, i] = total


@jit()
def posterior_diagonal(begin, end, P, n, usual, steps, norms, polynomial, out):
    """Expectations of a polynomial of w for each row with itself; see :func:`posterior_rows`."""
    product, factor, spare = np.empty((3, polynomial.size))
    for i in range(begin, end):
        pair_series(i, i, P, P, n, usual, steps, product, factor, spare)
        total = 0.0
        for k in range(polynomial.size):
            total += polynomial[k] * product[k] * norms[i, k] * norms[i, k]
        out[i] = total
