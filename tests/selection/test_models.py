"""Models on disk: the same predictions, and no code of a file."""

import io
import json
import pickle
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.inspection import permutation_importance
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted
from typer.testing import CliRunner

from mercer._files import seal
from mercer.cli import app
from mercer.datasets import Table
from mercer.features import GramTransformer
from mercer.kernels import Gaussian, Heat, MeanEmbedding, Spectral, Spectrum, TfIdf
from mercer.machines import SVC
from mercer.selection import SavedModel, compare, load_model, model_files, save_model
from mercer.spaces import Graph, Simplex
from tests.helpers.catalogue import KERNELS

RNG = np.random.default_rng(0)
Y = np.repeat(["a", "b", "c"], 12)
COUNTS = np.vstack([RNG.multinomial(40, p, size=12) for p in RNG.dirichlet(np.ones(8), size=3)])
NUMBERS = COUNTS @ np.arange(8.0) + RNG.normal(size=36)
CLUB = Graph(nx.karate_club_graph())
CLOUDS = [RNG.normal(i // 12, 1, size=(4 + i % 3, 2)) for i in range(36)]
WEIGHTED = [(cloud, np.full(len(cloud), 1 / len(cloud))) for cloud in CLOUDS]
WORDS = ["ACGT"[i // 12] * (i % 5 + 3) + "TGCA"[i % 4 :] for i in range(36)]
WIDE = sparse.csr_matrix(np.pad(COUNTS, ((0, 0), (0, 1000)))).astype(float)


def comparison(X, y=Y, **options):
    return compare(X, y, folds=2, n_jobs=1, **options)


@cache
def of_counts():
    """The comparison of all families, once for all tests."""
    return comparison(COUNTS)


def saved(tmp_path: Path, result, table=None, roles=None) -> SavedModel:
    path = tmp_path / "model.skops"
    save_model(path, result, table, roles)
    return load_model(path)


KINDS = {
    "counts": (COUNTS, Y, {}),
    "numbers": (COUNTS, NUMBERS, {}),
    "sparse rows": (WIDE, Y, {}),
    "array of columns": (COUNTS, Y, {"kernels": Gaussian(column_scales=np.linspace(1, 2, 8))}),
    "weights of words": (COUNTS, Y, {"kernels": TfIdf(weights=np.linspace(1, 2, 8))}),
    "array of levels": (COUNTS, Y, {"kernels": Spectral(Simplex(), np.array([1.0, 0.5, 0.25]))}),
    "strings": (WORDS, Y, {"kernels": Spectrum(2)}),
    "bytes": ([word.encode() for word in WORDS], Y, {"kernels": Spectrum(2)}),
    "clouds": (CLOUDS, Y, {"kernels": MeanEmbedding(Gaussian(2.0))}),
    "weighted clouds": (WEIGHTED, Y, {"kernels": MeanEmbedding(Gaussian(2.0))}),
    "nodes": (CLUB.nodes, np.array([0, 1] * 17), {"space": CLUB, "kernels": Heat(CLUB, t=0.5)}),
    "sum": (COUNTS, Y, {"kernels": Heat(Simplex(), t=0.2) + 0.5 * Gaussian(3.0)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_same_to_the_last_bit(kind: str, tmp_path) -> None:
    X, y, options = KINDS[kind]
    result = comparison(X, y, **options)
    best = result.scores[0].search.best_estimator_
    again = saved(tmp_path, result)
    X = X[:]  # for the training points themselves there is another way to the Gram matrix
    assert again.predict(X).tobytes() == best.predict(X).tobytes()
    assert again.predict(X).dtype == best.predict(X).dtype
    if kind == "numbers":
        assert is_regressor(again)
        assert not hasattr(again, "decision_function")
        assert not hasattr(again, "predict_proba")
        return
    assert is_classifier(again)
    assert again.decision_function(X).tobytes() == best.decision_function(X).tobytes()
    probabilities = again.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert probabilities.shape == (len(y), len(again.classes_))
    assert again.score(X, y) == best.score(X, y)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.DegenerateKernelWarning")
@pytest.mark.filterwarnings("ignore::mercer.exceptions.IndefiniteKernelWarning")
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_of_the_catalogue(kernel) -> None:
    points = kernel.sample(40, np.random.default_rng(0))
    model = make_pipeline(GramTransformer(kernel), SVC(kernel="precomputed")).fit(
        points, [0, 1] * (len(points) // 2)
    )
    again = model_files.loads(model_files.dumps(model))
    assert again.decision_function(points[:5]).tobytes() == model.decision_function(points[:5]).tobytes()


def test_probabilities_are_those_of_machines_calibrated_on_inner_folds(tmp_path) -> None:
    result = of_counts()
    again = saved(tmp_path, result)
    right = again.classes_[again.predict_proba(COUNTS).argmax(axis=1)] == Y
    assert right.mean() > 0.9
    groups = np.arange(36) % 12
    grouped = compare(COUNTS, Y, folds=2, groups=groups)
    assert saved(tmp_path, grouped).predict_proba(COUNTS).shape == (36, 3)
    # Groups that leave a class out of a training part: no probabilities rather than wrong ones.
    apart = replace(grouped.target, groups=np.where(Y == "a", 0, groups + 1))
    assert not hasattr(saved(tmp_path, replace(grouped, target=apart)), "predict_proba")


def test_data_frames(tmp_path) -> None:
    names = tuple(f"w{i}" for i in range(8))
    roles = {"target": "y", "drop": ("note",), "groups": "who"}
    again = saved(tmp_path, of_counts(), Table("t", None, None, columns=names), roles)
    frame = pd.DataFrame(COUNTS, columns=list(names))
    expected = again.predict(COUNTS)
    full = frame[frame.columns[::-1]].assign(y=Y, note="x", who=1)
    for given in (frame, full, pl.from_pandas(full)):
        assert (again.predict(given) == expected).all()
        assert again.predict_proba(given).tobytes() == again.predict_proba(COUNTS).tobytes()
    with pytest.raises(ValueError, match="X has no column 'w3', which the model needs"):
        again.predict(frame.drop(columns="w3"))
    with pytest.raises(ValueError, match="X has a column 'w9' that the model does not know"):
        again.score(frame.assign(w9=1), Y)
    with pytest.raises(ValueError, match="8 features"):
        again.predict(COUNTS[:, :7])
    unnamed = saved(tmp_path, of_counts())
    assert (unnamed.predict(frame) == expected).all()
    assert not hasattr(unnamed, "feature_names_in_")


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame])
def test_a_comparison_of_a_data_frame_knows_its_columns(made, tmp_path) -> None:
    frame = pd.DataFrame(COUNTS, columns=list("abcdefgh"))
    again = saved(tmp_path, comparison(made(frame.to_dict("list"))))
    assert again.feature_names_in_.tolist() == list("abcdefgh")
    assert again.n_features_in_ == 8
    expected = saved(tmp_path, of_counts()).predict(COUNTS)
    assert (again.predict(frame[list("hgfedcba")]) == expected).all()
    path = tmp_path / "new.csv"
    frame[list("bacdefgh")].to_csv(path, index=False)
    assert (again.predict(again.read(path).X) == expected).all()


def test_a_model_is_shown_in_one_line(tmp_path) -> None:
    frame = pd.DataFrame(COUNTS, columns=[f"a rather long name {i}" for i in range(8)])
    again = saved(tmp_path, comparison(frame, kernels=Gaussian(2.0)))
    machine = again.model[-1]
    assert repr(again) == f"<SavedModel of table, by accuracy: Gaussian(length_scale=2.0), {machine!r}>"


def test_models_of_points_without_columns(tmp_path) -> None:
    for kind, role in (("strings", "text"), ("clouds", "cloud"), ("nodes", "node")):
        X, y, options = KINDS[kind]
        again = saved(tmp_path, comparison(X, y, **options))
        assert not hasattr(again, "n_features_in_")
        assert not hasattr(again, "feature_names_in_")
        with pytest.raises(
            ValueError, match=f"which column of t.csv is the {role}; save it with roles="
        ):
            again.read(tmp_path / "t.csv")


def test_data_frames_of_other_points(tmp_path) -> None:
    words = saved(tmp_path, comparison(WORDS, kernels=Spectrum(2)), roles={"text": "s"})
    assert (words.predict(pd.DataFrame({"s": WORDS, "z": 1})) == words.predict(WORDS)).all()
    with pytest.raises(ValueError, match="X has no column 's'"):
        words.predict(pd.DataFrame({"z": WORDS}))
    clouds = saved(tmp_path, comparison(CLOUDS, kernels=MeanEmbedding(Gaussian())), roles={"cloud": "c"})
    with pytest.raises(ValueError, match="a list of arrays, not a data frame"):
        clouds.predict(pd.DataFrame(CLOUDS[0]))


def test_an_estimator_among_others(tmp_path) -> None:
    again = saved(tmp_path, of_counts())
    check_is_fitted(again)
    found = permutation_importance(again, COUNTS, Y, n_repeats=2, random_state=0)
    assert found.importances.shape == (8, 2)
    fresh = clone(again)
    assert not fresh.__sklearn_is_fitted__()
    fresh.fit(COUNTS, Y)
    assert fresh.predict(COUNTS).tolist() == again.predict(COUNTS).tolist()
    assert not hasattr(fresh, "predict_proba")


class Own(Gaussian):
    """A kernel that is not Mercer's."""


def test_kernels_of_others_are_refused_by_name_and_the_old_file_stays(tmp_path) -> None:
    path = tmp_path / "model.skops"
    path.write_text("old")
    with pytest.raises(
        ValueError, match=r"model\.skops is not written.*tests\.selection\.test_models\.Own"
    ):
        save_model(path, comparison(COUNTS, kernels=Own(3.0)))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.skops"]


def test_what_is_no_comparison_is_refused_with_a_way_out(tmp_path) -> None:
    with pytest.raises(
        TypeError, match=r"got Gaussian; for a fitted.*SavedModel\(estimator\)\.save\(path\)"
    ):
        save_model(tmp_path / "model.skops", Gaussian(3.0))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "model.skops"
    save_model(path, of_counts())
    return path.read_bytes()


class Attack:
    def __reduce__(self):
        import os

        return os.mkdir, ("executed",)


def test_pickles_are_refused_and_run_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    for number, protocol in enumerate((0, 2, 5)):
        (tmp_path / f"{number}.joblib").write_bytes(pickle.dumps(Attack(), protocol))
    for compress in (0, 3, 9):
        joblib.dump(Attack(), tmp_path / f"c{compress}.joblib", compress=compress)
    for path in tmp_path.glob("*.joblib"):
        result = CliRunner().invoke(app, ["predict", str(path), str(table)])
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert path.name in result.stderr
        assert "mercer compare --save-model" in result.stderr
        if path.name != "0.joblib":  # protocol 0 is text like any other
            assert "is a pickle" in result.stderr
    assert not (tmp_path / "executed").exists()


def resealed(content: bytes, schema=lambda tree: None, parts=None) -> bytes:
    """The file with another schema or other parts, and a right checksum."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "schema.json":
                tree = json.loads(part)
                schema(tree)
                part = json.dumps(tree).encode()
            new.writestr(name, (parts or {}).get(name, part))
    seal(out, "model", 1)
    return out.getvalue()


def model_of(tree) -> dict:
    return tree["content"]["model"]


def machine_of(tree) -> dict:
    steps = model_of(tree)["content"]["content"]["steps"]["content"]
    return steps[1]["content"][1]["content"]["content"]


ATTACKS = {
    "os.system": ("FunctionNode", "os", "system"),
    "builtins.eval": ("TypeNode", "builtins", "eval"),
    "subprocess.Popen": ("ObjectNode", "subprocess", "Popen"),
    "functools.partial": ("PartialNode", "functools", "partial"),
    "sklearn.svm._classes.NuSVC": ("ObjectNode", "sklearn.svm._classes", "NuSVC"),
    "numpy.random._generator.Generator": ("RandomGeneratorNode", "numpy.random._generator", "Generator"),
    "operator.methodcaller": ("OperatorFuncNode", "operator", "methodcaller"),
    "mercer.selection.models.SavedModel": ("ObjectNode", "mercer.selection.models", "SavedModel"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_types_that_are_not_expected_are_refused_by_name(name: str, whole: bytes, tmp_path) -> None:
    def change(tree) -> None:
        loader, module, kind = ATTACKS[name]
        model_of(tree).update({"__loader__": loader, "__module__": module, "__class__": kind})

    path = tmp_path / "m.skops"
    path.write_bytes(resealed(whole, change))
    with pytest.raises(ValueError, match=rf"m\.skops cannot be read as a model: it holds {name}, which"):
        load_model(path)


def test_equal_models_give_equal_files(whole: bytes, tmp_path) -> None:
    path = tmp_path / "m.skops"
    save_model(path, of_counts())
    assert path.read_bytes() == whole
    load_model(path).save(path)
    assert load_model(path).predict(COUNTS).shape == (36,)


def test_a_whole_file_can_be_sealed_again(whole: bytes, tmp_path) -> None:
    path = tmp_path / "m.skops"
    path.write_bytes(resealed(whole))
    assert load_model(path).predict(COUNTS).shape == (36,)


def array(values, dtype) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(values, dtype=dtype))
    return out.getvalue()


def test_numbers_of_support_vectors_are_checked(whole: bytes, tmp_path) -> None:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        machine = machine_of(json.loads(archive.read("schema.json")))
        support = np.load(io.BytesIO(archive.read(machine["support_"]["file"])))
    path = tmp_path / "m.skops"
    far = np.array([*support[:-1], 10**6])
    for name, values, complaint in (
        ("support_", array(far, np.int32), "support vectors are not those of its training points"),
        ("support_", array(-support, np.int32), "support vectors are not those"),
        ("support_", array(support[:-1], np.int32), "has the wrong shape or type"),
        ("support_", array(support, np.int64), "has the wrong shape or type"),
        ("n_support_", array([10**6, 1, 1], np.int32), "support vectors are not those"),
        ("n_support_", array([3], np.int32), "has the wrong shape or type"),
        ("intercept_", array([], float), "has the wrong shape or type"),
        ("dual_coef_", array([[1.0]], float), "has the wrong shape or type"),
    ):
        path.write_bytes(resealed(whole, parts={machine[name]["file"]: values}))
        with pytest.raises(ValueError, match=f"m.skops cannot be read as a model: .*{complaint}"):
            load_model(path)


def test_claims_of_headers_are_compared_with_the_file(whole: bytes, tmp_path) -> None:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        file = machine_of(json.loads(archive.read("schema.json")))["support_"]["file"]
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    claim = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"1234"
    path = tmp_path / "m.skops"
    path.write_bytes(resealed(whole, parts={file: claim}))
    with pytest.raises(ValueError, match=r"claims shape \(1000000000000,\)"):
        load_model(path)


def test_sparse_rows_are_checked(tmp_path) -> None:
    # Compiled loops believe the numbers of columns.
    path = tmp_path / "m.skops"
    save_model(path, comparison(WIDE, kernels=Gaussian(3.0)))
    whole = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".npz"))
        rows = sparse.load_npz(io.BytesIO(archive.read(name)))
    far = rows.copy()
    far.indices[3] = 10**8
    for matrix in (far, rows.tocoo()):
        out = io.BytesIO()
        sparse.save_npz(out, matrix)
        path.write_bytes(resealed(whole, parts={name: out.getvalue()}))
        with pytest.raises(ValueError, match=r"m\.skops cannot be read as a model"):
            load_model(path)


def test_a_pipeline_with_a_cache_is_refused(whole: bytes, tmp_path) -> None:
    def change(tree) -> None:
        memory = model_of(tree)["content"]["content"]["memory"]
        memory.update({"content": '"/tmp"', "__id__": 10**9})  # that of None is shared

    path = tmp_path / "m.skops"
    path.write_bytes(resealed(whole, change))
    with pytest.raises(ValueError, match="its pipeline has a cache"):
        load_model(path)


def test_altered_and_cut_files_are_refused_before_anything_is_made(
    whole: bytes, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(
        "mercer.selection.models.loads", lambda content: pytest.fail("something was made")
    )
    path = tmp_path / "m.skops"
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    for content, complaint in (
        (changed, "it is damaged: its checksum does not match its content"),
        (whole[: len(whole) // 2], "it does not end like a model file written by Mercer"),
        (b"", "it does not end like a model file written by Mercer"),
        (whole.replace(b"mercer model 1", b"mercer model 9"), "it has format 9 of a model file"),
        (whole.replace(b"mercer model 1", b"mercer checkpoint 1"), "it does not end like a model"),
    ):
        path.write_bytes(bytes(content))
        with pytest.raises(ValueError, match=f"m.skops cannot be read as a model: {complaint}"):
            load_model(path)


def test_a_model_of_another_scikit_learn_is_told(whole: bytes, tmp_path) -> None:
    def change(tree) -> None:
        about = tree["content"]["about"]
        about["content"] = about["content"].replace(
            json.dumps("scikit-learn")[1:-1] + '\\": \\"', 'scikit-learn\\": \\"0.0'
        )

    path = tmp_path / "m.skops"
    path.write_bytes(resealed(whole, change))
    with pytest.warns(
        UserWarning, match=r"m\.skops was saved with scikit-learn 0\.0.*predictions may differ"
    ):
        load_model(path)


@pytest.mark.parametrize("about", ["[]", "{}", '{"roles": {}}', "nothing"])
def test_other_words_about_the_model_are_refused(about: str, whole: bytes, tmp_path) -> None:
    def change(tree) -> None:
        tree["content"]["about"]["content"] = json.dumps(about)

    path = tmp_path / "m.skops"
    path.write_bytes(resealed(whole, change))
    with pytest.raises(ValueError, match=r"m\.skops cannot be read as a model"):
        load_model(path)


def test_names_that_are_no_text_are_refused(whole: bytes, tmp_path) -> None:
    def change(tree) -> None:
        about = json.loads(json.loads(tree["content"]["about"]["content"]))
        tree["content"]["about"]["content"] = json.dumps(json.dumps({**about, "columns": [1]}))

    path = tmp_path / "m.skops"
    path.write_bytes(resealed(whole, change))
    with pytest.raises(ValueError, match="names of columns are not text"):
        load_model(path)


def test_a_model_whose_parts_do_not_fit_together_is_named(whole, tmp_path, monkeypatch) -> None:
    path, table = tmp_path / "m.skops", tmp_path / "new.csv"
    path.write_bytes(resealed(whole))
    pd.DataFrame(COUNTS, columns=load_model(path).columns or None).to_csv(table, index=False)

    def broken(self, X):
        raise IndexError("index 7 is out of bounds")

    monkeypatch.setattr(SavedModel, "predict", broken)
    done = CliRunner().invoke(app, ["predict", str(path), str(table)])
    assert done.exit_code == 2
    assert "m.skops does not predict (IndexError: index 7 is out of bounds)" in " ".join(
        done.stderr.split()
    )


def nested(X, y, **options):
    """A model whose machine is inside another estimator."""
    inner = Pipeline([("machine", SVC(kernel="precomputed"))], **options)
    return Pipeline([("gram", GramTransformer(Heat(Simplex(), t=0.1))), ("inner", inner)]).fit(X, y)


def test_machines_within_machines_are_refused(tmp_path, monkeypatch) -> None:
    # Numbers of their support vectors would not be looked at.
    model = SavedModel(nested(COUNTS, np.arange(len(COUNTS)) % 2))
    with pytest.raises(ValueError, match="holds a machine within another"):
        model.save(tmp_path / "m.skops")
    with monkeypatch.context() as patch:
        patch.setattr("mercer.selection.models._check_model", lambda *_: None)
        model.model[-1][-1].support_ = np.full_like(model.model[-1][-1].support_, 2_000_000_000)
        model.save(tmp_path / "m.skops")
    with pytest.raises(
        ValueError, match=r"m\.skops cannot be read as a model: .*machine within another"
    ):
        load_model(tmp_path / "m.skops")


def test_columns_that_come_twice_are_refused(tmp_path) -> None:
    frame = pd.DataFrame(COUNTS, columns=[f"c{i}" for i in range(COUNTS.shape[1])])
    gram = GramTransformer(Heat(Simplex(), t=0.1))
    model = make_pipeline(gram, SVC(kernel="precomputed")).fit(COUNTS, np.arange(len(COUNTS)) % 2)
    saved = SavedModel(model, columns=tuple(frame.columns))
    with pytest.raises(ValueError, match="the column 'c0' more than once"):
        saved.predict(frame[["c0", *frame.columns]])
