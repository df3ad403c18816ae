"""Train models with the ``trainable`` flags that they had at ``compile``, as Keras 2 does.

So a GAN's discriminator, which is compiled and then frozen as a part of another model, is trained by its own
``train_on_batch`` and stays as it is in the other's. In Keras 3 what is frozen is frozen at once.

Source: keras/src/engine/training_utils.py of Keras 2.15, ``RespectCompiledTrainableState``.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from muster import keras
from muster.extend import ByIdentity
from muster_tensorflow.patches import wrap

_States = ByIdentity[bool]
_COMPILED: ByIdentity[_States] = ByIdentity()


def _layers(model: Any) -> list[Any]:
    return list(model._flatten_layers(include_self=True))


def _states(model: Any) -> _States:
    """Return whether the model and each layer in it is trainable."""
    states: _States = ByIdentity()
    for layer in _layers(model):
        states[layer] = layer.trainable
    return states


def _set_states(model: Any, states: _States) -> None:
    for layer in _layers(model):  # the outer ones first: they set what is in them
        if layer in states:
            layer.trainable = states.get(layer, True)


@contextlib.contextmanager
def _as_compiled(model: Any) -> Iterator[None]:
    """Let a model and its layers be trainable in a ``with`` block as when it was compiled."""
    compiled: _States = _COMPILED.get(model, ByIdentity())
    if all(compiled.get(layer, layer.trainable) == layer.trainable for layer in _layers(model)):
        yield
        return
    now = _states(model)
    _set_states(model, compiled)
    try:
        yield
    finally:
        _set_states(model, now)


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.compile``."""

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        _COMPILED[self] = _states(self)
        return found

    return compile


def _training(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.fit`` or ``train_on_batch``."""

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _as_compiled(self):
            return original(self, *args, **kwargs)

    return run


def patch() -> None:
    """Let models be trained as they were compiled."""
    model = keras.Model
    for name, wrapper in (("compile", _noting), ("fit", _training), ("train_on_batch", _training)):
        owner = next(each for each in model.__mro__ if name in vars(each))
        wrap(owner, name, wrapper)
