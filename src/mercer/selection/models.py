"""Saved models, with what is needed to read new tables for them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

import mercer
from mercer._arrays import count
from mercer._files import DAMAGE, DamagedFile, atomic_write, one_line, seal, unsealed
from mercer.datasets import Table
from mercer.features import GramTransformer
from mercer.kernels.tables.frames import is_frame
from mercer.kernels.tables.on import with_names
from mercer.machines import (
    SVC,
    SVR,
    KernelRidge,
    LandmarkClassifier,
    LandmarkRegressor,
    OneClassSVM,
)
from mercer.selection.comparison import Comparison
from mercer.selection.kinds import ColumnRoles, empty_documents, kind_called
from mercer.selection.model_files import (
    MissingFunction,
    dumps,
    frame_of,
    frame_parts,
    loads,
    refuse_local_functions,
)

#: Version of the file format.
FORMAT = 1
#: First bytes of pickles, plain or compressed by joblib.
_PICKLES = (b"\x80", b"x\x01", b"x^", b"x\x9c", b"x\xda")


#: Machines that are models by themselves, with a kernel of their own.
_MACHINES = (SVC, SVR, OneClassSVM, KernelRidge, LandmarkClassifier, LandmarkRegressor)
#: Attributes that hold points.
_POINTS = ("X_fit_", "support_vectors_", "landmarks_")


def _has(name: str) -> Callable[[SavedModel], bool]:
    return lambda self: hasattr(self.model, name)


def _is_machine(model: Any) -> bool:
    """Whether a model is a machine rather than a pipeline that ends with one."""
    return isinstance(model, _MACHINES)


def _holder(model: Any) -> Any:
    """What holds the points of a model: the first step of a pipeline, or the machine."""
    return model[0] if isinstance(model, Pipeline) else model


def _frames(model: Any) -> dict[str, Any]:
    """Points of a model that are data frames, by the name of the attribute."""
    held = vars(_holder(model))
    return {name: held[name] for name in _POINTS if is_frame(held.get(name))}


class SavedModel(BaseEstimator):
    """A fitted model, with a description of the table that it was fitted to.

    It is an estimator itself, and takes points as the comparison did.  Columns of a data frame are found
    by name, in any order; those of the target, of groups and dropped ones are ignored.

    Parameters
    ----------
    model : estimator
        A machine of :mod:`mercer.machines`, or a pipeline of a
        :class:`~mercer.features.GramTransformer` and an estimator.
    metric : str
        Name of the metric by which it was chosen.
    kind : str, optional
        Kind of its points: "table", "mixed", "strings", "nodes" or "clouds".  By default "mixed" if
        the model keeps points of a data frame, as for kernels :class:`~mercer.kernels.On` columns, and
        "table" otherwise.
    roles : dict, optional
        Roles of the columns of a file, named after the options of ``mercer compare``:
        ``{"target": "label", "text": "dna"}``.
    columns : tuple of str
        Names of the features, or of the coordinates of clouds, in order; empty if they have none.  By
        default those of the table that the model was fitted to.
    nodes : tuple of str
        Names of the nodes of its graph, if it has one.
    version : str
        Version of Mercer that fitted it.
    calibration : CalibratedClassifierCV, optional
        Turns rows of the Gram matrix into probabilities.
    """

    def __init__(
        self,
        model: Any,
        metric: str = "accuracy",
        kind: str | None = None,
        roles: ColumnRoles | None = None,
        columns: tuple[str, ...] = (),
        nodes: tuple[str, ...] = (),
        version: str = mercer.__version__,
        calibration: Any = None,
    ) -> None:
        self.model = model
        self.metric = metric
        self.kind = kind or ("mixed" if _frames(model) else "table")
        self.roles = {} if roles is None else roles
        names = getattr(model, "feature_names_in_", ()) if self.kind == "table" else ()
        self.columns = columns or tuple(map(str, names))
        self.nodes = nodes
        self.version = version
        self.calibration = calibration

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the same kernel and parameters to other points; the result has no probabilities."""
        self.model.fit(self._points(X), y)
        self.calibration = None
        return self

    def predict(self, X: Any) -> Any:
        """Predict classes or numbers."""
        return self.model.predict(self._points(X))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Decision values of the classes."""
        return self.model.decision_function(self._points(X))

    @available_if(lambda self: self.calibration is not None or hasattr(self.model, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, by a sigmoid that was fitted to the inner folds.

        The most probable class need not be the predicted one.
        """
        if self.calibration is None:
            return self.model.predict_proba(self._points(X))
        return self.calibration.predict_proba(self.model[0].transform(self._points(X)))

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, or R squared."""
        return float(self.model.score(self._points(X), y))

    @property
    def classes_(self) -> Any:
        """Class labels, in the order of the probabilities."""
        return self.model.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns, for a model of a table."""
        return int(self.model.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of a table that had names."""
        if not (self.columns and hasattr(self, "n_features_in_")):
            raise AttributeError("the model knows no column names")
        return np.array(self.columns, dtype=object)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if _is_machine(self.model):
            return f"<SavedModel of {self.kind}, by {self.metric}: {self.model!r}>"
        gram, machine = self.model
        return f"<SavedModel of {self.kind}, by {self.metric}: {gram.kernel!r}, {machine!r}>"

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.model)
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.model)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, for :func:`load_model`; an old file is replaced at the end.

        The file holds JSON and arrays, by skops, and ends with the version of its format and a checksum.

        Raises
        ------
        ValueError
            If the model holds a type that is neither Mercer's nor an estimator of a comparison, such as
            a kernel of your own, or a function (of :class:`~mercer.kernels.Zonal`, say) that is not
            defined at the top of a module.
        """
        about = {
            "metric": self.metric,
            "kind": self.kind,
            "roles": dict(self.roles),
            "columns": list(self.columns),
            "nodes": list(self.nodes),
            "version": self.version,
            "scikit-learn": sklearn.__version__,
        }
        try:
            kind_called(self.kind)
            _check_model(self.model, self.calibration)
            model, tables = _without_frames(self.model)
            refuse_local_functions(model)
            parts = {"model": model, "calibration": self.calibration, "tables": tables}
            content = dumps({"about": json.dumps(about), **parts})
        except ValueError as error:
            raise ValueError(
                f"{path} is not written, because the model cannot be saved: {one_line(error)}"
            ) from None
        with atomic_write(path) as file:
            file.write(content)
            seal(file, "model", FORMAT)

    def read(self, path: str | Path) -> Table:
        """Read points from a file like the one that the model was fitted to; it needs no target."""
        kind = kind_called(self.kind)
        for role in kind.needs:
            if role not in self.roles:
                raise ValueError(
                    f"the model does not know which column of {Path(path).name} is the {role}; "
                    f'save it with roles={{"{role}": COLUMN}}'
                )
        return kind.read(path, self.roles, self)

    def _points(self, X: Any) -> Any:
        """Points as the model takes them; columns of a data frame are found by name."""
        return kind_called(self.kind).from_frame(X, self) if is_frame(X) else X


def save_model(
    path: str | Path,
    comparison: Comparison,
    table: Table | None = None,
    roles: ColumnRoles | None = None,
) -> None:
    """Write the best model of a comparison to a file, for :func:`load_model` and ``mercer predict``.

    Parameters
    ----------
    path : str or Path
    comparison : Comparison
        From :func:`compare`.
    table : Table, optional
        The table that was compared, if :mod:`mercer.datasets` read it: names of its columns and nodes.
        By default the columns of the data frame that was compared, if it was one.
    roles : dict, optional
        Roles of the columns in files to be read later, see :class:`SavedModel`.  Models of strings,
        nodes and clouds need it for ``mercer predict``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from mercer.kernels import Gaussian
    >>> from mercer.selection import compare, load_model, save_model
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> result = compare(X, y, kernels=Gaussian(), folds=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder, "iris.skops"), result)
    ...     model = load_model(Path(folder, "iris.skops"))
    >>> model.feature_names_in_[:2].tolist(), model.predict(X[:2]).tolist()
    (['sepal length (cm)', 'sepal width (cm)'], [0, 0])
    """
    if not isinstance(comparison, Comparison):
        raise TypeError(
            f"save_model takes the result of compare, got {type(comparison).__name__}; for a fitted "
            "machine or search.best_estimator_ use SavedModel(estimator).save(path)"
        )
    kind = comparison.data.kind
    if table is None:
        table = Table("", None, None, columns=comparison.columns if kind.vectors else ())
    with empty_documents():
        SavedModel(
            comparison.scores[0].search.best_estimator_,
            comparison.metric,
            kind.name,
            _roles(comparison, roles or {}, table),
            () if table.nodes else table.columns,
            table.nodes,
            calibration=_calibrated(comparison),
        ).save(path)


def _roles(comparison: Comparison, roles: ColumnRoles, table: Table) -> ColumnRoles:
    """Roles that a model needs to read files, and the kinds of columns that it was fitted to."""
    data = comparison.data
    kept = dict(data.kind.saved_roles(roles, table))
    used = [f"{column.name}={column.kind}" for column in data.used]
    return kept | {"as": tuple(used)} if used else kept


def load_model(path: str | Path) -> SavedModel:
    """Read what :func:`save_model` wrote.

    A file that is anything else, or was changed, is refused before anything is built from it.  No code
    in it is run.  If the kernel has a function of your own, import its module first.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    SavedModel

    Raises
    ------
    ValueError
        With one line that names the file.

    Examples
    --------
    See :func:`save_model`.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with path.open("rb") as file:
        if file.read(2).startswith(_PICKLES):
            raise ValueError(
                f"{path.name} is a pickle, which could run any code, and is not loaded; save the model "
                "again by mercer compare --save-model"
            )
    try:
        with unsealed(path, "model", FORMAT) as file, warnings.catch_warnings():
            # One warning for the file, not one for each part.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            parts = loads(file.read())
        with empty_documents():
            saved, made_with = _model_of(parts)
    except MissingFunction as error:
        raise ValueError(f"{path.name} cannot be loaded: {error}") from None
    except DAMAGE as error:
        raise DamagedFile(
            f"{path.name} cannot be read as a model: {one_line(error)}; save the model again by mercer "
            "compare --save-model"
        ) from None
    if made_with != sklearn.__version__:
        warnings.warn(
            f"{path.name} was saved with scikit-learn {made_with}, but this is {sklearn.__version__}: "
            "predictions may differ; save the model again",
            stacklevel=2,
        )
    return saved


def _calibrated(comparison: Comparison) -> CalibratedClassifierCV | None:
    """The best model's machine, calibrated on the inner folds of the search on all points."""
    if not comparison.classes or _is_machine(comparison.scores[0].search.best_estimator_):
        return None  # the latter have probabilities of their own
    search, target = comparison.scores[0].search, comparison.target
    splits = list(search.cv.split(np.zeros(len(target.y)), target.y, target.groups))
    if any(len(np.unique(target.y[train])) < len(comparison.classes) for train, _ in splits):
        return None  # groups leave a class out of a training part
    gram, machine = search.best_estimator_
    calibration = CalibratedClassifierCV(machine, cv=splits, ensemble=False)
    return calibration.fit(gram.transform(gram.X_fit_), target.y)


def _model_of(parts: dict[str, Any]) -> tuple[SavedModel, str]:
    """The model made of checked parts, and the version of scikit-learn that fitted it."""
    about = json.loads(parts["about"])
    roles = dict(about["roles"])
    several = {name: tuple(roles.pop(name)) for name in ("drop", "as") if name in roles}
    columns, nodes = tuple(about["columns"]), tuple(about["nodes"])
    texts = [about["metric"], about["version"], about["scikit-learn"], *columns, *nodes]
    texts += [text for values in several.values() for text in values]
    if not all(isinstance(text, str) for text in (*texts, *roles.values())):
        raise ValueError("names of columns are not text")
    kind = kind_called(about["kind"])
    model, calibration = parts["model"], parts["calibration"]
    for name in _POINTS:
        if name in parts["tables"]:
            setattr(_holder(model), name, frame_of(parts["tables"][name]))
    _check_model(model, calibration)
    roles |= several
    saved = SavedModel(
        model, about["metric"], kind.name, roles, columns, nodes, about["version"], calibration
    )
    return saved, about["scikit-learn"]


def _without_frames(model: Any) -> tuple[Any, dict[str, Any]]:
    """A model without its data frames and without what predictions do not need; and the frames.

    Columns have names instead of selectors.  Frames are arrays, by the name of their attribute.
    """
    frames = {name: frame_parts(frame) for name, frame in _frames(model).items()}
    bare = copy(_holder(model))
    for name in (*frames, "_solutions"):
        vars(bare).pop(name, None)
    bare.kernel = with_names(bare.kernel, bare.kernel_)
    if isinstance(model, Pipeline):
        bare = Pipeline([(model.steps[0][0], bare), *model.steps[1:]])
    return bare, frames


def _check_model(model: Any, calibration: Any) -> None:
    """Refuse models that do not predict."""
    if _is_machine(model) and calibration is None:
        _check_machine(model)
        return
    if not (isinstance(model, Pipeline) and len(model) == 2 and isinstance(model[0], GramTransformer)):
        raise ValueError(
            "it is neither a machine of mercer.machines nor a pipeline of a GramTransformer and one; "
            "save other estimators by joblib"
        )
    if model.memory is not None:
        raise ValueError("its pipeline has a cache")  # whose files would be unpickled
    size = count(model[0].X_fit_)
    for machine in _machines(model[-1], calibration):
        if isinstance(machine, SVC):
            _check_support(machine, size)
    trial = _safe_indexing(model[0].X_fit_, [0])
    model.predict(trial)
    if calibration is not None:
        calibration.predict_proba(model[0].transform(trial))


def _check_machine(machine: Any) -> None:
    """Refuse machines that cannot predict at one of their points."""
    check_is_fitted(machine)
    if isinstance(machine.kernel_, str):
        raise ValueError(
            "its Gram matrix is precomputed; give the machine the kernel, or save a pipeline of a "
            "GramTransformer and the machine"
        )
    points = next(getattr(machine, name) for name in _POINTS if hasattr(machine, name))
    if count(points):
        with warnings.catch_warnings():  # points are kept without names of columns
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            machine.predict(_safe_indexing(points, [0]))


def _machines(last: Any, calibration: Any) -> list[Any]:
    """The machines of a model; refuse models that are not made by comparisons."""
    machines = [last]
    if isinstance(last, TransformedTargetRegressor):
        machines = [last.regressor_]
        if not isinstance(last.transformer_, StandardScaler):
            raise ValueError("its target is transformed by something other than a StandardScaler")
    if calibration is not None:
        if not isinstance(calibration, CalibratedClassifierCV):
            raise ValueError("its probabilities are made by something other than a calibration")
        machines += [part.estimator for part in calibration.calibrated_classifiers_]
    for machine in machines:
        if not isinstance(machine, SVC | KernelRidge) or machine.kernel_ != "precomputed":
            raise ValueError("it holds a machine within another, or none that a comparison makes")
    return machines


def _check_support(machine: SVC, size: int) -> None:
    """Check that support vectors and coefficients belong together."""
    classes, support = len(machine.classes_), machine.support_
    shapes: dict[str, tuple[tuple[int, ...], type]] = {
        "support_": ((len(support),), np.int32),
        "n_support_": ((classes,), np.int32),
        "dual_coef_": ((classes - 1, len(support)), np.float64),
        "intercept_": ((max(1, classes * (classes - 1) // 2),), np.float64),
    }
    state = vars(machine)
    for name, (shape, dtype) in shapes.items():
        values = state[name]
        if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype != dtype:
            raise ValueError(f"{name} of its support vector machine has the wrong shape or type")
    counts = state["n_support_"]
    known = len(support) == 0 or (support.min() >= 0 and support.max() < size)
    if not (known and counts.min() >= 0 and counts.sum() == len(support)):
        raise ValueError("its support vectors are not those of its training points")
