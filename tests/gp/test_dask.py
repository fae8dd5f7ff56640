"""Gaussian processes on Dask collections: the answer of arrays in memory, on threads and on clusters."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from scipy import sparse

from mercer._threads import blas_in_one_thread, run, threads_for_runs, threads_in_use
from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import Gaussian, Heat, Matern
from mercer.machines import LandmarkRegressor
from mercer.machines.landmarks import base
from mercer.rows import ArrayRows, DaskRows
from mercer.spaces import Simplex, Sphere
from tests.helpers.processes import uneven_table

NAMES = ["a", "b", "c"]


def frame(X: np.ndarray, y: np.ndarray, partitions: int = 5) -> dd.DataFrame:
    whole = pd.DataFrame(X, columns=NAMES).assign(y=y, w=1.0 + np.arange(len(y)) % 3)
    return dd.from_pandas(whole, npartitions=partitions)


@pytest.mark.filterwarnings("ignore:the optimal value found for t_star")
@pytest.mark.parametrize("kernel", [None, Heat(Sphere()), Matern(Sphere(), nu=1.5)], ids=repr)
def test_regression_is_that_in_memory(kernel) -> None:
    X, y = uneven_table(900)
    w = 1.0 + np.arange(900) % 3
    model = SphericalGPRegressor(kernel, inputs="table", max_features=60)
    expected = model.fit(X, y, w).predict(X, return_std=True)
    blocks = da.from_array(X, chunks=(130, 2))
    table_ = frame(X, y)
    for rows, targets, weights in (
        (blocks, da.from_array(y, chunks=200), da.from_array(w, chunks=77)),  # cut anew
        (blocks, y, w),  # targets in memory
        (table_[NAMES], table_["y"], table_["w"]),
        (table_[NAMES].to_dask_array(), table_["y"].to_dask_array(), table_["w"]),  # unknown sizes
    ):
        model.fit(rows, targets, weights)
        assert model.statistics_.rows == 900
        got = model.predict(rows, return_std=True)
        assert all(isinstance(part, da.Array) for part in got)
        np.testing.assert_allclose(np.array(dask.compute(*got)), np.array(expected), atol=1e-10, rtol=0)


def test_classes_and_counts_are_those_in_memory() -> None:
    X, y = uneven_table(600)
    rng = np.random.default_rng(1)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    counts = rng.poisson(np.exp(np.sin(X[:, 0])))
    blocks = da.from_array(X, chunks=(170, 3))
    model = SphericalGPClassifier(max_features=30, tol=1e-3)
    expected = model.fit(X, labels).predict_proba(X)
    classes, odds = model.predict(X), model.decision_function(X)
    data = frame(X, labels)
    for rows, targets in ((blocks, da.from_array(labels, chunks=100)), (data[NAMES], data["y"])):
        model.fit(rows, targets)
        assert list(model.classes_) == ["high", "low", "middle"]
        np.testing.assert_allclose(model.predict_proba(rows).compute(), expected, atol=1e-10)
        np.testing.assert_allclose(model.decision_function(rows).compute(), odds, atol=1e-8)
        assert (model.predict(rows).compute() == classes).all()
    two = SphericalGPClassifier(max_features=30, tol=1e-3).fit(blocks, da.from_array(y > 100))
    assert two.decision_function(blocks).compute().shape == (600,)
    poisson = SphericalGPPoissonRegressor(max_features=30)
    expected = poisson.fit(X, counts).predict(X, return_std=True)
    got = poisson.fit(blocks, da.from_array(counts)).predict(blocks, return_std=True)
    np.testing.assert_allclose(np.array(dask.compute(*got)), np.array(expected), atol=1e-10)
    assert poisson.predict(blocks).chunks == (blocks.chunks[0],)


def test_outputs_names_and_empty_partitions() -> None:
    X, y = uneven_table(400)
    both = np.column_stack([y, y**2])
    blocks = da.from_array(X, chunks=(150, 3))
    model = SphericalGPRegressor(max_features=40)
    expected = model.fit(X, both).predict(X)
    got = model.fit(blocks, da.from_array(both, chunks=(100, 1))).predict(blocks)
    assert got.shape == (400, 2)
    np.testing.assert_allclose(got.compute(), expected, rtol=1e-11)
    data = frame(X, y)
    some = data[data["a"] > data["a"].max().compute() - 0.5]  # most partitions have no such rows
    inside = some.compute()
    assert 0 in some.map_partitions(len).compute().to_list()
    model.fit(some[NAMES], some["y"])
    assert list(model.feature_names_in_) == NAMES
    again = SphericalGPRegressor(max_features=40).fit(inside[NAMES], inside["y"])
    np.testing.assert_allclose(model.predict(X_ := inside[NAMES]), again.predict(X_), atol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(data[["b", "a", "c"]])
    mean, std = dask.compute(*model.predict(some[NAMES], return_std=True))
    assert len(mean) == len(std) == len(inside)
    with pytest.raises(ValueError, match="there are no rows"):
        model.fit(data[data["a"] > 1e9][NAMES], data[data["a"] > 1e9]["y"])


def test_small_files_that_dask_joins(tmp_path) -> None:
    X, y = uneven_table(600)
    whole = pd.DataFrame(X, columns=NAMES).assign(y=y, w=1.0)
    for i in range(6):
        whole[100 * i : 100 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
    data = dd.read_parquet(tmp_path)
    assert len(data["y"].to_delayed()) < data.npartitions  # of one column, more than of three
    model = SphericalGPRegressor(max_features=40)
    expected = model.fit(X, y).predict(X)
    got = model.fit(data[NAMES], data["y"], data["w"]).predict(data[NAMES])
    np.testing.assert_allclose(got.compute(), expected, atol=1e-10)


def test_more_rows_arrive() -> None:
    X, y = uneven_table(600)
    whole = SphericalGPRegressor(max_features=40, optimize=False).fit(X[:300], y[:300])
    whole.partial_fit(X[300:], y[300:])
    model = SphericalGPRegressor(max_features=40, optimize=False)
    model.partial_fit(da.from_array(X[:300], chunks=(100, 3)), da.from_array(y[:300], chunks=100))
    model.partial_fit(da.from_array(X[300:], chunks=(100, 3)), da.from_array(y[300:], chunks=100))
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-10)
    np.testing.assert_allclose(model.statistics_.gram, whole.statistics_.gram, rtol=1e-12, atol=1e-9)


def test_points_in_sparse_partitions() -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(2.0, size=(200, 5)) + 1
    y = np.sqrt(counts[:, 0] / counts.sum(axis=1))
    blocks = da.from_array(counts, chunks=(60, 5)).map_blocks(sparse.csr_matrix)
    model = SphericalGPRegressor(Heat(Simplex()), max_features=40)
    expected = model.fit(counts, y).predict(counts)
    got = model.fit(blocks, da.from_array(y, chunks=60)).predict(blocks).compute()
    np.testing.assert_allclose(got, expected, atol=1e-10)


def test_sample_for_input_scales_is_that_of_an_array(monkeypatch) -> None:
    monkeypatch.setattr("mercer.rows.blocks.SAMPLE", 100)
    X, y = uneven_table(300)
    data = frame(X, y)
    data = data[data["a"] > 4.5]  # sizes of partitions are not known
    inside = data.compute()
    arrays = [inside[part].to_numpy() for part in (NAMES, "y", "a")]
    got = DaskRows(data[NAMES], data["y"], data["a"]).sample(3)
    expected = ArrayRows(*arrays).sample(3)
    for part in ("X", "y", "weight"):
        assert len(getattr(got, part)) == 100
        np.testing.assert_array_equal(getattr(got, part), getattr(expected, part))


def test_prediction_is_of_the_model_as_it_was() -> None:
    X, y = uneven_table(200)
    blocks = da.from_array(X, chunks=(100, 3))
    model = SphericalGPRegressor(max_features=20, optimize=False).fit(X, y)
    before, lazy = model.predict(X), model.predict(blocks)
    model.fit(X, -y)
    np.testing.assert_allclose(lazy.compute(), before, atol=1e-10)


def test_bad_partitions() -> None:
    X, y = uneven_table(300)
    blocks, targets = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    data, model = frame(X, y), SphericalGPRegressor(max_features=10)
    spoilt = X.copy()
    spoilt[217, 1] = np.nan
    with pytest.raises(ValueError, match="X of partition 2 contains NaN or infinity, first in row 17"):
        model.fit(da.from_array(spoilt, chunks=(100, 3)), targets)
    with pytest.raises(ValueError, match=r"partition 2.*NaN"):
        SphericalGPRegressor(max_features=10).fit(X, y).predict(
            da.from_array(spoilt, chunks=(100, 3))
        ).compute()
    with pytest.raises(ValueError, match="y of partition 1 contains NaN or infinity, first in row 3"):
        model.fit(blocks, da.from_array(np.where(np.arange(300) == 103, np.inf, y), chunks=100))
    weights = np.where(np.arange(300) == 250, -1.0, 1.0)
    with pytest.raises(ValueError, match="weight of partition 2 has negative entries, in row 50"):
        model.fit(blocks, targets, da.from_array(weights, chunks=100))
    zeros = np.where(np.arange(300)[:, None] == 205, 0.0, X)
    with pytest.raises(ValueError, match="row 5 of X of partition 2 is all zeros"):
        SphericalGPRegressor(Heat(Sphere())).fit(da.from_array(zeros, chunks=(100, 3)), targets)
    with pytest.raises(ValueError, match="X has 300 rows, but y has 200"):
        model.fit(blocks, targets[:200])
    with pytest.raises(ValueError, match="X has 5 partitions, but y has 4"):
        model.fit(data[NAMES], frame(X, y, 4)["y"])
    shorter = frame(X[:250], y[:250])["y"].clear_divisions()
    with pytest.raises(ValueError, match=r"partition \d has 60 rows of X but 50 of y"):
        model.fit(data[NAMES].clear_divisions(), shorter)
    with pytest.raises(ValueError, match="divided at different indices"):
        model.fit(data[NAMES], frame(X[:250], y[:250])["y"])
    with pytest.raises(ValueError, match="y is not a Dask collection"):
        model.fit(data[NAMES], y)
    with pytest.raises(ValueError, match="requires y"):
        model.fit(blocks)
    with pytest.raises(ValueError, match="rows and columns"):
        model.fit(targets, targets)
    with pytest.raises(ValueError, match="column 'k' of X holds"):
        model.fit(data[NAMES].assign(k="text"), data["y"])
    with pytest.raises(ValueError, match="return_cov needs all rows"):
        model.fit(X, y).predict(blocks, return_cov=True)
    with pytest.raises(ValueError, match="Unknown label type"):
        SphericalGPClassifier().fit(blocks, targets)
    with pytest.raises(ValueError, match="row 7 of y of partition 1 is negative"):
        SphericalGPPoissonRegressor().fit(
            blocks, da.from_array(np.where(np.arange(300) == 107, -1, 2), chunks=100)
        )
    with pytest.raises(ValueError, match="there is only one class"):
        SphericalGPClassifier().fit(blocks, da.from_array(np.ones(300), chunks=100))


def test_threads_of_dask_neither_wait_for_each_other_nor_multiply() -> None:
    X, y = uneven_table(2000)
    most = 0

    def product(block: np.ndarray) -> np.ndarray:
        nonlocal most
        most = max(most, threading.active_count())
        square = block @ np.ones((3, 100))  # BLAS of the user's own, in the same threads
        return block + 0 * (square @ square.T)[:, :3]

    before = threads_in_use()
    blocks = da.from_array(X, chunks=(200, 3)).map_blocks(product, dtype=float)
    others = threading.active_count()
    model = SphericalGPRegressor(max_features=50, optimize=False)
    with dask.config.set(scheduler="threads", num_workers=4):
        for _ in range(3):
            model.fit(blocks, da.from_array(y, chunks=200))
            model.predict(blocks).compute()
    assert most <= others + 4
    assert threads_in_use() == before
    with blas_in_one_thread() as threads:
        assert threads == before


@pytest.fixture(scope="module")
def cluster():
    """Two workers that are processes of their own, and start again when they die."""
    usual = {name: logging.getLogger(name).level for name in ("distributed", "distributed.nanny")}
    for name in usual:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    patient = {f"distributed.comm.timeouts.{name}": "120s" for name in ("connect", "tcp")}
    with (
        dask.config.set(patient),  # a busy machine is slow to start processes
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as workers,
        Client(workers) as client,
    ):  # fmt: skip
        yield client
    for name, level in usual.items():
        logging.getLogger(name).setLevel(level)


def _noted(block: np.ndarray, folder: str, block_info=None) -> np.ndarray:
    """A partition that takes a while as long as there is somebody to kill, and leaves a note."""
    number = block_info[0]["chunk-location"][0]
    with open(f"{folder}/{number}.{os.getpid()}.{time.time_ns()}", "w"):
        time.sleep(0.1 if os.path.exists(f"{folder}/slow") else 0.0)
    return block


def wait_until(happens: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_answer_survives_the_death_of_a_worker(cluster, tmp_path) -> None:
    X, y = uneven_table(1200)
    model = SphericalGPRegressor(max_features=40)
    expected = model.fit(X, y).predict(X, return_std=True)
    blocks = da.from_array(X, chunks=(60, 3)).map_blocks(_noted, str(tmp_path), dtype=float)
    workers = set(cluster.run(os.getpid).values())
    (tmp_path / "slow").touch()
    seen = {}

    def notes() -> list:
        return list(tmp_path.glob("*.*.*"))

    def kill() -> None:
        wait_until(lambda: len(notes()) >= 26)  # the first pass, for means and deviations, makes 20
        latest = max(notes(), key=lambda note: note.suffix)
        seen["victim"] = int(latest.name.split(".")[1])
        os.kill(seen["victim"], signal.SIGKILL)
        seen["made"] = len(notes())
        (tmp_path / "slow").unlink()

    thread = threading.Thread(target=kill)
    thread.start()
    model.fit(blocks, da.from_array(y, chunks=60))
    thread.join()
    assert seen["victim"] in workers
    assert 26 <= seen["made"] < 40  # it died in the middle of the second pass,
    assert len(notes()) > 40  # and others made again what it had
    np.testing.assert_allclose(model.predict(X, return_std=True), expected, atol=1e-10)
    assert seen["victim"] not in cluster.run(os.getpid).values()

    labels = np.where(y > 100, "high", "low")
    classifier = SphericalGPClassifier(max_features=40, tol=1e-3)
    expected = classifier.fit(X, labels).predict_proba(X)
    classifier.fit(da.from_array(X, chunks=(300, 3)), da.from_array(labels, chunks=300))
    np.testing.assert_allclose(classifier.predict_proba(X), expected, atol=1e-10)


def test_landmarks_survive_the_death_of_a_worker(cluster, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(base, "_LEAST", 100)  # the sample is not everything, so that there is a pass
    monkeypatch.setattr(base, "_PER_LANDMARK", 4)
    X, y = uneven_table(1200)
    model = LandmarkRegressor(Gaussian(5.0), 30, 0.1, random_state=0)
    expected = model.fit(X, y).predict(X)
    blocks = da.from_array(X, chunks=(60, 3)).map_blocks(_noted, str(tmp_path), dtype=float)
    (tmp_path / "slow").touch()

    def kill() -> None:
        # The sample computes partitions twice.
        wait_until(lambda: len(list(tmp_path.glob("*.*.*"))) >= 46)
        notes = list(tmp_path.glob("*.*.*"))
        os.kill(int(max(notes, key=lambda note: note.suffix).name.split(".")[1]), signal.SIGKILL)
        (tmp_path / "slow").unlink()

    thread = threading.Thread(target=kill)
    thread.start()
    model.fit(blocks, da.from_array(y, chunks=60))
    thread.join()
    assert len(list(tmp_path.glob("*.*.*"))) > 60  # others made again what the worker had
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-8)


def test_threads_for_runs_belong_to_one_thread() -> None:
    before, seen = threads_in_use(), []
    with threads_for_runs():
        assert threads_in_use() == before
        worker = threading.Thread(target=lambda: seen.append(threads_in_use()))
        worker.start()
        worker.join()
        run(lambda _: seen.append(threads_in_use()), [(0,), (1,)])
    # Others, and those inside a run, have one each.
    assert seen == [1, 1, 1]
    first, second = threads_for_runs(), threads_for_runs()
    first.__enter__()
    worker = threading.Thread(target=second.__enter__)
    worker.start()
    worker.join()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert threads_in_use() == before
