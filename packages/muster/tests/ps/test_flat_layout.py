"""Arrays go into flat buffers and come out as views, whatever their shapes and dtypes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import FlatLayout, memory

dtypes = st.sampled_from(["float32", "bfloat16", "int8", "bool", "complex64"])
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(st.lists(st.tuples(shapes, dtypes), max_size=8))
def test_what_is_packed_is_unpacked(described):
    specs = [ArraySpec(f"a{index}", *each) for index, each in enumerate(described)]
    layout = FlatLayout(specs)
    arrays = {spec.name: np.full(spec.shape, index, spec.dtype) for index, spec in enumerate(specs)}
    flat = layout.pack(arrays)
    assert list(flat) == sorted({spec.dtype for spec in specs})
    assert layout.nbytes == sum(array.nbytes for array in arrays.values())
    for array in flat.values():
        assert array.ctypes.data % 64 == 0 or not array.size
        assert len(memory(array)) == array.nbytes
    for name, array in layout.unpack(flat).items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.base is not None


def test_arrays_lie_in_the_order_of_the_list():
    layout = FlatLayout([ArraySpec("b", (2,), "float32"), ArraySpec("a", (), "float32")])
    flat = layout.pack({"a": np.float32(3), "b": np.array([1, 2], np.float32)})
    assert flat["float32"].tolist() == [1.0, 2.0, 3.0]
    layout.unpack(flat)["b"][0] = 9.0
    assert flat["float32"][0] == 9.0


@pytest.mark.parametrize("given", [None, np.zeros(3, np.float32), np.zeros(2, ml_dtypes.bfloat16)])
def test_arrays_of_another_kind_are_named(given):
    layout = FlatLayout([ArraySpec("kernel", (2,), "float32")])
    with pytest.raises(ValueError, match=r"kernel \(float32\[2\]\)"):
        layout.pack({} if given is None else {"kernel": given})
