"""Puts this folder on the path, so that tests in its folders find `dataset_model`."""

import pytest

from muster.data import Dataset, FunctionArguments


@pytest.fixture(autouse=True)
def _numpy_values(monkeypatch):
    """Show elements as they are until the compatibility package is imported, as other tests do."""
    monkeypatch.setattr(Dataset, "shown", None)
    monkeypatch.setattr(FunctionArguments, "shown", None)
