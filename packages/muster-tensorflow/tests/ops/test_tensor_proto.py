"""Arrays as TensorFlow's messages; the bytes are those of TensorFlow 2.15's ``tf.io.serialize_tensor``."""

import jax.numpy as jnp
import numpy as np
import pytest

from muster import DatasetError
from muster_tensorflow.library.ops._tensor_proto import parse_tensor, serialize_tensor

SIX = np.arange(6, dtype=np.float32).reshape(2, 3)
SERIALIZED = [
    (SIX, b'\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03"\x18' + SIX.tobytes()),
    (np.float32(2.5), b'\x08\x01\x12\x00"\x04\x00\x00 @'),
    (np.array([1, 2], np.int64), b'\x08\t\x12\x04\x12\x02\x08\x02"\x10\x01' + bytes(7) + b"\x02" + bytes(7)),
    (np.array([True, False]), b'\x08\n\x12\x04\x12\x02\x08\x02"\x02\x01\x00'),
    (np.array([b"a", b"bc\x00"], object), b"\x08\x07\x12\x04\x12\x02\x08\x02B\x01aB\x03bc\x00"),
    (np.array("x"), b"\x08\x07\x12\x00B\x01x"),
    (np.zeros((0, 3), np.int32), b"\x08\x03\x12\x06\x12\x00\x12\x02\x08\x03"),
    (np.array([1.5, 2], jnp.bfloat16), b'\x08\x0e\x12\x04\x12\x02\x08\x02"\x04\xc0?\x00@'),
    (np.array([1, 2], np.uint8), b'\x08\x04\x12\x04\x12\x02\x08\x02"\x02\x01\x02'),
    (np.array([1 + 2j], np.complex64), b'\x08\x08\x12\x04\x12\x02\x08\x01"\x08\x00\x00\x80?\x00\x00\x00@'),
]
# Of tf.make_tensor_proto, which writes values, and a repeated one once.
OF_VALUES = [
    (np.full((2, 3), 1.5, np.float32), b"\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03*\x04\x00\x00\xc0?"),
    (np.array([True] * 3), b"\x08\n\x12\x04\x12\x02\x08\x03Z\x01\x01"),
    (np.full(2, 1.5, np.float16), b"\x08\x13\x12\x04\x12\x02\x08\x02j\x02\x80|"),
    (np.array([1 + 2j], np.complex64), b"\x08\x08\x12\x04\x12\x02\x08\x01J\x08\x00\x00\x80?\x00\x00\x00@"),
]


@pytest.mark.parametrize(("array", "serialized"), SERIALIZED)
def test_the_bytes_are_those_of_tensorflow(array, serialized):
    assert serialize_tensor(array) == serialized


@pytest.mark.parametrize(("array", "serialized"), [*SERIALIZED, *OF_VALUES])
def test_bytes_of_tensorflow_are_read(array, serialized):
    found = parse_tensor(serialized, array.dtype)
    assert np.shape(found) == array.shape
    wanted = array if array.dtype.kind != "U" else array.astype(bytes)
    np.testing.assert_array_equal(found, wanted)
    if array.dtype.kind not in "OU":
        assert found.dtype == array.dtype


def test_other_types_and_bytes_are_refused():
    with pytest.raises(DatasetError, match="asked for int32, and the tensor has float32"):
        parse_tensor(SERIALIZED[0][1], np.int32)
    with pytest.raises(DatasetError, match="takes what serialize_tensor returns, got b'.x08.xff"):
        parse_tensor(b"\x08\xff", np.int32)
    with pytest.raises(DatasetError, match="got datetime64"):
        serialize_tensor(np.array(["2000-01-01"], np.datetime64))
