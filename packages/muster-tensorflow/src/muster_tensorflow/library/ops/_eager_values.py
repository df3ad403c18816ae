"""Give the results of operations and datasets TensorFlow's methods, in eager code.

Inside, operations on NumPy values are NumPy's, which keeps 64 bits and text, and is fast in input functions.
What programs see outside of these are JAX's arrays where JAX has the dtype, as tapes can watch them, or else
NumPy arrays with ``numpy()``. Text has TensorFlow's methods in functions of datasets, too.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import (
    Dataset,
    Placeholder,
    decode_csv,
    in_dataset_function,
    is_computing_rows,
    parse_example,
)
from muster.distribute import PerReplica
from muster.extend import current_scope, is_tracing
from muster.program import HostValue, StandIn
from muster_tensorflow.library.ops._host_placeholder import compute_on_host
from muster_tensorflow.library.ops._one_shot import NextValue, OneShotIterator, compute_for_next, note_draw
from muster_tensorflow.library.ops._operation import OF_SHAPES
from muster_tensorflow.library.ops._patched_classes import get_shape, operation_of, ref, set_shape
from muster_tensorflow.library.ops._value_names import name_of
from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape

_TEXT = np.dtype(str)
# Where operations are: here, and those of TensorFlow 1 whose arguments had other names.
_OF_VERSION_1 = "muster_tensorflow.programs.v1.operations._old_arguments"
_OPERATIONS = (f"{__package__}.", _OF_VERSION_1)
_DRAWING = f"{__package__}.random._random"
_TAKE_PLACEHOLDERS = (parse_example, decode_csv)


class HostTensor(np.ndarray[Any, Any]):
    """A NumPy array with TensorFlow's methods, for what JAX has no dtype of: 64 bits and text."""

    @property  # type: ignore[misc]
    def shape(self) -> ArrayShape:
        """The sizes."""
        return ArrayShape(super().shape)

    @property
    def dtype(self) -> Any:
        """The type; that of text has no width."""
        return _TEXT if _holds_text(self) else super().dtype

    @property
    def name(self) -> str:
        """The name in a step, as of a traced value; in eager code there is none, as in TensorFlow."""
        if not is_inside():
            raise AttributeError("Tensor.name is undefined when eager execution is enabled.")
        return name_of(self)

    op = property(operation_of)
    get_shape = get_shape
    set_shape = set_shape
    ref = ref

    def numpy(self) -> Any:
        """Return a plain NumPy array, a copy, or the single value; text as bytes, as TensorFlow does."""
        plain = np.array(self)
        if plain.dtype.kind in "UO" and plain.size:
            plain = np.vectorize(_as_bytes, otypes=[object])(plain)
        return plain[()]

    def __int__(self) -> int:
        """Return the number of an array that holds one, whatever axes it has."""
        return int(self.item())

    def __float__(self) -> float:
        """Return the number of an array that holds one, whatever axes it has."""
        return float(self.item())

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array).view(HostTensor)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, np.ndarray):
            return found
        if isinstance(found, str | bytes):
            return _as_text(found)
        if is_inside() and not in_dataset_function():
            return found  # such as a size in a step, of which Keras would make an array
        return np.array(found, super().dtype).view(HostTensor)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def _anew(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make an operator such as ``+=`` whose result is another array: a tensor never changes."""
    return lambda self, other: operation(self, other)


def _with_lists(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let an operator take lists of numbers as numbers of the array's own type, as TensorFlow does."""

    def operate(self: Any, other: Any) -> Any:
        if isinstance(other, list | tuple):
            other, own = np.asarray(other), np.asarray(self).dtype
            if own.kind in {"i": "iufc", "f": "fc"}.get(other.dtype.kind, ""):
                other = other.astype(own)
        return operation(self, other)

    return operate


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    setattr(HostTensor, f"__i{_name}__", _anew(getattr(operator, f"__{_name}__")))
    for _side in ("", "r"):
        setattr(HostTensor, f"__{_side}{_name}__", _with_lists(getattr(np.ndarray, f"__{_side}{_name}__")))


_dtype_of_text = property(lambda self: _TEXT, doc="The type of text.")
_shape_of_text = property(lambda self: ArrayShape(()), doc="No sizes: it is one text.")


class HostText(str):
    """A text with TensorFlow's ``numpy()``, ``dtype`` and ``shape``; compared with each of a list."""

    __slots__ = ()
    __hash__ = str.__hash__

    dtype = _dtype_of_text
    shape = _shape_of_text
    get_shape = get_shape
    set_shape = set_shape

    def numpy(self) -> bytes:
        """Return the text as bytes, as TensorFlow does."""
        return self.encode()

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, list | tuple):
            return np.equal(str(self), np.asarray(other, str)).view(HostTensor)
        return super().__eq__(other)

    def __ne__(self, other: Any) -> Any:
        found = self == other
        return ~found if isinstance(found, np.ndarray) else super().__ne__(other)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the text; with ``tf.newaxis`` the array of this one text."""
        axes = _new_axes(key)
        return super().__getitem__(key) if axes is None else _array_of_one(str(self), axes)


class HostBytes(np.bytes_):  # type: ignore[misc]  # NumPy subclasses it, too
    """Bytes, such as a record of a file, with TensorFlow's ``numpy()``, ``dtype`` and ``shape``.

    NumPy makes arrays of its own type for bytes, and numbers of other subclasses of bytes.
    """

    __slots__ = ()

    dtype = _dtype_of_text
    shape = _shape_of_text
    get_shape = get_shape
    set_shape = set_shape
    __repr__ = bytes.__repr__  # NumPy's leaves out zeros at the end

    def numpy(self) -> bytes:
        """Return the plain bytes."""
        return bytes(self)

    def __getitem__(self, key: Any) -> Any:
        """Return one of the bytes or several; with ``tf.newaxis`` the array of this one text."""
        axes = _new_axes(key)
        return super().__getitem__(key) if axes is None else _array_of_one(bytes(self), axes)


def _new_axes(key: Any) -> int | None:
    """Return how many axes an index adds to a single value; None for an index of something else."""
    keys = key if isinstance(key, tuple) else (key,)
    return keys.count(None) if all(each is None or each is Ellipsis for each in keys) else None


def _array_of_one(value: str | bytes, axes: int) -> Any:
    if not axes:
        return _as_text(value)
    found = np.empty((1,) * axes, object if isinstance(value, bytes) else f"U{max(len(value), 1)}")
    found[...] = value
    return found.view(HostTensor)


def _as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def host_value(value: Any, as_bytes: bool = False) -> Any:
    """Return a value as Python's functions take it: text, or an array that may be written to.

    Args:
        value: Text, or anything that is an array.
        as_bytes: Whether text is to be bytes, also that in arrays.
    """
    if isinstance(value, str | bytes):
        return _plain_bytes(value) if as_bytes else value
    array = np.array(value)
    if as_bytes and array.dtype.kind in "UO" and array.size:
        array = np.vectorize(_plain_bytes, otypes=[object])(array)
    return array


def _plain_bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytes) else _as_bytes(value)


def numpy_elements(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``Dataset.as_numpy_iterator``, whose elements have text as bytes in TensorFlow."""

    @functools.wraps(original)
    def as_numpy_iterator(self: Any) -> Any:
        return map(functools.partial(_mapped, leaf=_with_bytes), original(self))

    return as_numpy_iterator


