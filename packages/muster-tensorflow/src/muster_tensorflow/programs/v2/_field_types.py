"""Read the fields of an `ExtensionType`, and convert values to their annotated types.

Source: tensorflow/python/framework/extension_type_field.py and immutable_dict.py.
"""

import collections.abc
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from muster import keras
from muster.data import RaggedTensor, SparseTensor, TensorSpec, spec_of
from muster.extend import as_spec
from muster.program import HostValue
from muster_tensorflow.library.ops._eager_values import shown_result
from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape
from muster_tensorflow.library.ops.arrays._shape import convert_to_tensor
from muster_tensorflow.library.ops.arrays._tensor import Tensor
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape

NO_DEFAULT = object()
_FIELDS = "_fields_of_its_annotations"
_COMPOSITES = (RaggedTensor, SparseTensor)
_PLAIN = (int, float, bool, str, bytes, type(None), np.dtype, ArrayShape, TensorShape)


@dataclass(frozen=True)
class Field:
    """A field of a class.

    Attributes:
        name: Its name.
        type: Its annotation.
        default: The value that it has unless it is given; ``NO_DEFAULT`` if there is none.
    """

    name: str
    type: Any
    default: Any


class ImmutableDict(Mapping[Any, Any]):
    """A dict that never changes, and has a hash if its values have one."""

    def __init__(self, items: Mapping[Any, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"ImmutableDict({self._items})"


def _items_of(value: ImmutableDict) -> tuple[list[tuple[Any, Any]], Any]:
    keys = tuple(sorted(value))
    return [(jax.tree_util.DictKey(key), value[key]) for key in keys], keys


jax.tree_util.register_pytree_with_keys(
    ImmutableDict, _items_of, lambda keys, parts: ImmutableDict(dict(zip(keys, parts, strict=True)))
)


def fields_of(cls: type) -> tuple[Field, ...]:
    """Return the fields of a class, those of its bases first.

    Raises:
        TypeError: An annotation is of a type that fields cannot have.
    """
    found: tuple[Field, ...] | None = vars(cls).get(_FIELDS)
    if found is None:  # the class has its name only now: a field may be of the class itself
        known: dict[str, Any] = {each.__name__: each for each in cls.__mro__}
        hints = typing.get_type_hints(cls, localns=known)
        names = [name for each in reversed(cls.__mro__) for name in vars(each).get("__annotations__", ())]
        names = [
            name for name in dict.fromkeys(names) if typing.get_origin(hints[name]) is not typing.ClassVar
        ]
        for name in names:
            _check(hints[name], name)
        found = tuple([Field(name, hints[name], getattr(cls, name, NO_DEFAULT)) for name in names])
        setattr(cls, _FIELDS, found)
    return found


def plain_and_moving(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a value that can have no tensor in them, and the others."""
    plain: dict[str, Any] = {}
    moving: dict[str, Any] = {}
    for field in fields_of(type(value)):
        part = vars(value)[field.name]
        (moving if _may_hold_tensors(field.type) else plain)[field.name] = part
    return plain, moving


def converted(value: Any, type_: Any, name: str, *, in_spec: bool = False) -> Any:
    """Return the value of a field as its annotation says.

    Args:
        value: What was given.
        type_: The annotation.
        name: The field's name, for messages.
        in_spec: Whether it has specs in the place of tensors.

    Raises:
        TypeError: It is something else.
    """
    options = _options(type_)
    if len(options) > 1:
        for option in options:
            try:
                return converted(value, option, name, in_spec=in_spec)
            except TypeError:
                continue
    elif options[0] is Tensor:
        return _spec(value, name) if in_spec else _tensor(value, name)
    elif options[0] in _COMPOSITES or _is_extension(options[0]):
        wanted = _spec_class(options[0]) if in_spec else options[0]
        if isinstance(value, wanted):
            return value
    else:
        origin, args = typing.get_origin(options[0]), typing.get_args(options[0])
        convert = functools.partial(converted, name=name, in_spec=in_spec)
        if origin is tuple and isinstance(value, list | tuple):
            if args[-1:] == (...,):
                return tuple([convert(each, args[0]) for each in value])
            if len(args) == len(value):
                return tuple([convert(each, arg) for each, arg in zip(value, args, strict=True)])
        elif origin is collections.abc.Mapping and isinstance(value, Mapping):
            return ImmutableDict({convert(k, args[0]): convert(each, args[1]) for k, each in value.items()})
        elif isinstance(options[0], type) and isinstance(value, options[0]):
            return value
    raise TypeError(f"The field {name} takes {_named(type_)}, got {value!r}.")


def spec_in(part: Any) -> Any:
    """Return a field with specs in the place of its tensors."""
    if isinstance(part, tuple) and not isinstance(part, ArrayShape):
        return tuple(map(spec_in, part))
    if isinstance(part, ImmutableDict):
        return ImmutableDict({key: spec_in(each) for key, each in part.items()})
    if hasattr(part, "_type_spec"):
        return part._type_spec
    if isinstance(part, _PLAIN) and not hasattr(part, "numpy"):
        return part
    if isinstance(part, np.ndarray | RaggedTensor | SparseTensor | str):
        return spec_of(part)
    return as_spec(part)


def _tensor(value: Any, name: str) -> Any:
    if isinstance(value, keras.KerasTensor | HostValue):
        return value
    try:
        array = None if value is None else shown_result(convert_to_tensor(value))
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise TypeError(f"The field {name} takes a tensor, got {value!r}.")
    return array


def _spec(value: Any, name: str) -> Any:
    if not isinstance(value, TensorSpec):
        raise TypeError(f"The field {name} takes a TensorSpec, got {value!r}.")
    return value


def _spec_class(type_: Any) -> Any:
    return type_.Spec if _is_extension(type_) else TensorSpec


def _options(type_: Any) -> list[Any]:
    """Return the members of a union; another type alone."""
    if typing.get_origin(type_) not in (typing.Union, types.UnionType):
        return [type_]
    return [type(None) if each is None else each for each in typing.get_args(type_)]


def _is_extension(type_: Any) -> bool:
    return isinstance(type_, type) and hasattr(type_, "Spec") and hasattr(type_, "__validate__")


def _may_hold_tensors(type_: Any) -> bool:
    return any(
        each is Tensor
        or each in _COMPOSITES
        or _is_extension(each)
        or any(_may_hold_tensors(arg) for arg in typing.get_args(each) if arg is not ...)
        for each in _options(type_)
    )


def _check(type_: Any, name: str) -> None:
    for each in _options(type_):
        origin, args = typing.get_origin(each), typing.get_args(each)
        if origin in (tuple, collections.abc.Mapping) and args:
            for arg in args:
                if arg is not ...:
                    _check(arg, name)
        elif not (each is Tensor or each in (*_COMPOSITES, *_PLAIN) or _is_extension(each)):
            raise TypeError(
                f"The field {name} cannot have the type {_named(each)}: use tensors, other extension types, "
                "Python's numbers, text, tf.DType, tf.TensorShape, and Tuple, Mapping or Union of these."
            )


def _named(type_: Any) -> str:
    return str(getattr(type_, "__name__", type_)) if typing.get_origin(type_) is None else str(type_)
