"""``track_tf1_style_variables`` and ``make_template``: TensorFlow 1's model code that runs eagerly."""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from muster import keras
from muster.extend import current_scope, may_get_state
from muster_tensorflow.programs.v1.variables._variables import (
    AUTO_REUSE,
    Kept,
    VariableScope,
    is_kept,
    kept_in,
    shared,
    variable_scope,
)
from muster_tensorflow.programs.v2._module import OwnModule

_ATTRIBUTE = "_tf1_style_variables"


def track_tf1_style_variables(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method find the variables and layers that it has made, which its object then has.

    What it gets of ``tf.compat.v1.get_variable`` and ``tf.compat.v1.layers`` it finds again by name at the
    next call, also without ``reuse``; the names are TensorFlow's, such as ``scope/dense/kernel:0``. Layers
    that it makes itself, it must keep as attributes, which it may set here after the layer is built, too.

    Args:
        method: A method of a ``keras.Layer``, a ``keras.Model`` or a ``tf.Module``, such as ``call``.

    Raises:
        TypeError: The method, when it is called, belongs to something else.

    Source: keras/legacy_tf_layers/variable_scope_shim.py, ``track_tf1_style_variables`` (Keras 2.15).
    """

    @functools.wraps(method)
    def tracked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, OwnModule | keras.Layer):
            raise TypeError(
                "track_tf1_style_variables is for methods of a tf.keras.layers.Layer, a tf.keras.Model or a "
                f"tf.Module, got one of {self!r}."
            )
        with may_get_state(self) if isinstance(self, keras.Layer) else nullcontext():
            if not hasattr(self, _ATTRIBUTE):
                # Layers and modules find variables in dicts, also those that come later.
                setattr(self, _ATTRIBUTE, {"variables": {}, "layers": {}})
            with kept_in(getattr(self, _ATTRIBUTE)):
                return method(self, *args, **kwargs)

    return tracked


def get_or_create_layer(name: str, create_layer_method: Callable[[], Any]) -> Any:
    """Return a layer or model that a method of `track_tf1_style_variables` has made before, or make it.

    Args:
        name: Its name in the variable scope around the call.
        create_layer_method: Makes it.

    Source: keras/legacy_tf_layers/variable_scope_shim.py, ``get_or_create_layer`` (Keras 2.15).
    """
    return shared("layers", name, create_layer_method, AUTO_REUSE) if is_kept() else create_layer_method()


class Template:
    """A function whose variables and layers are the same at each call.

    Args:
        name: The scope of its variables; a number is appended if the scope around the first call has it.
        function: The function, which makes them by ``tf.compat.v1.get_variable`` or ``tf.compat.v1.layers``.
        kwargs: Arguments of each call.

    Source: tensorflow/python/ops/template.py, ``Template``, ``EagerTemplate``.
    """

    def __init__(self, name: str, function: Callable[..., Any], kwargs: dict[str, Any]) -> None:
        self.name = name
        self._function = functools.partial(function, **kwargs)
        self._scope: VariableScope | None = None
        self._made: Kept = {}

    @property
    def variables(self) -> list[Any]:
        """The variables that it has made in eager code."""
        layers = self._made.get("layers", {}).values()
        own = self._made.get("variables", {}).values()
        return [*own, *(variable for layer in layers for variable in layer.variables)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in its scope."""
        eager = current_scope() is None and not is_kept()
        with kept_in(self._made) if eager else nullcontext():
            with variable_scope(self._scope, default_name=self.name, reuse=AUTO_REUSE) as scope:
                self._scope = scope
                return self._function(*args, **kwargs)


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: None = None,
    **kwargs: Any,
) -> Template:
    """Return a function whose variables and layers are the same at each call.

    Args:
        name_: The scope of its variables.
        func_: The function.
        create_scope_now_: Unused: its scope lies in the one around its calls.
        unique_name_: Takes the place of ``name_``.
        custom_getter_: Only None.
        **kwargs: Arguments of each call of the function.

    Raises:
        ValueError: There is a custom getter.

    Source: tensorflow/python/ops/template.py, ``make_template``.
    """
    if custom_getter_ is not None:
        raise ValueError("make_template takes no custom_getter_: change variables where they are used.")
    return Template(unique_name_ or name_, func_, kwargs)