def _with_bytes(value: Any) -> Any:
    text = isinstance(value, str | bytes) or getattr(getattr(value, "dtype", None), "kind", "") in "USO"
    return host_value(value, as_bytes=True) if text else value


def _holds_text(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is one of text, or of objects that are bytes."""
    kind = np.ndarray.dtype.__get__(array).kind
    return kind in "US" or (kind == "O" and array.size > 0 and isinstance(array.item(0), str | bytes))


def _as_text(value: Any) -> Any:
    """Return a text, or an array of texts, with TensorFlow's methods, and anything else as it is."""
    if isinstance(value, str):
        return HostText(value)
    if isinstance(value, bytes):
        return HostBytes(value)
    is_text = isinstance(value, np.ndarray) and _holds_text(value)
    return value.view(HostTensor) if is_text else value


def as_tensor(value: Any) -> Any:
    """Return NumPy's and Python's arrays, numbers and texts with TensorFlow's methods."""
    if isinstance(value, str | bytes):
        return _as_text(value)
    if not isinstance(value, np.ndarray | np.generic):
        return value
    if _is_jaxs(value, _has_64_bits()):
        # jnp.asarray would compile a program for each shape; the copy is not the program's to change.
        return jax.device_put(np.array(value))
    return np.asarray(value).view(HostTensor)


def _has_64_bits() -> bool:
    """Return whether JAX has numbers of 64 bits."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def _is_jaxs(value: Any, has_64_bits: bool) -> bool:
    """Return whether a value of NumPy is one that JAX has as it is: a number, of no more bits than JAX's."""
    array = isinstance(value, np.ndarray)
    return _is_jaxs_dtype(np.ndarray.dtype.__get__(value) if array else value.dtype, has_64_bits)


@functools.cache
def _is_jaxs_dtype(dtype: Any, has_64_bits: bool) -> bool:
    return _is_number(dtype) and bool(jax.dtypes.canonicalize_dtype(dtype) == dtype)


def as_host_tensor(value: Any) -> Any:
    """Return a NumPy array, or a text, with TensorFlow's methods; in the host's memory."""
    if isinstance(value, str | bytes):  # NumPy's are of its numbers' class
        return _as_text(value)
    return np.asarray(value).view(HostTensor) if isinstance(value, np.ndarray | np.generic) else value


def _mapped(value: Any, leaf: Callable[[Any], Any] = as_tensor) -> Any:
    """Return a structure with `as_tensor`, or another function, of its leaves; keys keep their order."""
    if isinstance(value, dict):
        return {key: _mapped(each, leaf) for key, each in value.items()}
    if isinstance(value, list) or type(value) is tuple:
        return type(value)(_mapped(each, leaf) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(each, leaf) for each in value))
    return leaf(value)


