"""Candidates of a search: kernels at similarities, and parameters of the estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags

from mercer._validation import is_number
from mercer.kernels.base import has_range
from mercer.kernels.scale import check_similarity
from mercer.machines.landmarks.base import LandmarkMachine
from mercer.selection.kinds import kind_of
from mercer.selection.scales import ALPHA_GRID, C_GRID, SIMILARITIES, Relative, Template

_PREFIX = "kernel__"
#: How often a grid is extended around a best setting at its edge.
EXTENSIONS = 2
#: Fewest values of a user's grid that have an interior.
_FEW = 3


@dataclass(frozen=True)
class Setting:
    """The index of a template, a similarity, and parameters of the estimator."""

    template: int
    similarity: float | None
    params: dict[str, Any]


@dataclass(frozen=True)
class Trials:
    """All candidates of a search."""

    templates: list[Template]
    #: Name of each template's family.
    families: list[str]
    settings: list[Setting] = field(default_factory=list)
    #: Whether settings beyond the edge are tried if the best one is there.
    extensible: bool = False

    def extend(self, bests: Sequence[int]) -> dict[int, list[int]]:
        """Add the neighbours of some settings; returns the indices of all neighbours of each."""
        found: dict[int, list[int]] = {}
        for best in bests:
            own = self.settings[best]
            around = self._around(own) if self.extensible else []
            tried = [s for s in self.settings if s.template == own.template]
            self.settings.extend(s for s in around if s not in tried)
            found[best] = [
                i for i, s in enumerate(self.settings) if s.template == own.template and s in around
            ]
        return found

    def _around(self, setting: Setting) -> list[Setting]:
        """A setting and its neighbours, in the order of the grid."""
        near = _neighbours(setting.similarity, self.templates[setting.template].ladder)
        names = [name for name, value in setting.params.items() if isinstance(value, Relative)]
        values = [
            [replace(own, value=v) for v in _neighbours(own.value, own.ladder)]
            for own in (setting.params[name] for name in names)
        ]
        return [
            Setting(setting.template, similarity, {**setting.params, **dict(zip(names, v, strict=True))})
            for similarity in near
            for v in product(*values)
        ]

    def edges(self, setting: Setting) -> list[str]:
        """Sentences on the edges of the grid at which a setting lies."""
        tried = [s for s in self.settings if s.template == setting.template]
        found = []
        similarities = {s.similarity for s in tried}
        fewest = 2 if self.extensible else _FEW
        if len(similarities) >= fewest:
            found += _ends("similarity", setting.similarity, similarities)
        for name, value in setting.params.items():
            if isinstance(value, Relative) and len(value.ladder) > 1:
                unit = "C times variance" if value.kind == "C" else "ridge over variance"
                found += _ends(unit, value.value, {s.params[name].value for s in tried})
            elif is_number(value):
                values = {s.params[name] for s in tried if is_number(s.params.get(name))}
                found += _ends(name, value, values) if len(values) >= fewest else []
        return found


def _neighbours(value: Any, ladder: tuple[float, ...]) -> tuple[Any, ...]:
    """A value and its neighbours on a ladder, itself first."""
    if value not in ladder:
        return (value,)
    i = ladder.index(value)
    return (value, *ladder[max(i - 1, 0) : i], *ladder[i + 1 : i + 2])


def _ends(name: str, value: Any, tried: set[Any]) -> list[str]:
    if value == max(tried):
        return [f"the largest {name} tried ({value:g})"]
    return [f"the smallest {name} tried ({value:g})"] if value == min(tried) else []


def named_templates(kernels: Any, similarities: Any = None) -> list[tuple[str, Template]]:
    """Kernels with the names of their families: keys of a dict, or names of their classes."""
    if isinstance(kernels, Kernel | Template):
        kernels = [kernels]
    if isinstance(kernels, Mapping):
        named = [
            (str(name), kernel)
            for name, members in kernels.items()
            for kernel in ([members] if isinstance(members, Kernel | Template) else members)
        ]
    elif isinstance(kernels, Sequence) and not isinstance(kernels, str):
        named = [(type(getattr(k, "kernel", k)).__name__, k) for k in kernels]
    else:
        raise TypeError(f"kernels must be a kernel, a list or a dict of lists of them, got {kernels!r}")
    for name, kernel in named:
        if not isinstance(kernel, Kernel | Template):
            raise TypeError(
                f"kernels holds {kernel!r} ({name}), which is not a kernel of mercer.kernels"
            )
    if not named:
        raise ValueError("kernels is empty; give at least one kernel")
    scales = check_similarities(similarities)
    given = not isinstance(similarities, str)
    return [(name, _template(kernel, scales, given)) for name, kernel in named]


def check_similarities(similarities: Any) -> tuple[float, ...]:
    """Similarities to try kernels at; none if kernels are taken as they are."""
    if similarities is None:
        return ()
    if isinstance(similarities, str):
        if similarities != "auto":
            raise ValueError(f"similarities must be 'auto', a list or None, got {similarities!r}")
        return SIMILARITIES
    try:
        values = list(similarities)
    except TypeError:
        values = [similarities]
    if not values:
        raise ValueError("similarities is empty; leave it out to try kernels as they are")
    return tuple(sorted({check_similarity(value) for value in values}))


def _template(kernel: Any, similarities: tuple[float, ...], final: bool) -> Template:
    if isinstance(kernel, Template):
        return kernel
    return Template(kernel, similarities if has_range(kernel) else (), final=final)


def default_templates(X: Any, classifier: bool) -> list[tuple[str, Template]]:
    """Kernels that fit the kind of data, without those that refuse one of the points.

    Regression solves a system with the Gram matrix, so kernels that are not positive semidefinite are
    only used for classification.
    """
    named = []
    for name, template in named_templates(kind_of(X).families(X)):
        if not (classifier or template.kernel.positive_semidefinite):
            continue
        try:
            template.kernel.learnt_from(X).diag(X)
        except ValueError as error:
            warnings.warn(f"{template.kernel!r} is left out: {error}", stacklevel=4)
        else:
            named.append((name, template))
    return named


def precomputed(estimator: Any) -> tuple[Any, str]:
    """A clone of the estimator that takes Gram matrices, and the prefix of its parameters.

    Machines on landmarks take the points instead.
    """
    model = clone(estimator)
    if isinstance(model, LandmarkMachine):
        return model, ""
    params = model.get_params(deep=True)
    names = [name for name in params if name == "kernel" or name.endswith("__kernel")]
    for name in names:
        owner = params[name.removesuffix("__kernel")] if "__" in name else model
        owner.set_params(kernel="precomputed")
        if get_tags(owner).input_tags.pairwise:
            return model, name.removesuffix("kernel")
    raise TypeError(
        f'estimator must take kernel="precomputed", like SVC(), SVR(), NuSVC() and KernelRidge(), '
        f"got {estimator!r}"
    )


def expand(
    named: Sequence[tuple[str, Template]], param_grid: Any, estimator: Any, prefix: str
) -> Trials:
    """Every kernel with every setting, in the order of scikit-learn's ParameterGrid."""
    if param_grid is None:
        return _default(named, estimator, prefix)
    result = Trials([], [])
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    for grid in grids:
        if "kernel" in grid:
            raise ValueError("param_grid holds 'kernel'; give kernels by kernels=[...]")
        own = list(ParameterGrid({k: v for k, v in grid.items() if k.startswith(_PREFIX)}))
        rest = {k: v for k, v in grid.items() if not k.startswith(_PREFIX)}
        numbers: dict[tuple[int, int], int] = {}
        for setting in ParameterGrid({"kernel": range(len(named)), _PREFIX: range(len(own)), **rest}):
            base, moved = setting.pop("kernel"), setting.pop(_PREFIX)
            family, template = named[base]
            if (base, moved) not in numbers:
                numbers[base, moved] = len(result.templates)
                values = {k.removeprefix(_PREFIX): v for k, v in own[moved].items()}
                kernel = clone(template.kernel).set_params(**values)
                result.templates.append(replace(template, kernel=kernel))
                result.families.append(family)
            result.settings.extend(
                Setting(numbers[base, moved], similarity, setting)
                for similarity in template.similarities or (None,)
            )
    if not result.settings:
        raise ValueError("param_grid is empty; leave it out for default values, or give {}")
    clone(estimator).set_params(**result.settings[0].params)  # refuses unknown names
    return result


