"""How operations compute with the text of many elements of a dataset at a time: see `muster.data.of_each`."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from muster.data import (
    FixedLenFeature,
    NoRowsError,
    OwnRows,
    RowsValue,
    SparseTensor,
    StandIn,
    UnlikeRowsError,
    VarLenFeature,
    of_each,
    of_equal_places,
    of_same_places,
    parse_example,
    parse_single_example,
    replaced,
    text_rows,
    uniform_rows,
)
from muster_tensorflow.library.ops import _operation
from muster_tensorflow.library.ops.arrays import _shape
from muster_tensorflow.library.ops.math import _math
from muster_tensorflow.library.ops.text import _strings
from muster_tensorflow.programs.v1 import _text
from muster_tensorflow.programs.v1.operations import _old_arguments
from muster_tensorflow.programs.v2.data._mutable_tables import MutableHashTable
from muster_tensorflow.programs.v2.data._tables import StaticHashTable

_EACH = (
    *(_strings.strip, _strings.lower, _strings.upper, _strings.length, _strings.substr, _strings.to_number),
    *(_strings.as_string, _strings.regex_replace, _strings.regex_full_match, _strings.to_hash_bucket),
    *(_strings.to_hash_bucket_fast, _strings.to_hash_bucket_strong, _math.cast, _math.logical_not),
    *(_old_arguments.decode_csv, _old_arguments.to_float, _old_arguments.to_int32, _old_arguments.to_int64),
    *(_old_arguments.substr, StaticHashTable.lookup),
)
_EQUALITY = (_math.equal, _math.not_equal)
_SAME_PLACES = (
    *(_math.add, _math.subtract, _math.multiply, _math.divide, _math.floordiv, _math.floormod),
    *(_math.greater, _math.greater_equal, _math.less, _math.less_equal, _math.maximum, _math.minimum),
    *(_math.logical_and, _math.logical_or, _math.logical_xor, _operation.arithmetic),
)
_ALONG_AXIS = _shape.expand_dims, _shape.squeeze, _shape.split, _shape.stack, _shape.concat


def row_rules() -> dict[Any, Callable[[Callable[..., Any], Any, Any], Any]]:
    """Return the rules of operations on text, and of those that follow them, by the operation."""
    found: dict[Any, Callable[[Callable[..., Any], Any, Any], Any]] = {}
    rules: list[tuple[Any, tuple[Callable[..., Any], ...]]] = [
        (of_each, _EACH),
        (of_same_places, _SAME_PLACES),
        (of_equal_places, _EQUALITY),
        (_item, (_operation.item,)),
        (_reshaped, (_shape.reshape,)),
        (_along_axis, _ALONG_AXIS),
        (_parts, (_strings.split,)),
        (_sparse_parts, (_text.string_split,)),
        (_parsed, (parse_single_example,)),
        (_refused, (MutableHashTable.insert, MutableHashTable.lookup, MutableHashTable.remove)),
    ]
    for rule, operations in rules:
        found |= dict.fromkeys(map(inspect.unwrap, operations), rule)
    return found


def _arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return all arguments by name, also those that are not given."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _is_known(value: Any) -> bool:
    """Return whether a value is the same for all elements."""
    found: list[Any] = []
    replaced(value, StandIn, found.append)
    return not found


def _array(value: Any) -> np.ndarray[Any, Any]:
    """Return rows of arrays: those of single texts and numbers are no arrays."""
    if not isinstance(value, RowsValue) or (rows := uniform_rows(value)).ndim < 2:
        raise NoRowsError
    return rows


def _item(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    values, key = args
    keys = key if isinstance(key, tuple) else (key,)
    if not all(each is None or each is Ellipsis or isinstance(each, int | slice) for each in keys):
        raise NoRowsError
    if any(isinstance(each, slice) and not _is_known([each.start, each.stop, each.step]) for each in keys):
        raise NoRowsError
    return _array(values)[(slice(None), *keys)]


def _reshaped(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    named = _arguments(function, args, kwargs)
    if not isinstance(named["tensor"], RowsValue):
        raise NoRowsError
    rows, shape = uniform_rows(named["tensor"]), named["shape"]
    if isinstance(shape, RowsValue):
        shapes = [tuple(each) for each in uniform_rows(shape).tolist()]
        _require_alike(shapes)
        shape = shapes[0]
    elif not _is_known(shape):
        raise NoRowsError
    sizes = [-1 if size is None else int(size) for size in np.ravel(np.asarray(shape, object))]
    if -1 in sizes and not rows.size:
        raise NoRowsError
    return rows.reshape(len(rows), *sizes)


def _along_axis(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Compute an operation whose axes count from that after the axis of elements."""
    named = _arguments(function, args, kwargs)
    first, axis = next(iter(named)), named["axis"]
    if not isinstance(axis, int) or not _is_known({k: v for k, v in named.items() if k != first}):
        raise NoRowsError
    of = named[first]
    if isinstance(of, list | tuple):
        if not all(isinstance(each, RowsValue) for each in of):
            raise NoRowsError
        named[first] = [uniform_rows(each) for each in of]
        if len({each.dtype == object for each in named[first]}) > 1:
            raise NoRowsError
    elif isinstance(of, RowsValue):
        named[first] = uniform_rows(of)
    else:
        raise NoRowsError
    named["axis"] = axis if axis < 0 else axis + 1
    return function(**named)


