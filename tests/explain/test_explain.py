"""Predictions split into training rows, parts and columns."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge as PlainRidge
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from mercer.explain import explain
from mercer.features import GramTransformer
from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import (
    Diffused,
    Gaussian,
    Heat,
    Linear,
    Matern,
    MultipleKernel,
    On,
    PosteriorHeat,
    Spectrum,
    TfIdf,
)
from mercer.machines import (
    SVC,
    SVR,
    KernelRidge,
    LandmarkClassifier,
    LandmarkRegressor,
    OneClassSVM,
)
from mercer.selection import KernelSearchCV, SavedModel, load_model
from mercer.spaces import Categories, Graph, Simplex

WINE, CLASSES = load_wine(return_X_y=True, as_frame=True)
WINE = WINE[["alcohol", "malic_acid", "hue", "proline"]]
NAMES = np.array(["red", "rose", "white"])[CLASSES]
SCALED = pd.DataFrame(StandardScaler().fit_transform(WINE), columns=WINE.columns)
FEW = SCALED[::20]
GAUSSIAN = Gaussian(2.0)


def mixed_table(size: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size)
    words = np.array([["old slow ship", "new fast car"], ["ship and sea", "car and road"]])
    table = pd.DataFrame(
        {
            "length": y + rng.normal(size=size), "width": rng.normal(size=size),
            "text": [words[rng.integers(2), k if rng.random() < 0.8 else 1 - k] for k in y],
            "site": np.where(rng.random(size) < 0.7, y, 1 - y).astype(str),
            "gene": ["".join(rng.choice(list("ACGT" if k else "AACG"), 8)) for k in y],
        }
    )  # fmt: skip
    return table, np.array(["no", "yes"])[y]


PARTS = [
    On(["length", "width"], Gaussian(2.0)), On("text", TfIdf()), On(["site"], Heat(Categories())),
    On("gene", Spectrum(2)),
]  # fmt: skip
TABLE, ANSWERS = mixed_table()


@pytest.mark.parametrize(
    "kernel",
    [PARTS[0] + 2 * PARTS[1] + (PARTS[2] + PARTS[3]) * 0.5, MultipleKernel(PARTS)],
    ids=["sum", "learnt"],
)
@pytest.mark.parametrize("machine", [SVC, LandmarkClassifier], ids=["svc", "landmarks"])
def test_parts_add_up(kernel, machine):
    options = {"random_state": 0} if machine is LandmarkClassifier else {}
    model = machine(kernel, **options).fit(TABLE, ANSWERS)
    found = explain(model, TABLE[:9])
    assert found.outputs == ("no", "yes")
    assert found.part_names == ["length, width", "text", "site", "gene"]
    decisions = model.decision_function(TABLE[:9])
    np.testing.assert_allclose(found.values[:, 1], decisions, rtol=1e-12)
    np.testing.assert_allclose(found.values[:, 0], -decisions, rtol=1e-12)
    total = found.part_values.sum(axis=1) + found.intercept
    np.testing.assert_allclose(total[:, 1], decisions, rtol=1e-12)
    parts = found.parts(3)
    row = found.outputs.index(found.predicted[3])
    assert parts["contribution"].sum() + found.intercept[row] == pytest.approx(abs(decisions[3]))
    assert parts["share"].sum() == pytest.approx(1)
    # Words and substrings are terms of their parts, row by row.
    columns = found.columns(3, top=10_000)
    assert {"word", "substring"} <= set(columns["kind"]) <= {"column", "word", "label", "substring"}
    for part in ("text", "gene"):
        own = columns[columns["part"] == part]
        assert own["exact"].all()
        named = parts.set_index("part")["contribution"][part]
        assert own["contribution"].sum() == pytest.approx(named, rel=1e-12)
    assert not columns[columns["part"] == "length, width"]["exact"].any()


def test_a_table_adds_up_and_says_what_is_exact():
    kernel = sum(PARTS[1:], PARTS[0])
    for own in (kernel, PARTS[0]):
        found = explain(SVC(own).fit(TABLE, ANSWERS), TABLE[:3])
        for _, table in found.table(top=1).groupby("row"):
            sums = table.groupby("kind")["contribution"].sum()
            assert sums["intercept"] + sums["part"] == pytest.approx(sums["value"])
            first_order = table[~table["exact"]]
            assert set(first_order["kind"]) == {"column"}
    columns = explain(SVC(kernel).fit(TABLE, ANSWERS), TABLE[:1]).columns(top=1000)
    sizes = columns["contribution"].abs()
    assert sizes.is_monotonic_decreasing
    np.testing.assert_allclose(columns["share"], sizes / sizes.sum(), rtol=1e-12)


def test_what_is_zero_up_to_rounding_is_left_out():
    found = explain(SVC(Linear()).fit(SCALED, NAMES), 0 * FEW)
    assert set(found.table()["kind"]) == {"value", "intercept", "part"}
    assert not np.signbit(found.part_values).any()
    assert not len(found.rows())
    # Contributions of an unseen label are differences of equal numbers.
    names = [f"s{k}" for k in range(3)]
    labels = pd.DataFrame(np.random.default_rng(0).choice(list("abc"), (60, 3)), columns=names)
    model = SVC(On(names, Heat(Categories()))).fit(labels, ANSWERS)
    columns = explain(model, labels[:1].assign(s1="new")).columns()
    assert set(columns["name"]) == {f"{name} = {labels[name][0]}" for name in ("s0", "s2")}


def test_a_word_taken_away():
    """Removing what is named changes the value by what was said, if the kernel is linear in it."""
    counts = pd.DataFrame(np.random.default_rng(0).poisson(1.0, (40, 5)), columns=list("abcde"))
    y = counts["a"] - 0.5 * counts["c"] + 0.1 * counts["e"]
    kernel = On(list("abcde"), Linear(), prepare=None)
    model = KernelRidge(kernel, alpha=0.1).fit(counts, y)
    found = explain(model, counts[:3])
    for row in range(3):
        for _, own in found.columns(row).iterrows():
            without = counts[row : row + 1].assign(**{own["name"]: 0})
            change = model.predict(counts[row : row + 1]) - model.predict(without)
            assert change[0] == pytest.approx(own["contribution"], rel=1e-9)


def test_first_order():
    """A small step of a column changes the value by twice what was said, because it is squared."""
    model = KernelRidge(Gaussian(1.5), alpha=0.5).fit(SCALED, CLASSES)
    x = SCALED[10:11]
    found = explain(model, x).columns().set_index("name")
    assert list(found.index) != list(SCALED.columns)
    assert not found["exact"].any()
    wide = KernelRidge(Gaussian(1.5, column_scales=np.ones(4)), alpha=0.5).fit(SCALED, CLASSES)
    step = 1e-5
    for j, name in enumerate(SCALED.columns):
        values = []
        for sign in (1, -1):
            scales = np.ones(4)
            scales[j] = (1 + sign * step) ** -0.5
            wide.kernel_ = Gaussian(1.5, column_scales=scales)
            values.append(wide.predict(x)[0])
        slope = (values[0] - values[1]) / (2 * step)
        assert found["contribution"][name] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("plain", [False, True], ids=["mercer", "scikit-learn"])
def test_several_classes(shape, plain):
    if plain:
        machine = svm.SVC(kernel="precomputed", decision_function_shape=shape)
        model = make_pipeline(GramTransformer(GAUSSIAN), machine).fit(SCALED, NAMES)
    else:
        model = SVC(GAUSSIAN, decision_function_shape=shape).fit(SCALED, NAMES)
    found = explain(model, FEW)
    decisions = model.decision_function(FEW)
    if shape == "ovo":
        assert found.outputs == (("red", "rose"), ("red", "white"), ("rose", "white"))
        np.testing.assert_allclose(found.values, decisions, rtol=1e-12, atol=1e-14)
        return
    assert found.outputs == ("red", "rose", "white")
    # Votes are whole numbers, and sums of pairs the ties between them.
    sums = found.values / (3 * (np.abs(found.values) + 1))
    np.testing.assert_allclose(decisions - sums, np.round(decisions - sums), atol=1e-12)
    np.testing.assert_allclose(found.values.sum(axis=1), 0, atol=1e-12)


def test_the_narrowest_pair():
    model = SVC(GAUSSIAN, decision_function_shape="ovo").fit(SCALED, NAMES)
    found = explain(model, FEW)
    decisions, predicted = model.decision_function(FEW), model.predict(FEW)
    table = found.table(top=1)
    for row, label in enumerate(predicted):
        pair = table[table["row"] == row]["output"].iloc[0]
        margins = [
            v if a == label else -v
            for (a, b), v in zip(found.outputs, decisions[row], strict=True)
            if label in (a, b)
        ]
        assert label in pair
        value = decisions[row, found.outputs.index(pair)]
        assert (value if pair[0] == label else -value) == min(margins)


def test_regressions():
    target = np.stack([CLASSES, SCALED["hue"]], axis=1)
    several = KernelRidge(GAUSSIAN).fit(SCALED, target)
    found = explain(several, FEW)
    assert found.outputs == (0, 1)
    np.testing.assert_allclose(found.values, several.predict(FEW), rtol=1e-12)
    assert found.rows(2, output=1, top=500)["contribution"].sum() == pytest.approx(found.values[2, 1])
    for model in (
        SVR(GAUSSIAN), SVR(GAUSSIAN, compress=20), KernelRidge(GAUSSIAN, compress=20),
        KernelRidge("rbf"), LandmarkRegressor(GAUSSIAN, n_landmarks=30, bias=True, random_state=0),
    ):  # fmt: skip
        found = explain(model.fit(SCALED, CLASSES), FEW)
        assert found.outputs == ("prediction",)
        np.testing.assert_allclose(found.values[:, 0], model.predict(FEW), rtol=1e-12)
        rows = found.rows(1, top=500)
        assert rows["contribution"].sum() + found.intercept[0] == pytest.approx(found.values[1, 0])
        assert rows["share"].sum() == pytest.approx(1)
        assert rows["share"].is_monotonic_decreasing
        assert rows.columns[0] == ("landmark" if hasattr(model, "landmarks_") else "row")
        assert found.nearest().columns[0] == rows.columns[0]
    novelty = OneClassSVM(GAUSSIAN, nu=0.2).fit(SCALED)
    found = explain(novelty, FEW)
    assert found.outputs == ("inlier",)
    np.testing.assert_allclose(found.values[:, 0], novelty.decision_function(FEW), rtol=1e-10)


def test_targets_that_were_transformed():
    kernel = Gaussian(2.0)
    machine = TransformedTargetRegressor(PlainRidge(kernel="precomputed"), transformer=StandardScaler())
    model = make_pipeline(MinMaxScaler(), GramTransformer(kernel, normalize=True), machine)
    model.fit(WINE, 100 + CLASSES)
    found = explain(model, WINE[::20])
    np.testing.assert_allclose(found.values[:, 0], model.predict(WINE[::20]), rtol=1e-12)
    assert set(found.columns()["name"]) == set(WINE.columns)
    logs = TransformedTargetRegressor(PlainRidge(kernel="precomputed"), func=np.log, inverse_func=np.exp)
    model = make_pipeline(GramTransformer(kernel), logs).fit(SCALED, 100 + CLASSES)
    found = explain(model, FEW)
    assert found.outputs == ("transformed prediction",)
    np.testing.assert_allclose(np.exp(found.values[:, 0]), model.predict(FEW), rtol=1e-12)


def test_nearest_rows():
    model = make_pipeline(GramTransformer(GAUSSIAN), SVC(kernel="precomputed")).fit(SCALED, NAMES)
    found = explain(model, SCALED[7:8])
    kept = model[-1].support_
    nearest = found.nearest(top=3)
    K = GAUSSIAN(SCALED[7:8], SCALED.iloc[kept])[0]
    assert nearest["row"].tolist() == kept[np.argsort(-K)][:3].tolist()
    np.testing.assert_allclose(nearest["distance"], np.sqrt(2 - 2 * np.sort(-K)[:3] * -1), atol=1e-12)
    linear = explain(KernelRidge(Linear()).fit(SCALED, CLASSES), SCALED[7:8]).nearest(top=2)
    apart = np.linalg.norm(SCALED.to_numpy() - SCALED.to_numpy()[7], axis=1)
    assert linear["row"].tolist() == np.argsort(apart)[:2].tolist()
    np.testing.assert_allclose(linear["distance"], np.sort(apart)[:2], atol=1e-6)


def test_typical_words():
    found = explain(SVC(On("text", TfIdf())).fit(TABLE, ANSWERS), TABLE).typical(top=2)
    named = {label: set(own["name"]) for label, own in found.groupby("output")}
    assert named["no"] <= {"ship", "sea", "old", "slow"}
    assert named["yes"] <= {"car", "road", "new", "fast"}
    assert (found["contribution"] > 0).all()
    ridge = explain(KernelRidge(Linear()).fit(SCALED, CLASSES), FEW).typical()
    weights = np.linalg.solve(SCALED.T @ SCALED + np.eye(4), SCALED.T @ CLASSES)
    sizes = pd.Series(np.abs(FEW * weights).mean(), index=SCALED.columns)
    np.testing.assert_allclose(ridge.set_index("name")["size"][sizes.index], sizes, rtol=1e-9)


def test_graphs():
    club = nx.karate_club_graph()
    sides = [club.nodes[k]["club"] for k in club]
    words = pd.DataFrame(np.random.default_rng(0).poisson(1.0, (34, 4)) + 1, columns=list("abcd"))
    graph = Graph(club)
    kernel = Diffused(graph, TfIdf(), t=0.5, attributes=words) + Matern(graph, length_scale=1.0)
    model = SVC(kernel).fit(list(range(0, 34, 2)), sides[::2])
    found = explain(model, [1, 3])
    np.testing.assert_allclose(found.values[:, 1], model.decision_function([1, 3]), rtol=1e-12)
    columns = found.columns(top=100)
    assert set(columns["kind"]) == {"neighbour", "column"}
    for (part, _), own in columns.groupby(["part", "kind"]):
        total = found.parts().set_index("part")["contribution"][part]
        assert own["contribution"].sum() == pytest.approx(total, rel=1e-10)
    assert set(columns[columns["kind"] == "column"]["name"]) == set("abcd")


def test_attributes_without_names_in_a_table():
    club = nx.karate_club_graph()
    table = pd.DataFrame({"x": np.linspace(0, 1, 34), "node": range(34)})
    words = np.random.default_rng(0).poisson(1.0, (34, 4))
    kernel = On("node", Diffused(Graph(club), Linear(), 0.5, words)) + On("x", Linear())
    model = SVC(kernel).fit(table[::2], [club.nodes[k]["club"] for k in range(0, 34, 2)])
    found = explain(model, table[1:2])
    own = found.columns(top=100).query("part == 'node' and kind == 'column'")
    assert set(own["name"]) == {f"attribute {i}" for i in range(4)}
    total = found.parts().set_index("part")["contribution"]["node"]
    assert own["contribution"].sum() == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("width", [3, 60, 800, 20_000])
def test_widths(width):
    rng = np.random.default_rng(0)
    counts = sparse.random(40, width, density=min(1.0, 60 / width), random_state=0, format="csr")
    counts.data = rng.integers(1, 5, counts.nnz).astype(float)
    counts = sparse.csr_matrix(
        counts + sparse.csr_matrix(([1.0] * 40, (range(40), [0] * 40)), (40, width))
    )
    y = rng.integers(0, 2, 40)
    for kernel in (Heat(Simplex()), Gaussian(5.0)):
        tables = []
        for rows in (counts, counts.toarray()):
            model = SVC(kernel).fit(rows, y)
            tables.append(explain(model, rows[:3]).table(top=3))
        numbers = [table["contribution"].to_numpy(float) for table in tables]
        np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-9)


def test_rows_without_columns():
    K = GAUSSIAN(SCALED)
    for model, points in (
        (SVC(kernel="precomputed").fit(K, NAMES), K[::20]),
        (SVC(lambda A, B: GAUSSIAN(A, B)).fit(SCALED.to_numpy(), NAMES), FEW.to_numpy()),
    ):
        found = explain(model, points)
        assert found.rows()["share"].iloc[0] > 0
        assert list(found.nearest().columns) == ["row", "similarity"]
        assert set(found.table()["kind"]) == {"value", "intercept", "part", "training row"}
        with pytest.raises(ValueError, match="columns cannot be named"):
            found.columns()
        with pytest.raises(ValueError, match="columns cannot be named"):
            found.typical()
    counts = np.random.default_rng(0).poisson(2.0, (20, 4)) + 1
    found = explain(SVC(PosteriorHeat()).fit(counts, np.arange(20) % 2), counts[:1])
    assert len(found.table())
    with pytest.raises(ValueError, match="does not tell its columns apart"):
        found.columns()


def test_points_that_share_nothing_with_training_rows():
    genes, table = ["ACGT", "GGTT", "ACGA", "TTTT"], pd.DataFrame({"gene": ["ZZZZ"]})
    alone = SVC(Spectrum(2)).fit(genes, [0, 1, 0, 1])
    column = SVC(On("gene", Spectrum(2))).fit(pd.DataFrame({"gene": genes}), [0, 1, 0, 1])
    for model, points in ((alone, ["ZZZZ"]), (column, table)):
        found = explain(model, points)
        for method in (found.columns, found.typical):
            with pytest.warns(UserWarning, match="nothing in common with the training rows"):
                frame = method()
            assert not len(frame)
            assert "contribution" in frame
        np.testing.assert_array_equal(found.values[0], found.intercept)


@pytest.mark.filterwarnings("ignore:the optimal value found")  # the text does not matter
def test_gaussian_processes():
    table, y = mixed_table()
    kernel = On(["length", "width"], Gaussian(2.0)) + 0.5 * On("text", TfIdf())
    process = SphericalGPRegressor(kernel).fit(table, table.length)
    found = explain(process, table)
    np.testing.assert_allclose(found.values[:, 0], process.predict(table), atol=1e-9)
    assert found.part_names == ["length, width", "text"]
    assert {"length", "car"} <= set(found.columns()["name"])
    classifier = SphericalGPClassifier(kernel).fit(table, y)
    found = explain(classifier, table)
    assert found.outputs == ("no", "yes")
    np.testing.assert_array_equal(classifier.predict(table) == "yes", found.values[:, 1] > 0)
    counts = SphericalGPPoissonRegressor(kernel).fit(table, 3 * (y == "yes"))
    # The mean and the variance of counts whose rate is log-normal determine its logarithm's mean.
    mean, std = counts.predict(table, return_std=True)
    expected = np.log(mean) - 0.5 * np.log1p((std**2 - mean) / mean**2)
    np.testing.assert_allclose(explain(counts, table).values[:, 0], expected, atol=1e-8)
    with pytest.raises(TypeError, match=r"Gaussian processes of mercer.gp with a kernel of tables"):
        explain(SphericalGPRegressor().fit(SCALED, CLASSES), FEW)


def test_searches():
    search = KernelSearchCV(GAUSSIAN, cv=3, param_grid={"C": [1.0]}).fit(SCALED, NAMES)
    found = explain(search, FEW)
    assert found.predicted.tolist() == search.predict(FEW).tolist()
    assert set(found.columns()["name"]) == set(SCALED.columns)


def test_what_is_refused():
    with pytest.raises(NotFittedError):
        explain(SVC(), FEW)
    with pytest.raises(TypeError, match="explain takes machines"):
        explain(LogisticRegression().fit(SCALED, NAMES), FEW)
    with pytest.raises(TypeError, match="does not keep its points"):
        explain(svm.SVC().fit(SCALED, NAMES), FEW)
    found = explain(SVC(GAUSSIAN).fit(SCALED, NAMES), FEW)
    with pytest.raises(ValueError, match="output must be one of"):
        found.rows(output="blue")
    with pytest.raises(IndexError, match="none at position 99"):
        found.parts(99)
    constant = explain(SVR(GAUSSIAN).fit(SCALED, np.ones(len(SCALED))), FEW)
    assert constant.values.tolist() == [[1.0]] * len(FEW)
    assert not len(constant.rows())
    assert not len(constant.columns())


def test_saved_models(tmp_path):
    club = nx.karate_club_graph()
    graph = Graph(nx.relabel_nodes(club, {k: f"m{k}" for k in club}))
    members = graph.nodes
    words = np.random.default_rng(0).poisson(1.0, (34, 4)) + 1
    kernel = Diffused(graph, TfIdf(), t=0.5, attributes=words) + Heat(graph, t=1.0)
    machine = SVC(kernel="precomputed")
    model = make_pipeline(GramTransformer(kernel), machine).fit(members[::2], CLASSES[::8][:17] > 0)
    SavedModel(model, kind="nodes", roles={"node": "name"}).save(tmp_path / "club.skops")
    found, before = (explain(m, members[1:4]) for m in (load_model(tmp_path / "club.skops"), model))
    pd.testing.assert_frame_equal(found.table(), before.table())
    names = found.table().groupby("kind")["name"].unique()
    assert set(names["neighbour"]) | set(names["training row"]) <= set(members)
