"""Doctests that need an extra that is not installed are skipped."""

from importlib.util import find_spec

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip examples that import torch, if it is missing."""
    if find_spec("torch") is not None:
        return
    for item in items:
        examples = item.dtest.examples if isinstance(item, pytest.DoctestItem) else []
        if any("import torch" in example.source for example in examples):
            item.add_marker(pytest.mark.skip(reason="needs torch"))
