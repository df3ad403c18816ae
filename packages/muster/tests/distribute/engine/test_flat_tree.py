"""Arrays of a nested structure in few buffers, and back."""

import jax
import jax.numpy as jnp
import numpy as np

from muster.distribute.engine import _flat_arrays as flat_arrays
from muster.distribute.engine._flat_arrays import FlatTree

TREE = {
    "rows": [np.arange(6, dtype=np.float32).reshape(3, 2), np.array([True, False])],
    "large": np.arange(100, dtype=np.float32),
    "count": np.int32(7),
    "half": (np.arange(3).astype(jnp.bfloat16), np.zeros((0, 4), np.float32)),
}


def require_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for array, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(array, wanted)


def test_what_a_program_returns_and_takes(monkeypatch):
    monkeypatch.setattr(flat_arrays, "_SMALL_BYTES", 64)
    tree = FlatTree(TREE)
    buffers, large = packed = jax.jit(tree.pack)(TREE)
    assert {dtype: buffer.shape for dtype, buffer in buffers.items()} == {
        "bfloat16": (3,),
        "bool": (2,),
        "float32": (6,),
        "int32": (1,),
    }
    assert [each.shape for each in large] == [(100,)]
    require_same(tree.on_host(packed), TREE)
    require_same(jax.jit(tree.unpack)(buffers, large), TREE)


def test_buffers_are_filled_by_their_views():
    tree = FlatTree(TREE)
    buffers, large = tree.allocate()
    for view, value in zip(jax.tree.leaves(tree.unpack(buffers, large)), jax.tree.leaves(TREE), strict=True):
        view[...] = value
    require_same(jax.jit(tree.unpack)(buffers, large), TREE)


def test_nothing():
    tree = FlatTree([])
    assert tree.unpack(*tree.allocate()) == []
