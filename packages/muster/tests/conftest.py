"""Test the core as its users run it: without TensorFlow's names, and what they change in JAX and Keras."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _runs_without_tensorflows_names() -> Iterator[None]:
    """Fail a test in whose process something has imported ``muster_tensorflow``."""
    yield
    if "muster_tensorflow" in sys.modules:
        pytest.fail("muster_tensorflow was imported: tests of the core run apart from it, in its own names.")
