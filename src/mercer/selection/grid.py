"""What a search tries: kernels at similarities, and parameters of the estimator."""

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

from mercer.kernels.base import has_range
from mercer.kernels.scale import check_similarity
from mercer.selection.kinds import kind_of
from mercer.selection.scales import ALPHA_GRID, C_GRID, SIMILARITIES, Relative, Template

_PREFIX = "kernel__"
#: Times that grids are extended about a best setting at their edge.
EXTENSIONS = 2


@dataclass(frozen=True)
class Setting:
    """A template, by its number, at a similarity, and parameters of the estimator."""

    template: int
    similarity: float | None
    params: dict[str, Any]


@dataclass(frozen=True)
class Trials:
    """All that is tried."""

    templates: list[Template]
    #: Name of each template's family.
    families: list[str]
    settings: list[Setting] = field(default_factory=list)
    #: Whether a best setting at the edge has others beyond it tried.
    extensible: bool = False

    def beyond(self, setting: Setting) -> list[Setting]:
        """Settings next to one that have not been tried, in the order of the grid."""
        if not self.extensible:
            return []
        template = self.templates[setting.template]
        near = _neighbours(setting.similarity, template.ladder)
        names = [name for name, value in setting.params.items() if isinstance(value, Relative)]
        values = [
            [Relative(v, own.kind, own.of_target) for v in _neighbours(own.value, own.ladder)]
            for own in (setting.params[name] for name in names)
        ]
        around = [
            Setting(setting.template, similarity, {**setting.params, **dict(zip(names, v, strict=True))})
            for similarity in near
            for v in product(*values)
        ]
        tried = [s for s in self.settings if s.template == setting.template]
        return [s for s in around if s not in tried]

    def extend(self, bests: Sequence[int]) -> dict[int, list[int]]:
        """Add what is beyond some settings; for each of them, the numbers of all its neighbours."""
        found: dict[int, list[int]] = {}
        for best in bests:
            for setting in self.beyond(self.settings[best]):
                self.settings.append(setting)
            # Others may have added what is beyond this one.
            found[best] = [i for i, s in enumerate(self.settings) if self._adjacent(s, best)]
        return found

    def _adjacent(self, setting: Setting, best: int) -> bool:
        own = self.settings[best]
        if not self.extensible or setting.template != own.template:
            return False
        template = self.templates[own.template]
        near = setting.similarity in _neighbours(own.similarity, template.ladder)
        return near and all(
            value.value in _neighbours(own.params[name].value, value.ladder)
            for name, value in setting.params.items()
            if isinstance(value, Relative)
        )

    def edges(self, setting: Setting) -> list[str]:
        """At which ends of what was tried a setting lies, in words."""
        if not self.extensible:
            return []
        tried = [s for s in self.settings if s.template == setting.template]
        found = []
        similarities = {s.similarity for s in tried}
        if len(similarities) > 1:
            found += _ends("similarity", setting.similarity, similarities)
        for name, value in setting.params.items():
            if isinstance(value, Relative) and len(value.ladder) > 1:
                unit = "C times variance" if value.kind == "C" else "ridge over variance"
                found += _ends(unit, value.value, {s.params[name].value for s in tried})
        return found


def _neighbours(value: Any, ladder: tuple[float, ...]) -> tuple[Any, ...]:
    """A value with the ones next to it on a ladder, itself first."""
    if value not in ladder:
        return (value,)
    i = ladder.index(value)
    return (value, *ladder[max(i - 1, 0) : i], *ladder[i + 1 : i + 2])


def _ends(name: str, value: Any, tried: set[Any]) -> list[str]:
    if value == max(tried):
        return [f"the largest {name} tried ({value:g})"]
    return [f"the smallest {name} tried ({value:g})"] if value == min(tried) else []


def named_templates(kernels: Any, similarities: Any = None) -> list[tuple[str, Template]]:
    """Kernels with the names of their families: the keys of a dict, or the names of their classes."""
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
        raise ValueError("kernels is empty; give one kernel at least")
    scales = check_similarities(similarities)
    given = not isinstance(similarities, str)
    return [(name, _template(kernel, scales, given)) for name, kernel in named]


def check_similarities(similarities: Any) -> tuple[float, ...]:
    """Similarities to try kernels at; none for kernels as they are."""
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
    """Kernels that fit the kind of data, without those that refuse a point of it.

    Regression solves with the Gram matrix, so that kernels which are not positive semidefinite are
    left to classifiers.
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
    """The estimator, cloned, taking Gram matrices; and the prefix of its own parameters."""
    model = clone(estimator)
    params = model.get_params(deep=True)
    names = [name for name in params if name == "kernel" or name.endswith("__kernel")]
    for name in names:
        owner = params[name.removesuffix("__kernel")] if "__" in name else model
        owner.set_params(kernel="precomputed")
        if get_tags(owner).input_tags.pairwise:
            return model, name.removesuffix("kernel")
    raise TypeError(
        f'estimator must take kernel="precomputed", as SVC(), SVR(), NuSVC() and KernelRidge() do, '
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
    """C or the ridge, in units of each Gram matrix; what is tried first wins among equals."""
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
