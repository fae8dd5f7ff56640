"""Triton kernels: a profile applied to tiles of a matrix product while they are in registers.

Operands are padded with zeros to whole tiles (:func:`mercer.engine.fused.rows.planes`), so that loads
need no mask.  Every program computes one tile, or one strip of
tiles in a fixed order: results are the same from run to run.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _profile(
    w, C, bits, origin, count,
    TABLE: tl.constexpr, ROOT: tl.constexpr, EXPONENTIAL: tl.constexpr, SEPARATION: tl.constexpr,
    CLAMPED: tl.constexpr, DEGREE: tl.constexpr,
):  # fmt: skip
    """Values of a profile at invariants: a polynomial or a table of short ones, or its exponential.

    The separation u is w (0), 1 - w (1) or 1 - |w| with rows of its own for negative w (2).  C holds
    scale, shift and lower end of the polynomial's argument, the least value, and what is looked up: as
    arguments, numbers would come in single precision.
    """
    floor = tl.load(C + 3)
    D = C + 4
    if TABLE:
        u = w if SEPARATION == 0 else (1.0 - w if SEPARATION == 1 else 1.0 - tl.abs(w))
        u = tl.maximum(u, 0.0)
        # The upper bits of u are the number of its row.
        whole = tl.int32 if w.dtype == tl.float32 else tl.int64
        row = ((u.to(whole, bitcast=True) >> bits) - origin).to(tl.int32)
        row = tl.minimum(tl.maximum(row, 0), count - 1)
        if SEPARATION == 2:
            row = tl.where(w < 0, row + count, row)
        place = D + row * (DEGREE + 2)
        x = u - tl.load(place)
        value = tl.load(place + DEGREE + 1)
        for k in tl.static_range(DEGREE):
            value = value * x + tl.load(place + DEGREE - k)
    else:
        x = w
        if ROOT:
            x = tl.sqrt(tl.maximum(w if SEPARATION == 0 else 1.0 - w, 0.0))
        x = x * tl.load(C) + tl.load(C + 1)
        if CLAMPED:
            x = tl.minimum(tl.maximum(x, tl.load(C + 2)), 1.0)
        value = x * 0.0 + tl.load(D + DEGREE)
        for k in tl.static_range(DEGREE):
            value = value * x + tl.load(D + DEGREE - 1 - k)
    if EXPONENTIAL:
        value = tl.exp(value)
    return tl.maximum(value, floor)


@triton.jit
def _planes(X, plane, points, k, K: tl.constexpr, SPLIT: tl.constexpr):
    """Columns ``k`` of rows of an operand, in both planes; the second is not read if there is one."""
    place = points.to(tl.int64) * K + k
    first = tl.load(X + place)
    return first, tl.load(X + plane + place) if SPLIT else first


@triton.jit
def _step(a, c, b, d, SPLIT: tl.constexpr):
    """Product of columns of two operands, each in two planes if they are ``SPLIT``.

    Planes hold numbers that the tensor cores take as they are.  The product of the second planes is
    below single precision.  In half precision the second planes are 2048 times what they stand for.
    """
    if a.dtype == tl.float16:
        total = tl.dot(c, b)
        total = tl.dot(a, d, total) * (1.0 / 2048)
        total = tl.dot(a, b, total)
    elif SPLIT:
        total = tl.dot(c, b, input_precision="tf32")
        total = tl.dot(a, d, total, input_precision="tf32")
        total = tl.dot(a, b, total, input_precision="tf32")
    else:
        total = tl.dot(a, b, input_precision="ieee", out_dtype=a.dtype)
    return total


@triton.jit
def _product(
    L, R, left_plane, right_plane, rows, columns,
    K: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Invariants of a tile.

    Each step begins a sum of its own, because the tensor cores round down when they add to a sum.
    """
    k = tl.arange(0, BK)
    precision: tl.constexpr = tl.float32 if SPLIT else tl.float64
    total = tl.zeros((rows.shape[0], columns.shape[0]), dtype=precision)
    for start in range(0, K, BK):
        a, c = _planes(L, left_plane, rows[:, None], start + k[None, :], K, SPLIT)
        b, d = _planes(R, right_plane, columns[None, :], start + k[:, None], K, SPLIT)
        total += _step(a, c, b, d, SPLIT)
    return total


@triton.jit
def _recognised(w, SAME, ALIKE, OWN, rows, columns, m, p):
    """Invariants with their exact value where rows have the same number."""
    same = tl.load(SAME + rows, mask=rows < m, other=-1)
    alike = tl.load(ALIKE + columns, mask=columns < p, other=-2)
    return tl.where(same[:, None] == alike[None, :], tl.load(OWN), w)


