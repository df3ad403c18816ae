"""Keras 2's call conventions of layers: Python values by position, default ``mask`` and ``training``.

``layer(x, 3, True)`` is an error in Keras 3, which takes only tensors by position, and ``training`` by name.

A layer's ``mask`` is that of its first argument, also where it gets more tensors. Keras 3 passes masks to
layers that get a single one, and as ``query_mask`` and its like: a recurrent layer that begins with an
``initial_state`` takes padding for data, and ``call(self, x, encoded, mask=None)`` gets None.

A layer's ``training`` is that of the layer or model around, or what `fit` does. In Keras 3 the argument must
have a default; on JAX the layers of a model that derives from `keras.Model` and does not hand it on never
learn that they are trained, so that dropout does nothing; and ``frozen(x, training=False)`` goes on to hold
for the layers called after it.

Source: keras/src/engine/base_layer.py of Keras 2.15, ``__call__``, ``_get_input_masks`` and
``_set_training_mode``.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster.data import SparseTensor
from muster_tensorflow.patches import wrap

_mask_of = keras.src.backend.get_keras_mask
_state = keras.src.backend.common.global_state
_Context = keras.src.layers.layer.CallContext
_CONTEXT = "current_call_ctx"
_PHASE = "learning_phase_of_keras_2"

_NUMBERS = int | float
# Arguments that Keras 3 adds by name, also if they came by position.
_BY_NAME = ("training", "mask")

# What the step that runs now does with the model that it is about to call.
_phase: ContextVar[bool | None] = ContextVar("phase", default=None)


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.__call__``."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            not args
            and "inputs" in kwargs
            and "inputs" not in getattr(self, "call_signature_parameters", ["inputs"])
        ):
            args = (kwargs.pop("inputs"),)  # Keras 2's name of the first argument
        if args and hasattr(self, "_call_signature"):  # else the error is about super().__init__()
            args, kwargs = _arguments(self, args, kwargs)
        # Keras would make arrays of sizes, which in a step are traced.
        kwargs = {key: int(each) if isinstance(each, np.integer) else each for key, each in kwargs.items()}
        if "training" not in kwargs and getattr(self, "_call_has_training_arg", False):
            _give_default(self)
            if (phase := global_phase()) is not None and training_around() is None:
                if not any(isinstance(each, keras.KerasTensor) for each in jax.tree.leaves(args)):
                    kwargs["training"] = phase  # else what calls the model says it
        if (len(args) > 1 or (args and kwargs)) and getattr(self, "_call_has_mask_arg", False):
            place = self.call_signature_parameters.index("mask")
            if place >= len(args) and kwargs.get("mask") is None:
                mask = _masks_of(args[0])
                if jax.tree.leaves(mask):
                    kwargs["mask"] = mask
        around, training = _state.get_global_attribute(_CONTEXT), training_around()
        try:
            return original(self, *args, **kwargs)
        finally:
            if around is not None:
                around.set_value("training", training)

    return call


def _arguments(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return arguments as Keras 3 takes them: numbers at first as arrays, later Python values by name."""
    first, *others = args
    if isinstance(first, SparseTensor) and type(layer).__module__.startswith("keras."):
        first = jnp.asarray(first.to_dense())  # Keras' layers take arrays; others may multiply it
    if isinstance(first, _NUMBERS) and isinstance(layer, keras.src.models.Functional):
        first = jnp.asarray(np.asarray(first))
    if isinstance(first, _NUMBERS | list | tuple) and not layer._allow_non_tensor_positional_args:
        first = keras.tree.map_structure(
            lambda each: jnp.asarray(np.asarray(each)) if isinstance(each, _NUMBERS) else each, first
        )
    if isinstance(first, list | tuple | dict):
        first = _of_one_kind(first)
    parameters = list(layer._call_signature.parameters.values())[1:]
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(others) > len(names):  # *args, or too many
        return (first, *others), kwargs
    tensors = 0
    for name, value in zip(names, others, strict=False):
        if name in _BY_NAME or not all(_is_tensor(each) for each in keras.tree.flatten(value)):
            break
        tensors += 1
    named = dict(zip(names[tensors:], others[tensors:], strict=False))
    if twice := sorted(named.keys() & kwargs.keys()):
        raise TypeError(f"{layer.name} got multiple values for argument {twice[0]!r}.")
    return (first, *others[:tensors]), {**named, **kwargs}


def _of_one_kind(values: Any) -> Any:
    """Return values with JAX's arrays for NumPy's, such as those that a step knows, if there are both."""
    leaves = keras.tree.flatten(values)
    if not any(isinstance(each, jax.Array) for each in leaves):
        return values
    return keras.tree.map_structure(
        lambda each: jnp.asarray(each) if isinstance(each, np.ndarray) else each, values
    )


def _is_tensor(value: Any) -> bool:
    return value is None or isinstance(value, jax.Array | np.ndarray | keras.KerasTensor | keras.Variable)


def _masks_of(values: Any) -> Any:
    return jax.tree.map(_mask_of, values, is_leaf=lambda each: isinstance(each, keras.KerasTensor))


def _give_default(layer: Any) -> None:
    """Let a layer be called without ``training``, unless an argument behind it must be given."""
    found = layer._call_signature.parameters
    if found["training"].default is not inspect.Parameter.empty:
        return
    parameters = {**found, "training": found["training"].replace(default=False)}
    try:
        layer._call_signature = inspect.Signature(list(parameters.values()))
    except ValueError:
        pass


def _stepping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compute_loss_and_updates``, by which Keras trains and evaluates on JAX.

    The gradient of a loss with axes, as a model's own ``compute_loss`` may return it, is that of its sum.
    """

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _phase.set(bool(kwargs.get("training", False)))
        try:
            loss, rest = original(self, *args, **kwargs)
        finally:
            _phase.reset(before)
        return (keras.ops.sum(loss) if len(getattr(loss, "shape", ())) else loss), rest

    return run


def _stateless(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``stateless_call``, which leaves ``Layer.__call__`` out."""

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _called(self, kwargs.get("training", _phase.get())):
            return original(self, *args, **kwargs)

    return run


def global_phase() -> bool | None:
    """Return what `set_global_phase` has set; None if nothing, or after ``clear_session``."""
    return bool(phase) if (phase := _state.get_global_attribute(_PHASE)) is not None else None


def set_global_phase(training: bool | None) -> None:
    """Say what layers and models do that get no ``training``, and are not within one that does."""
    _state.set_global_attribute(_PHASE, training)


def training_around() -> bool | None:
    """Return the ``training`` of the layer or model whose ``call`` runs; None if there is none."""
    around = _state.get_global_attribute(_CONTEXT)
    return None if around is None else around.get_value("training")


@contextmanager
def _called(layer: Any, training: bool | None) -> Iterator[None]:
    """Let the layers that are called here be within a layer."""
    before, phase = _state.get_global_attribute(_CONTEXT), _phase.set(None)
    context = _Context(entry_layer=layer)
    context.set_value("training", training)
    _state.set_global_attribute(_CONTEXT, context)
    try:
        yield
    finally:
        _phase.reset(phase)
        _state.set_global_attribute(_CONTEXT, before)


def patch() -> None:
    """Let Keras call layers in this way."""
    layer, trainer = keras.layers.Layer, keras.src.backend.jax.trainer.JAXTrainer
    wrap(layer, "__call__", _calling)
    wrap(layer, "stateless_call", _stateless)
    wrap(trainer, "compute_loss_and_updates", _stepping)