def _parts(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    named = _arguments(function, args, kwargs)
    value = named["input"]
    if not isinstance(value, RowsValue) or uniform_rows(value).ndim > 1 or not _is_known(named["sep"]):
        raise NoRowsError
    parts: list[str] = []
    counts = []
    for text in value.rows:
        found = function(text, named["sep"], named["maxsplit"]).tolist()
        counts.append(len(found))
        parts += found
    _require_alike(counts)
    return text_rows(parts).reshape(len(counts), counts[0])


def _sparse_parts(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Split texts into the values of sparse tensors, which elements have at the same places."""
    named = _arguments(function, args, kwargs)
    ends, source = named["sep"], named["source"]
    ends = named["delimiter"] if ends is None else ends
    ends = " " if ends is None else ends
    if isinstance(source, list | tuple) and len(source) == 1 and isinstance(source[0], RowsValue):
        single = uniform_rows(source[0])
        texts = single.reshape(len(single), -1) if single.ndim == 1 else single
    else:
        texts = _array(source)
    if texts.ndim != 2 or not isinstance(ends, str) or not ends or named["result_type"] != "SparseTensor":
        raise NoRowsError
    size, width = texts.shape
    plain = texts.ravel().tolist()
    if plain and isinstance(plain[0], bytes):
        plain = [text.decode() for text in plain]
    parts, sizes = _split_all(plain, ends, bool(named["skip_empty"]))
    counts = np.array(sizes, np.int64).reshape(size, width)
    if (counts != counts[0]).any():
        _require_alike(list(map(tuple, counts.tolist())))
    places = [(row, place) for row, count in enumerate(counts[0].tolist()) for place in range(count)]
    indices = np.array(places, np.int64).reshape(-1, 2)
    values = text_rows(parts).reshape(size, len(places))
    shape = np.array([width, counts[0].max(initial=0)], np.int64)
    return SparseTensor.of_checked(
        np.broadcast_to(indices, (size, *indices.shape)), values, np.broadcast_to(shape, (size, 2))
    )


def _split_all(texts: list[str], ends: str, skip_empty: bool) -> tuple[list[str], list[int]]:
    """Split texts at each of some characters; return the parts of all, and how many each text has.

    The parts are in one list: Python's garbage collector would look at a list for each again and again.
    """
    if len(ends) == 1:
        parts = ends.join(texts).split(ends) if texts else []
        if not skip_empty or "" not in parts:
            return parts, _parts_of_each(texts, ends)
    split = re.compile(f"[{re.escape(ends)}]").split
    parts, sizes = [], []
    for text in texts:
        found = [part for part in split(text) if part or not skip_empty]
        sizes.append(len(found))
        parts += found
    return parts, sizes


def _parts_of_each(texts: list[str], end: str) -> list[int]:
    """Return how many parts each text has that are split at a character."""
    joined = "\0".join([*texts, ""])
    if end == "\0" or not end.isascii() or joined.count("\0") > len(texts):
        return [text.count(end) + 1 for text in texts]
    found = np.frombuffer(joined.encode(errors="surrogateescape"), np.uint8)
    (stops,) = np.nonzero(found == 0)
    before = np.searchsorted(np.flatnonzero(found == ord(end)), stops)
    counts: list[int] = (np.diff(before, prepend=0) + 1).tolist()
    return counts


def _parsed(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    named = _arguments(function, args, kwargs)
    features, serialized = named["features"], named["serialized"]
    if not all(isinstance(feature, FixedLenFeature | VarLenFeature) for feature in features.values()):
        raise NoRowsError  # which are padded to the longest of a batch
    if not isinstance(serialized, RowsValue) or named["example_names"] is not None:
        raise NoRowsError
    found = parse_example(uniform_rows(serialized), features)
    return {key: _own_rows(each) if isinstance(each, SparseTensor) else each for key, each in found.items()}


def _own_rows(values: SparseTensor) -> OwnRows:
    """Return sparse tensors of the values of each row, without room for others."""
    rows = [each.plain_values for each in values.rows()]
    return OwnRows(
        [SparseTensor.of_checked(np.arange(len(row))[:, None], row, np.array([len(row)])) for row in rows]
    )


def _refused(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    raise TypeError("A table that changes is read and written for one element after the other.")


def _require_alike(keys: list[Any]) -> None:
    """Raise an error that groups elements, unless their keys are equal.

    Raises:
        UnlikeRowsError: They are not.
    """
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    if len(numbers) > 1:
        raise UnlikeRowsError([numbers[key] for key in keys])
