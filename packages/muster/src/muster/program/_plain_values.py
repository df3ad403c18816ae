"""Values that a program holds in Python, as JSON and arrays: what checkpoints keep of callbacks and hooks.

A plain value is a number, a text, a date, an array, a generator of random numbers, a collection of plain
values, or an object whose attributes are. Nothing is pickled, so that reading a checkpoint runs no code.
Objects are told of their state; the program makes them.
"""

import collections
import datetime
import enum
import math
import pathlib
import random
import zlib
from collections.abc import Callable, Container, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray[Any, Any]

_ABSENT: Any = object()
_COLLECTIONS: dict[str, Any] = {
    kind.__name__: kind for kind in (tuple, set, frozenset, collections.deque)
}  # lists and numbers are JSON's
_MAPPINGS: dict[str, Any] = {
    kind.__name__: kind for kind in (dict, collections.OrderedDict, collections.Counter)
}
# Packages whose objects are more than their attributes.
_NOT_PLAIN = ("builtins", "functools", "threading", "_thread", "io", "_io", "logging", "jax", "keras")


class NotPlainError(TypeError):
    """A value cannot be kept; the message names its type."""


def encode(value: Any, arrays: list[Array], saved: Container[int] = ()) -> Any:
    """Return a plain value as JSON, without its arrays.

    Args:
        value: The value.
        arrays: Takes copies of the arrays in it, of any shape and numeric dtype.
        saved: The ids of variables that are saved elsewhere, and left out.

    Raises:
        NotPlainError: It is not plain.
    """
    return _Encoder(arrays, saved).encode(value)


def checksums(arrays: Sequence[Array]) -> list[Any]:
    """Return what is equal for equal arrays."""
    return [(each.dtype.str, each.shape, zlib.crc32(each.tobytes())) for each in arrays]


def decode(found: Any, arrays: list[Array], present: Any = _ABSENT) -> Any:
    """Return a value that was encoded.

    Args:
        found: What `encode` returned.
        arrays: The arrays in it.
        present: The value that the program has in its place: an object gets its state, and is returned.

    Raises:
        NotPlainError: The program has no such object there.
    """
    if isinstance(found, list):
        given = (
            present if isinstance(present, list) and len(present) == len(found) else [_ABSENT] * len(found)
        )
        return [decode(each, arrays, own) for each, own in zip(found, given, strict=True)]
    if not isinstance(found, dict):
        return found
    (kind, content), *rest = found.items()
    return _DECODERS[kind](content, dict(rest), arrays, present)


