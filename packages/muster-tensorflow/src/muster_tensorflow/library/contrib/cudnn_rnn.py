"""``tf.contrib.cudnn_rnn``: recurrent layers of cuDNN, and cells that compute the same, on any device.

Source: tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py and layers/cudnn_rnn.py of TensorFlow 1.15.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops.nn import _layers_of_nn
from muster_tensorflow.programs.v1.rnn import bidirectional_dynamic_rnn, dynamic_rnn
from muster_tensorflow.programs.v1.rnn_cell import BasicLSTMCell, GRUCell, LSTMStateTuple, RNNCell
from muster_tensorflow.programs.v1.variables._variables import AUTO_REUSE, variable_scope

_DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


class CudnnCompatibleLSTMCell(BasicLSTMCell):
    """An LSTM cell without peepholes, clipping, and a bias of its own for the forget gate.

    Args:
        num_units: The number of units.
        reuse: Unused: a cell takes its variables again.
    """

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None) -> None:
        super().__init__(num_units, forget_bias=0.0)
        self._kernel_initializer = kernel_initializer


class CudnnCompatibleGRUCell(GRUCell):
    """A GRU cell, whose reset gate is applied after the multiplication, which has a bias of its own."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        with variable_scope("gates"):
            start = "ones" if self._bias_initializer is None else self._bias_initializer
            gates = jax.nn.sigmoid(self._linear([inputs, state], 2 * self._num_units, start))
        reset, update = jnp.split(gates, 2, axis=1)
        end = "zeros" if self._bias_initializer is None else self._bias_initializer
        with variable_scope("candidate"):
            with variable_scope("input_projection"):
                seen = self._linear([inputs], self._num_units, end)
            with variable_scope("hidden_projection"):
                kept = self._linear([state], self._num_units, end)
        new = (1 - update) * self._activation(seen + reset * kept) + update * state
        return new, new


