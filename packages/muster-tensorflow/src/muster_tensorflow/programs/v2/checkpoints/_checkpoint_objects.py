"""Name the objects of a ``tf.train.Checkpoint``, also those in lists, dicts and other Checkpoints."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from muster import keras
from muster.distribute import DistributedIterator


@runtime_checkable
class Positioned(Protocol):
    """An iterator that can go on where another one was."""

    @property
    def position(self) -> Mapping[str, Any]: ...

    def go_on(self, position: Mapping[str, Any]) -> None: ...


class NotSavableError(ValueError):
    """An object neither has variables nor is an iterator over data."""


class Objects:
    """Objects by name, which can be nested."""

    _objects: dict[str, Any]

    def flat(self) -> dict[str, Any]:
        """Return what has variables, and iterators, by their names: ``layers.0`` is the first of a list.

        Raises:
            ValueError: There is something else, or two objects have one name.
        """
        found: dict[str, Any] = {}
        for name, each in _inside("", self):
            if name in found:
                raise ValueError(f"A Checkpoint has two objects called {name!r}: rename one of them.")
            found[name] = each
        return found

    def nested(self) -> dict[str, Any]:
        """Return the objects by name, with dicts in place of Checkpoints."""
        return {name: _as_dicts(each) for name, each in self._objects.items()}


def require_savable(name: str, each: Any) -> None:
    """Raise a ValueError if an object of a Checkpoint neither has variables nor is an iterator over data."""
    for _ in _inside(name, each):
        pass


def is_savable(name: str, each: Any) -> bool:
    """Return whether an object has variables, is an iterator over data, or consists of such.

    Raises:
        ValueError: There is an iterator over a distributed dataset.
    """
    try:
        require_savable(name, each)
    except NotSavableError:
        return False
    return True


def _inside(name: str, each: Any) -> Iterator[tuple[str, Any]]:
    children: Mapping[Any, Any] | None = None
    if isinstance(each, Objects):
        children = each._objects
    elif isinstance(each, Mapping):
        children = each
    elif isinstance(each, list | tuple):
        children = dict(enumerate(each))
    if children is not None:
        for key, child in children.items():
            part = str(key).replace("/", ".S")  # as TensorFlow writes it: a slash ends an object's name
            yield from _inside(f"{name}.{part}" if name else part, child)
    elif isinstance(each, keras.Variable | Positioned) or hasattr(each, "variables"):
        yield name, each
    elif isinstance(each, DistributedIterator):
        raise ValueError(
            f"Checkpoint cannot save the iterator {name!r} over a distributed dataset, whose workers read "
            "ahead. Leave it out, and skip what was trained on, by dataset.skip(…) before it is distributed; "
            "or give an iterator over the Dataset itself."
        )
    else:
        raise NotSavableError(
            f"Checkpoint takes variables and what has some, got {name}={each!r}. Give models, optimizers, "
            "metrics or variables, iterators over a Dataset, or lists, dicts and Checkpoints of them."
        )


def _as_dicts(each: Any) -> Any:
    if isinstance(each, Objects):
        return each.nested()
    if isinstance(each, Mapping):
        return {str(key): _as_dicts(child) for key, child in each.items()}
    return [_as_dicts(child) for child in each] if isinstance(each, list | tuple) else each


class Count(int):
    """A number, which programs also read by ``numpy()``, as that of a variable."""

    __slots__ = ()

    def numpy(self) -> int:
        """Return the number."""
        return int(self)