def _is_number(dtype: Any) -> bool:
    return dtype.kind in "biufc" or jnp.issubdtype(dtype, np.number)


def shown_elements(elements: list[Any]) -> list[Any]:
    """Return elements of datasets as eager code sees them."""
    if is_inside():
        return elements
    has_64_bits = _has_64_bits()
    numbers: list[Any] = []

    def leaf(value: Any) -> Any:
        if isinstance(value, str | bytes):
            return _as_text(value)
        if not isinstance(value, np.ndarray | np.generic):
            return value
        if not _is_jaxs(value, has_64_bits):
            return np.asarray(value).view(HostTensor)
        numbers.append(np.array(value))
        return _ON_DEVICE

    shown: list[Any] = _mapped(elements, leaf)
    if numbers:
        on_device = iter(_on_device(numbers))
        shown = _mapped(shown, lambda value: next(on_device) if value is _ON_DEVICE else value)
    return shown


_ON_DEVICE = object()  # stands for an array until all are there
# How often arrays of some shapes went to the device one call each, and how many such shapes are counted.
_seen: dict[tuple[Any, ...], int] = {}
_OFTEN, _MOST_SEEN = 8, 1 << 10
_returned = jax.jit(lambda arrays: arrays)


def _on_device(arrays: list[Any]) -> Any:
    """Return arrays on the device, which may keep these.

    A compiled function takes them there four times as fast as `device_put`, but is compiled for each list of
    shapes: only for those that come often, as those of batches do.
    """
    shapes = tuple((each.shape, each.dtype) for each in arrays)
    seen = _seen.get(shapes, 0)
    if seen >= _OFTEN:
        return _returned(arrays)
    if seen or len(_seen) < _MOST_SEEN:
        _seen[shapes] = seen + 1
    return jax.device_put(arrays)  # all at once: a call for each takes longer


