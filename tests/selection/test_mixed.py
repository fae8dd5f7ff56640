"""Models of tables whose columns are of several kinds, on disk and on the command line."""

import numpy as np
import pytest
from typer.testing import CliRunner

from mercer.cli import app
from mercer.features import GramTransformer
from mercer.selection import KernelSearchCV, SavedModel, load_model
from tests.kernels.test_on import FRAMES, MIXED, TABLE, TARGET


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_saved_and_loaded(frame, tmp_path) -> None:
    search = KernelSearchCV(MIXED, similarities=[0.3], cv=3).fit(frame, TARGET)
    model = SavedModel(search.best_estimator_, kind="mixed", roles={"target": "label"})
    model.save(tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    expected = search.decision_function(TABLE)
    np.testing.assert_allclose(loaded.decision_function(TABLE), expected, atol=1e-12)
    assert isinstance(search.best_estimator_[0], GramTransformer)
    assert search.best_estimator_[0].X_fit_ is frame  # saving leaves the model as it was

    TABLE.assign(label=TARGET).iloc[:, ::-1].to_csv(tmp_path / "new.csv", index=False)
    command = ["predict", str(tmp_path / "model.skops"), str(tmp_path / "new.csv")]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0, printed.output
    labels = [line.split(",")[1] for line in printed.stdout.splitlines()[1 : len(TABLE) + 1]]
    assert labels == search.predict(TABLE).tolist()


def test_a_missing_column_is_named(tmp_path) -> None:
    search = KernelSearchCV(MIXED, param_grid={"C": [1.0]}, cv=3).fit(TABLE, TARGET)
    SavedModel(search.best_estimator_, kind="mixed").save(tmp_path / "model.skops")
    TABLE.drop(columns="note").to_csv(tmp_path / "new.csv", index=False)
    printed = CliRunner().invoke(
        app, ["predict", str(tmp_path / "model.skops"), str(tmp_path / "new.csv")]
    )
    assert printed.exit_code != 0
    assert "no column 'note'" in " ".join(printed.output.split())
