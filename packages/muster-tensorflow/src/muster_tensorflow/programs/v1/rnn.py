"""``tf.compat.v1.nn``: networks of recurrent cells over sequences.

Source: tensorflow/python/ops/rnn.py.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops._value_names import unnamed
from muster_tensorflow.programs.v1.rnn_cell import STEP_KEY, RNNCell, numbered
from muster_tensorflow.programs.v1.variables._variables import get_variable_scope, variable_scope


def dynamic_rnn(
    cell: RNNCell,
    inputs: ArrayLike,
    sequence_length: ArrayLike | None = None,
    initial_state: Any = None,
    dtype: DTypeLike = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Call a cell with each time step of sequences.

    Args:
        cell: The cell.
        inputs: Shape (batch, time, …); or (time, batch, …) if ``time_major``.
        sequence_length: Integers of shape (batch,): beyond it outputs are zero, and the state stays.
        initial_state: The first state; None is zeros.
        dtype: Of the first state, if there is none.
        parallel_iterations: Unused.
        swap_memory: Unused.
        time_major: Whether the first axis is that of time, of inputs and outputs.
        scope: The name of the scope of the variables; None is ``rnn``.

    Returns:
        The outputs in the order of the axes of the inputs, and the last state.
    """
    values = jnp.asarray(as_array(inputs))
    steps = values if time_major else jnp.swapaxes(values, 0, 1)
    lengths = None if sequence_length is None else jnp.asarray(as_array(sequence_length))
    state = cell.zero_state(steps.shape[1], dtype or steps.dtype) if initial_state is None else initial_state
    state = jax.tree.map(lambda each: jnp.asarray(as_array(each)), state)
    with variable_scope(scope or "rnn"), unnamed(), numbered():
        keys = StepKeys()
        with keys.before():
            cell(steps[0], state)  # creates what it needs, outside of the loop

        def step(state: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
            time, here = now
            with variable_scope(get_variable_scope(), reuse=True), keys.at(time):
                output, new = cell(here, state)
            if lengths is not None:
                going = time < lengths
                output = jax.tree.map(lambda each: jnp.where(like(going, each), each, 0), output)
                new = jax.tree.map(
                    lambda after, before: jnp.where(like(going, after), after, before), new, state
                )
            return new, output

        last, outputs = jax.lax.scan(step, state, (jnp.arange(steps.shape[0]), steps))
    return (outputs if time_major else jax.tree.map(lambda each: jnp.swapaxes(each, 0, 1), outputs)), last


def bidirectional_dynamic_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: ArrayLike,
    sequence_length: ArrayLike | None = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: DTypeLike = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Call a cell with the time steps of sequences, and another one from their ends to their beginnings.

    Args:
        cell_fw: The cell that goes forward.
        cell_bw: The one that goes backward.
        inputs: As for `dynamic_rnn`, and so is the rest.
        sequence_length: See there.
        initial_state_fw: The first state forward.
        initial_state_bw: The first state backward.
        dtype: See there.
        parallel_iterations: Unused.
        swap_memory: Unused.
        time_major: See there.
        scope: The name of the scope of both; None is ``bidirectional_rnn``.

    Returns:
        The pair of outputs, and the pair of last states.
    """
    values = jnp.asarray(as_array(inputs))

    def reverse(each: Any) -> Any:
        return reverse_sequence(each, sequence_length, 0 if time_major else 1, 1 if time_major else 0)

    with variable_scope(scope or "bidirectional_rnn"):
        forward, last = dynamic_rnn(
            cell_fw, values, sequence_length, initial_state_fw, dtype, time_major=time_major, scope="fw"
        )
        backward, first = dynamic_rnn(
            cell_bw,
            reverse(values),
            sequence_length,
            initial_state_bw,
            dtype,
            time_major=time_major,
            scope="bw",
        )
    return (forward, jax.tree.map(reverse, backward)), (last, first)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[RNNCell],
    cells_bw: Sequence[RNNCell],
    inputs: ArrayLike,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: DTypeLike = None,
    sequence_length: ArrayLike | None = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Stack `bidirectional_dynamic_rnn` s: each takes the outputs of the one below, side by side.

    Returns:
        The outputs of the last, and the last states of all forward and all backward.
    """
    forward, backward = [], []
    values: Any = inputs
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (fw, bw) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            first_fw = None if initial_states_fw is None else initial_states_fw[number]
            first_bw = None if initial_states_bw is None else initial_states_bw[number]
            with variable_scope(f"cell_{number}"):
                outputs, (last, first) = bidirectional_dynamic_rnn(
                    fw, bw, values, sequence_length, first_fw, first_bw, dtype, time_major=time_major
                )
            values = jnp.concatenate(outputs, axis=-1)
            forward.append(last)
            backward.append(first)
    return values, tuple(forward), tuple(backward)


def static_rnn(
    cell: RNNCell,
    inputs: Sequence[ArrayLike],
    initial_state: Any = None,
    dtype: DTypeLike = None,
    sequence_length: ArrayLike | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Call a cell with each member of a list, which are time steps of shape (batch, …).

    Returns:
        The list of outputs, and the last state.

    Raises:
        ValueError: The list is empty.
    """
    if not inputs:
        raise ValueError("inputs must not be empty")
    steps = jnp.stack([jnp.asarray(as_array(each)) for each in inputs])
    outputs, state = dynamic_rnn(
        cell, steps, sequence_length, initial_state, dtype, time_major=True, scope=scope
    )
    return list(outputs), state


def static_bidirectional_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: Sequence[ArrayLike],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: DTypeLike = None,
    sequence_length: ArrayLike | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Do as `bidirectional_dynamic_rnn` for a list of time steps.

    Returns:
        The list of both outputs side by side, and the last states forward and backward.
    """
    steps = jnp.stack([jnp.asarray(as_array(each)) for each in inputs])
    outputs, (forward, backward) = bidirectional_dynamic_rnn(
        cell_fw,
        cell_bw,
        steps,
        sequence_length,
        initial_state_fw,
        initial_state_bw,
        dtype,
        time_major=True,
        scope=scope,
    )
    return list(jnp.concatenate(outputs, axis=-1)), forward, backward


def reverse_sequence(
    input: ArrayLike,
    seq_lengths: ArrayLike | None = None,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> jax.Array:
    """Reverse the first values of each sequence, as many as its length says; None is all of them.

    Args:
        input: Sequences of any shape.
        seq_lengths: Integers of shape (batch,).
        seq_axis: The axis of time; ``seq_dim`` is its old name.
        batch_axis: The axis of sequences, by default the first; ``batch_dim`` is its old name.
        name: What hooks call the result.
        seq_dim: See ``seq_axis``.
        batch_dim: See ``batch_axis``.

    Source: tensorflow/python/ops/array_ops.py, ``reverse_sequence``.
    """
    values = jnp.asarray(as_array(input))
    time = seq_dim if seq_axis is None else seq_axis
    batch = (batch_dim or 0) if batch_axis is None else batch_axis
    if time is None:
        raise ValueError("reverse_sequence needs seq_axis, the axis of time.")
    if seq_lengths is None:
        return jnp.flip(values, time)
    moved = jnp.moveaxis(values, (batch, time), (0, 1))
    lengths = jnp.asarray(as_array(seq_lengths))[:, None]
    places = jnp.arange(moved.shape[1])[None]
    chosen = jnp.where(places < lengths, lengths - 1 - places, places)
    rows = jnp.arange(moved.shape[0])[:, None]
    return jnp.moveaxis(moved[rows, chosen], (0, 1), (batch, time))


def like(flags: jax.Array, values: jax.Array) -> jax.Array:
    """Give flags of examples as many axes as values have."""
    return flags.reshape(flags.shape + (1,) * (values.ndim - flags.ndim))


def random_key() -> jax.Array:
    """Return a random key of the step that calls cells: of its time step, within a loop over these."""
    new_key = STEP_KEY.get()
    return _step_key() if new_key is None else new_key()


class StepKeys:
    """Random keys of time steps, which follow from one that is drawn before their loop."""

    def __init__(self) -> None:
        self._drawn: jax.Array | None = None

    @contextlib.contextmanager
    def before(self) -> Iterator[None]:
        """Give keys to what is called before the loop, and asks for the same as within."""
        with _with_keys(self._first):
            yield

    @contextlib.contextmanager
    def at(self, time: Any) -> Iterator[None]:
        """Give keys to what a time step calls."""
        with _with_keys(lambda: jax.random.fold_in(self._first(), time)):
            yield

    def _first(self) -> jax.Array:
        if self._drawn is None:
            self._drawn = _step_key()
        return self._drawn


def _step_key() -> jax.Array:
    """Return a random key of the step, which differs at every step."""
    seed, count = jnp.asarray(keras.random.SeedGenerator().next(), "uint32")
    return jax.random.fold_in(jax.random.key(seed), count)


@contextlib.contextmanager
def _with_keys(new_key: Callable[[], jax.Array]) -> Iterator[None]:
    token = STEP_KEY.set(new_key)
    try:
        yield
    finally:
        STEP_KEY.reset(token)
