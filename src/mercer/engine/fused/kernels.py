"""Triton kernels: profiles applied to tiles of matrix products while they are in registers.

Operands are padded with zeros to whole tiles (:func:`mercer.engine.fused.rows.planes`), so that loads
need no mask.  Every program computes one tile, or one strip of tiles in a fixed order: results are the
same from run to run.

A term is a matrix ``profile(L @ R.T)``.  ``TERM`` holds its operands and the distances of their
planes, factors of rows and columns, numbers of equal rows with their invariant, the diagonal, and the
form of the profile; absent parts are None.  ``HOW`` holds its constants: columns, columns of a step,
whether operands are split into two planes, and those of the profile.

A term may also be the exponential of a sum over factors of a product of spaces.  Its operands are then
coordinates and scales of both sets of rows (:class:`~mercer.engine.base.FactorRows`), and its constants
the number of factors, the coordinates of each, the number 2, those of the profile, and whether
coordinates are periodic.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _profile(w, FORM, HOW):
    """Values of a profile at invariants: a polynomial or a table of short ones, or its exponential.

    The separation u is w (0), 1 - w (1) or 1 - |w| with rows of its own for negative w (2); w may also
    be the number of a value in a list (3).  The first of FORM holds scale, shift and lower end of the
    polynomial's argument, the least value, the value at equal points, and what is looked up: plain
    arguments would be passed in single precision.
    """
    TABLE: tl.constexpr = HOW[0]
    ROOT: tl.constexpr = HOW[1]
    EXPONENTIAL: tl.constexpr = HOW[2]
    SEPARATION: tl.constexpr = HOW[3]
    CLAMPED: tl.constexpr = HOW[4]
    DEGREE: tl.constexpr = HOW[5]
    C = FORM[0]
    floor = tl.load(C + 3)
    D = C + 5
    if TABLE and SEPARATION == 3:
        place = tl.minimum(tl.maximum(w + 0.5, 0.0).to(tl.int32), FORM[3] - 1)
        value = tl.load(D + place)
    elif TABLE:
        u = w if SEPARATION == 0 else (1.0 - w if SEPARATION == 1 else 1.0 - tl.abs(w))
        u = tl.maximum(u, 0.0)
        # The upper bits of u are the number of its row.
        whole = tl.int32 if w.dtype == tl.float32 else tl.int64
        row = ((u.to(whole, bitcast=True) >> FORM[1]) - FORM[2]).to(tl.int32)
        row = tl.minimum(tl.maximum(row, 0), FORM[3] - 1)
        if SEPARATION == 2:
            row = tl.where(w < 0, row + FORM[3], row)
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
        first: tl.constexpr = 1 if DEGREE > 0 else 0
        value = x * (tl.load(D + DEGREE) if first else 0.0) + tl.load(D + DEGREE - first)
        for k in tl.static_range(first, DEGREE):
            value = value * x + tl.load(D + DEGREE - 1 - k)
    if EXPONENTIAL:
        value = tl.exp(value)
    return tl.maximum(value, floor)


@triton.jit
def _profiles(w, FORM, HOW):
    """Values of a profile, or of the product of two, the second of which comes last in FORM and HOW."""
    value = _profile(w, FORM, HOW)
    if len(HOW) > 6:
        # What has underflowed is zero, whatever the other factor.
        value = tl.where(value == 0.0, 0.0, value * _profile(w, FORM[4], HOW[6]))
    return value


@triton.jit
def _own(FORM, HOW):
    """Exact value at equal points, or NaN."""
    own = tl.load(FORM[0] + 4)
    if len(HOW) > 6:
        own *= tl.load(FORM[4][0] + 4)
    return own


@triton.jit
def _planes(X, plane, points, k, K: tl.constexpr, SPLIT: tl.constexpr):
    """Columns ``k`` of rows of an operand, in both planes; the second is not read if there is one."""
    place = points.to(tl.int64) * K + k
    first = tl.load(X + place)
    return first, tl.load(X + plane + place) if SPLIT else first


@triton.jit
def _step(a, c, b, d):
    """Product of columns of two operands, each in two planes.

    Planes hold numbers that the tensor cores multiply without rounding.  The product of the second
    planes is below single precision.  In half precision the second planes are 2048 times what they
    stand for.
    """
    if a.dtype == tl.float16:
        total = tl.dot(c, b)
        total = tl.dot(a, d, total) * (1.0 / 2048)
        total = tl.dot(a, b, total)
    else:
        total = tl.dot(c, b, input_precision="tf32")
        total = tl.dot(a, d, total, input_precision="tf32")
        total = tl.dot(a, b, total, input_precision="tf32")
    return total


@triton.jit
def _product(OPERANDS, rows, columns, HOW):
    """Invariants of a tile.

    In single precision each step begins a sum of its own, because the tensor cores round down when they
    add to a sum.
    """
    K: tl.constexpr = HOW[0]
    BK: tl.constexpr = HOW[1]
    SPLIT: tl.constexpr = HOW[2]
    k = tl.arange(0, BK)
    precision: tl.constexpr = tl.float32 if SPLIT else tl.float64
    total = tl.zeros((rows.shape[0], columns.shape[0]), dtype=precision)
    for start in range(0, K, BK):
        a, c = _planes(OPERANDS[0], OPERANDS[2], rows[:, None], start + k[None, :], K, SPLIT)
        b, d = _planes(OPERANDS[1], OPERANDS[3], columns[None, :], start + k[:, None], K, SPLIT)
        if SPLIT:
            total += _step(a, c, b, d)
        else:
            total = tl.dot(a, b, total, input_precision="ieee", out_dtype=precision)
    return total


@triton.jit
def _values(w, TERM, rows, columns, m, p, HOW):
    """Values of a term from the invariants of a tile, except on the diagonal."""
    FACTORS = TERM[1]
    NUMBERS = TERM[2]
    if NUMBERS is not None:  # equal rows have their exact invariant
        same = tl.load(NUMBERS[0] + rows, mask=rows < m, other=-1)
        alike = tl.load(NUMBERS[1] + columns, mask=columns < p, other=-2)
        w = tl.where(same[:, None] == alike[None, :], tl.load(NUMBERS[2]), w)
    value = _profiles(w, TERM[4], HOW[3])
    if NUMBERS is not None:  # and their exact value, where a polynomial would round it
        own = tl.zeros_like(value) + _own(TERM[4], HOW[3])
        value = tl.where((same[:, None] == alike[None, :]) & (own == own), own, value)
    if FACTORS is not None:
        value *= tl.load(FACTORS[0] + rows, mask=rows < m, other=0.0)[:, None]
        value *= tl.load(FACTORS[1] + columns, mask=columns < p, other=0.0)[None, :]
    return value


@triton.jit
def _exact(value, DIAGONAL, rows, columns, m):
    """Values with those of the diagonal put in."""
    exact = tl.load(DIAGONAL + rows, mask=rows < m, other=0.0)
    return tl.where(rows[:, None] == columns[None, :], exact[:, None], value)


@triton.jit
def _gap(a, b, here, there, PERIODIC: tl.constexpr):
    """Differences of a coordinate of rows and columns; two are none if it is periodic."""
    left, right = tl.load(a, mask=here, other=0.0), tl.load(b, mask=there, other=0.0)
    gap = left[:, None] - right[None, :]
    if PERIODIC:
        gap = tl.where(gap > 1.0, gap - 2.0, tl.where(gap < -1.0, gap + 2.0, gap))
    return gap


@triton.jit
def _over_factors(TERM, rows, columns, m, p, HOW):
    """Values of a term that is the exponential of a sum over factors."""
    a, b, s, t = TERM[0][0] + rows, TERM[0][1] + columns, TERM[0][2] + rows, TERM[0][3] + columns
    here, there = rows < m, columns < p
    precision: tl.constexpr = TERM[0][0].dtype.element_ty
    total = tl.zeros((rows.shape[0], columns.shape[0]), dtype=precision)
    for _ in range(HOW[0]):
        u = tl.zeros_like(total)
        for _ in tl.static_range(HOW[1]):
            gap = _gap(a, b, here, there, HOW[4])
            u += gap * gap
            a += m
            b += p
        u *= tl.load(s, mask=here, other=0.0)[:, None] * tl.load(t, mask=there, other=0.0)[None, :]
        s += m
        t += p
        total += _profile(u, TERM[4], HOW[3])
    return tl.exp(total)


@triton.jit
def gram_kernel(
    SUM, WEIGHTS, OUT, G, m, p, ld, HOW,
    SYMMETRIC: tl.constexpr, TOTAL: tl.constexpr, HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of a sum of products of terms; of a symmetric matrix also the tile below the diagonal.

    WEIGHTS are those of the products, or None.  Elements are multiplied by those of G, if it is there;
    with ``TOTAL`` their sum is stored instead of them, one number for each tile.
    """
    down, across = tl.cdiv(m, HEIGHT), tl.cdiv(p, WIDTH)
    pid = tl.program_id(0)
    # Tiles of one group of rows are consecutive, so their operands stay in the cache.
    first = pid // (GROUP * across) * GROUP
    size = tl.minimum(down - first, GROUP)
    i = first + pid % (GROUP * across) % size
    j = pid % (GROUP * across) // size
    if SYMMETRIC and j < i:
        return
    rows, columns = i * HEIGHT + tl.arange(0, HEIGHT), j * WIDTH + tl.arange(0, WIDTH)
    inside = (rows[:, None] < m) & (columns[None, :] < p)
    place = rows[:, None].to(tl.int64) * ld + columns[None, :]
    for s in tl.static_range(len(HOW)):
        for t in tl.static_range(len(HOW[s])):
            TERM = SUM[s][t]
            if HOW[s][t][2] == 2:
                factor = _over_factors(TERM, rows, columns, m, p, HOW[s][t])
            else:
                w = _product(TERM[0], rows, columns, HOW[s][t])
                factor = _values(w, TERM, rows, columns, m, p, HOW[s][t])
            # Tiles of symmetric matrices are square; which is on the diagonal is known at run time.
            if TERM[3] is not None:  # noqa: SIM102
                if i == j:
                    factor = _exact(factor, TERM[3], rows, columns, m)
            if t == 0:
                product = factor
            else:
                product *= factor
        if len(HOW[s]) == 0:
            product = tl.full((HEIGHT, WIDTH), 1.0, dtype=OUT.dtype.element_ty)
        if WEIGHTS is not None:
            product *= tl.load(WEIGHTS + s)
        if s == 0:
            value = product
        else:
            value += product
    if SYMMETRIC and i == j:
        value = tl.where(rows[:, None] <= columns[None, :], value, tl.trans(value))
    below = (columns[:, None] < p) & (rows[None, :] < m)
    beneath = columns[:, None].to(tl.int64) * ld + rows[None, :]
    if G is not None:
        weight = tl.load(G + place, mask=inside, other=0.0)
        if SYMMETRIC and TOTAL and j > i:
            weight += tl.trans(tl.load(G + beneath, mask=below, other=0.0))
        value *= weight
    if TOTAL:
        each = tl.sum(tl.where(inside, value, 0.0), axis=1).to(tl.float64)
        tl.store(OUT + pid, tl.sum(each, axis=0))
    else:
        tl.store(OUT + place, value, mask=inside)
        if SYMMETRIC and j > i:
            tl.store(OUT + beneath, tl.trans(value), mask=below)


