"""Recurrent layers over whole sequences, with backward passes written by hand.

Derived by JAX, the backward pass of a loop reads all that the forward pass has computed, and so the forward
pass stacks it, which takes longer than the arithmetic. Here the loops stack the states alone. The gradient of
what a step adds up is the gradient of its state, or of its carry, times a slope. The slopes are computed for
all steps at once, before a loop backwards that multiplies by them, and in their place leaves the gradients.
Those of kernels, biases and inputs are one product each after it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from muster.cpu._kernels import kernels, with_kernel

Arrays = Sequence[jax.Array]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def lstm(
    reverse: bool,
    sequences: bool,
    inputs: jax.Array,
    h: jax.Array,
    c: jax.Array,
    kernel: jax.Array,
    recurrent_kernel: jax.Array,
    bias: jax.Array,
) -> tuple[jax.Array, ...]:
    """Compute a long short-term memory (LSTM) over a sequence, with the activations sigmoid and tanh.

    It can be differentiated twice, but not by ``jax.jvp``.

    Args:
        reverse: Whether to begin with the last step.
        sequences: Whether to return the states of all steps.
        inputs: ``[batch, steps, features]``, float32 as all further arguments and the results.
        h: The first state, ``[batch, units]``.
        c: The first carry, ``[batch, units]``.
        kernel: ``[features, 4 * units]``, of the gates for input and forgetting, the candidate, the output.
        recurrent_kernel: ``[units, 4 * units]``, likewise.
        bias: ``[4 * units]``, likewise.

    Returns:
        The last state and carry, ``[batch, units]`` each. And, if ``sequences``, the states
        ``[steps, batch, units]``, each at the place of its input.

    Source: keras/src/layers/rnn/lstm.py, ``LSTMCell.call``; results differ in the order of additions.
    """
    kernel, recurrent, bias = map(_exchanged, (kernel, recurrent_kernel, bias))
    given = _times(_by_steps(inputs), kernel), h, c, recurrent, bias
    if kernels() is None:
        h, c, states, _ = _lstm_loop(reverse, sequences, False, *given)
        return (h, c, states) if sequences else (h, c)
    return tuple(_lstm_kernel(reverse, _STATES if sequences else _LAST, *given))


# What the kernel keeps of each step: nothing, the states, or the carries and the gates, too.
_LAST, _STATES, _ALL = range(3)


def _lstm_kernel(reverse: bool, keep: int, product: jax.Array, *given: jax.Array) -> list[jax.Array]:
    """Return the last state and carry, and what is kept: states, then carries, then the opened gates."""

    def plain(product: jax.Array, h: jax.Array, c: jax.Array, *kernels: jax.Array) -> list[jax.Array]:
        made = _lstm_loop(reverse, keep >= _STATES, keep == _ALL, product, h, c, *kernels)
        found = [each for each in made if each is not None]
        if keep == _ALL:
            recurrent, bias = kernels
            gates = _lstm_gates(product + _times(_shifted(h, made[2], reverse), recurrent) + bias)
            found.append(jnp.concatenate(gates, axis=-1))
        return found

    def plan(product: Sequence[int], *_: object) -> tuple[int, ...]:
        steps, batch, width = product
        return steps, batch, width // 4, int(reverse), keep

    results = (0, 0, 1, 1, 1)[: 5 if keep == _ALL else 2 + keep]
    return with_kernel("lstm_forward", plan, plain, ((1, 0, 0, None, None), results), product, *given)


def _lstm_loop(
    reverse: bool, with_states: bool, with_carries: bool, product: jax.Array, h: jax.Array, c: jax.Array,
    recurrent_kernel: jax.Array, bias: jax.Array,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the last state and carry, and the stacks of both, or None."""

    def step(last: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[Any, Any]:
        h, c = last
        i, f, o, g = _lstm_gates(x + h @ recurrent_kernel + bias)
        c = f * c + i * g
        h = o * jnp.tanh(c)
        return (h, c), (h if with_states else None, c if with_carries else None)

    (h, c), (states, carries) = lax.scan(step, (h, c), product, reverse=reverse)
    return h, c, states, carries


def _lstm_gates(z: jax.Array) -> list[jax.Array]:
    """Return the gates for input, forgetting and output, and the candidate, of what each adds up."""
    units = z.shape[-1] // 4
    gates = jax.nn.sigmoid(z[..., : 3 * units])  # three in one operation: in a loop their number counts
    return [*jnp.split(gates, 3, axis=-1), jnp.tanh(z[..., 3 * units :])]


def _lstm_with_residuals(
    reverse: bool, sequences: bool, inputs: jax.Array, h: jax.Array, c: jax.Array, *of_layer: jax.Array
) -> tuple[tuple[jax.Array, ...], Arrays]:
    steps, (kernel, recurrent, bias) = _by_steps(inputs), map(_exchanged, of_layer)
    product = _times(steps, kernel)
    if kernels() is None:
        last, last_c, states, carries = _lstm_loop(reverse, True, True, product, h, c, recurrent, bias)
        gates = product  # they are computed for all steps at once where they are needed
    else:
        last, last_c, states, carries, gates = _lstm_kernel(reverse, _ALL, product, h, c, recurrent, bias)
    results = (last, last_c, states) if sequences else (last, last_c)
    return results, (steps, h, c, kernel, recurrent, bias, gates, states, carries)


def _lstm_backward(
    reverse: bool, sequences: bool, residuals: Arrays, gradients: Arrays
) -> tuple[jax.Array, ...]:
    steps, h, c, kernel, recurrent, bias, gates, states, carries = residuals
    before = _shifted(h, states, reverse)
    if kernels() is None:
        opened = _lstm_gates(gates + _times(before, recurrent) + bias)
        dz, dh, dc = _lstm_loop_back(reverse, opened, carries, c, recurrent, *gradients)
    else:

        def plain(gates: jax.Array, *others: jax.Array) -> tuple[jax.Array, ...]:
            return _lstm_loop_back(reverse, jnp.split(gates, 4, axis=-1), *others)

        def plan(_: object, carries: Sequence[int], *__: object) -> tuple[int, ...]:
            return *carries, int(reverse), int(sequences)

        axes = (1, 1, 0, None, 0, 0, *([1] if sequences else [])), (1, 0, 0)
        operands = gates, carries, c, recurrent, *gradients
        dz, dh, dc = with_kernel("lstm_backward", plan, plain, axes, *operands)
    of_kernels = map(_exchanged, (_of_kernel(steps, dz), _of_kernel(before, dz), jnp.sum(dz, axis=(0, 1))))
    return (_by_steps(_times(dz, kernel.T)), dh, dc, *of_kernels)


def _lstm_loop_back(
    reverse: bool, gates: Sequence[jax.Array], carries: jax.Array, c: jax.Array, recurrent: jax.Array,
    dh: jax.Array, dc: jax.Array, *of_states: jax.Array,
) -> tuple[jax.Array, ...]:  # fmt: skip
    """Return the gradients of what each step adds up, and of the first state and carry."""
    i, f, o, g = gates
    tanh, carried = jnp.tanh(carries), _shifted(c, carries, reverse)
    by_state = o * (1 - tanh * tanh)
    slopes = jnp.concatenate(
        [g * i * (1 - i), carried * f * (1 - f), tanh * o * (1 - o), i * (1 - g * g)], axis=-1
    )
    back = recurrent.T

    def step(later: tuple[jax.Array, ...], each: tuple[jax.Array, ...]) -> tuple[Any, None]:
        dh, dc, gradients = later
        at, by_state, f, *of_state = each
        dh = sum(of_state, dh)
        dc = dc + dh * by_state
        dz, gradients = _replaced(gradients, at, jnp.concatenate([dc, dc, dh, dc], axis=-1))
        return (dz @ back, dc * f, gradients), None

    each = (jnp.arange(len(slopes)), by_state, f, *of_states)
    (dh, dc, dz), _ = lax.scan(step, (dh, dc, slopes), each, reverse=not reverse)
    return dz, dh, dc


lstm.defvjp(_lstm_with_residuals, _lstm_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def gru(
    reverse: bool,
    sequences: bool,
    inputs: jax.Array,
    h: jax.Array,
    kernel: jax.Array,
    recurrent_kernel: jax.Array,
    bias: jax.Array,
    recurrent_bias: jax.Array,
) -> tuple[jax.Array, ...]:
    """Compute gated recurrent units (GRU) over a sequence, with the activations sigmoid and tanh.

    The reset gate multiplies what the recurrent kernel gives. It can be differentiated twice, but not by
    ``jax.jvp``.

    Args:
        reverse: Whether to begin with the last step.
        sequences: Whether to return the states of all steps.
        inputs: ``[batch, steps, features]``, float32 as all further arguments and the results.
        h: The first state, ``[batch, units]``.
        kernel: ``[features, 3 * units]``, of the gates for the update and the reset, and the candidate.
        recurrent_kernel: ``[units, 3 * units]``, likewise.
        bias: ``[3 * units]``, added to the inputs times the kernel.
        recurrent_bias: ``[3 * units]``, added to the state times the recurrent kernel.

    Returns:
        The last state, ``[batch, units]``. And, if ``sequences``, the states ``[steps, batch, units]``, each
        at the place of its input.

    Source: keras/src/layers/rnn/gru.py, ``GRUCell.call``; results differ in the order of additions.
    """
    steps = _by_steps(inputs)
    _, h, states = _gru_forward(reverse, sequences, steps, h, kernel, recurrent_kernel, bias, recurrent_bias)
    return (h, states) if sequences else (h,)


def _gru_forward(
    reverse: bool,
    with_states: bool,
    steps: jax.Array,
    h: jax.Array,
    kernel: jax.Array,
    recurrent_kernel: jax.Array,
    bias: jax.Array,
    recurrent_bias: jax.Array,
) -> tuple[Any, ...]:
    """Return the inputs times the kernel, the last state, and the stack of states, or None."""
    product = _times(steps, kernel)

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, Any]:
        z, _, g, _ = _gru_gates(x + bias, h @ recurrent_kernel + recurrent_bias)
        h = z * h + (1 - z) * g
        return h, h if with_states else None

    h, states = lax.scan(step, h, product, reverse=reverse)
    return product, h, states


def _gru_gates(of_input: jax.Array, of_state: jax.Array) -> tuple[jax.Array, ...]:
    """Return the gates for the update and the reset, the candidate, and the state's part of it."""
    units = of_input.shape[-1] // 3
    gates = jax.nn.sigmoid(of_input[..., : 2 * units] + of_state[..., : 2 * units])
    # In one operation with what follows, XLA would compute the gates without vectors, at 20 times the cost.
    z, r = jnp.split(lax.optimization_barrier(gates), 2, axis=-1)
    part = of_state[..., 2 * units :]
    candidate = jnp.tanh(of_input[..., 2 * units :] + r * part)
    return z, r, lax.optimization_barrier(candidate), part


def _gru_with_residuals(
    reverse: bool, sequences: bool, inputs: jax.Array, h: jax.Array, *kernels: jax.Array
) -> tuple[tuple[jax.Array, ...], Arrays]:
    steps = _by_steps(inputs)
    product, last, states = _gru_forward(reverse, True, steps, h, *kernels)
    return (last, states) if sequences else (last,), (steps, h, *kernels, product, states)


def _gru_backward(
    reverse: bool, sequences: bool, residuals: Arrays, gradients: Arrays
) -> tuple[jax.Array, ...]:
    steps, h, kernel, recurrent, bias, recurrent_bias, product, states = residuals
    before, units = _shifted(h, states, reverse), h.shape[-1]
    z, r, g, part = _gru_gates(product + bias, _times(before, recurrent) + recurrent_bias)
    of_candidate = (1 - z) * (1 - g * g)
    # The first three are of what the recurrent kernel gives, the last three of what the kernel gives.
    slopes = jnp.concatenate(
        [of_candidate * r, (before - g) * z * (1 - z), of_candidate * part * r * (1 - r), of_candidate],
        axis=-1,
    )
    back = jnp.roll(recurrent, units, axis=-1).T

    def step(later: tuple[jax.Array, ...], each: tuple[jax.Array, ...]) -> tuple[Any, None]:
        dh, gradients = later
        at, z, *of_state = each
        dh = sum(of_state, dh)
        dz, gradients = _replaced(gradients, at, jnp.concatenate([dh] * 4, axis=-1))
        return (dh * z + dz[:, : 3 * units] @ back, gradients), None

    dh, *of_states = gradients
    each = (jnp.arange(len(slopes)), z, *of_states)
    (dh, dz), _ = lax.scan(step, (dh, slopes), each, reverse=not reverse)
    # With zeros in the place of the other one's candidate, nothing is copied out of the stack.
    wide = jnp.concatenate([jnp.zeros_like(kernel[:, :units]), kernel], axis=-1)
    of_bias = jnp.sum(dz, axis=(0, 1))
    of_kernels = (
        _of_kernel(steps, dz)[:, units:],
        jnp.roll(_of_kernel(before, dz)[:, : 3 * units], -units, axis=-1),
        of_bias[units:],
        jnp.roll(of_bias[: 3 * units], -units),
    )
    return (_by_steps(_times(dz, wide.T)), dh, *of_kernels)


gru.defvjp(_gru_with_residuals, _gru_backward)


def _by_steps(array: jax.Array) -> jax.Array:
    """Exchange the axes of the batch and of steps."""
    return jnp.swapaxes(array, 0, 1)


def _times(stack: jax.Array, kernel: jax.Array) -> jax.Array:
    """Multiply ``[steps, batch, n]`` by ``[n, m]``."""
    return lax.dot_general(stack, kernel, (((2,), (0,)), ((), ())))


def _of_kernel(stack: jax.Array, gradients: jax.Array) -> jax.Array:
    """Return the gradient ``[n, m]`` of a kernel that a stack ``[steps, batch, n]`` was multiplied by."""
    return lax.dot_general(stack, gradients, (((0, 1), (0, 1)), ((), ())))


def _shifted(first: jax.Array, stack: jax.Array, reverse: bool) -> jax.Array:
    """Return what each step began with, of what the first one did, and of what each made."""
    return jnp.concatenate([stack[1:], first[None]] if reverse else [first[None], stack[:-1]])


def _replaced(stack: jax.Array, at: jax.Array, factor: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Multiply an entry of a stack by a factor; return it, and the stack with it."""
    entry = lax.dynamic_index_in_dim(stack, at, keepdims=False) * factor
    entry = lax.optimization_barrier(entry)  # computed once, so that XLA can overwrite what it was made of
    return entry, lax.dynamic_update_index_in_dim(stack, entry, at, 0)


def _exchanged(kernel: jax.Array) -> jax.Array:
    """Exchange the last two gates: of Keras' order the candidate and the output."""
    i, f, g, o = jnp.split(kernel, 4, axis=-1)
    return jnp.concatenate([i, f, o, g], axis=-1)
