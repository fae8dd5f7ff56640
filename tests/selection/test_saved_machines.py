"""Machines of mercer.machines on disk, without a pipeline."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from mercer.cli import app
from mercer.kernels import Gaussian, Heat, On, Spectrum
from mercer.machines import SVC, SVR, KernelRidge, LandmarkClassifier, LandmarkRegressor, OneClassSVM
from mercer.selection import SavedModel, load_model
from mercer.spaces import Categories

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({
    "a": RNG.normal(size=60), "b": RNG.normal(size=60), "site": RNG.choice(["x", "y", "z"], size=60),
})  # fmt: skip
Y = (TABLE.a * TABLE.b > 0).to_numpy().astype(int)
NUMBERS = TABLE[["a", "b"]]
MIXED = On(["a", "b"], Gaussian()) + On("site", Heat(Categories()))
MACHINES = [
    SVC(probability=True, warm_start=True), SVC(compress=10), SVR(), OneClassSVM(), KernelRidge(),
    KernelRidge(compress=10, leave_one_out=True), LandmarkClassifier(n_landmarks=10, random_state=0),
    LandmarkClassifier(n_landmarks=10, loss="hinge", random_state=0),
    LandmarkRegressor(n_landmarks=10, random_state=0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:compress")  # few landmarks, on purpose
@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_machines_are_saved_with_all_kinds_of_points(machine, tmp_path) -> None:
    path, words = tmp_path / "m.skops", [site * 2 + "xyz" for site in TABLE.site]
    for kernel, X in (
        (MIXED, TABLE),
        (MIXED, pl.from_pandas(TABLE)),
        (Gaussian(), NUMBERS),
        (Gaussian(), NUMBERS.to_numpy()),
        (Spectrum(2), words),
    ):
        machine.set_params(kernel=kernel).fit(X, Y)
        SavedModel(machine).save(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = load_model(path)
            np.testing.assert_allclose(again.predict(X), machine.predict(X), atol=1e-12)
        assert again.kind == ("mixed" if kernel is MIXED else "table")
        assert hasattr(again, "predict_proba") == hasattr(machine, "predict_proba")
        assert repr(again).startswith(
            f"<SavedModel of {again.kind}, by accuracy: {type(machine).__name__}("
        )
    assert again.model.get_params().keys() == machine.get_params().keys()


@pytest.mark.parametrize("frame", [True, False], ids=["frame", "array"])
def test_machines_predict_files(frame, tmp_path) -> None:
    path, file = tmp_path / "m.skops", tmp_path / "new.csv"
    model = LandmarkRegressor(Gaussian(), 10, random_state=0)
    model.fit(NUMBERS if frame else NUMBERS.to_numpy(), Y)
    SavedModel(model).save(path)
    columns = ["b", "a"] if frame else ["a", "b"]  # names are known, or the order is
    NUMBERS[columns].to_csv(file, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = CliRunner().invoke(app, ["predict", str(path), str(file)])
    assert done.exit_code == 0, done.output
    found = [float(line.split(",")[1]) for line in done.stdout.splitlines()[1:]]
    expected = model.predict(NUMBERS if frame else NUMBERS.to_numpy())
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_what_cannot_be_saved(tmp_path) -> None:
    path, K = tmp_path / "m.skops", NUMBERS.to_numpy() @ NUMBERS.to_numpy().T
    svc = SVC(Gaussian()).fit(NUMBERS, Y)
    for model, options, message in (
        (svc, {"kind": "foo"}, "its points are 'foo', not of a known kind of data: table, "),
        (SVC("precomputed").fit(K, Y), {}, "its Gram matrix is precomputed"),
        (SVC(Gaussian()), {}, "not fitted"),
        (Gaussian(), {}, "it is neither a machine of mercer.machines nor a pipeline"),
    ):
        with pytest.raises(ValueError, match=message):
            SavedModel(model, **options).save(path)
    assert not path.exists()