@triton.jit(do_not_specialize=["m", "p"])
def matvec_kernel(
    TERM, V, OUT, m, p, HOW, Q: tl.constexpr, STRIP: tl.constexpr, HALVES: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Rows of a term times V over one strip of columns, added up in double precision.

    Numbers of rows are not specialised: one kernel serves all.

    ``HALVES`` says that no value is far above one, and that V comes as two planes in half precision, as
    operands do: values are then split the same way.
    """
    K: tl.constexpr = HOW[0]
    BK: tl.constexpr = HOW[1]
    SPLIT: tl.constexpr = HOW[2]
    OPERANDS = TERM[0]
    i, part = tl.program_id(0), tl.program_id(1)
    rows, q = i * HEIGHT + tl.arange(0, HEIGHT), tl.arange(0, Q)
    total = tl.zeros((HEIGHT, Q), dtype=tl.float64)
    k = tl.arange(0, BK)
    if K == BK:  # the rows stay where they are
        a, c = _planes(OPERANDS[0], OPERANDS[2], rows[:, None], k[None, :], K, SPLIT)
    for step in range(0, STRIP, WIDTH):
        columns = part * STRIP + step + tl.arange(0, WIDTH)
        within = columns < p
        # Strips may be longer than the rows of R: numbers read twice have weight zero.
        inner = tl.minimum(columns, p - 1)
        if K == BK:
            b, d = _planes(OPERANDS[1], OPERANDS[3], inner[None, :], k[:, None], K, SPLIT)
            w = _step(a, c, b, d) if SPLIT else tl.dot(a, b, input_precision="ieee", out_dtype=a.dtype)
        else:
            w = _product(OPERANDS, rows, inner, HOW)
        value = _values(w, TERM, rows, columns, m, p, HOW)
        if TERM[3] is not None:
            value = _exact(value, TERM[3], rows, columns, m)
        place = columns[:, None].to(tl.int64) * Q + q[None, :]
        v = tl.load(V + place, mask=within[:, None], other=0.0)
        if HALVES:
            below = (p + columns[:, None]).to(tl.int64) * Q + q[None, :]
            rest = tl.load(V + below, mask=within[:, None], other=0.0)
            head = value.to(tl.float16)
            tail = ((value - head.to(tl.float32)) * 2048.0).to(tl.float16)
            total += _step(head, tail, v, rest).to(tl.float64)
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
    TERM, G, OUT, m, p, row_step, column_step, HOW, WIDE: tl.constexpr,
    BOTH: tl.constexpr, STRIP: tl.constexpr, OFF: tl.constexpr, HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Rows of ``(G * profile(L @ R.T)) @ R`` over one strip of columns.

    These are derivatives with respect to rows of L, if the profile is a derivative.

    ``BOTH`` adds the transpose of G, for symmetric matrices of one set of rows; ``OFF`` leaves out the
    diagonal, whose value is not computed from products.  ``WIDE`` is K, rounded up to a power of two.
    """
    K: tl.constexpr = HOW[0]
    SPLIT: tl.constexpr = HOW[2]
    R, right_plane = TERM[0][1], TERM[0][3]
    part = tl.program_id(1)
    rows, k = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT), tl.arange(0, WIDE)
    precision: tl.constexpr = tl.float32 if SPLIT else tl.float64
    total = tl.zeros((HEIGHT, WIDE), dtype=precision)
    for step in range(0, STRIP, WIDTH):
        columns = part * STRIP + step + tl.arange(0, WIDTH)
        inside = (rows[:, None] < m) & (columns[None, :] < p)
        # Strips may be longer than the rows of R: numbers read twice have weight zero.
        inner = tl.minimum(columns, p - 1)
        w = _product(TERM[0], rows, inner, HOW)
        value = _values(w, TERM, rows, columns, m, p, HOW)
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
def pull_factor_kernel(
    TERM, G, POINTS, SCALES, m, p, row_step, column_step, HOW, WIDE: tl.constexpr,
    STRIP: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sums over one strip of columns, for derivatives with respect to one factor of a product of spaces.

    With values h of the profile at the invariants ``|x - y|^2 s t`` of the factor, SCALES are sums of
    ``G h``, or with POINTS of ``G h |x - y|^2 t``, and POINTS themselves are sums of
    ``2 G h (x - y) s t``.  ``WIDE`` is the number of coordinates, rounded up to a power of two.
    """
    C: tl.constexpr = HOW[1]
    part, f = tl.program_id(1), tl.program_id(2)
    rows, k = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT), tl.arange(0, WIDE)
    here = rows < m
    own = tl.load(TERM[0][2] + f.to(tl.int64) * m + rows, mask=here, other=0.0)
    pulls = tl.zeros((HEIGHT, WIDE), dtype=tl.float64)
    total = tl.zeros((HEIGHT,), dtype=tl.float64)
    for step in range(0, STRIP, WIDTH):
        columns = part * STRIP + step + tl.arange(0, WIDTH)
        there = columns < p
        a, b = TERM[0][0] + f.to(tl.int64) * C * m + rows, TERM[0][1] + f.to(tl.int64) * C * p + columns
        square = tl.zeros((HEIGHT, WIDTH), dtype=TERM[0][0].dtype.element_ty)
        for c in tl.static_range(C):
            gap = _gap(a + c * m, b + c * p, here, there, HOW[4])
            square += gap * gap
        other = tl.load(TERM[0][3] + f.to(tl.int64) * p + columns, mask=there, other=0.0)
        value = _profiles(square * own[:, None] * other[None, :], TERM[4], HOW[3])
        at, to = rows[:, None].to(tl.int64), columns[None, :].to(tl.int64)
        inside = here[:, None] & there[None, :]
        value *= tl.load(G + at * row_step + to * column_step, mask=inside, other=0.0)
        if POINTS is not None:
            value *= other[None, :]
            for c in tl.static_range(C):
                gap = _gap(a + c * m, b + c * p, here, there, HOW[4])
                pull = 2.0 * tl.sum(value * gap, axis=1) * own
                pulls += tl.where(k[None, :] == c, pull[:, None], 0.0).to(tl.float64)
            value *= square
        total += tl.sum(value, axis=1).to(tl.float64)
    first = (part * tl.num_programs(2) + f).to(tl.int64)
    tl.store(SCALES + first * m + rows, total, mask=here)
    if POINTS is not None:
        place = (first * C + k[None, :]) * m + rows[:, None]
        tl.store(POINTS + place, pulls, mask=here[:, None] & (k[None, :] < C))


@triton.jit
def apply_kernel(W, OUT, size, FORM, HOW, BLOCK: tl.constexpr):
    """Values of a profile at an array of invariants."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(W + place, mask=place < size, other=0.0)
    tl.store(OUT + place, _profiles(w, FORM, HOW), mask=place < size)