@triton.jit
def gram_kernel(
    L, R, OUT, G, LEFT, RIGHT, DIAGONAL, SAME, ALIKE, OWN, m, p, left_plane, right_plane, ld,
    C, bits, origin, count,
    TABLE: tl.constexpr, ROOT: tl.constexpr, EXPONENTIAL: tl.constexpr, SEPARATION: tl.constexpr,
    CLAMPED: tl.constexpr, DEGREE: tl.constexpr, K: tl.constexpr, SYMMETRIC: tl.constexpr,
    WEIGHTED: tl.constexpr, SCALED: tl.constexpr, EQUAL: tl.constexpr, EXACT: tl.constexpr,
    SPLIT: tl.constexpr, SIDE: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of ``profile(L @ R.T)``; of a symmetric matrix also the tile below the diagonal.

    ``WEIGHTED`` multiplies by the elements of G.
    """
    down, across = tl.cdiv(m, SIDE), tl.cdiv(p, SIDE)
    pid = tl.program_id(0)
    # Tiles of one group of rows follow each other: their operands stay in the cache.
    first = pid // (GROUP * across) * GROUP
    size = tl.minimum(down - first, GROUP)
    i = first + pid % (GROUP * across) % size
    j = pid % (GROUP * across) // size
    if SYMMETRIC and j < i:
        return
    rows, columns = i * SIDE + tl.arange(0, SIDE), j * SIDE + tl.arange(0, SIDE)
    inside = (rows[:, None] < m) & (columns[None, :] < p)
    place = rows[:, None].to(tl.int64) * ld + columns[None, :]
    w = _product(L, R, left_plane, right_plane, rows, columns, K, BK, SPLIT)
    if EQUAL:
        w = _recognised(w, SAME, ALIKE, OWN, rows, columns, m, p)
    value = _profile(
        w, C, bits, origin, count,
        TABLE, ROOT, EXPONENTIAL, SEPARATION, CLAMPED, DEGREE,
    )  # fmt: skip
    if SCALED:
        value *= tl.load(LEFT + rows, mask=rows < m, other=0.0)[:, None]
        value *= tl.load(RIGHT + columns, mask=columns < p, other=0.0)[None, :]
    if SYMMETRIC and i == j:
        value = tl.where(rows[:, None] <= columns[None, :], value, tl.trans(value))
    if EXACT and i == j:
        exact = tl.load(DIAGONAL + rows, mask=rows < m, other=0.0)
        value = tl.where(rows[:, None] == columns[None, :], exact[:, None], value)
    if WEIGHTED:
        value *= tl.load(G + place, mask=inside, other=0.0)
    tl.store(OUT + place, value, mask=inside)
    if SYMMETRIC and j > i:
        below = (columns[:, None] < p) & (rows[None, :] < m)
        place = columns[:, None].to(tl.int64) * ld + rows[None, :]
        tl.store(OUT + place, tl.trans(value), mask=below)


@triton.jit
def matvec_kernel(
    L, R, V, OUT, LEFT, RIGHT, DIAGONAL, SAME, ALIKE, OWN, m, p, left_plane, right_plane,
    C, bits, origin, count,
    TABLE: tl.constexpr, ROOT: tl.constexpr, EXPONENTIAL: tl.constexpr, SEPARATION: tl.constexpr,
    CLAMPED: tl.constexpr, DEGREE: tl.constexpr, K: tl.constexpr, Q: tl.constexpr, STRIP: tl.constexpr,
    SCALED: tl.constexpr, EQUAL: tl.constexpr, EXACT: tl.constexpr, SPLIT: tl.constexpr,
    HALVES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Rows of ``profile(L @ R.T) @ V`` over one strip of columns, added up in double precision.

    ``HALVES`` says that no value is far above one, and that V comes as two planes in half precision, as
    operands do: values are then split the same way.
    """
    i, part = tl.program_id(0), tl.program_id(1)
    rows, q = i * HEIGHT + tl.arange(0, HEIGHT), tl.arange(0, Q)
    total = tl.zeros((HEIGHT, Q), dtype=tl.float64)
    k = tl.arange(0, BK)
    if K == BK:  # the rows stay where they are
        a, c = _planes(L, left_plane, rows[:, None], k[None, :], K, SPLIT)
    for step in range(0, STRIP, WIDTH):
        columns = part * STRIP + step + tl.arange(0, WIDTH)
        within = columns < p
        # Strips may be longer than the rows of R: what is read twice counts nothing.
        inner = tl.minimum(columns, p - 1)
        if K == BK:
            b, d = _planes(R, right_plane, inner[None, :], k[:, None], K, SPLIT)
            w = _step(a, c, b, d, SPLIT)
        else:
            w = _product(L, R, left_plane, right_plane, rows, inner, K, BK, SPLIT)
        if EQUAL:
            w = _recognised(w, SAME, ALIKE, OWN, rows, columns, m, p)
        value = _profile(
            w, C, bits, origin, count,
            TABLE, ROOT, EXPONENTIAL, SEPARATION, CLAMPED, DEGREE,
        )  # fmt: skip
        if SCALED:
            value *= tl.load(LEFT + rows, mask=rows < m, other=0.0)[:, None]
            value *= tl.load(RIGHT + columns, mask=within, other=0.0)[None, :]
        if EXACT:
            exact = tl.load(DIAGONAL + rows, mask=rows < m, other=0.0)
            value = tl.where(rows[:, None] == columns[None, :], exact[:, None], value)
        place = columns[:, None].to(tl.int64) * Q + q[None, :]
        v = tl.load(V + place, mask=within[:, None], other=0.0)
        if HALVES:
            below = (p + columns[:, None]).to(tl.int64) * Q + q[None, :]
            rest = tl.load(V + below, mask=within[:, None], other=0.0)
            head = value.to(tl.float16)
            tail = ((value - head.to(tl.float32)) * 2048.0).to(tl.float16)
            total += _step(head, tail, v, rest, SPLIT).to(tl.float64)
        elif Q == 1:
            total += tl.sum(value * tl.trans(v), axis=1, keep_dims=True).to(tl.float64)
        else:
            precision: tl.constexpr = "tf32x3" if SPLIT else "ieee"
            part_sum = tl.dot(value, v, input_precision=precision, out_dtype=value.dtype)
            total += part_sum.to(tl.float64)
    place = (part * m + rows[:, None]).to(tl.int64) * Q + q[None, :]
    tl.store(OUT + place, total, mask=rows[:, None] < m)


@triton.jit
def pull_kernel(
    L, R, G, OUT, LEFT, RIGHT, SAME, ALIKE, OWN, m, p, left_plane, right_plane, row_step, column_step,
    C, bits, origin, count,
    TABLE: tl.constexpr, ROOT: tl.constexpr, EXPONENTIAL: tl.constexpr, SEPARATION: tl.constexpr,
    CLAMPED: tl.constexpr, DEGREE: tl.constexpr, K: tl.constexpr, WIDE: tl.constexpr, BOTH: tl.constexpr,
    STRIP: tl.constexpr, SCALED: tl.constexpr, EQUAL: tl.constexpr, OFF: tl.constexpr,
    SPLIT: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Rows of ``(G * profile(L @ R.T)) @ R`` over one strip of columns, for derivatives by rows of L.

    ``BOTH`` adds the transpose of G, for symmetric matrices of one set of rows; ``OFF`` leaves out the
    diagonal, whose value is not computed from products.  ``WIDE`` is K, rounded up to a power of two.
    """
    part = tl.program_id(1)
    rows, k = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT), tl.arange(0, WIDE)
    precision: tl.constexpr = tl.float32 if SPLIT else tl.float64
    total = tl.zeros((HEIGHT, WIDE), dtype=precision)
    for step in range(0, STRIP, WIDTH):
        columns = part * STRIP + step + tl.arange(0, WIDTH)
        inside = (rows[:, None] < m) & (columns[None, :] < p)
        # Strips may be longer than the rows of R: what is read twice counts nothing.
        inner = tl.minimum(columns, p - 1)
        w = _product(L, R, left_plane, right_plane, rows, inner, K, BK, SPLIT)
        if EQUAL:
            w = _recognised(w, SAME, ALIKE, OWN, rows, columns, m, p)
        value = _profile(
            w, C, bits, origin, count,
            TABLE, ROOT, EXPONENTIAL, SEPARATION, CLAMPED, DEGREE,
        )  # fmt: skip
        if SCALED:
            value *= tl.load(LEFT + rows, mask=rows < m, other=0.0)[:, None]
            value *= tl.load(RIGHT + columns, mask=columns < p, other=0.0)[None, :]
        at, to = rows[:, None].to(tl.int64), columns[None, :].to(tl.int64)
        weight = tl.load(G + at * row_step + to * column_step, mask=inside, other=0.0)
        if BOTH:
            weight += tl.load(G + to * row_step + at * column_step, mask=inside, other=0.0)
        value *= weight
        if OFF:
            value = tl.where(rows[:, None] == columns[None, :], 0.0, value)
        right = R + columns[:, None].to(tl.int64) * K + k[None, :]
        within = (columns[:, None] < p) & (k[None, :] < K)
        r = tl.load(right, mask=within, other=0.0)
        if SPLIT:
            rest = tl.load(right + right_plane, mask=within, other=0.0)
            r = r.to(tl.float32) + rest * (1.0 / 2048 if r.dtype == tl.float16 else 1.0)
            total = tl.dot(value, r, total, input_precision="tf32x3")
        else:
            total = tl.dot(value, r, total, input_precision="ieee", out_dtype=total.dtype)
    place = (part * m + rows[:, None]).to(tl.int64) * K + k[None, :]
    tl.store(OUT + place, total, mask=(rows[:, None] < m) & (k[None, :] < K))


@triton.jit
def apply_kernel(
    W, OUT, size, C, bits, origin, count,
    TABLE: tl.constexpr, ROOT: tl.constexpr, EXPONENTIAL: tl.constexpr, SEPARATION: tl.constexpr,
    CLAMPED: tl.constexpr, DEGREE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Values of a profile at an array of invariants."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(W + place, mask=place < size, other=0.0)
    value = _profile(w, C, bits, origin, count, TABLE, ROOT, EXPONENTIAL, SEPARATION, CLAMPED, DEGREE)
    tl.store(OUT + place, value, mask=place < size)
