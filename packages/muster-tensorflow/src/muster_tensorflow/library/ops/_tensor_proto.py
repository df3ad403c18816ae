"""Arrays as bytes that TensorFlow reads, and back: messages of the type ``TensorProto``.

Source: tensorflow/core/framework/tensor.proto, types.proto; ``Tensor::AsProtoTensorContent`` and
``Tensor::FromProto`` (tensorflow/core/framework/tensor.cc).
"""

import functools
import math
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import DTypeLike

from muster import DatasetError
from muster.extend import message_class, object_array

# The number of each type, and the field of values that are not bytes of the whole array.
_TYPES = {
    1: ("float32", "float_val"),
    2: ("float64", "double_val"),
    3: ("int32", "int_val"),
    4: ("uint8", "int_val"),
    5: ("int16", "int_val"),
    6: ("int8", "int_val"),
    7: ("str", "string_val"),
    8: ("complex64", "scomplex_val"),
    9: ("int64", "int64_val"),
    10: ("bool", "bool_val"),
    14: ("bfloat16", "half_val"),
    17: ("uint16", "int_val"),
    18: ("complex128", "dcomplex_val"),
    19: ("float16", "half_val"),
    22: ("uint32", "uint32_val"),
    23: ("uint64", "uint64_val"),
}
_NUMBERS = {dtype: number for number, (dtype, _) in _TYPES.items()}
_MESSAGES = """
message Shape { repeated Size dim = 2; }
message Size { int64 size = 1; }
message TensorProto {
  int32 dtype = 1; Shape tensor_shape = 2; bytes tensor_content = 4; repeated float float_val = 5;
  repeated double double_val = 6; repeated int32 int_val = 7; repeated bytes string_val = 8;
  repeated float scomplex_val = 9; repeated int64 int64_val = 10; repeated bool bool_val = 11;
  repeated double dcomplex_val = 12; repeated int32 half_val = 13; repeated uint32 uint32_val = 16;
  repeated uint64 uint64_val = 17;
}
"""


def numbered_dtype(number: int) -> str:
    """Return the dtype that TensorFlow has a number for.

    Raises:
        DatasetError: There is no such number.
    """
    if number not in _TYPES:
        known = ", ".join(f"{each} ({dtype})" for each, (dtype, _) in _TYPES.items())
        raise DatasetError(f"{number} is no dtype: give its name, or a number of {known}.")
    return _TYPES[number][0]


@functools.cache
def _message() -> Any:
    return message_class(_MESSAGES, "tensorflow.TensorProto")


def serialize_tensor(tensor: Any, name: str | None = None) -> bytes:
    """Return an array as bytes, which `parse_tensor` reads, here and in TensorFlow.

    Args:
        tensor: Numbers or text, of any shape.
        name: Ignored.

    Raises:
        DatasetError: TensorFlow has no such dtype.

    Source: ``tf.io.serialize_tensor``.
    """
    array = np.asarray(tensor)
    is_text = array.dtype.kind in "OSU"
    dtype = "str" if is_text else str(array.dtype)
    if dtype not in _NUMBERS:
        raise DatasetError(f"serialize_tensor takes arrays of {', '.join(_NUMBERS)}, got {dtype}. Cast it.")
    message = _message()(dtype=_NUMBERS[dtype])
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if is_text:
        # Of a single text the value itself: NumPy's arrays of bytes lose zeros at the end.
        texts = [tensor] if isinstance(tensor, bytes) else array.ravel().tolist()
        message.string_val.extend(text.encode() if isinstance(text, str) else bytes(text) for text in texts)
    else:
        message.tensor_content = array.astype(array.dtype.newbyteorder("<")).tobytes()
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


def parse_tensor(serialized: bytes, out_type: DTypeLike, name: str | None = None) -> Any:
    """Return the array of what `serialize_tensor` returned, here or in TensorFlow.

    Args:
        serialized: The bytes.
        out_type: Its dtype.
        name: Ignored.

    Returns:
        Array; of text one of bytes, and a single text as bytes.

    Raises:
        DatasetError: It has another dtype, or is no such message.

    Source: ``tf.io.parse_tensor``.
    """
    if isinstance(serialized, np.ndarray) and serialized.shape == ():
        serialized = serialized.item()  # bytes() of an array of an object is its address
    try:
        message = _message().FromString(bytes(serialized))
    except (DecodeError, TypeError) as exc:
        raise DatasetError(
            f"parse_tensor takes what serialize_tensor returns, got {serialized!r:.60}"
        ) from exc
    wanted = np.dtype(out_type)
    dtype, field = _TYPES.get(message.dtype, (f"type {message.dtype}", ""))
    asked = "str" if wanted.kind in "OSU" else str(wanted)
    if dtype != asked:
        raise DatasetError(f"parse_tensor was asked for {asked}, and the tensor has {dtype}.")
    shape = [size.size for size in message.tensor_shape.dim]
    if dtype == "str":
        texts = object_array(list(message.string_val)).reshape(shape)
        return texts[()]
    if message.tensor_content:
        stored = np.frombuffer(message.tensor_content, wanted.newbyteorder("<")).astype(wanted)
        return stored.reshape(shape)[()]
    return _of_values(getattr(message, field), wanted, math.prod(shape)).reshape(shape)[()]


def _of_values(values: Any, dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
    """Return as many numbers; the last value counts for those that are missing, and 0 if there is none."""
    if dtype.kind == "c":
        numbers = np.array(values[::2]) + 1j * np.array(values[1::2])
    elif dtype.itemsize == 2 and dtype.kind not in "iu":  # 16-bit floats are stored as integers of their bits
        numbers = np.array(values, np.uint16).view(dtype)
    else:
        numbers = np.array(values, dtype)
    filled = np.zeros(size, dtype)
    filled[: len(numbers)] = numbers
    filled[len(numbers) :] = numbers[-1] if len(numbers) else 0
    return filled
