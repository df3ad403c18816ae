"""Decoding of sequences, a time step after the other.

Source: tensorflow/contrib/seq2seq/python/ops/decoder.py and basic_decoder.py of TensorFlow 1.15.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from muster_tensorflow.library.contrib.seq2seq._attention import recorded, with_history
from muster_tensorflow.library.contrib.seq2seq._bounds import bounds_of
from muster_tensorflow.library.contrib.seq2seq._helpers import Helper
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._value_names import unnamed
from muster_tensorflow.programs.v1.rnn import StepKeys, like
from muster_tensorflow.programs.v1.rnn_cell import RNNCell, numbered
from muster_tensorflow.programs.v1.variables._variables import get_variable_scope, variable_scope


class Decoder:
    """Decodes a time step: see `dynamic_decode`.

    Attributes:
        steps: How many time steps there can be; None if that is not known.
    """

    steps: Any = None

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        raise NotImplementedError(f"{type(self).__name__} does not define batch_size.")

    @property
    def tracks_own_finished(self) -> bool:
        """True if the decoder itself decides at each step which sequences have ended."""
        return False

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """Return which sequences have ended already, the first inputs, and the first state."""
        raise NotImplementedError(f"{type(self).__name__} does not define initialize.")

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        """Return outputs, the next state, the next inputs, and which sequences have ended."""
        raise NotImplementedError(f"{type(self).__name__} does not define step.")

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """Return outputs and state as the caller gets them, of outputs (time, batch, …)."""
        return outputs, final_state


class BasicDecoderOutput(NamedTuple):
    """Holds a `BasicDecoder`'s ``rnn_output``, (batch, time, …), and ``sample_id``, (batch, time)."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """Calls a cell with what a helper gives, and lets it sample of the outputs.

    Args:
        cell: The cell.
        helper: Gives the inputs.
        initial_state: The first state of the cell.
        output_layer: Called with the outputs of the cell, such as a ``Dense``; None for none.

    Raises:
        TypeError: The helper is none.
    """

    def __init__(self, cell: RNNCell, helper: Helper, initial_state: Any, output_layer: Any = None) -> None:
        if not isinstance(helper, Helper):
            raise TypeError(f"helper must be a Helper, received: {type(helper)}")
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer
        self.steps = helper.steps

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        outputs, new = self._cell(inputs, state)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        samples = self._helper.sample(time=time, outputs=outputs, state=new)
        finished, next_inputs, new = self._helper.next_inputs(
            time=time, outputs=outputs, state=new, sample_ids=samples
        )
        return BasicDecoderOutput(outputs, samples), new, next_inputs, finished


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: ArrayLike | None = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Decode until all sequences have ended.

    A step has arrays of fixed shapes: what it decodes has as many time steps as there can be, and zeros
    after the last one. In eager code it ends there.

    Args:
        decoder: Decodes a time step.
        output_time_major: Whether outputs are (time, batch, …), and not (batch, time, …).
        impute_finished: Whether a sequence that has ended has zeros from there on, and keeps its state.
        maximum_iterations: How many time steps there are at most. A step needs it as Python's number, or as
            one whose largest value follows from shapes, such as that of a batch's largest count of words,
            unless the decoder's helper has all inputs, as TrainingHelper does.
        parallel_iterations: Unused.
        swap_memory: Unused.
        scope: The name of the scope of the variables; None is ``decoder``.

    Returns:
        Outputs, the last state, and the lengths of the sequences, int32 of shape (batch,).

    Raises:
        TypeError: The decoder is none.
        ValueError: It is not known how many time steps there can be.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with variable_scope(scope or "decoder"), unnamed(), numbered():
        finished, inputs, state = _as_arrays(decoder.initialize())
        limit = None if maximum_iterations is None else jnp.asarray(as_array(maximum_iterations))
        count = _count(decoder.steps, limit)
        keys = StepKeys()
        with keys.before():
            # Creates what it needs, outside of the loop, and says which dtypes the loop has.
            _, *after = _as_arrays(decoder.step(jnp.int32(0), inputs, state))
        state, inputs = jax.tree.map(
            lambda first, new: first.astype(new.dtype), (state, inputs), tuple(after[:2])
        )
        if limit is not None:
            finished = finished | (limit <= 0)

        def step(carried: Any, time: Any) -> tuple[Any, Any]:
            state, inputs, finished, lengths = carried
            ended = jnp.all(finished)
            with variable_scope(get_variable_scope(), reuse=True), keys.at(time):
                outputs, new, next_inputs, done = _as_arrays(decoder.step(time, inputs, state))
            if not decoder.tracks_own_finished:
                done = done | finished
            if limit is not None:
                done = done | (time + 1 >= limit)
            kept = finished if impute_finished else jnp.broadcast_to(ended, finished.shape)
            outputs = jax.tree.map(lambda each: jnp.where(like(kept, each), 0, each), outputs)
            new = jax.tree.map(
                lambda after, old: jnp.where(like(kept, after) if after.ndim else ended, old, after),
                new,
                state,
            )
            lengths = jnp.where(finished, lengths, time + 1)
            if decoder.tracks_own_finished:  # such as beams, which go on from others
                lengths = getattr(new, "lengths", lengths).astype(jnp.int32)
            return (new, next_inputs, done | ended, lengths), (outputs, recorded(new))

        lengths = jnp.zeros(finished.shape, jnp.int32)
        carried = (state, inputs, finished, lengths)
        (state, _, _, lengths), (outputs, history) = jax.lax.scan(step, carried, jnp.arange(count))
        if not isinstance(lengths, jax.core.Tracer):
            outputs, history = jax.tree.map(lambda each: each[: jnp.max(lengths)], (outputs, history))
        outputs, state = decoder.finalize(outputs, with_history(state, history), lengths)
    if not output_time_major:
        outputs = jax.tree.map(lambda each: jnp.swapaxes(each, 0, 1), outputs)
    return outputs, state, lengths


def _as_arrays(values: Any) -> Any:
    return jax.tree.map(lambda each: jnp.asarray(as_array(each)), values)


def _count(steps: Any, limit: Any) -> Any:
    """Return how many time steps are computed."""
    try:
        known = None if limit is None else int(limit)
    except jax.errors.ConcretizationTypeError:
        most = bounds_of(limit).high  # it may end earlier
        known = int(most) if math.isfinite(most) else None
    if steps is None and known is None:
        raise ValueError(
            "The decoder's helper takes what is decoded, and may go on for ever: give dynamic_decode "
            "maximum_iterations, as a Python number and not as a value of the step, whose arrays have fixed "
            "shapes, unless its largest value follows from shapes, as that of counts does. What is decoded "
            "ends earlier where all sequences do."
        )
    if steps is None or known is None:
        return known if steps is None else steps
    return min(steps, known) if isinstance(steps, int) else steps
