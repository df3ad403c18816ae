"""Beam search.

Source: tensorflow/contrib/seq2seq/python/ops/beam_search_decoder.py of TensorFlow 1.15; Wu et al., "Google's
Neural Machine Translation System", 2016, for the penalty of lengths.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.contrib.seq2seq._decoding import Decoder
from muster_tensorflow.library.contrib.seq2seq._helpers import Embedding, embedding_function
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.programs.v1.rnn_cell import RNNCell


class BeamSearchDecoderState(NamedTuple):
    """The state of `BeamSearchDecoder`: of the cell, (batch, beams, …), and of beams, all (batch, beams).

    Attributes:
        cell_state: That of the cell.
        log_probs: The sums of the logarithms of the probabilities.
        finished: Which beams have ended.
        lengths: How many classes they have, the one that ends them included.
        accumulated_attention_probs: Always empty.
    """

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any = ()


class BeamSearchDecoderOutput(NamedTuple):
    """Holds the outputs of a step of `BeamSearchDecoder`, all of shape (batch, beams).

    Attributes:
        scores: The sums of the logarithms of the probabilities, by the penalty.
        predicted_ids: The classes.
        parent_ids: The beams that they go on from.
    """

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """Holds the beams that a `BeamSearchDecoder` has found.

    Attributes:
        predicted_ids: The classes of whole beams, the best one first: (batch, time, beams).
        beam_search_decoder_output: What the steps returned.
    """

    predicted_ids: Any
    beam_search_decoder_output: BeamSearchDecoderOutput


class BeamSearchDecoder(Decoder):
    """Keeps the likeliest beginnings of sequences, and goes on with each of them.

    The cell's state, and the memory of its attention, have each sequence as often as there are beams:
    `tile_batch`.

    Args:
        cell: The cell.
        embedding: A matrix whose rows are the inputs of classes, or a function from classes to inputs.
        start_tokens: The first classes, integers of shape (batch,).
        end_token: The class that ends a sequence.
        initial_state: The first state of the cell, (batch * beams, …).
        beam_width: The number of beams.
        output_layer: Called with the outputs of the cell; None for none.
        length_penalty_weight: How much long sequences are favoured; 0 for not at all.
        coverage_penalty_weight: Only 0.
        reorder_tensor_arrays: Unused.

    Raises:
        ValueError: The tokens have other shapes, or coverage is to be penalized.
    """

    def __init__(
        self,
        cell: RNNCell,
        embedding: Embedding,
        start_tokens: ArrayLike,
        end_token: ArrayLike,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        self._cell = cell
        self._embed = embedding_function(embedding)
        self._start = jnp.asarray(as_array(start_tokens)).astype(jnp.int32)
        self._end = jnp.asarray(as_array(end_token)).astype(jnp.int32)
        if self._start.ndim != 1:
            raise ValueError(f"start_tokens must be a vector, and has the shape {self._start.shape}.")
        if self._end.ndim != 0:
            raise ValueError(f"end_token must be a scalar, and has the shape {self._end.shape}.")
        if coverage_penalty_weight:
            raise ValueError("Beams are not penalized by coverage here: leave coverage_penalty_weight out.")
        self._beams = int(beam_width)
        self._output_layer = output_layer
        self._penalty = length_penalty_weight
        self._initial_state = initial_state

    @property
    def batch_size(self) -> Any:
        return self._start.shape[0]

    @property
    def tracks_own_finished(self) -> bool:
        return True

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        shape = (self.batch_size, self._beams)
        # All beams are the same at first: the others have no chance.
        is_first = jnp.broadcast_to(jnp.arange(self._beams) == 0, shape)
        state = BeamSearchDecoderState(
            cell_state=jax.tree.map(
                lambda each: self._split(jnp.asarray(as_array(each))), self._initial_state
            ),
            log_probs=jnp.where(is_first, 0.0, -jnp.inf),
            finished=~is_first,
            lengths=jnp.zeros(shape, jnp.int32),
        )
        return ~is_first, self._inputs(jnp.broadcast_to(self._start[:, None], shape)), state

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        outputs, cell_state = self._cell(*jax.tree.map(self._merged, (inputs, state.cell_state)))
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        logits = self._split(jnp.asarray(outputs))
        classes = logits.shape[-1]
        ends = jnp.arange(classes) == self._end
        finished = state.finished[..., None]
        # A beam that has ended goes on with the class that ends it, at no cost.
        own = jnp.where(
            finished, jnp.where(ends, 0.0, float(np.finfo(logits.dtype).min)), jax.nn.log_softmax(logits)
        )
        totals = state.log_probs[..., None] + own
        lengths = state.lengths[..., None] + (~ends & ~finished)
        scores = self._flat(totals / ((5.0 + lengths) / 6.0) ** self._penalty)
        best, places = jax.lax.top_k(scores, self._beams)
        parents, chosen = places // classes, (places % classes).astype(jnp.int32)

        def taken(each: Any) -> Any:
            return jax.vmap(lambda values, which: values[which])(each, parents)

        ended = taken(state.finished)
        following = BeamSearchDecoderState(
            cell_state=jax.tree.map(
                lambda each: taken(self._split(each)) if jnp.ndim(each) else each, cell_state
            ),
            log_probs=jnp.take_along_axis(self._flat(totals), places, axis=1),
            finished=ended | (chosen == self._end),
            lengths=taken(state.lengths) + ~ended,
        )
        output = BeamSearchDecoderOutput(best, chosen, parents.astype(jnp.int32))
        return output, following, self._inputs(chosen), following.finished

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        longest = jnp.max(final_state.lengths, axis=1)
        predicted = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        return FinalBeamSearchDecoderOutput(predicted, outputs), final_state

    def _inputs(self, ids: Any) -> Any:
        return jnp.asarray(as_array(self._embed(ids)))

    def _split(self, each: Any) -> Any:
        return each.reshape(-1, self._beams, *each.shape[1:]) if each.ndim else each

    def _merged(self, each: Any) -> Any:
        return each.reshape(-1, *each.shape[2:]) if each.ndim else each

    def _flat(self, each: Any) -> Any:
        """Put the classes of all beams side by side."""
        return each.reshape(each.shape[0], -1)


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeat each row of arrays: ``[a, b]`` to ``[a, a, b, b]``.

    Args:
        t: Arrays of shape (batch, …), in any structure.
        multiplier: How often.
        name: Unused.

    Source: tensorflow/contrib/seq2seq/python/ops/beam_search_decoder.py, ``tile_batch``.
    """

    def tiled(each: Any) -> Any:
        array = jnp.asarray(as_array(each))
        return jnp.repeat(array, multiplier, axis=0) if array.ndim else array

    return jax.tree.map(tiled, t)


