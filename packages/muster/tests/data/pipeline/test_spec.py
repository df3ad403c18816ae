"""TensorSpec."""

import numpy as np

from muster.data import TensorSpec


def test_tensor_spec() -> None:
    spec = TensorSpec([None, 3], np.float32, name="x")
    assert spec.is_compatible_with(np.zeros((7, 3), np.float32))
    assert not spec.is_compatible_with(np.zeros((7, 4), np.float32))
    assert not spec.is_compatible_with(np.zeros((7, 3)))
    assert TensorSpec(None).is_compatible_with(TensorSpec((1, 2)))
    assert hash(spec) == hash(TensorSpec((None, 3)))
    assert repr(spec) == "TensorSpec(shape=(None, 3), dtype=float32, name='x')"
    assert TensorSpec((), "U7") == TensorSpec((), str)
    assert TensorSpec(2) == TensorSpec((2,))
