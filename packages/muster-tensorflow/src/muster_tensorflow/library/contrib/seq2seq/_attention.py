"""Attention of cells to the outputs of an encoder.

Source: tensorflow/contrib/seq2seq/python/ops/attention_wrapper.py of TensorFlow 1.15; Bahdanau et al.,
"Neural Machine Translation by Jointly Learning to Align and Translate", 2015; Luong et al., "Effective
Approaches to Attention-based Neural Machine Translation", 2015.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array
from muster_tensorflow.programs.v1 import layers
from muster_tensorflow.programs.v1.rnn_cell import RNNCell
from muster_tensorflow.programs.v1.variables._variables import get_variable, variable_scope

ProbabilityFn = Callable[[Any], Any]


class AttentionMechanism:
    """Scores the outputs of an encoder, its memory, for the outputs of a cell.

    Args:
        query_layer: Called with the outputs of the cell; None for none.
        memory: Shape (batch, time, depth).
        probability_fn: From scores to weights, (batch, time); None is softmax.
        memory_sequence_length: Integers of shape (batch,): what is beyond has weight 0. None for all.
        memory_layer: Called with the memory; None for none.
        score_mask_value: The score of what is beyond the lengths; None is minus infinity.
    """

    def __init__(
        self,
        query_layer: Any,
        memory: ArrayLike,
        probability_fn: ProbabilityFn | None = None,
        memory_sequence_length: ArrayLike | None = None,
        memory_layer: Any = None,
        score_mask_value: float | None = None,
    ) -> None:
        self.query_layer = query_layer
        self.memory_layer = memory_layer
        values = jnp.asarray(as_array(memory))
        self._mask = None
        if memory_sequence_length is not None:
            lengths = jnp.asarray(as_array(memory_sequence_length))
            self._mask = jnp.arange(values.shape[1])[None] < lengths[:, None]
            mask = self._mask.reshape(self._mask.shape + (1,) * (values.ndim - 2))
            values = jnp.where(mask, values, 0)
        self._masked_score = -math.inf if score_mask_value is None else score_mask_value
        self._probability_fn = probability_fn or jax.nn.softmax
        self.values: Any = values
        self.keys: Any = values if memory_layer is None else jnp.asarray(memory_layer(values))

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self.values.shape[0]

    @property
    def alignments_size(self) -> Any:
        """The number of time steps of the memory."""
        return self.values.shape[1]

    @property
    def state_size(self) -> Any:
        """The size of the state: here the weights of the last step."""
        return self.alignments_size

    def initial_alignments(self, batch_size: Any, dtype: DTypeLike) -> Any:
        """Return the weights before the first step: zeros."""
        return jnp.zeros((batch_size, self.alignments_size), np.dtype(dtype))

    def initial_state(self, batch_size: Any, dtype: DTypeLike) -> Any:
        """Return the state before the first step: zeros."""
        return self.initial_alignments(batch_size, dtype)

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Return the weights of the memory, (batch, time), and the next state."""
        scores = self.scores(query)
        if self._mask is not None:
            scores = jnp.where(self._mask, scores, self._masked_score)
        alignments = self._probability_fn(scores)
        return alignments, alignments

    def scores(self, query: Any) -> Any:
        """Return the scores of the memory for outputs of the cell: shape (batch, time)."""
        raise NotImplementedError(f"{type(self).__name__} does not define scores.")


class BahdanauAttention(AttentionMechanism):
    """Adds memory and query, both projected: ``v . tanh(W memory + U query)``.

    Args:
        num_units: The size of the projections.
        memory: As for `AttentionMechanism`.
        memory_sequence_length: Likewise.
        normalize: Whether ``v`` has a length of its own, and a bias is added.
        probability_fn: As for `AttentionMechanism`.
        score_mask_value: Likewise.
        dtype: Of the projections; None for the memory's.
        name: The name of the scope of the variables.
    """

    def __init__(
        self,
        num_units: int,
        memory: ArrayLike,
        memory_sequence_length: ArrayLike | None = None,
        normalize: bool = False,
        probability_fn: ProbabilityFn | None = None,
        score_mask_value: float | None = None,
        dtype: DTypeLike = None,
        name: str = "BahdanauAttention",
    ) -> None:
        super().__init__(
            layers.Dense(num_units, name="query_layer", use_bias=False),
            memory,
            probability_fn,
            memory_sequence_length,
            layers.Dense(num_units, name="memory_layer", use_bias=False),
            score_mask_value,
        )
        self._num_units = num_units
        self._normalize = normalize

    def scores(self, query: Any) -> Any:
        with variable_scope("bahdanau_attention"):
            projected = jnp.asarray(self.query_layer(query))[:, None]
            v = get_variable("attention_v", [self._num_units]).value
            if not self._normalize:
                return jnp.sum(v * jnp.tanh(self.keys + projected), axis=2)
            length = math.sqrt(1 / self._num_units)
            g = get_variable("attention_g", [], initializer=_constant(length)).value
            b = get_variable("attention_b", [self._num_units], initializer="zeros").value
        unit = g * v * jax.lax.rsqrt(jnp.sum(jnp.square(v)))
        return jnp.sum(unit * jnp.tanh(self.keys + projected + b), axis=2)


