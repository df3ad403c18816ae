"""``tf.Module``: an object that finds the variables and modules among its attributes."""

import abc
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from muster import keras
from muster.distribute import ShardedVariable
from muster_tensorflow.library.ops._shown_shards import showing_shards

Method = TypeVar("Method", bound=Callable[..., Any])

# Called after a module has got an attribute.
_LISTENERS: list[Callable[[], None]] = []


def tell_of_attributes(listener: Callable[[], None]) -> None:
    """Call a function whenever a module has got an attribute."""
    _LISTENERS.append(listener)


class OwnModule:
    """Finds the variables and modules among its attributes, also in lists, tuples and dicts.

    Args:
        name: Its name; None makes one of the class' name.

    Source: tensorflow/python/module/module.py, ``Module``.
    """

    def __init__(self, name: str | None = None) -> None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        if name is not None and not name.isidentifier():
            raise ValueError(f"A module's name must be a valid Python identifier, got {name!r}.")
        self._name = name or words

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        for listener in _LISTENERS:
            listener()

    @property
    def name(self) -> str:
        """Its name."""
        return getattr(self, "_name", type(self).__name__.lower())

    @property
    def name_scope(self) -> Any:
        """The scope of names of its methods."""
        return keras.name_scope(self.name)

    @property
    def variables(self) -> tuple[Any, ...]:
        """All variables in it and in the modules and layers in it, in the order of attributes' names."""
        return tuple(_unique(each for each in _walked(self) if isinstance(each, keras.Variable)))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """The variables that are trained."""
        return tuple(each for each in self.variables if each.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        """The variables that are not trained."""
        return tuple(each for each in self.variables if not each.trainable)

    @property
    def submodules(self) -> tuple[Any, ...]:
        """All modules and layers in it."""
        found = (each for each in _walked(self) if isinstance(each, OwnModule | keras.layers.Layer))
        return tuple(_unique(found))

    @classmethod
    def with_name_scope(cls, method: Method) -> Method:
        """Let a method run in the module's scope of names."""

        def scoped(self: "OwnModule", *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        scoped.__name__, scoped.__doc__ = method.__name__, method.__doc__
        return scoped  # type: ignore[return-value]


for _name in ("variables", "trainable_variables", "non_trainable_variables"):
    setattr(OwnModule, _name, showing_shards(vars(OwnModule)[_name]))


class Module(OwnModule, metaclass=abc.ABCMeta):
    __doc__ = OwnModule.__doc__


# In TensorFlow layers and models are modules.
Module.register(keras.layers.Layer)


def _unique(values: Iterator[Any]) -> list[Any]:
    return list({id(each): each for each in values}.values())


def _walked(owner: Any) -> Iterator[Any]:
    """Yield the variables, modules and layers in a module, and those in them."""
    seen: set[int] = {id(owner)}

    def inside(value: Any) -> Iterator[Any]:
        if isinstance(value, list | tuple | ShardedVariable):
            for each in value:
                yield from inside(each)
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                yield from inside(value[key])
        elif isinstance(value, keras.Variable | OwnModule | keras.layers.Layer) and id(value) not in seen:
            seen.add(id(value))
            yield value
            if isinstance(value, OwnModule):
                yield from inside(vars(value))
            elif isinstance(value, keras.layers.Layer):
                yield from value.variables

    yield from inside(vars(owner))
