"""``tf.contrib.rnn``: cells that take all time steps at once.

Source: tensorflow/contrib/rnn/python/ops/lstm_ops.py and fused_rnn_cell.py of TensorFlow 1.15.
"""

from collections.abc import Callable
from typing import Any

import jax

from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike
from muster_tensorflow.programs.v1.rnn import dynamic_rnn, reverse_sequence
from muster_tensorflow.programs.v1.rnn_cell import LSTMCell, LSTMStateTuple, RNNCell
from muster_tensorflow.programs.v1.variables._variables import AUTO_REUSE, get_variable_scope, variable_scope


class _WithoutScope(LSTMCell):
    """An LSTM cell whose variables are in the scope that it is called in."""

    def __call__(self, inputs: ArrayLike, state: Any, scope: Any = None) -> tuple[Any, Any]:
        return self.call(inputs, state)


class LSTMBlockFusedCell:
    """An LSTM over sequences, shape (time, batch, …): returns outputs and the last state.

    Args:
        num_units: The number of units.
        forget_bias: Added to the forget gate's bias.
        cell_clip: Clips the memory to this absolute value; None for none.
        use_peephole: Whether gates see the memory, each value by a weight.
        reuse: Unused: called again, it takes its variables again.
        dtype: Unused.
        name: The name of the scope of its variables.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: DTypeLike = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        self.num_units = num_units
        self._cell = _WithoutScope(num_units, use_peephole, cell_clip, forget_bias=forget_bias)
        self._name = name
        self._scope: Any = None

    def __call__(
        self,
        inputs: ArrayLike,
        initial_state: Any = None,
        dtype: DTypeLike = None,
        sequence_length: ArrayLike | None = None,
    ) -> tuple[Any, Any]:
        """Return outputs, zero beyond ``sequence_length``, and the last state of each sequence."""
        if self._scope is None:
            with variable_scope(None, default_name=self._name) as scope:
                self._scope = scope
        if initial_state is not None:
            initial_state = LSTMStateTuple(*initial_state)
        with variable_scope(self._scope, reuse=AUTO_REUSE):
            return dynamic_rnn(
                self._cell,
                inputs,
                sequence_length,
                initial_state,
                dtype,
                time_major=True,
                scope=get_variable_scope(),
            )


class FusedRNNCellAdaptor:
    """A cell over sequences, shape (time, batch, …): returns outputs and the last state.

    Args:
        cell: The cell of one step.
        use_dynamic_rnn: Unused: steps are always a loop.
    """

    def __init__(self, cell: RNNCell, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: ArrayLike,
        initial_state: Any = None,
        dtype: DTypeLike = None,
        sequence_length: ArrayLike | None = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """Return outputs, zero beyond ``sequence_length``, and the last state of each sequence."""
        return dynamic_rnn(
            self._cell, inputs, sequence_length, initial_state, dtype, time_major=True, scope=scope
        )


class TimeReversedFusedRNN:
    """Another cell, from the ends of sequences to their beginnings; outputs are in the order of inputs.

    Args:
        cell: The cell over sequences.
    """

    def __init__(self, cell: Callable[..., tuple[Any, Any]]) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: ArrayLike,
        initial_state: Any = None,
        dtype: DTypeLike = None,
        sequence_length: ArrayLike | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """Return outputs and the last state, that at the beginning of each sequence."""

        def reverse(values: Any) -> Any:
            return reverse_sequence(values, sequence_length, seq_axis=0, batch_axis=1)

        outputs, state = self._cell(
            reverse(inputs),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            **kwargs,
        )
        return jax.tree.map(reverse, outputs), state
