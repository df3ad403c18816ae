"""Names of layers and of their variables, by the scopes in which layers are called."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from muster import keras
from muster.extend import current_scope, own_name, rename
from muster_tensorflow.programs.v1.variables._variables import (
    _CURRENT,
    _path,
    _settings,
    is_kept,
    next_name,
)


def automatic_name(base: str) -> str | None:
    """Return the `next_name` for a layer without a name; None outside of scopes, where Keras names it."""
    return next_name(base) if _settings().name or is_kept() else None


@contextlib.contextmanager
def scope_of_layer(layer: keras.Layer, base: str, given: str | None) -> Iterator[None]:
    """Let variables that a program's own layer finds by name be those of the layer.

    Its scope lies in the one that it is called in first, and it finds the same variables at each call. Keras
    enters the layer's name itself, for the paths of variables.

    Args:
        layer: The layer.
        base: What layers of its class are called.
        given: Its own name; None for the next one of the scope.

    Source: tensorflow/python/keras/legacy_tf_layers/base.py, ``Layer._set_scope``.
    """
    scope = current_scope()
    if scope is None:
        yield
        return
    key = ("tensorflow 1 scope of a layer", id(layer))
    if key not in scope.shared:
        outer = _settings()
        name = given or next_name(base)
        outer.opened.add(name)
        if not layer.built:
            layer.name = name
        scope.shared[key] = (replace(outer, name=_path(name)), layer)  # which keeps its id
    kept, _ = scope.shared[key]
    token = _CURRENT.set(replace(kept, reuse=layer.built or kept.reuse, opened=set()))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def name_weights(layer: keras.Layer, name: str) -> None:
    """Let the variables of a layer that is kept have TensorFlow's names, such as ``scope/dense/kernel:0``."""
    _settings().opened.add(name)
    for variable in layer.weights:
        if not variable.name.startswith(f"{_path(name)}/"):
            rename(variable, f"{_path(name)}/{own_name(variable)}:0")