def shown_batch(batch: Any) -> Any:
    """Return a batch of a distributed dataset as eager code sees it; its arrays stay in the host's memory."""
    return batch if is_inside() else _mapped(batch, _of_replicas)


def _of_replicas(value: Any) -> Any:
    if isinstance(value, PerReplica):
        return dataclasses.replace(value, data=as_host_tensor(value.data))
    return as_host_tensor(value)


def shown_argument(element: Any) -> Any:
    """Return an element as the function of a dataset sees it: text and arrays with TensorFlow's methods."""
    return _mapped(element, as_host_tensor)


def show_results(*modules: ModuleType) -> None:
    """Let the operations among the names of modules return what eager code sees."""
    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value.__module__.startswith(_OPERATIONS):
                setattr(module, name, shown(value))


@functools.cache
def shown(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Let an operation return what eager code sees: arrays and texts with TensorFlow's methods."""

    # Those of TensorFlow 1 call others, which know what stands for a value of a step's batch; those of shapes
    # know it themselves.
    knows = operation.__module__ == _OF_VERSION_1 or vars(operation).get("operation") in OF_SHAPES
    left = HostValue if knows else ()

    @functools.wraps(operation)
    def call(*args: Any, **options: Any) -> Any:
        if operation.__module__ == _DRAWING and is_computing_rows():
            raise TypeError("Each element has random numbers of its own.")
        given = (*args, *options.values())
        if any(isinstance(value, StandIn) and not isinstance(value, left) for value in given):
            return compute_for_next(call, args, options)
        result = shown_result(operation(*args, **options))
        if operation.__module__ == _DRAWING:
            note_draw(result, lambda: _drawn_anew(call, args, options))
        return result

    return call


def _drawn_anew(operation: Callable[..., Any], args: Any, options: Any) -> NextValue:
    """Return what stands for other random numbers in each element of an input."""
    draws = Dataset.counter().map(lambda _: operation(*args, **options))
    drawn: NextValue = OneShotIterator(draws).get_next()
    return drawn


@functools.cache
def shown_decoded(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Do as `shown`; of a placeholder, return what stands for what the host computes of its values."""
    plain = shown(operation)

    @functools.wraps(operation)
    def call(*args: Any, **options: Any) -> Any:
        given = (*args, *options.values())
        if operation not in _TAKE_PLACEHOLDERS and any(isinstance(value, Placeholder) for value in given):
            of_version_1 = operation.__module__ == _OF_VERSION_1  # it calls others, which know what to return
            return operation(*args, **options) if of_version_1 else compute_on_host(operation, args, options)
        return plain(*args, **options)

    return call


def shown_result(result: Any) -> Any:
    """Return a result as eager code sees it."""
    if isinstance(result, jax.Array):
        return result
    if not is_inside():
        return _mapped(result)
    return _mapped(result, as_host_tensor if in_dataset_function() else _as_constant)


def _as_constant(value: Any) -> Any:
    """Return an array that a step knows while it is traced as `as_host_tensor` does.

    Single numbers stay NumPy's, of which Keras makes no arrays, and sizes may be JAX's symbols.
    """
    is_plain = isinstance(value, np.generic) or getattr(value, "dtype", None) == np.dtype(object)
    return value if is_plain else as_host_tensor(value)


def shown_count(original: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Wrap ``Dataset.cardinality``, which returns a tensor of int64 in TensorFlow."""

    @functools.wraps(original)
    def cardinality(self: Any) -> Any:
        return shown_result(np.int64(original(self)))

    return cardinality


def shown_part(value: Any) -> Any:
    """Return a part of a ragged or sparse tensor as eager code sees it."""
    return value if is_inside() else as_tensor(value)


def is_inside() -> bool:
    """Return whether this is the code of a step, or of a dataset's function, rather than eager code."""
    return in_dataset_function() or current_scope() is not None or is_tracing()
