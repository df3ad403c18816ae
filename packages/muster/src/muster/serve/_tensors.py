"""Arrays from JSON values, and back.

Source: tensorflow_serving/util/json_tensor.cc.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from muster._errors import RequestError

Array = np.ndarray[Any, Any]

_SHOWN = 60


def read_json(body: bytes) -> dict[str, Any]:
    """Parse the body of a request; NaN and Infinity are numbers.

    Raises:
        RequestError: It is no JSON object.
    """
    if not body:
        raise RequestError("The request has no body, where a JSON object was expected.")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise RequestError(f"The request is not JSON: {exc}.") from exc
    if not isinstance(value, dict):
        raise RequestError(f"The request is not a JSON object: {shown(value)}.")
    return value


def shown(value: Any) -> str:
    """Return a JSON value for a message, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def is_base64(value: Any) -> bool:
    """Return whether a JSON value is bytes: ``{"b64": "…"}``."""
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def to_bytes(value: Any, name: str) -> bytes:
    """Return the bytes of a string, or of ``{"b64": "…"}``.

    Args:
        value: The JSON value.
        name: Where it stands, for messages.

    Raises:
        RequestError: It is neither.
    """
    try:
        if isinstance(value, str):
            return value.encode()
        if is_base64(value):
            # Padding may be missing, as TensorFlow Serving has it.
            return base64.b64decode(value["b64"] + "=" * (-len(value["b64"]) % 4), validate=True)
    except UnicodeEncodeError as exc:
        raise RequestError(f"{name} has text with half a character: {shown(value)}.") from exc
    except binascii.Error as exc:
        raise RequestError(f"{name} has a wrong base64 value: {shown(value)}: {exc}.") from exc
    raise RequestError(f'{name} takes strings and {{"b64": "…"}}, got {shown(value)}.')


def to_array(value: Any, name: str, dtype: np.dtype[Any]) -> Array:
    """Return a nested list of JSON values as an array.

    Args:
        value: The JSON value.
        name: The name of the input, for messages.
        dtype: The dtype of the array; object for bytes.

    Raises:
        RequestError: Lists differ in length or depth, or a value does not fit the dtype.
    """
    shape: list[int] = []
    values = [value]
    while values and isinstance(values[0], list):
        size = len(values[0])
        if not all(isinstance(each, list) and len(each) == size for each in values):
            raise RequestError(
                f"The lists of input {name!r} differ in length or depth at level {len(shape) + 1}; "
                f"{size} values are expected in each."
            )
        shape.append(size)
        values = list(chain.from_iterable(values))
    array = _flat(values, f"Input {name!r}", dtype)
    return array.reshape(shape)


def _flat(values: list[Any], name: str, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "O":
        array = np.empty(len(values), object)
        array[:] = [to_bytes(value, name) for value in values]
        return array
    wanted: dict[str, tuple[type, ...]] = {"b": (bool,), "i": (int,), "u": (int,)}
    allowed = wanted.get(dtype.kind, (int, float))
    if not set(map(type, values)) <= set(allowed):
        wrong = next(value for value in values if type(value) not in allowed)
        raise RequestError(f"{name} takes values of dtype {dtype}, got {shown(wrong)}.")
    if dtype.kind == "b":
        return np.array(values, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if values and not limits.min <= min(values) <= max(values) <= limits.max:
            raise RequestError(
                f"{name} takes values of dtype {dtype}, from {limits.min} to {limits.max}, got a number from "
                f"{min(values)} to {max(values)}."
            )
        return np.array(values, dtype)
    return _floats(values, name, dtype)


def _floats(values: list[Any], name: str, dtype: np.dtype[Any]) -> Array:
    """Return numbers as floats; refuses what a float cannot hold, as TensorFlow Serving does."""
    import ml_dtypes

    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # NumPy's lacks bfloat16
    exact = 1 << limits.nmant + 1
    for value in values:
        if type(value) is int and abs(value) >= exact:
            raise RequestError(f"{name} cannot hold the integer {shown(value)} exactly in dtype {dtype}.")
    doubles = np.array(values, np.float64)
    largest = float(limits.max)
    if dtype.itemsize < 8 and (np.isfinite(doubles) & (np.abs(doubles) > largest)).any():
        raise RequestError(f"{name} has a number that dtype {dtype} cannot hold: at most {largest:g}.")
    return doubles.astype(dtype)


def from_array(array: Array, name: str) -> Any:
    """Return an array as a nested list of JSON values.

    Args:
        array: Numbers or, in an array of objects, bytes.
        name: The name of the output: bytes are sent as ``{"b64": "…"}`` if it ends in ``_bytes``, or if they
            are no UTF-8; else they are strings.
    """
    if array.dtype.kind == "O":
        binary = name.endswith("_bytes")
        texts = np.empty(array.size, object)
        texts[:] = [_from_bytes(value, binary) for value in array.reshape(-1).tolist()]
        return texts.reshape(array.shape).tolist()
    if array.dtype.kind in "biu" or array.dtype == np.float64:
        return array.tolist()
    numbers = np.array([decimal(value) for value in array.astype(np.float32).reshape(-1).tolist()])
    return numbers.reshape(array.shape).tolist()


def decimal(value: float) -> float:
    """Return the number that JSON shows for a float32: nine digits, or six if they are all that it takes."""
    short = float(f"{value:.6g}")
    return short if np.float32(short) == value else float(f"{value:.9g}")


def _from_bytes(value: bytes, binary: bool) -> Any:
    if not binary:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(value).decode()}


def check_shape(name: str, array: Array, shape: tuple[int | None, ...] | None) -> None:
    """Check an input against the shape that its signature has, None where any size will do.

    Raises:
        RequestError: The array has another shape.
    """
    if shape is None:
        return
    fits = array.ndim == len(shape) and all(
        size in (None, here) for size, here in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise RequestError(
            f"Input {name!r} has the shape {list(array.shape)}, and the signature wants [{wanted}]."
        )


def check_names(given: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """Check that inputs are all there, and no others.

    Raises:
        RequestError: One is missing or unknown.
    """
    if given.keys() == wanted.keys():
        return
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    raise RequestError(
        f"{where} must have the inputs {', '.join(map(repr, wanted))}; "
        + "; ".join(
            f"{what}: {', '.join(map(repr, names))}"
            for what, names in (("missing", missing), ("unknown", unknown))
            if names
        )
        + "."
    )
