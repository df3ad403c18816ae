"""Compute layers of Keras in steps on CPUs otherwise than Keras does, with gradients written by hand."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from muster import cpu
from muster._keras import keras
from muster.program.gradients._forward import accumulates_here
from muster.program.variables import wrap_in_scopes
from muster.program.variables.keras_internals import backend, backend_functions, functions

Results = tuple[jax.Array, jax.Array, list[jax.Array]]
"""The last output, ``[batch, units]``, the outputs, ``[batch, steps, units]``, and the last states."""
Layer = Callable[..., Any]
"""A function that Keras' layers call, as in keras/src/backend/jax/rnn.py and nn.py."""


def _arrays(values: Sequence[Any]) -> list[jax.Array] | None:
    """Return the arrays that a layer computes with, or None if only Keras' own loop can compute it.

    That is so for other types than float32, for sizes that are not known, and in ``jax.jvp``, to which
    functions with a backward pass of their own are unknown.
    """
    arrays = [keras.ops.convert_to_tensor(value) for value in values]
    covered = all(
        array.dtype == jnp.float32
        and all(isinstance(size, int) and size > 0 for size in array.shape)
        and not isinstance(array, ad.JVPTracer)
        for array in arrays
    )
    return arrays if covered else None


def _in_step(inputs: Any) -> bool:
    """Return whether a CPU is to compute with these in a step."""
    return isinstance(inputs, jax.core.Tracer) and not accumulates_here() and cpu.replaces_loops()


def _is_usual(asked: Mapping[str, Any]) -> bool:
    """Return whether a CPU is to compute this recurrent layer in a step, and it is as most are."""
    return (
        _in_step(asked["inputs"])
        and asked["mask"] is None
        and not asked["unroll"]
        and asked["activation"] is keras.activations.tanh
        and asked["recurrent_activation"] is keras.activations.sigmoid
    )


def _results(last: Sequence[jax.Array], states: Sequence[jax.Array], go_backwards: bool) -> Results:
    """Return the last output, the outputs in the order in which they were computed, and the last states."""
    outputs = jnp.swapaxes(states[0], 0, 1) if states else last[0][:, jnp.newaxis]
    return last[0], jnp.flip(outputs, axis=1) if states and go_backwards else outputs, [*last]


def _lstm(asked: Mapping[str, Any]) -> Results | None:
    if not _is_usual(asked):
        return None
    recurrent, bias = asked["recurrent_kernel"], asked["bias"]
    biases = jnp.zeros(recurrent.shape[1]) if bias is None else bias
    states = asked["initial_state_h"], asked["initial_state_c"]
    arrays = _arrays((asked["inputs"], *states, asked["kernel"], recurrent, biases))
    if arrays is None:
        return None
    h, c, *stack = cpu.lstm(asked["go_backwards"], asked["return_sequences"], *arrays)
    return _results([h, c], stack, asked["go_backwards"])


def _gru(asked: Mapping[str, Any]) -> Results | None:
    if not _is_usual(asked):
        return None
    recurrent, bias = asked["recurrent_kernel"], asked["bias"]
    biases = jnp.zeros((2, recurrent.shape[1])) if bias is None else bias
    arrays = _arrays((asked["inputs"], asked["initial_state"], asked["kernel"], recurrent, biases))
    if arrays is None or not asked["reset_after"]:
        return None
    h, *stack = cpu.gru(asked["go_backwards"], asked["return_sequences"], *arrays[:-1], *arrays[-1])
    return _results([h], stack, asked["go_backwards"])


def _attention(asked: Mapping[str, Any]) -> jax.Array | None:
    query, mask = asked["query"], asked["mask"]
    unusual = asked["flash_attention"] or any(
        asked[name] is not None for name in ("bias", "attn_logits_soft_cap")
    )
    if unusual or not _in_step(query) or not cpu.has_kernels():
        return None
    arrays = _arrays((query, asked["key"], asked["value"]))
    if arrays is None or any(array.ndim != 4 for array in arrays):
        return None
    query, key, value = arrays
    scale = query.shape[-1] ** -0.5 if asked["scale"] is None else asked["scale"]
    if key.shape != value.shape or key.shape[2:] != query.shape[2:] or not isinstance(scale, float):
        return None
    if mask is not None:
        mask = keras.ops.convert_to_tensor(mask)
        each = *query.shape[:1], query.shape[2], query.shape[1]
        if mask.ndim != 4 or mask.dtype != bool or mask.shape[3] != key.shape[1]:
            return None
        if any(size not in (1, all_of) for size, all_of in zip(mask.shape, each, strict=False)):
            return None
    return cpu.attention(scale, asked["is_causal"], query, key, value, mask)


