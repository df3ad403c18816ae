"""Load models from folders without the program's own classes, as Keras 2 does.

There they are revived from the graph. Here the classes of a model that this process has saved are known for
the folder that it was saved in; another process needs them by ``custom_objects``, or registered, as for a
file.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster import keras
from muster.extend import local_path
from muster_tensorflow.patches import change, wrap

_FILES = (".keras", ".h5", ".hdf5")
_CLASSES: dict[str, dict[str, type]] = {}
"""The classes of models by the folders in which this process has saved them."""


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.save``."""

    @functools.wraps(original)
    def save(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, filepath, *args, **kwargs)
        if (folder := _folder(filepath)) is not None:
            classes = {type(each) for each in self._flatten_layers()}
            own = [each for each in classes if not each.__module__.startswith("keras.")]
            _CLASSES[folder] = {keras.saving.get_registered_name(each): each for each in own}
        return result

    return save


def _with_classes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``load_model``; what is registered or given goes first."""

    @functools.wraps(original)
    def load_model(filepath: Any, custom_objects: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(filepath, str | bytes | os.PathLike) and not str(filepath).startswith("hf://"):
            filepath = local_path(filepath)  # Keras, too, knows models at Hugging Face
        classes = _CLASSES.get(_folder(filepath) or "", {})
        if classes:
            custom_objects = {**classes, **keras.saving.get_custom_objects(), **(custom_objects or {})}
        with _named(classes):
            return original(filepath, custom_objects, *args, **kwargs)

    return load_model


@contextlib.contextmanager
def _named(classes: Mapping[str, type]) -> Iterator[None]:
    """Give classes their names in their modules, where a program has deleted them since.

    ``super(Model, self).__init__()`` looks its class up by name.
    """
    given = []
    for cls in classes.values():
        names = getattr(vars(cls).get("__init__"), "__globals__", {})
        if names and cls.__qualname__ == cls.__name__ and cls.__name__ not in names:
            names[cls.__name__] = cls
            given.append((names, cls.__name__))
    try:
        yield
    finally:
        for names, name in given:
            del names[name]


def _folder(path: Any) -> str | None:
    """Return the folder of a model; None for what is a file, or elsewhere."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(path)
    if name.startswith("hf://") or name.endswith(_FILES):
        return None
    name = local_path(name)
    return os.path.realpath(name)


def patch() -> None:
    """Let models be loaded from folders without their classes."""
    wrap(keras.Model, "save", _noting)
    load_model = _with_classes(keras.saving.load_model)
    for module in (keras.models, keras.saving):
        change(module, "load_model", load_model)
