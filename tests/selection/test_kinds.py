"""A kind of data is one class and one registration."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from mercer.datasets import Table
from mercer.kernels import Spectrum, StructuredKernel
from mercer.report.page import pictures
from mercer.report.points import choose
from mercer.selection import KernelSearchCV, SavedModel, compare, kinds, load_model, save_model
from mercer.selection.kinds import Candidates, Kind, candidates, kind_by_options, kind_of, register
from mercer.selection.scales import Template


class Shared(StructuredKernel):
    """Members that two sets have in common."""

    def __init__(self, normalized: bool = True) -> None:
        self.normalized = normalized

    def validate(self) -> None:
        pass

    def _check(self, X, Y):
        return X, Y

    def _gram(self, P, Q):
        return np.array([[float(len(p & q)) for q in Q or P] for p in P])

    def _diagonal(self, P):
        return np.array([float(len(p)) for p in P])


class Sets(Kind):
    """Points that are sets."""

    name = noun = variable = "sets"
    option = "members"
    shared_options = ("groups",)

    def recognises(self, X) -> bool:
        return isinstance(X, list) and isinstance(X[0], frozenset)

    def candidates(self, X, space="auto") -> Candidates:
        families = {"shared": [Template(Shared())], "square": [Template(Shared() * Shared())]}
        facts = f"{len(frozenset().union(*X))} members"
        return Candidates(self, "sets", facts, X, len(X), families, ("shared",), "plain", "quadratic")

    def labels(self, X, rows) -> list[str]:
        return [f"set {row} of {len(point)}" for row, point in zip(rows, X, strict=True)]

    def read(self, path, roles, model=None) -> Table:
        frame = pd.read_csv(path)
        return Table(str(path), self._sets(frame[roles["members"]]), frame[roles["target"]].to_numpy())

    def from_frame(self, frame, model):
        return self._sets(frame[model.roles["members"]])

    def _sets(self, column) -> list[frozenset[str]]:
        return [frozenset(text.split()) for text in column]


@pytest.fixture
def registered(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(kinds, "_KINDS", list(kinds._KINDS))
    register(Sets())


RNG = np.random.default_rng(0)
Y = np.repeat(["a", "b"], 15)
SETS = [frozenset(RNG.choice(list("abcdefgh")[4 * (label == "b") :][:5], 3)) for label in Y]


@pytest.mark.usefixtures("registered")
def test_a_new_kind_is_compared_searched_and_drawn(tmp_path) -> None:
    assert kind_of(SETS).name == "sets"
    assert kind_of([[1, 2], [3, 4]]).name == "table"
    result = compare(SETS, Y, folds=2, n_jobs=1)
    assert result.kind == "sets"
    assert "on these sets" in result.verdict
    assert result.call == "compare(sets, y, folds=2, random_state=0)"
    assert {score.name for score in result.scores} == {"shared", "square"}
    found = pictures(result, choose(result))
    assert all(name.startswith("set ") for name in found["points"]["names"])
    assert found["curves"] == []
    assert KernelSearchCV(cv=2, n_jobs=1).fit(SETS, Y).best_score_ > 0.8


@pytest.mark.usefixtures("registered")
def test_a_new_kind_reads_files_and_frames(tmp_path) -> None:
    path = tmp_path / "sets.csv"
    frame = pd.DataFrame({"m": [" ".join(sorted(point)) for point in SETS], "y": Y})
    frame.to_csv(path, index=False)
    roles = {"members": "m", "target": "y"}
    kind = kind_by_options(roles)
    table = kind.read(path, roles)
    assert table.X == SETS
    best = compare(table.X, table.y, folds=2, n_jobs=1).scores[0].search.best_estimator_
    model = SavedModel(best, kind=kind.name, roles=roles)
    expected = best.predict(SETS).tolist()
    assert model.predict(frame).tolist() == expected
    assert model.predict(model.read(path).X).tolist() == expected
    for options, message in (
        ({"text": "s", "members": "m"}, "--text and --members name different kinds of data"),
        ({"members": "m", "weight": "w"}, "--weight goes with --cloud"),
        ({"members": "m", "drop": ("m",)}, "--drop does not go with --members, only with rows and"),
        ({"members": "m", "space": "sphere"}, "--space goes with tables of numbers, not with --members"),
    ):
        with pytest.raises(ValueError, match=message):
            kind_by_options(options)


def test_models_of_a_kind_that_is_gone_are_named(tmp_path, monkeypatch) -> None:
    class Codes(type(kind_of(["ab"]))):
        name = "codes"

    monkeypatch.setattr(kinds, "_KINDS", list(kinds._KINDS))
    register(Codes())
    words = ["".join(sorted(point)) * (2 + i % 3) for i, point in enumerate(SETS)]
    result = compare(words, Y, kernels=Spectrum(2), folds=2, n_jobs=1)
    save_model(tmp_path / "m.skops", result)
    assert load_model(tmp_path / "m.skops").kind == "codes"
    del kinds._KINDS[0]
    with pytest.raises(ValueError, match="its points are 'codes', not of a known kind"):
        load_model(tmp_path / "m.skops")


def test_the_slowest_kernels_of_strings_come_last() -> None:
    """A suffix automaton for each string, then dynamic programs for all pairs."""
    words = ["ACGTACGT", "TTGACGTA", "ACGGACGA", "ACTTACGA"] * 5
    names = list(candidates(words).families)
    assert names[-2:] == ["full spectrum", "subsequences with gaps"]
    assert list(candidates([word * 400 for word in words]).families)[-1] == "full spectrum"


def test_texts_of_words_are_told_from_letters() -> None:
    texts = ["the cat sat on the mat", "stocks fell on monday"] * 5
    assert any("to compare words" in note for note in candidates(texts).notes)
    assert not any("to compare words" in note for note in candidates(["ACGTAC", "TTGACA"] * 5).notes)