class _Encoder:
    """Encodes one value; an object that holds itself is not plain."""

    def __init__(self, arrays: list[Array], saved: Container[int]) -> None:
        self._arrays, self._saved = arrays, saved
        self._within: list[int] = []

    def encode(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if id(value) in self._within:
            raise NotPlainError(f"a value of type {type(value).__name__} that holds itself")
        self._within.append(id(value))
        try:
            return self._encode(value)
        finally:
            self._within.pop()

    def _encode(self, value: Any) -> Any:
        kind = type(value)
        match value:
            case list() if kind is list:
                return self._each(value)
            case dict() if kind in _MAPPINGS.values() or kind is collections.defaultdict:
                return {
                    "mapping": [[self.encode(k), self.encode(v)] for k, v in value.items()],
                    "of": kind.__name__,
                }
            case tuple() if hasattr(value, "_fields"):
                return {"fields": self._each(value)}
            case tuple() | set() | frozenset() | collections.deque() if kind in _COLLECTIONS.values():
                most = getattr(value, "maxlen", None)
                return {"items": self._each(value), "of": kind.__name__, "maxlen": most}
            case complex():
                return {"complex": repr(value)}
            case bytes() | bytearray():
                return {"bytes": value.hex(), "mutable": kind is bytearray}
            case datetime.timedelta():
                return {"seconds": value / datetime.timedelta(microseconds=1)}
            case datetime.datetime() | datetime.date() if kind in (datetime.datetime, datetime.date):
                return {"date": value.isoformat(), "of": kind.__name__}
            case pathlib.PurePath():
                return {"path": str(value)}
            case enum.Enum():
                return {"member": value.name}
            case np.random.Generator():
                return {"generator": self.encode(value.bit_generator.state)}
            case np.random.RandomState():
                return {"generator": self.encode(value.get_state(legacy=False))}
            case random.Random():
                return {"generator": self.encode(value.getstate())}
        return self._array(value) or self._object(value)

    def _each(self, values: Any) -> list[Any]:
        return [self.encode(each) for each in values]

    def _array(self, value: Any) -> Any:
        """Return an array or scalar of NumPy's or JAX's; None for anything else."""
        if isinstance(value, jax.Array):
            if not isinstance(value, jax.core.Tracer) and not jnp.issubdtype(
                value.dtype, jax.dtypes.extended
            ):
                return self._numeric(np.asarray(value), "jax")
        elif isinstance(value, np.generic | np.ndarray):
            array = np.asarray(value)
            if array.dtype.kind in "biufc" or array.dtype.isbuiltin == 2:  # with those of ml_dtypes
                return self._numeric(array, "scalar" if isinstance(value, np.generic) else "numpy")
            if array.dtype.kind in "USMm":
                texts = array.astype("int64" if array.dtype.kind in "Mm" else array.dtype).tolist()
                return {
                    "listed": self.encode(texts),
                    "dtype": array.dtype.str,
                    "scalar": isinstance(value, np.generic),
                }
        return None

    def _numeric(self, array: Array, of: str) -> Any:
        self._arrays.append(np.array(array))
        return {"array": len(self._arrays) - 1, "of": of}

    def _object(self, value: Any) -> Any:
        kind = type(value)
        if (variables := variables_of(value)) is not None:
            own = [each for each in variables if id(each) not in self._saved]
            return {"variables": [self._numeric(np.asarray(each.value), "numpy") for each in own] or None}
        if not hasattr(value, "__dict__") or kind.__module__.partition(".")[0] in _NOT_PLAIN:
            raise NotPlainError(f"a value of type {kind.__name__}")
        return {"object": kind.__qualname__, "state": [[k, self.encode(v)] for k, v in vars(value).items()]}


def variables_of(value: Any) -> list[Any] | None:
    """Return the variables of one of Keras' objects, such as a metric; None if it is none."""
    if callable(getattr(value, "assign", None)) and hasattr(value, "value") and hasattr(value, "shape"):
        return [value]
    variables = getattr(value, "variables", None)
    if not isinstance(variables, list) or not all(hasattr(each, "assign") for each in variables):
        return None
    return variables


def _items(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    items = [decode(each, arrays) for each in content]
    kind = _COLLECTIONS[rest["of"]]
    return kind(items, rest["maxlen"]) if kind is collections.deque else kind(items)


def _mapping(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    values = present if isinstance(present, dict) else {}
    items = [(decode(k, arrays), v) for k, v in content]
    pairs = [(k, decode(v, arrays, values.get(k, _ABSENT))) for k, v in items]
    if rest["of"] == "defaultdict":
        found: Any = collections.defaultdict(getattr(present, "default_factory", None))
        found.update(pairs)
        return found
    return _MAPPINGS[rest["of"]](dict(pairs))


def _fields(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    values = [decode(each, arrays) for each in content]
    kind = type(present)
    return kind(*values) if hasattr(kind, "_fields") and len(kind._fields) == len(values) else tuple(values)


def _date(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    return getattr(datetime, rest["of"]).fromisoformat(content)


def _member(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    if not isinstance(present, enum.Enum):
        raise NotPlainError(f"a member of an enumeration, {content}, where there is {_named(present)}")
    return type(present)[content]


def _generator(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    state = decode(content, arrays)
    match present:
        case np.random.Generator():
            present.bit_generator.state = state
        case np.random.RandomState():
            present.set_state(state)
        case random.Random():
            present.setstate(state)
        case _:
            raise NotPlainError(
                f"the state of a generator of random numbers, where there is {_named(present)}"
            )
    return present


def _array(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    array = arrays[content]
    if rest["of"] == "jax":
        return jnp.asarray(array)
    return array[()] if rest["of"] == "scalar" else np.array(array)


def _listed(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    array = np.array(decode(content, arrays), dtype=rest["dtype"])
    return array[()] if rest["scalar"] else array


def _assigned(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    if content is None:
        return present
    own = variables_of(present) or []
    values = [decode(each, arrays) for each in content]
    if [tuple(each.shape) for each in own] != [each.shape for each in values]:
        raise NotPlainError(
            f"variables of the shapes {[each.shape for each in values]}, where there is {_named(present)}"
        )
    for variable, value in zip(own, values, strict=True):
        variable.assign(value)
    return present


def _object(content: Any, rest: Any, arrays: list[Array], present: Any) -> Any:
    if type(present).__qualname__ != content:
        raise NotPlainError(f"a {content}, where there is {_named(present)}")
    for name, value in rest["state"]:
        setattr(present, name, decode(value, arrays, vars(present).get(name, _ABSENT)))
    return present


def _named(present: Any) -> str:
    return "nothing" if present is _ABSENT else f"a {type(present).__name__}"


_DECODERS: dict[str, Callable[[Any, Any, list[Array], Any], Any]] = {
    "float": lambda content, *_: float(content),
    "complex": lambda content, *_: complex(content),
    "bytes": lambda content, rest, *_: (bytearray if rest["mutable"] else bytes).fromhex(content),
    "seconds": lambda content, *_: datetime.timedelta(microseconds=content),
    "path": lambda content, *_: pathlib.Path(content),
    "items": _items,
    "mapping": _mapping,
    "fields": _fields,
    "date": _date,
    "member": _member,
    "generator": _generator,
    "array": _array,
    "listed": _listed,
    "variables": _assigned,
    "object": _object,
}
