"""Strings, bytes and sequences of tokens: validation, and encoding as small integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["str", "bytes", "tokens"]


@dataclass(frozen=True)
class Sequences:
    """A set of non-empty strings: string i is ``codes[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    codes : array of int32
        Places in ``symbols``.
    offsets : array of int64, one longer than the set
    symbols : tuple
        The alphabet: characters of str, numbers of bytes, tokens.
    kind : "str", "bytes" or "tokens"
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    symbols: tuple[Any, ...]
    kind: Kind

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        return self.codes[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols in each string."""
        return np.diff(self.offsets)

    def substrings(self, places: NDArray[np.int64], length: int) -> list[Any]:
        """Substrings that begin at places in ``codes``: str, bytes or tuples of tokens."""
        codes = self.codes[places[:, None] + np.arange(length)]
        if self.kind == "tokens":
            return [tuple(self.symbols[c] for c in row) for row in codes.tolist()]
        ends = range(length, length * len(places) + 1, length)
        if self.kind == "bytes":
            text: Any = np.array(self.symbols, dtype=np.uint8)[codes].tobytes()
        else:
            points = np.array([ord(symbol) for symbol in self.symbols], dtype="<u4")
            text = points[codes].tobytes().decode("utf-32-le", "surrogatepass")
        return [text[end - length : end] for end in ends]

    def split(self, count: int) -> tuple[Sequences, Sequences]:
        """The first ``count`` strings and the others, over the same alphabet."""
        cut = self.offsets[count]
        first = replace(self, codes=self.codes[:cut], offsets=self.offsets[: count + 1])
        return first, replace(self, codes=self.codes[cut:], offsets=self.offsets[count:] - cut)

    def join(self, other: Sequences) -> Sequences:
        """One set of both, which must share their alphabet."""
        return replace(
            self,
            codes=np.concatenate([self.codes, other.codes]),
            offsets=np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]),
        )


def encode(X: Any, Y: Any = None) -> tuple[Sequences, Sequences | None]:
    """Check one or two sets of strings and number their symbols together.

    Parameters
    ----------
    X, Y : lists, tuples, Series or arrays (shape (m,) or (m, 1)) of str, of bytes, or of sequences
        A sequence is a list, tuple or one-dimensional array of hashable tokens; each row of a matrix
        of whole numbers is one.  All of X and Y must be of one kind.

    Returns
    -------
    pair of Sequences
        The second is None if Y is None.  Symbols of str and bytes are sorted.
    """
    rows, kind = _check(X, "X")
    size = len(rows)
    if Y is not None:
        others, other_kind = _check(Y, "Y")
        if kind != other_kind:
            raise TypeError(f"rows of X are {kind} and rows of Y are {other_kind}; give one kind")
        rows = rows + others
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    if not lengths.all():
        raise ValueError(f"{_row(int(lengths.argmin()), size)} is empty; drop it")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    codes, symbols = _tokens(rows, offsets, size) if kind == "tokens" else _characters(rows, kind)
    whole = Sequences(codes, offsets, symbols, kind)
    return (whole, None) if Y is None else whole.split(size)


def restrict(P: Sequences, alphabet: Any, name: str) -> Sequences:
    """The same strings with symbols numbered as in the alphabet.

    Other symbols get the number of None in the alphabet, and are refused if it has none.
    """
    places = {symbol: i for i, symbol in enumerate(alphabet)}
    others = places.get(None, -1)
    table = np.array([places.get(symbol, others) for symbol in P.symbols], dtype=np.int32)
    codes = table[P.codes]
    if (codes < 0).any():
        place = int((codes < 0).argmax())
        row = int(np.searchsorted(P.offsets, place, side="right")) - 1
        symbol = P.symbols[P.codes[place]]
        raise ValueError(
            f"row {row} of {name} holds {symbol!r}, which is not in the alphabet {alphabet!r}; "
            f"{_advice(symbol, P.kind, places)}"
        )
    return replace(P, codes=codes, symbols=tuple(alphabet))


def _advice(symbol: Any, kind: Kind, alphabet: dict[Any, int]) -> str:
    """What to do about a symbol that is not in the alphabet."""
    if kind == "bytes":
        if not all(isinstance(other, int) for other in alphabet):
            return "rows of bytes need an alphabet of bytes"
        symbol = chr(symbol)
        alphabet = {chr(other): place for other, place in alphabet.items()}
    for change in ("upper", "lower"):
        if isinstance(symbol, str) and getattr(symbol, change)() in alphabet:
            return f"change strings to {change} case, or name all symbols by alphabet="
    return "name all symbols that may occur by alphabet=, or learn them with scaled_to(X)"


def symbol_keys(P: Sequences) -> NDArray[np.uint64]:
    """A key of 64 bits for each symbol, the same in every process and on every machine."""
    if P.kind != "tokens":
        points = [ord(symbol) if P.kind == "str" else symbol for symbol in P.symbols]
        return np.array(points, dtype=np.uint64)
    return np.array([_token_key(token) for token in P.symbols], dtype=np.uint64)


def _token_key(token: Any) -> int:
    # Equal tokens must have equal keys: those of NumPy and of subclasses are Python's, and True is 1.
    plain: str | bytes | int
    if isinstance(token, str):
        plain = str.__str__(token)
    elif isinstance(token, bytes):
        plain = b"".join([token])
    elif isinstance(token, int | np.integer | np.bool_):
        plain = int(token)
    else:
        raise TypeError(
            f"token {token!r} cannot be hashed alike in all processes; give str, bytes or int"
        )
    name = repr(plain).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little")


def _check(X: Any, name: str) -> tuple[list[Any], Kind]:
    """Rows as a list, and their kind."""
    rows = _rows(X, name)
    if not rows:
        raise ValueError(f"{name} has no rows; give at least one string")
    first = _kind(rows[0], f"row 0 of {name}")
    for i, row in enumerate(rows):
        kind = _kind(row, f"row {i} of {name}")
        if kind != first:
            raise TypeError(f"row {i} of {name} is {kind} but row 0 is {first}; give one kind")
    return rows, first


def _rows(X: Any, name: str) -> list[Any]:
    if isinstance(X, str | bytes):
        raise TypeError(f"{name} is a single string; give a list of strings, such as [{name}]")
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        if X.ndim == 2 and X.dtype.kind in "iu":
            return list(X)
        if X.ndim == 2 and X.shape[1] == 1:
            X = X[:, 0]
        if X.ndim != 1:
            raise ValueError(
                f"{name} has shape {X.shape}; strings come as an array of shape (m,) or (m, 1), "
                "token sequences as a list of lists"
            )
        return X.tolist()
    if not isinstance(X, list | tuple):
        raise TypeError(f"{name} must be a list or an array of strings, got {type(X).__name__}")
    return list(X)


def _kind(row: Any, where: str) -> Kind:
    if isinstance(row, str):
        return "str"
    if isinstance(row, bytes):
        return "bytes"
    if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
        return "tokens"
    if _missing(row):
        raise ValueError(f"{where} is missing ({row!r}); drop it")
    raise TypeError(
        f"{where} is of type {type(row).__name__}; "
        "give str, bytes, or a list, tuple or one-dimensional array of tokens"
    )


def _missing(value: Any) -> bool:
    """Whether a value is None, NaN or a missing value of pandas."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _row(i: int, size: int) -> str:
    """Name of row i of both sets together, if X has ``size`` rows."""
    return f"row {i} of X" if i < size else f"row {i - size} of Y"


def _characters(rows: list[Any], kind: Kind) -> tuple[NDArray[np.int32], tuple[Any, ...]]:
    """Ranks of characters or bytes, without a loop over them."""
    if kind == "str":
        # Four bytes per character; lone surrogates are characters like all others.
        raw = np.frombuffer("".join(rows).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    else:
        raw = np.frombuffer(b"".join(rows), dtype=np.uint8)
    seen = np.zeros(int(raw.max()) + 1, dtype=bool)
    seen[raw] = True
    symbols = np.flatnonzero(seen).tolist()
    ranks = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return ranks[raw], tuple(map(chr, symbols)) if kind == "str" else tuple(symbols)


def _tokens(
    rows: list[Any], offsets: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int32], tuple[Any, ...]]:
    """Tokens numbered in the order of their first appearance."""
    lists = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    table: dict[Any, int] = {}
    numbers = (table.setdefault(token, len(table)) for token in chain.from_iterable(lists))
    try:
        codes = np.fromiter(numbers, dtype=np.int32, count=int(offsets[-1]))
    except TypeError as error:
        for i, row in enumerate(lists):
            for token in row:
                if not _hashable(token):
                    raise TypeError(
                        f"{_row(i, size)} holds {token!r}, which is not hashable; "
                        "tokens are strings, numbers or tuples"
                    ) from error
        raise
    for token, code in table.items():
        if _missing(token):
            place = int((codes == code).argmax())
            row = int(np.searchsorted(offsets, place, side="right")) - 1
            raise ValueError(f"{_row(row, size)} holds {token!r}, a missing token; drop it")
    return codes, tuple(table)


def _hashable(token: Any) -> bool:
    try:
        hash(token)
    except TypeError:
        return False
    return True
