"""Let ``load_weights("name")`` load into a model with additional layers, such as a new head.

In Keras 2 a name without an ending is a checkpoint, which gives the layers that it knows their weights, and
whose result says on request that others have none. Keras 3 raises an error; that of weights of other shapes
stays, as does that of files in Keras' formats.

Source: keras/engine/training.py of Keras 2.15, ``load_weights``, and
tensorflow/python/checkpoint/checkpoint.py.
"""

import functools
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn

from muster import keras
from muster_tensorflow.patches import wrap

_FORMATS = (".h5", ".hdf5", ".keras", ".weights.json")
_NOTHING_SAVED = "but received 0 variables"
_unmatched: ContextVar[list[str] | None] = ContextVar("unmatched", default=None)


class PartialStatus:
    """The result of ``load_weights`` where layers of the model were not in the checkpoint.

    Args:
        layers: Their names.
    """

    def __init__(self, layers: list[str]) -> None:
        self._layers = layers

    def assert_consumed(self) -> NoReturn:
        """Raise an error: there are layers without saved weights.

        Raises:
            AssertionError: Always.
        """
        raise AssertionError(f"The checkpoint has no weights of {', '.join(self._layers)}.")

    assert_existing_objects_matched = assert_consumed

    def expect_partial(self) -> "PartialStatus":
        """Do nothing: there is nothing to warn of."""
        return self


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.load_weights``, which takes ``by_name`` and ``skip_mismatch`` in that order."""

    @functools.wraps(original)
    def load_weights(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.update(
            zip(("by_name", "skip_mismatch"), args, strict=False)
        )  # Keras 3 has the second one first
        if not kwargs.get("by_name"):
            kwargs.pop("by_name", None)  # Keras 3 refuses it for its own files
        is_name = isinstance(filepath, str | bytes | os.PathLike) and not os.fsdecode(filepath).endswith(
            _FORMATS
        )
        layers: list[str] = []
        token = _unmatched.set(layers if is_name else None)
        try:
            status = original(self, filepath, **kwargs)
        finally:
            _unmatched.reset(token)
        return PartialStatus(layers) if layers else status

    return load_weights


def _failing(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``_raise_loading_failure``, which gets the objects that were not loaded, with their errors."""

    @functools.wraps(original)
    def fail(error_msgs: dict[int, tuple[Any, Exception]], warn_only: bool = False) -> None:
        layers = _unmatched.get()
        if layers is None or not all(_NOTHING_SAVED in str(error) for _, error in error_msgs.values()):
            return original(error_msgs, warn_only)
        layers += [layer.name for layer, _ in error_msgs.values()]
        return None

    return fail


def patch() -> None:
    """Let models load the weights that there are."""
    wrap(keras.Model, "load_weights", _loading)
    library = keras.src.saving.saving_lib
    wrap(library, "_raise_loading_failure", _failing)