class LuongAttention(AttentionMechanism):
    """Multiplies memory, projected, and query.

    Args:
        num_units: The size of the query, and of the projection.
        memory: As for `AttentionMechanism`.
        memory_sequence_length: Likewise.
        scale: Whether a weight scales the scores.
        probability_fn: As for `AttentionMechanism`.
        score_mask_value: Likewise.
        dtype: Of the projection; None for the memory's.
        name: The name of the scope of the variables.
    """

    def __init__(
        self,
        num_units: int,
        memory: ArrayLike,
        memory_sequence_length: ArrayLike | None = None,
        scale: bool = False,
        probability_fn: ProbabilityFn | None = None,
        score_mask_value: float | None = None,
        dtype: DTypeLike = None,
        name: str = "LuongAttention",
    ) -> None:
        super().__init__(
            None,
            memory,
            probability_fn,
            memory_sequence_length,
            layers.Dense(num_units, name="memory_layer", use_bias=False),
            score_mask_value,
        )
        self._scale = scale

    def scores(self, query: Any) -> Any:
        depths = query.shape[-1], self.keys.shape[-1]
        if depths[0] != depths[1]:
            raise ValueError(
                f"The outputs of the cell have {depths[0]} units, and the keys of the memory {depths[1]}: "
                "LuongAttention multiplies them. Give it num_units as the cell has."
            )
        found = jnp.einsum("bd,btd->bt", query, self.keys)
        if not self._scale:
            return found
        with variable_scope("luong_attention"):
            return get_variable("attention_g", [], initializer="ones").value * found


class AttentionWrapperState(NamedTuple):
    """The state of `AttentionWrapper`.

    Attributes:
        cell_state: That of the cell.
        attention: The attention that the last step returned, (batch, size).
        time: How many steps there were, an int32 number.
        alignments: The weights of the memory in the last step, (batch, time); a tuple of those of several
            mechanisms.
        alignment_history: These weights for all steps, if they are asked for, in the last state that
            `dynamic_decode` returns: its ``stack()`` has the shape (steps, batch, time).
        attention_state: The state of the mechanism, or a tuple of those.
    """

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> "AttentionWrapperState":
        """Return a copy with other values."""
        return self._replace(**kwargs)


@jax.tree_util.register_pytree_node_class
class AlignmentHistory:
    """The weights of the memory in all steps.

    Args:
        steps: Shape (steps, batch, time); None while they are recorded.
    """

    def __init__(self, steps: Any = None) -> None:
        self._steps = steps

    def stack(self, name: str | None = None) -> Any:
        """Return them: shape (steps, batch, time).

        Raises:
            ValueError: They are not known yet, or not at all.
        """
        if self._steps is None:
            raise ValueError("The history of alignments is in the last state that dynamic_decode returns.")
        return self._steps

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        """Return its arrays to JAX."""
        return (self._steps,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any]) -> "AlignmentHistory":
        """Make one of arrays."""
        return cls(*children)


def recorded(state: Any) -> Any:
    """Return the weights of a step that the history of its state is to have; an empty tuple for none."""
    found = _wrapper_state(state)
    return () if found is None or found.alignment_history == () else found.alignments


def with_history(state: Any, alignments: Any) -> Any:
    """Return a last state with what was `recorded` of all steps."""

    def filled(each: Any) -> Any:
        if not isinstance(each, AttentionWrapperState) or each.alignment_history == ():
            return each
        several = isinstance(alignments, tuple)
        made = tuple(map(AlignmentHistory, alignments)) if several else AlignmentHistory(alignments)
        return each._replace(alignment_history=made)

    return jax.tree.map(filled, state, is_leaf=lambda each: isinstance(each, AttentionWrapperState))


def _wrapper_state(state: Any) -> AttentionWrapperState | None:
    leaves = jax.tree.leaves(state, is_leaf=lambda each: isinstance(each, AttentionWrapperState))
    return next((each for each in leaves if isinstance(each, AttentionWrapperState)), None)


