"""``tf.experimental.ExtensionType``: typed classes that functions flatten into their fields.

An instance is a structure of its tensors for JAX, as a tuple or a dict is: functions, conditions, loops and
tapes take it, return it, and see operations on what is in it.

Source: tensorflow/python/framework/extension_type.py and extension_type_field.py.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import TensorSpec
from muster_tensorflow.programs.v2._field_types import (
    NO_DEFAULT,
    Field,
    converted,
    fields_of,
    plain_and_moving,
    spec_in,
)

_MAKING = "_is_in_its_constructor"


class ExtensionType:
    """The base of a class whose annotations are its fields.

    A class without a constructor of its own gets one that takes the fields. What is given is converted to
    what the annotations say, checked by ``__validate__``, and never changes again.

    Attributes:
        Spec: The class of the specs of such values: fields with specs in place of tensors.
    """

    Spec: ClassVar[type["ExtensionTypeSpec"]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        of_user = vars(cls).get("__init__")
        cls.__init__ = _constructor(cls) if of_user is None else _completing(of_user)  # type: ignore[method-assign]
        given = vars(cls).get("Spec")
        bases = (ExtensionTypeSpec,) if given is None else (given, ExtensionTypeSpec)
        names = {"value_type": cls, "__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.Spec"}
        cls.Spec = type("Spec", bases, names)
        jax.tree_util.register_pytree_with_keys(
            cls, _taken_apart, functools.partial(_put_together, cls), _moving_parts
        )

    def __validate__(self) -> None:
        """Check the fields; a class may do so by errors."""

    def __setattr__(self, name: str, value: Any) -> None:
        if _MAKING not in vars(self) or all(name != field.name for field in fields_of(type(self))):
            raise AttributeError(
                f"{type(self).__name__} cannot change: only its constructor sets its fields, got {name!r}.",
                name=name,
                obj=self,
            )
        vars(self)[name] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot change: {name!r} stays.", name=name, obj=self)

    def __repr__(self) -> str:
        return _shown(type(self).__name__, self)

    def __eq__(self, other: object) -> Any:
        """Return whether the other has the same class, and equal fields of the same shapes and dtypes."""
        if type(self) is not type(other) or self._type_spec != other._type_spec:
            return False
        pairs = zip(jax.tree.leaves(self), jax.tree.leaves(other), strict=True)
        same = [np.all(one == two) if _is_text(one) else jnp.all(one == two) for one, two in pairs]
        return jnp.all(jnp.asarray(same)) if same else True

    def __ne__(self, other: object) -> Any:
        same = self == other
        return not same if isinstance(same, bool) else jnp.logical_not(same)

    __hash__ = None  # type: ignore[assignment]  # as tensors have none

    @property
    def _type_spec(self) -> "ExtensionTypeSpec":
        return self.Spec.from_value(self)


def _constructor(cls: type) -> Callable[..., None]:
    """Return a constructor that takes the fields, in their order; those that follow a default, by name."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = _signature(fields_of(cls)).bind(*args, **kwargs)
        given.apply_defaults()
        vars(self).update(given.arguments)
        _complete(self)

    return __init__


def _completing(constructor: Callable[..., None]) -> Callable[..., None]:
    """Return a class's own constructor, after which its fields are converted."""

    @functools.wraps(constructor)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        vars(self)[_MAKING] = True
        constructor(self, *args, **kwargs)
        vars(self).pop(_MAKING, None)
        _complete(self)

    return __init__


def _complete(value: Any) -> None:
    """Convert the fields of a value, and check them.

    Raises:
        TypeError: A field is not what its annotation says.
        ValueError: One is missing.
    """
    fields = fields_of(type(value))
    if missing := [field.name for field in fields if field.name not in vars(value)]:
        raise ValueError(f"The constructor of {type(value).__name__} has not set {', '.join(missing)}.")
    for field in fields:
        vars(value)[field.name] = converted(vars(value)[field.name], field.type, field.name)
    value.__validate__()


def _signature(fields: Sequence[Field]) -> inspect.Signature:
    after_default = by_name = False
    parameters = []
    for field in fields:
        has_default = field.default is not NO_DEFAULT
        by_name |= after_default and not has_default
        after_default |= has_default
        default = field.default if has_default else inspect.Parameter.empty
        kind = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(field.name, kind, default=default))
    return inspect.Signature(parameters)


def _taken_apart(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
    plain, moving = plain_and_moving(value)
    return [(jax.tree_util.GetAttrKey(name), part) for name, part in moving.items()], (*plain.items(),)


def _moving_parts(value: Any) -> tuple[list[Any], Any]:
    plain, moving = plain_and_moving(value)
    return list(moving.values()), (*plain.items(),)


def _put_together(cls: type, plain: Any, parts: Sequence[Any]) -> Any:
    value: Any = object.__new__(cls)
    known = dict(plain)
    moving = iter(parts)
    vars(value).update({f.name: known[f.name] if f.name in known else next(moving) for f in fields_of(cls)})
    return value


def _shown(name: str, value: Any) -> str:
    return f"{name}({', '.join(f'{key}={part!r}' for key, part in vars(value).items())})"


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bytes) or getattr(getattr(value, "dtype", None), "kind", "") in "OSU"


class ExtensionTypeSpec:
    """The fields of values of an `ExtensionType`, with the specs of their tensors.

    Args:
        args: The fields, in their order.
        kwargs: Fields by name.

    Attributes:
        value_type: The class of the values.
    """

    value_type: ClassVar[type[ExtensionType]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = [Field(field.name, field.type, NO_DEFAULT) for field in fields_of(self.value_type)]
        given = _signature(fields).bind(*args, **kwargs).arguments
        for field in fields:
            vars(self)[field.name] = converted(given[field.name], field.type, field.name, in_spec=True)

    @classmethod
    def from_value(cls, value: ExtensionType) -> "ExtensionTypeSpec":
        """Return the spec of a value."""
        spec = object.__new__(cls)
        vars(spec).update({field.name: spec_in(vars(value)[field.name]) for field in fields_of(type(value))})
        return spec

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether a value, or another spec, has such fields."""
        spec = other._type_spec if isinstance(other, ExtensionType) else other
        if type(spec) is not type(self):
            return False
        mine, structure = jax.tree.flatten(vars(self))
        others, other_structure = jax.tree.flatten(vars(spec))
        return str(structure) == str(other_structure) and all(
            one.is_compatible_with(two) if isinstance(one, TensorSpec | ExtensionTypeSpec) else one == two
            for one, two in zip(mine, others, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).items()))

    def __repr__(self) -> str:
        return _shown(type(self).__qualname__, self)
