"""The report: its structure for every kind of data, its numbers, and what hostile names do to it."""

import base64
import copy
import html
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.metrics import confusion_matrix
from sklearn.svm import SVC

from mercer.bounds import pairwise_vc_bounds
from mercer.kernels import (
    Gaussian,
    KullbackLeibler,
    Linear,
    On,
    Spectrum,
)
from mercer.report import write_report
from mercer.report.capacity import capacities
from mercer.report.grammatrix import heat_map, maps, pair_histogram, similarities
from mercer.report.html import render
from mercer.report.labels import clip, short_names
from mercer.report.page import pictures
from mercer.report.points import choose, names
from mercer.report.predictions import confusion, predicted
from mercer.report.response import response
from mercer.report.scoreboard import scoreboard
from mercer.report.ticks import axis, plain
from mercer.selection import compare
from mercer.spaces import Simplex, Sphere
from tests.helpers.catalogue import KERNELS
from tests.helpers.comparisons import HOSTILE, KINDS, comparison


class Reader(HTMLParser):
    """Elements with their attributes, words, and whether tags nest."""

    VOID = ("meta", "input", "br", "hr", "img", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.words.setdefault(tag, []).append(data)

    def text(self, tag: str) -> str:
        return " ".join("".join(self.words.get(tag, [])).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    def data(self) -> dict:
        (text,) = [w for w in self.words["script"] if w.startswith("{")]
        return json.loads(text)


@cache
def page(kind: str) -> str:
    return render(comparison(kind), f"data of {kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_structure(kind: str) -> None:
    text, result = page(kind), comparison(kind)
    assert len(text.encode()) < 3_000_000
    read = Reader(text)
    main = read.text("body")
    assert result.verdict in main
    assert read.text("h1") == f"Which kernel fits data of {kind}?"
    ids = [a["id"] for _, a in read.found if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a["href"] for a in read.all("a")]
    assert {"#scores", "#predictions", "#kernels", "#settings", "#repeat"} <= set(links)
    assert all(link.removeprefix("#") in ids for link in links)
    for score, choice in zip(result.scores, scoreboard(result).choices, strict=True):
        assert result.text(score.mean) in main
        assert choice in main
    assert result.call in main
    assert (
        " ".join(result.best.split()) in " ".join("".join(read.words["pre"]).split())
        or "\n" in result.best
    )
    # Headers of tables say what they head, and regions that scroll can be reached by keyboard.
    assert all(a.get("scope") in ("row", "col") for a in read.all("th"))
    assert all("tabindex" in a for a in read.all("div") if a.get("class") == "scroll")
    families = read.data()["families"]
    assert [f["name"] for f in families] == [s.name for s in result.scores]
    radios = [a for a in read.all("input") if a.get("name") == "family"]
    assert len(radios) == len(families)
    assert ("profiles" in ids) == (result.data.kind.vectors and kind != "many classes")
    assert ("columns" in ids) == (kind == "mixed")
    assert read.text("body").count("gradient boosting") > 2 or kind != "mixed"


@pytest.mark.parametrize("kind", KINDS)
def test_code_of_the_best_model_names_its_imports(kind: str) -> None:
    result = comparison(kind)
    assert "*" not in result.imports
    names: dict = {}
    exec(result.imports, names)
    code = result.best.split("  # ")[0]
    assert set(re.findall(r"\b[A-Za-z]\w*(?=\()", code)) <= set(names)
    assert set(names) - {"__builtins__"} <= set(re.findall(r"\w+", code))  # and no others


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_fetched(kind: str) -> None:
    text = page(kind)
    addresses = re.findall(r"https?:[^\s\"'<]*", text)
    assert set(addresses) == {"http://www.w3.org/2000/svg"}
    tags = {tag for tag, a in Reader(text).found if "src" in a or (tag == "link" and "href" in a)}
    assert tags == set()


@pytest.mark.parametrize("kind", ["counts", "regression", "clouds"])
def test_the_page_is_the_same_each_time(kind: str, tmp_path) -> None:
    path = tmp_path / "page.html"
    path.write_text("an old file")
    write_report(comparison(kind), f"data of {kind}", path)
    assert path.read_text(encoding="utf-8") == page(kind)


def test_hostile_names() -> None:
    text = render(comparison("many classes"), HOSTILE)
    read = Reader(text)
    assert len(read.all("script")) == 2
    assert "<script>alert" not in text
    assert read.data()["classes"][0].startswith(HOSTILE)
    assert read.text("title") == f"Which kernel fits {' '.join(HOSTILE.split())} ?"
    odd = "</th><img src=x onerror=alert(1)>"
    renamed = replace(comparison("counts").scores[0], name=odd)
    text = render(replace(comparison("counts"), scores=[renamed]), "x")
    assert Reader(text).all("img") == []
    assert Reader(text).data()["families"][0]["name"] == odd


def test_interrupted_and_missing(tmp_path) -> None:
    result = comparison("counts")
    part = replace(result, scores=result.scores[:1], unfinished=tuple(s.name for s in result.scores[1:]))
    text = Reader(render(part, "x")).text("body")
    assert "interrupted before" in text
    assert "not reached" in text
    target = replace(result.target, missing=3)
    assert "3 rows without a target" in Reader(render(replace(result, target=target), "x")).text("body")


def test_the_leaderboard_says_what_the_comparison_found() -> None:
    result = comparison("counts")
    board = scoreboard(result)
    assert list(board.metrics.values()) == ["balanced accuracy", "ROC AUC", "log loss"]
    page = render(result, "x")
    rows = re.findall(r"<tr.*", page[page.index('<table id="leaderboard"') :])[1:]
    for row, mark, score in zip(rows, board.marks, result.scores, strict=False):
        cells = [html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        assert cells[:2] == [score.name, result.text(score.mean)]
        assert cells[2] == " \u2013 ".join(map(result.text, score.interval))
        assert cells[3:6] == [result.text(score.metrics[n].mean(), n) for n in board.metrics]
        assert (cells[6] == "\u2013") == (score.name in ("linear", "Gaussian"))
        assert 0 <= mark.left <= mark.mean <= mark.left + mark.width + 1e-9 <= 100 + 1e-6
        assert len(mark.folds) == 2
        value = score.search.settings_[score.search.best_index_].params["C"].value
        assert board.choices[result.scores.index(score)].endswith(f"C={value:g} / variance")
    assert "p-value" in page
    assert "p-value" not in render(comparison("one family"), "x")
    scores = [
        replace(
            s, nested=replace(s.nested, scores=np.array([0.7, 0.7 if s.name == "exact heat" else 0.8]))
        )
        for s in result.scores
    ]
    assert "<td>20% more</td>" in render(replace(result, scores=scores), "x")
    # A score of chance that lies on the axis is shown, others are not.
    low = replace(result.scores[0].nested, scores=np.array([0.3, 0.7]))
    wide = replace(result, scores=[replace(result.scores[0], nested=low)])
    assert scoreboard(wide).chance[1] == "50.00%"


def test_axes() -> None:
    line = axis([0.913, 0.987])
    assert line.ticks == pytest.approx([0.9, 0.92, 0.94, 0.96, 0.98, 1.0])
    assert line.share(0.95) == pytest.approx(50)
    assert axis([0.95, 1.2], most=1.0).high == 1.0
    for values in ([1.0, 1.0], [0.0], [np.nan], [-3e5, 4e5], [1e-9, 2e-9]):
        line = axis(values)
        assert len(line.ticks) >= 2
        assert all(b > a for a, b in zip(line.ticks, line.ticks[1:], strict=False))
        assert all(line.low <= v <= line.high for v in values if np.isfinite(v))
    assert plain([1.23456, np.nan, np.inf]) == [1.235, None, None]


def test_points_are_drawn_from_every_class() -> None:
    result = comparison("many classes")
    _, code = np.unique(result.target.y, return_inverse=True)
    assert len(choose(result)) == len(set(choose(result).tolist())) == 198
    for size in (33, 66, 132):
        assert np.bincount(code[choose(result, size)], minlength=33).tolist() == [size // 33] * 33
    np.testing.assert_array_equal(choose(result, 40), choose(result)[:40])
    assert len(choose(comparison("regression"), 7)) == 7


def test_large_tables_are_sampled(monkeypatch) -> None:
    monkeypatch.setattr("mercer.report.points.choose", lambda result: choose(result, 12))
    monkeypatch.setattr("mercer.report.page.HEAT_POINTS", 6)
    monkeypatch.setattr("mercer.report.capacity.MOST_POINTS", 29)
    for kind in ("one family", "regression"):
        read = Reader(render(comparison(kind), "x", bounds=True))
        data = read.data()
        assert len(data["points"]["names"]) == len(data["families"][0]["map"]["x"]) == 12
        assert len(data["order"]) == 6
        assert len(base64.b64decode(data["families"][0]["heat"]["bytes"])) == 21
        assert "12 of the 30 rows, drawn by the seed" in read.text("main")
        assert ("Not computed: it takes" in read.text("main")) == (kind == "one family")


def test_names_of_points() -> None:
    strings = comparison("strings")
    long = names(strings, np.array([0]))[0]
    assert long.startswith(f"row 0: {strings.data.X[0][:20]}")
    assert long.endswith("…")
    assert len(long) < 70
    tokens = replace(strings, data=replace(strings.data, X=[["to", "be"], b"not"] * 15))
    assert names(tokens, np.array([0, 1])) == ["row 0: to be", "row 1: not"]
    assert names(comparison("clouds"), np.array([2, 0])) == ["cloud 2, 6 points", "cloud 0, 4 points"]
    assert names(comparison("nodes"), np.array([3])) == ["node 3"]
    moved = replace(comparison("counts").target, known=np.arange(30) + 5)
    assert names(replace(comparison("counts"), target=moved), np.array([1])) == ["row 6"]


def test_short_names_tell_classes_apart() -> None:
    assert clip("a long name, number 17", 12) == "a long…er 17"
    assert clip("short", 12) == "short"
    assert short_names(["a", "b"]) == ["a", "b"]
    long = [f"a rather long name of class {i}, and so on, and on" for i in range(20)]
    assert short_names(long) == [f"…{i}…" for i in range(20)]
    middle = [f"{i}{'x' * 40}{i % 7}{'x' * 40}{i}" for i in (11, 12, 13)]
    assert short_names(middle) == [clip(name, 24) for name in middle]
    found = short_names([c + "x" * 40 + d + "x" * 40 + c for c in "ab" for d in "cd"])
    assert len(set(found)) == 4
    assert all(len(name) <= 24 for name in found)


def test_response_is_that_of_the_search() -> None:
    for kind in ("counts", "regression", "clouds"):
        result = comparison(kind)
        for score in result.scores:
            found = response(result, score)
            table = score.search.cv_results_
            tried = [value for line in found["mean"] for value in line if value is not None]
            assert len(tried) == len(table["params"])
            i, j = found["best"]
            assert found["mean"][i][j] == pytest.approx(score.search.best_score_, rel=1e-5)
            assert found["mean"][i][j] == max(tried)
            knob = [v for k, v in score.search.best_params_.items() if k not in ("kernel", "similarity")]
            assert found["values"][i][j] == pytest.approx(knob[0], rel=1e-3)
            assert sum(map(sum, found["folds"])) == len(score.nested.chosen)
            own = "ridge" if kind == "regression" else "C"
            assert found["own"] == own
            assert found["knob"].startswith(f"{own} ")
    heat = next(s for s in comparison("counts").scores if s.name == "exact heat")
    found = response(comparison("counts"), heat)
    assert (found["parameter"], found["rows"]) == ("t_star", ["0.5", "1"])
    assert {"0.1", "1", "10", "100", "1000"} <= set(found["columns"])


def test_a_kernel_may_have_an_alpha() -> None:
    result = comparison("counts")
    heat = next(s for s in result.scores if s.name == "exact heat")
    search = copy.copy(heat.search)
    table = {"param_kernel__alpha": heat.search.cv_results_["param_kernel__t_star"]}
    search.cv_results_ = table | {
        k: v for k, v in heat.search.cv_results_.items() if not k.startswith("param_kernel")
    }
    found = response(result, replace(heat, search=search))
    assert (found["parameter"], found["own"], found["rows"]) == ("alpha", "C", ["0.5", "1"])
    search.cv_results_ = {k: v for k, v in search.cv_results_.items() if not k.startswith("param_")}
    chosen = [{"kernel": choice["kernel"]} for choice in heat.nested.chosen]
    bare = replace(heat, search=search, nested=replace(heat.nested, chosen=chosen))
    assert response(result, bare)["knob"] == ""


def test_families_of_several_classes_show_whole_kernels() -> None:
    kernels = {"mixed": [Gaussian(2.0), Gaussian(5.0), Linear()]}
    result = compare(
        comparison("counts").data.X, np.repeat([0, 1], 15), kernels=kernels, folds=2, n_jobs=1
    )
    found = response(result, result.scores[0])
    assert found["parameter"] == ""
    assert found["rows"] == ["Gaussian(length_scale=2.0)", "Gaussian(length_scale=5.0)", "Linear()"]


def test_kernels_of_columns_are_told_apart_by_their_parameters() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"gene": ["".join(rng.choice(list("ACGT"), 9)) for _ in range(30)]})
    kernels = {"strings": [On("gene", Spectrum((1, 2))), On("gene", Spectrum((1, 4)))]}
    result = compare(table, np.arange(30) % 2, kernels=kernels, folds=2, n_jobs=1)
    found = response(result, result.scores[0])
    assert found["parameter"] == "kernel"
    assert found["rows"] == [f"Spectrum of gene, length 1 to {length}" for length in (2, 4)]


def test_maps_are_kernel_pca() -> None:
    X = np.random.default_rng(1).normal(size=(40, 4)) * [3, 2, 1, 0.5]
    grams = [Linear()(X), Gaussian(4.0)(X)]
    for K, found in zip(grams, maps(grams), strict=True):
        pca = KernelPCA(2, kernel="precomputed").fit(K)
        places = pca.transform(K)
        for mine, theirs in zip((found["x"], found["y"]), places.T, strict=True):
            sign = np.sign(np.dot(mine, theirs))
            np.testing.assert_allclose(mine, sign * theirs, atol=2e-3 * np.abs(theirs).max())
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        np.testing.assert_allclose(found["shares"], pca.eigenvalues_ / np.trace(centred), rtol=1e-3)
    first, second = maps(grams)
    assert np.dot(first["x"], second["x"]) > 0
    assert maps([np.ones((1, 1))])[0]["x"] == [0.0]
    assert maps([np.ones((5, 5))])[0]["shares"] == [0.0, 0.0]


def test_heat_maps() -> None:
    K = np.array([[4.0, 1.0, 0.0], [1.0, 1.0, -0.5], [0.0, -0.5, 1.0]])
    S = similarities(K)
    np.testing.assert_allclose(S, [[1, 0.5, 0], [0.5, 1, -0.5], [0, -0.5, 1]])
    found = heat_map(K)
    assert (found["low"], found["high"]) == (-0.5, 0.5)
    levels = np.frombuffer(base64.b64decode(found["bytes"]), dtype=np.uint8)
    assert levels.tolist() == [255, 255, 255, 128, 0, 255]
    assert similarities(np.zeros((2, 2))).tolist() == [[0, 0], [0, 0]]
    assert heat_map(np.ones((1, 1)))["low"] == 0.0


def test_histograms_of_pairs() -> None:
    values = np.array([[0, 1, 3.0], [1, 0, 2], [3, 2, 0]])
    found = pair_histogram(values, np.array([0, 0, 1]), np.array([0.5, 1.5, 2.5, 3.5]))
    assert [g["bars"] for g in found["groups"]] == [[1, 0, 0], [0, 0.5, 0.5]]
    assert [g["name"] for g in pair_histogram(values, None)["groups"]] == ["all pairs"]
    same = pair_histogram(np.ones((3, 3)), None)
    assert sum(same["groups"][0]["bars"]) == 1
    one = pair_histogram(np.ones((1, 1)), np.array([0]))
    assert sum(one["groups"][0]["bars"]) == 0


def test_profiles_are_the_kernels() -> None:
    result = comparison("counts")
    angle, distance = pictures(result, choose(result))["curves"]
    (line,) = angle["lines"]
    kernel = next(s.kernel for s in result.scores if s.name == "exact heat")
    degrees = np.radians(angle["x"])
    rows = np.column_stack([np.cos(degrees), np.sin(degrees)]) ** 2
    rows = np.hstack([rows, np.zeros((len(rows), 4))])
    np.testing.assert_allclose(line["y"], kernel(rows[:1], rows)[0], atol=2e-4)
    assert angle["x"][-1] == 90
    (line,) = distance["lines"]
    scale = next(s.kernel for s in result.scores if s.name == "Gaussian").length_scale
    np.testing.assert_allclose(line["y"], np.exp(-np.square(distance["x"]) / (2 * scale**2)), atol=1e-3)
    for figure in (angle, distance):
        for group in figure["histogram"]["groups"]:
            assert sum(group["bars"]) == pytest.approx(1, abs=2e-3)
    sphere = pictures(comparison("directions"), np.arange(30))["curves"][0]
    assert (sphere["x"][-1], sphere["lines"][0]["y"][-1]) == (180, -1)


def test_profiles_of_every_kernel_of_the_angle() -> None:
    angles = np.linspace(0, np.pi / 2, 7)
    rows = np.zeros((7, 5))
    rows[:, 0], rows[:, 1] = np.cos(angles), np.sin(angles)
    zonal = [kernel for kernel in KERNELS if kernel.is_zonal()]
    assert len(zonal) > 10
    assert not KullbackLeibler(Simplex()).is_zonal()
    for kernel in zonal:
        points = rows**2 if isinstance(kernel.space, Simplex) else rows
        if kernel.space == Sphere(coordinates="latlon"):
            points = np.degrees(np.column_stack([angles, np.zeros(7)]))
        values = kernel(points[:1], points)[0]
        found = kernel.profile(kernel.space.n or 5).evaluate(np.cos(angles))
        np.testing.assert_allclose(found, values, atol=1e-12 * values[0], err_msg=repr(kernel))


def test_predictions() -> None:
    result = comparison("directions")  # two repeats
    score = result.scores[0]
    found = confusion(result, score)
    expected = sum(
        confusion_matrix(result.target.y[t], p, labels=["a", "b"])
        for t, p in zip(score.nested.tests, score.nested.predictions, strict=True)
    )
    assert found.counts == expected.tolist()
    assert found.total == 60
    assert found.wrong == expected[0, 1] + expected[1, 0]
    assert sum(times for _, _, times in found.mistakes) == found.wrong
    first = dict(zip(score.nested.tests[0].tolist(), score.nested.predictions[0], strict=True))
    assert predicted(result, score, np.array([*first])) == list(first.values())
    result = comparison("regression")
    found = pictures(result, np.arange(30))
    np.testing.assert_allclose(found["points"]["value"], result.target.y, rtol=1e-3)
    for test, guess in zip(
        result.scores[0].nested.tests, result.scores[0].nested.predictions, strict=True
    ):
        np.testing.assert_allclose(np.array(found["families"][0]["predicted"])[test], guess, rtol=1e-3)
    assert found["ticks"][0] <= min(found["points"]["value"])


def test_classes_that_are_too_many_for_a_matrix(monkeypatch) -> None:
    assert Reader(page("many classes")).text("main").count("would be too large") == 0
    monkeypatch.setattr("mercer.report.predictions.MOST_CLASSES", 32)
    assert "A confusion matrix of 33 classes would be too large" in render(
        comparison("many classes"), "x"
    )


def test_bounds() -> None:
    result = comparison("counts")
    for row, score in zip(capacities(result), result.scores, strict=True):
        X, y, chosen = result.data.X, result.target.y, score.search.best_estimator_[-1]
        exact = SVC(kernel="precomputed", C=chosen.C, class_weight=chosen.class_weight, tol=1e-6)
        machine = exact.fit(score.kernel(X), y)
        (bound,) = pairwise_vc_bounds(machine, X, y, kernel=score.kernel).values()
        assert row.name == score.name
        assert float(row.mu) == pytest.approx(bound.mu, rel=1e-2)
        assert float(row.effective) == pytest.approx(30 / bound.mu, rel=1e-2)
    assert capacities(comparison("regression")) == []
    assert "Effective sample size" not in page("regression")
    assert "Effective sample size" not in page("many classes")  # only on request
    assert "it takes the Gram matrix" in render(comparison("many classes"), "x", bounds=True)


def test_bounds_of_a_kernel_that_is_none(monkeypatch) -> None:
    def refuse(*arguments, **options):
        raise ValueError(
            "the Gram matrix is not positive semidefinite, so there is no feature space; and"
        )

    monkeypatch.setattr("mercer.report.capacity.pairwise_vc_bounds", refuse)
    row = capacities(comparison("counts"))[0]
    assert row.reason == "the Gram matrix is not positive semidefinite"
    assert "none: the Gram matrix is not positive" in render(comparison("counts"), "x", bounds=True)


def test_scores_that_are_no_numbers() -> None:
    result = comparison("counts")
    nested = replace(result.scores[0].nested, scores=np.array([np.nan, 0.5]))
    broken = replace(result, scores=[replace(result.scores[0], nested=nested)])
    text = render(broken, "x")
    assert "nan%" in Reader(text).text("table")
    assert ":nan" not in text  # no mark of it in the plot
    assert Reader(text).data()["families"]