class AttentionWrapper(RNNCell):
    """A cell whose inputs have what it attended to in the step before, and that attends with its outputs.

    Args:
        cell: The cell.
        attention_mechanism: Scores the memory; several in a list.
        attention_layer_size: The size that output and context, side by side, are projected to: the attention.
            None for the context itself. Several in a list.
        alignment_history: Whether `dynamic_decode` returns the weights of all steps.
        cell_input_fn: From the inputs and the attention to what the cell gets; None puts them side by side.
        output_attention: Whether attention is the output, and not the output of the cell.
        initial_cell_state: The first state of the cell in `zero_state`; None for zeros.
        name: The name of the cell.
        attention_layer: Called with output and context side by side, rather than a layer of that size.

    Raises:
        TypeError: A mechanism is none.
        ValueError: Both layers and sizes are given, or not as many as mechanisms.
    """

    def __init__(
        self,
        cell: RNNCell,
        attention_mechanism: AttentionMechanism | Sequence[AttentionMechanism],
        attention_layer_size: int | Sequence[int] | None = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
    ) -> None:
        super().__init__(name=name)
        self._several = isinstance(attention_mechanism, list | tuple)
        self._mechanisms = _listed(attention_mechanism)
        for each in self._mechanisms:
            if not isinstance(each, AttentionMechanism):
                raise TypeError(
                    f"attention_mechanism must be an AttentionMechanism, saw: {type(each).__name__}"
                )
        if attention_layer_size is not None and attention_layer is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        made: list[Any] = [None] * len(self._mechanisms)
        if attention_layer_size is not None:
            made = [
                layers.Dense(int(size), name="attention_layer", use_bias=False)
                for size in _listed(attention_layer_size)
            ]
        elif attention_layer is not None:
            made = _listed(attention_layer)
        if len(made) != len(self._mechanisms):
            raise ValueError(f"There are {len(self._mechanisms)} mechanisms, and {len(made)} layers.")
        self._layers = made
        self._sizes = (
            None if attention_layer_size is None else [int(each) for each in _listed(attention_layer_size)]
        )
        self._cell = cell
        self._has_history = alignment_history
        self._cell_input_fn = cell_input_fn or (
            lambda inputs, attention: jnp.concatenate([inputs, attention], -1)
        )
        self._output_attention = output_attention
        self._initial_cell_state = initial_cell_state

    @property
    def output_size(self) -> Any:
        return self._attention_size() if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            attention=self._attention_size(),
            time=(),
            alignments=self._for_each([each.alignments_size for each in self._mechanisms]),
            alignment_history=(),
            attention_state=self._for_each([each.state_size for each in self._mechanisms]),
        )

    def zero_state(self, batch_size: Any, dtype: Any = jnp.float32) -> AttentionWrapperState:
        """Return the state before the first step."""
        cell_state = self._initial_cell_state
        if cell_state is None:
            cell_state = self._cell.zero_state(batch_size, dtype)
        history = self._for_each([AlignmentHistory() for _ in self._mechanisms]) if self._has_history else ()
        return AttentionWrapperState(
            cell_state=cell_state,
            attention=jnp.zeros((batch_size, self._attention_size()), dtype),
            time=jnp.int32(0),
            alignments=self._for_each(
                [each.initial_alignments(batch_size, dtype) for each in self._mechanisms]
            ),
            alignment_history=history,
            attention_state=self._for_each(
                [each.initial_state(batch_size, dtype) for each in self._mechanisms]
            ),
        )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                f"Expected state to be instance of AttentionWrapperState. Received type {type(state)}: "
                "zero_state(batch_size, dtype) makes one, whose clone(cell_state=...) has an encoder's."
            )
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        attentions, alignments, states = [], [], []
        before = state.attention_state if self._several else [state.attention_state]
        for mechanism, layer, own in zip(self._mechanisms, self._layers, before, strict=True):
            weights, new = mechanism(output, own)
            context = jnp.einsum("bt,bt...->b...", weights, mechanism.values)
            both = jnp.concatenate([output, context], axis=1)
            attentions.append(context if layer is None else jnp.asarray(layer(both)))
            alignments.append(weights)
            states.append(new)
        attention = jnp.concatenate(attentions, axis=1)
        following = state._replace(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._for_each(alignments),
            attention_state=self._for_each(states),
        )
        return (attention if self._output_attention else output), following

    def _attention_size(self) -> Any:
        if self._sizes is not None:
            return sum(self._sizes)
        units = [
            getattr(layer, "units", None) if layer is not None else mechanism.values.shape[-1]
            for layer, mechanism in zip(self._layers, self._mechanisms, strict=True)
        ]
        return sum(units)

    def _for_each(self, values: list[Any]) -> Any:
        """Return what there is of each mechanism: a tuple if they were given in a list."""
        return tuple(values) if self._several else values[0]


def hardmax(logits: ArrayLike, name: str | None = None) -> Any:
    """Return 1 where the largest logit of the last axis is, and 0 elsewhere."""
    scores = jnp.asarray(as_array(logits))
    return jax.nn.one_hot(jnp.argmax(scores, axis=-1), scores.shape[-1], dtype=scores.dtype)


def _side_by_side(inputs: Any, attention: Any) -> Any:
    return jnp.concatenate([inputs, attention], axis=-1)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _constant(value: float) -> Callable[..., Any]:
    return lambda shape, dtype=jnp.float32: jnp.full(shape, value, dtype)
