"""Strings: sequences of letters, bytes or tokens."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.datasets import Table, read_strings
from mercer.kernels import FullSpectrum, GappySubsequence, Kernel, Spectrum, WeightedDegree
from mercer.selection.kinds.base import Candidates, ColumnRoles, Kind, depth, first_of, points_of
from mercer.selection.scales import Index, Template
from mercer.spaces.sequences import encode

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: Kernels are normalised, except for aligned strings, which all have the same norm.
_UNIT = {"normalized": True}
#: Lengths of substrings of the spectrum kernels.
SUBSTRING_GRID = (2, 3, 4, 5, 6, 8)
#: Largest squared number of characters for which subsequences with gaps are affordable.
_GAPPY_LIMIT = 3e9
#: Words of a text, on average over at most this many strings.
_WORDS, _LOOKED_AT = 3.0, 1000
_OF_WORDS = "letters are compared; to compare words, give a data frame with a column of texts (--words)"
#: Number of characters of a string that a report shows.
_SHOWN = 60


class Strings(Kind):
    """Strings: str, bytes or sequences of tokens."""

    name = noun = variable = "strings"
    needs = ("text",)
    option = "text"
    shared_options = ("groups",)
    reader, reader_roles = "read_strings", ("target", "text", "groups")

    def recognises(self, X: Any) -> bool:
        """Recognise letters, and numbers as tokens if rows differ in length or are tuples."""
        rows = points_of(X)
        first = first_of(rows)
        return isinstance(first, str | bytes) or (depth(first) == 1 and _tokens(rows, first))

    def candidates(self, X: Any, space: Any = "auto") -> Candidates:
        lengths = encode(X)[0].lengths
        shortest, longest = int(lengths.min()), int(lengths.max())
        spectra, no_spectra = _spectra(lengths)
        aligned, no_aligned = _aligned(lengths)
        gappy, no_gappy = _gappy(lengths)
        # The slowest last: a suffix automaton for each string, and dynamic programs for all pairs.
        families: dict[str, list[Kernel]] = {
            "letter counts": [Spectrum(1, **_UNIT)],
            "spectrum": spectra,
            "weighted degree": aligned,
            "full spectrum": [FullSpectrum(decay, **_UNIT) for decay in (0.25, 0.5, 0.75, 1.0)],
            "subsequences with gaps": gappy,
        }
        templates = {name: [Template(kernel) for kernel in own] for name, own in families.items() if own}
        of_words = _OF_WORDS if _has_words(points_of(X)) else ""
        notes = tuple(note for note in (of_words, no_spectra, no_aligned, no_gappy) if note)
        facts = f"length {shortest}" if shortest == longest else f"lengths {shortest} to {longest}"
        return Candidates(
            self, "strings", facts, X, len(lengths), templates, ("letter counts",), "letter-count",
            "string", notes=notes,
        )  # fmt: skip

    def labels(self, X: Any, rows: Sequence[int]) -> list[str]:
        """Rows, with the beginning of each string."""
        return [f"row {row}: {_glimpse(point)}" for row, point in zip(rows, points_of(X), strict=True)]

    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        group = roles.get("groups") if model is None else None
        return read_strings(path, roles.get("target"), roles["text"], group, labelled=model is None)

    def from_frame(self, frame: Any, model: SavedModel) -> Any:
        """Strings of the column that the model was fitted to, or of the only column."""
        text = model.roles.get("text")
        if text is None:
            return frame.to_numpy()
        if text not in frame.columns:
            raise ValueError(f"X has no column {text!r}, which the model needs")
        return frame[text].to_numpy().tolist()


def _spectra(lengths: Index) -> tuple[list[Kernel], str]:
    """Spectrum kernels of the lengths that all strings have, and a note on those left out."""
    shortest, longest = lengths.min(), lengths.max()
    # A shorter string has no such substrings, and its row could not be normalised.
    pure = [length for length in SUBSTRING_GRID if length <= shortest]
    kernels: list[Kernel] = [Spectrum(length, **_UNIT) for length in (*pure, (1, 2), (1, 3), (1, 4))]
    wanted = [length for length in SUBSTRING_GRID if length <= longest]
    if not wanted or shortest >= wanted[-1]:
        return kernels, ""
    return kernels, (
        f"substrings longer than {shortest} were left out, except for ranges from 1: "
        f"{int((lengths < wanted[-1]).sum())} of {len(lengths)} strings are shorter than {wanted[-1]} "
        f"(row {lengths.argmin()} has length {shortest}); drop such strings to compare them"
    )


def _aligned(lengths: Index) -> tuple[list[Kernel], str]:
    """Kernels of aligned strings, or a note that says why there are none."""
    usual = int(np.bincount(lengths).argmax())
    others = lengths != usual
    if not others.any():
        return [WeightedDegree(degree) for degree in (2, 4, 8, 16, 24)], ""
    return [], (
        f"weighted degree was left out: it needs strings of one length, and {int(others.sum())} of "
        f"{len(lengths)} are not of length {usual} (the first is row {int(others.argmax())})"
    )


def _gappy(lengths: Index) -> tuple[list[Kernel], str]:
    """Kernels of subsequences with gaps, or a note that says why there are none."""
    shortest = lengths.min()
    if shortest < 2:
        return [], f"subsequences with gaps were left out: row {lengths.argmin()} has length 1 and none"
    if lengths.sum() ** 2.0 > _GAPPY_LIMIT:
        return [], (
            f"subsequences with gaps were left out: {lengths.sum()} letters are too many for them "
            f"(their cost is quadratic; the limit is {int(_GAPPY_LIMIT**0.5)})"
        )
    pairs = itertools.product((2, 3), (0.3, 0.6))
    return [GappySubsequence(n, decay, **_UNIT) for n, decay in pairs if n <= shortest], ""


def _tokens(rows: list[Any], first: Any) -> bool:
    """Whether rows of single values are sequences of tokens rather than rows of a table."""
    token = first[0] if len(first) else None
    if isinstance(token, str | bytes):
        return True
    if not isinstance(token, int | np.integer):
        return False
    lengths = {len(row) for row in rows if hasattr(row, "__len__")}
    if len(lengths) > 1:
        return True
    if isinstance(first, tuple) and len(first) == 2:
        raise ValueError(
            "rows of X are pairs of numbers: give lists for strings of tokens of different lengths, an "
            "array of shape (m, 2) for a table, space=Graph(...) for nodes of a graph"
        )
    return isinstance(first, tuple)


def _has_words(points: list[Any]) -> bool:
    """Whether strings are texts of several words."""
    texts = [point for point in points[:_LOOKED_AT] if isinstance(point, str)]
    return bool(texts) and float(np.mean([len(text.split()) for text in texts])) >= _WORDS


def _glimpse(point: Any) -> str:
    if isinstance(point, np.ndarray) and point.size == 1:
        point = point.item()
    if isinstance(point, bytes):
        text = point.decode("utf-8", errors="replace")
    else:
        text = point if isinstance(point, str) else " ".join(map(str, list(point)[:_SHOWN]))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
