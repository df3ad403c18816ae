"""Names of layers' variables as in Keras 2: ``dense/kernel:0``, where Keras 3 says ``kernel``.

Programs choose variables by them, as in ``"batch_normalization" in v.name``, which would silently choose
none. The path, by which everything else finds a variable, stays.

Source: keras/src/engine/base_layer.py of Keras 2.15, ``add_weight`` and ``_name_scope_on_declaration``.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from muster import keras
from muster.extend import own_name, rename
from muster_tensorflow.patches import wrap


def _scope() -> str:
    """Return the names of the layers around the call, each with a slash.

    A functional or sequential model counts for nothing, nor does what is around it: Keras 2 builds its layers
    in a graph of their own.
    """
    names: list[str] = []
    path: list[str] = []
    for entry in keras.src.backend.common.global_state.get_global_attribute("name_scope_stack") or ():
        if entry.override_parent is not None:
            above = [each for each in entry.override_parent.split("/") if each]
            names, path = (names if above == path else above), above
        path = [*path, entry.name]
        in_own_graph = isinstance(entry.caller, keras.Sequential | keras.src.models.Functional)
        names = [] if in_own_graph else [*names, entry.name]
    return "".join(f"{each}/" for each in names)


def _named(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``add_weight`` of layers or ``add_variable`` of metrics."""

    @functools.wraps(original)
    def add_weight(self: Any, *args: Any, **kwargs: Any) -> Any:
        variable = original(self, *args, **kwargs)
        rename(variable, f"{_scope()}{own_name(variable)}:0")
        return variable

    return add_weight


@contextlib.contextmanager
def _own_names(variables: Iterable[Any]) -> Iterator[None]:
    names = [(each, each.name) for each in variables]
    for each, _ in names:
        rename(each, own_name(each))
    try:
        yield
    finally:
        for each, name in names:
            rename(each, name)


def _built(original: Callable[[Any, list[Any]], None]) -> Callable[[Any, list[Any]], None]:
    """Wrap ``Adafactor.build``, which calls its own variables as the model's are called."""

    @functools.wraps(original)
    def build(self: Any, variables: list[Any]) -> None:
        with _own_names(variables):
            original(self, variables)

    return build


def _in_own_graph(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Functional.__init__``: a layer that makes a model is no part of its variables' names."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if around := _scope():
            for variable in self.variables:
                rename(variable, variable.name.removeprefix(around))

    # Keras compares it with those of subclasses, and does not follow wrappers.
    init.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    return init


def patch() -> None:
    """Name the variables of layers and metrics."""
    functional = keras.src.models.Functional
    wrap(functional, "__init__", _in_own_graph)
    wrap(keras.Layer, "add_weight", _named)
    wrap(keras.metrics.Metric, "add_variable", _named)
    wrap(keras.optimizers.Adafactor, "build", _built)
