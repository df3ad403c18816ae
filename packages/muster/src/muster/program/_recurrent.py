"""Compute Keras' LSTM and GRU layers in steps on CPUs by loops that have backward passes written by hand."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from muster import cpu
from muster._keras import keras
from muster.program.gradients._forward import accumulates_here
from muster.program.variables import wrap_in_scopes
from muster.program.variables.keras_internals import backend

Layer = Callable[..., tuple[jax.Array, jax.Array, list[jax.Array]]]
"""What Keras' layers call: arguments and results are those of keras/src/backend/jax/rnn.py."""


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


def _is_usual(inputs: Any, mask: Any, unroll: bool, activation: Any, recurrent_activation: Any) -> bool:
    """Return whether a CPU is to compute this in a step, and the layer is as most are."""
    return (
        isinstance(inputs, jax.core.Tracer)
        and not accumulates_here()
        and cpu.replaces_loops()
        and mask is None
        and not unroll
        and activation is keras.activations.tanh
        and recurrent_activation is keras.activations.sigmoid
    )


def _results(
    last: Sequence[jax.Array], states: Sequence[jax.Array], go_backwards: bool
) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
    """Return the last output, the outputs in the order in which they were computed, and the last states."""
    outputs = jnp.swapaxes(states[0], 0, 1) if states else last[0][:, jnp.newaxis]
    return last[0], jnp.flip(outputs, axis=1) if states and go_backwards else outputs, [*last]


def _lstm(original: Layer) -> Layer:
    @functools.wraps(original)
    def lstm(
        inputs: Any,
        initial_state_h: Any,
        initial_state_c: Any,
        mask: Any,
        kernel: Any,
        recurrent_kernel: Any,
        bias: Any,
        activation: Any,
        recurrent_activation: Any,
        return_sequences: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
    ) -> Any:
        if _is_usual(inputs, mask, unroll, activation, recurrent_activation):
            biases = jnp.zeros(recurrent_kernel.shape[1]) if bias is None else bias
            values = (inputs, initial_state_h, initial_state_c, kernel, recurrent_kernel, biases)
            if arrays := _arrays(values):
                h, c, *states = cpu.lstm(go_backwards, return_sequences, *arrays)
                return _results([h, c], states, go_backwards)
        return original(
            inputs,
            initial_state_h,
            initial_state_c,
            mask,
            kernel,
            recurrent_kernel,
            bias,
            activation,
            recurrent_activation,
            return_sequences,
            go_backwards,
            unroll,
        )

    return lstm


def _gru(original: Layer) -> Layer:
    @functools.wraps(original)
    def gru(
        inputs: Any,
        initial_state: Any,
        mask: Any,
        kernel: Any,
        recurrent_kernel: Any,
        bias: Any,
        activation: Any,
        recurrent_activation: Any,
        return_sequences: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
    ) -> Any:
        if reset_after and _is_usual(inputs, mask, unroll, activation, recurrent_activation):
            biases = jnp.zeros((2, recurrent_kernel.shape[1])) if bias is None else bias
            if arrays := _arrays((inputs, initial_state, kernel, recurrent_kernel, biases)):
                h, *states = cpu.gru(go_backwards, return_sequences, *arrays[:-1], *arrays[-1])
                return _results([h], states, go_backwards)
        return original(
            inputs,
            initial_state,
            mask,
            kernel,
            recurrent_kernel,
            bias,
            activation,
            recurrent_activation,
            return_sequences,
            go_backwards,
            unroll,
            reset_after,
        )

    return gru


wrap_in_scopes(backend, "lstm", _lstm)
wrap_in_scopes(backend, "gru", _gru)
