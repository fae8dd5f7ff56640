"""What the files about the project say of it: dependencies, versions, citation, changes."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import mercer

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: What `make oldest` installs.
TESTED = ("parquet", "dask", "torch", "gpytorch", "test")


def pinned(name: str) -> dict[str, Version]:
    lines = (ROOT / name).read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(p.name): Version(next(iter(p.specifier)).version) for p in pins}


def allowed(*extras: str) -> dict[str, Requirement]:
    found = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    needs = map(Requirement, found)
    return {canonicalize_name(need.name): need for need in needs if need.name != "mercer"}


def test_oldest_versions_are_the_lowest_allowed() -> None:
    pins = pinned("constraints-oldest.txt")
    lowest = {name: need.specifier for name, need in allowed(*TESTED).items()}
    assert set(pins) == set(lowest)
    assert pins.pop("torch") == pinned("constraints.txt")["torch"], "its lower bound is not tested"
    for name, version in pins.items():
        bounds = [s for s in lowest[name] if s.operator == ">="]
        assert [Version(s.version) for s in bounds] == [version], name


def test_tested_versions_are_allowed() -> None:
    pins = pinned("constraints.txt")
    for name, need in allowed(*TESTED, "docs", "dev").items():
        if name in pins:
            assert pins[name] in need.specifier, name


def test_makefile_installs_what_is_tested() -> None:
    found = re.search(r"^OLDEST_EXTRAS \?= (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert found is not None
    assert sorted(found[1].split(",")) == sorted(TESTED)


def test_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == mercer.__version__
    assert citation["license"] == PROJECT["license"]


def test_hooks_use_the_tested_tools() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = [hook for repo in repos for hook in repo["hooks"]]
    system = {hook["entry"].split()[0] for hook in hooks if hook["language"] == "system"}
    assert system == {".venv/bin/ruff", ".venv/bin/mypy"}


def test_changes_are_listed_once() -> None:
    """The thing that a line of the changelog begins with is the subject of no other line."""
    lines = (ROOT / "CHANGELOG.md").read_text().split("\n- ")[1:]
    subjects = Counter(match[1] for line in lines if (match := re.match(r"`([^`]+)`", line)))
    assert subjects
    assert max(subjects.values()) == 1, subjects.most_common(3)


@pytest.mark.parametrize("kind", ["keywords", "classifiers"])
def test_no_entry_twice(kind: str) -> None:
    assert len(set(PROJECT[kind])) == len(PROJECT[kind])