def gather_tree(
    step_ids: ArrayLike,
    parent_ids: ArrayLike,
    max_sequence_lengths: ArrayLike,
    end_token: ArrayLike,
    name: str | None = None,
) -> Any:
    """Return whole beams, of the steps' classes and of the beams that each goes on from.

    Args:
        step_ids: Classes, integers of shape (time, batch, beams).
        parent_ids: Beams, likewise.
        max_sequence_lengths: How many time steps count, integers of shape (batch,).
        end_token: The class that ends a beam: it fills the rest.
        name: Unused.

    Source: tensorflow/contrib/seq2seq/ops/beam_search_ops.cc, ``GatherTree``.
    """
    ids, parents = jnp.asarray(as_array(step_ids)), jnp.asarray(as_array(parent_ids))
    lengths, end = jnp.asarray(as_array(max_sequence_lengths)), jnp.asarray(as_array(end_token), ids.dtype)
    count = ids.shape[0]

    def back(beam: Any, now: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        time, chosen, before = now
        counts = (time < lengths)[:, None]
        found = jnp.where(counts, jnp.take_along_axis(chosen, beam, axis=1), end)
        return jnp.where(counts, jnp.take_along_axis(before, beam, axis=1), beam), found

    last = jnp.broadcast_to(jnp.arange(ids.shape[2], dtype=parents.dtype), ids.shape[1:])
    _, beams = jax.lax.scan(back, last, (jnp.arange(count), ids, parents), reverse=True)
    is_end = (beams == end).astype(jnp.int32)
    has_ended = jnp.cumsum(is_end, axis=0) - is_end > 0
    return jnp.where(has_ended, end, beams)