def _is_large(x: Any) -> bool:
    """Return whether kernels are to compute with this in a step."""
    if not _in_step(x) or not cpu.has_kernels() or not all(isinstance(size, int) for size in x.shape):
        return False
    size: int = math.prod(x.shape)
    return size >= cpu.LEAST_NUMBERS


def _is_normalized(x: Any, axes: Sequence[int]) -> bool:
    """Return whether kernels are to normalize this along these axes."""
    return _is_large(x) and x.ndim > 1 and [axis % x.ndim for axis in axes] == [x.ndim - 1]


def _gelu(asked: Mapping[str, Any]) -> jax.Array | None:
    arrays = _arrays((asked["x"],)) if _is_large(asked["x"]) and not asked["approximate"] else None
    return None if arrays is None else cpu.gelu(*arrays)


def _or(values: Any, other: float, features: int) -> Any:
    return jnp.full(features, other, jnp.float32) if values is None else values


def _layer_norm(asked: Mapping[str, Any]) -> jax.Array | None:
    x, axis = asked["x"], asked["axis"]
    epsilon = keras.config.epsilon() if asked["epsilon"] is None else asked["epsilon"]
    axes = [axis] if isinstance(axis, int) else axis
    if asked["rms_scaling"] or not isinstance(epsilon, float) or not _is_normalized(x, axes):
        return None
    features = x.shape[-1]
    arrays = _arrays((x, _or(asked["gamma"], 1, features), _or(asked["beta"], 0, features)))
    if arrays is None or any(each.shape != (features,) for each in arrays[1:]):
        return None
    return cpu.layer_norm(epsilon, *arrays)


def _moments(asked: Mapping[str, Any]) -> tuple[jax.Array, jax.Array] | None:
    x, axes = asked["x"], asked["axes"]
    if asked["keepdims"] or asked["synchronized"] or isinstance(axes, int) or not _is_normalized(x, [-1]):
        return None
    arrays = _arrays((x,))
    if arrays is None or sorted(axis % x.ndim for axis in axes) != [*range(x.ndim - 1)]:
        return None
    return cpu.moments(*arrays)


def _batch_norm(asked: Mapping[str, Any]) -> jax.Array | None:
    x, epsilon = asked["x"], asked["epsilon"]
    if not isinstance(epsilon, float) or not _is_normalized(x, [asked["axis"]]):
        return None
    features = x.shape[-1]
    others = _or(asked["offset"], 0, features), _or(asked["scale"], 1, features)
    arrays = _arrays((x, asked["mean"], asked["variance"], *others))
    if arrays is None or any(each.shape != (features,) for each in arrays[1:]):
        return None
    return cpu.batch_norm(epsilon, *arrays)


def _replacing(compute: Callable[[Mapping[str, Any]], Any]) -> Callable[[Layer], Layer]:
    """Return a wrapper of Keras' function that computes otherwise where that can be."""

    def wrapper(original: Layer) -> Layer:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def layer(*args: Any, **named: Any) -> Any:
            given = signature.bind(*args, **named)
            given.apply_defaults()
            found = compute(given.arguments)
            return original(*args, **named) if found is None else found

        return layer

    return wrapper


wrap_in_scopes(backend, "lstm", _replacing(_lstm))
wrap_in_scopes(backend, "gru", _replacing(_gru))
wrap_in_scopes(backend_functions, "dot_product_attention", _replacing(_attention))
wrap_in_scopes(backend_functions, "gelu", _replacing(_gelu))
wrap_in_scopes(backend_functions, "moments", _replacing(_moments))
wrap_in_scopes(backend_functions, "batch_normalization", _replacing(_batch_norm))
wrap_in_scopes(functions, "_layer_normalization", _replacing(_layer_norm))