def _default(named: Sequence[tuple[str, Template]], estimator: Any, prefix: str) -> Trials:
    """C or the ridge in units of each Gram matrix, in the order that decides among equal scores."""
    params = estimator.get_params(deep=True)
    classifier = get_tags(estimator).estimator_type == "classifier"
    strengths: list[dict[str, Any]] = [{}]
    if f"{prefix}C" in params:
        strengths = [{f"{prefix}C": Relative(c, "C", not classifier)} for c in _middle_first(C_GRID)]
        if f"{prefix}epsilon" in params:
            tube = {f"{prefix}epsilon": Relative(params[f"{prefix}epsilon"], "epsilon")}
            strengths = [{**strength, **tube} for strength in strengths]
    elif f"{prefix}alpha" in params:
        strengths = [{f"{prefix}alpha": Relative(a, "alpha")} for a in _middle_first(ALPHA_GRID)]
    templates = [replace(template, kernel=clone(template.kernel)) for _, template in named]
    settings = [
        Setting(number, similarity, strength)
        for strength in strengths
        for number, template in enumerate(templates)
        for similarity in _middle_first(template.similarities or (None,))
    ]
    return Trials(templates, [name for name, _ in named], settings, extensible=True)


def _middle_first(values: Sequence[Any]) -> list[Any]:
    """Values from the middle outward."""
    middle = (len(values) - 1) / 2
    return [values[i] for i in sorted(range(len(values)), key=lambda i: abs(i - middle))]