class _CudnnRNN:
    """Layers of cells on top of each other, in one direction or both, over sequences.

    Its variables are those that TensorFlow's checkpoints have of it: those of the cells.

    Args:
        num_layers: The number of layers.
        num_units: The number of units of a layer, in each direction.
        input_mode: Only ``"linear_input"``.
        direction: ``"unidirectional"`` or ``"bidirectional"``.
        dropout: The rate at which the outputs of a layer are left out for the next one, in training.
        seed: Unused.
        dtype: Unused.
        kernel_initializer: Of each gate's weights, for inputs and states; None is ``glorot_uniform``.
        bias_initializer: Unused: biases begin with zeros.
        name: The name of the scope of its variables.

    Raises:
        ValueError: There is no such direction, or inputs are not to be multiplied.
    """

    _scope_name: ClassVar[str]

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = "linear_input",
        direction: str = "unidirectional",
        dropout: float = 0.0,
        seed: int | None = None,
        dtype: DTypeLike = jnp.float32,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction must be one of {[*_DIRECTIONS]}, got {direction!r}.")
        if input_mode not in ("linear_input", "auto_select"):
            raise ValueError(f"input_mode must be 'linear_input', got {input_mode!r}.")
        self.num_layers, self.num_units, self.num_dirs = num_layers, num_units, _DIRECTIONS[direction]
        self.direction, self.dropout = direction, dropout
        self._kernel_initializer = kernel_initializer
        self._name = name
        self._scope: Any = None
        self._cells: list[tuple[RNNCell, ...]] = []

    def __call__(
        self,
        inputs: ArrayLike,
        initial_state: Any = None,
        sequence_lengths: ArrayLike | None = None,
        time_major: bool = True,
        training: bool = True,
    ) -> tuple[Any, Any]:
        """Return the last layer's outputs, and the last state of each layer and direction.

        Args:
            inputs: float32 of shape (time, batch, features), or (batch, time, features).
            initial_state: As the second result is; None for zeros.
            sequence_lengths: The number of steps of each example; None for all.
            time_major: Whether time comes first, in inputs and outputs.
            training: Whether to leave out outputs between layers.

        Returns:
            Outputs of shape (time, batch, directions * units), and a tuple of arrays of shape
            (layers * directions, batch, units).
        """
        if self._scope is None:
            with variable_scope(self._name, default_name=self._scope_name) as scope:
                self._scope = scope
            self._cells = [tuple(self._cell() for _ in range(self.num_dirs)) for _ in range(self.num_layers)]
        values = jnp.asarray(as_array(inputs))
        values = values if time_major else jnp.swapaxes(values, 0, 1)
        states: list[Any] = []
        with variable_scope(self._scope, reuse=AUTO_REUSE):
            for layer, cells in enumerate(self._cells):
                if layer and training and self.dropout:
                    values = _layers_of_nn.dropout(values, rate=self.dropout)
                starts = [self._start(initial_state, len(states) + each) for each in range(len(cells))]
                values, ends = _over_time(layer, cells, values, sequence_lengths, starts)
                states += ends
        stacked = tuple(jnp.stack(parts) for parts in zip(*map(self._parts, states), strict=True))
        return values if time_major else jnp.swapaxes(values, 0, 1), stacked

    def _cell(self) -> RNNCell:
        """Return a new cell of one layer and direction."""
        raise NotImplementedError

    def _start(self, initial_state: Any, number: int) -> Any:
        """Return a cell's part of the state that sequences begin with."""
        if initial_state is None:
            return None
        parts = [jnp.asarray(as_array(part))[number] for part in initial_state]
        return parts[0] if len(parts) == 1 else LSTMStateTuple(c=parts[1], h=parts[0])

    @staticmethod
    def _parts(state: Any) -> tuple[Any, ...]:
        return (state.h, state.c) if isinstance(state, LSTMStateTuple) else (state,)

    def _blocks(self) -> Callable[..., jax.Array]:
        """Return an initializer of a kernel, which makes the weights of each gate on its own."""
        made = keras.initializers.get(self._kernel_initializer or "glorot_uniform")

        def initialize(shape: tuple[int, int], dtype: Any = None, **unused: Any) -> jax.Array:
            rows, columns = shape
            units = self.num_units
            heights = [rows] if rows <= units else [rows - units, units]
            return jnp.concatenate(
                [
                    jnp.concatenate([made((height, units), dtype) for _ in range(columns // units)], 1)
                    for height in heights
                ]
            )

        return initialize


def _over_time(
    layer: int, cells: tuple[RNNCell, ...], values: Any, lengths: Any, starts: list[Any]
) -> tuple[Any, list[Any]]:
    """Return a layer's outputs, those of both directions in one array, and its cells' last states."""
    if len(cells) == 1:
        outputs, state = dynamic_rnn(
            cells[0],
            values,
            lengths,
            starts[0],
            jnp.float32,
            time_major=True,
            scope=f"rnn/multi_rnn_cell/cell_{layer}",
        )
        return outputs, [state]
    both, states = bidirectional_dynamic_rnn(
        cells[0],
        cells[1],
        values,
        lengths,
        starts[0],
        starts[1],
        dtype=jnp.float32,
        time_major=True,
        scope=f"stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn",
    )
    return jnp.concatenate(both, -1), [*states]


class CudnnLSTM(_CudnnRNN):
    """LSTM layers; their state is ``(h, c)``: see `CudnnCompatibleLSTMCell`."""

    _scope_name = "cudnn_lstm"

    def _cell(self) -> RNNCell:
        return CudnnCompatibleLSTMCell(self.num_units, kernel_initializer=self._blocks())


class CudnnGRU(_CudnnRNN):
    """GRU layers; their state is ``(h,)``: see `CudnnCompatibleGRUCell`."""

    _scope_name = "cudnn_gru"

    def _cell(self) -> RNNCell:
        return CudnnCompatibleGRUCell(self.num_units, kernel_initializer=self._blocks())
