"""``tf.contrib.rnn``: more cells, and cells around others.

Source: tensorflow/contrib/rnn/python/ops/core_rnn_cell.py, rnn_cell.py and lstm_ops.py of TensorFlow 1.15.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster_tensorflow.library.contrib.layers import layer_norm
from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops.nn._nn import embedding_lookup
from muster_tensorflow.programs.v1.rnn_cell import (
    DropoutWrapper,
    LSTMCell,
    LSTMStateTuple,
    RNNCell,
    Wrapper,
    linear,
)
from muster_tensorflow.programs.v1.variables._initializers import random_uniform_initializer
from muster_tensorflow.programs.v1.variables._variables import get_variable, variable_scope

Activation = Callable[[Any], Any] | None


class LSTMBlockCell(LSTMCell):
    """An LSTM cell, which may have peepholes: see ``LSTMCell``."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: DTypeLike = None,
        reuse: Any = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(num_units, use_peephole, cell_clip, forget_bias=forget_bias, name=name)


class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM cell that normalizes gates and memory (Ba et al., "Layer Normalization", 2016).

    Args:
        num_units: The number of units.
        forget_bias: Added to the forget gate's bias.
        input_size: Unused.
        activation: Of the inner states.
        layer_norm: Whether it normalizes; else it has a bias.
        norm_gain: What the norms' gains start from.
        norm_shift: What their shifts start from.
        dropout_keep_prob: The fraction of the values to remember that stay, 1 for all.
        dropout_prob_seed: Unused: each step draws from the program's seed.
        reuse: Unused: a cell takes its variables again.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Callable[[Any], Any] = jnp.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        super().__init__()
        self._units = num_units
        self._forget_bias = forget_bias
        self._activation = activation
        self._layer_norm = layer_norm
        self._starts = (norm_gain, norm_shift)
        self._dropout = DropoutWrapper(_Same(num_units), output_keep_prob=dropout_keep_prob)

    @property
    def state_size(self) -> LSTMStateTuple:
        return LSTMStateTuple(self._units, self._units)

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        memory, before = state
        joined = jnp.concatenate([inputs, before], axis=1)
        if self._layer_norm:
            kernel = get_variable("kernel", [joined.shape[1], 4 * self._units]).value
            gates = jnp.split(joined @ kernel, 4, axis=1)
            names = ("input", "transform", "forget", "output")
            i, j, f, o = (self._normalized(gate, name) for gate, name in zip(gates, names, strict=True))
        else:
            i, j, f, o = jnp.split(linear(joined, 4 * self._units), 4, axis=1)
        added, _ = self._dropout(self._activation(j), ())
        memory = memory * jax.nn.sigmoid(f + self._forget_bias) + jax.nn.sigmoid(i) * added
        if self._layer_norm:
            memory = self._normalized(memory, "state")
        output = self._activation(memory) * jax.nn.sigmoid(o)
        return output, LSTMStateTuple(memory, output)

    def _normalized(self, values: Any, name: str) -> Any:
        gain, shift = self._starts
        with variable_scope(name):
            for each, start in (("gamma", gain), ("beta", shift)):
                get_variable(each, [self._units], initializer=_constant(start))
        return layer_norm(values, reuse=True, scope=name)


class _Same(RNNCell):
    """Returns its inputs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    @property
    def output_size(self) -> int:
        return self._size

    def __call__(self, inputs: ArrayLike, state: Any, scope: Any = None) -> tuple[Any, Any]:
        return inputs, state


class _Scoped(Wrapper):
    """A cell around another one, with variables of its own: theirs are below its name."""

    __call__ = RNNCell.__call__

    def __init__(self, cell: RNNCell) -> None:
        super().__init__(cell)
        self.name = None


class OutputProjectionWrapper(_Scoped):
    """Multiplies the outputs by a matrix, and adds a bias.

    Args:
        cell: The cell.
        output_size: The size of the outputs.
        activation: Applied at the end; None for none.
        reuse: Unused: a cell takes its variables again.
    """

    def __init__(
        self, cell: RNNCell, output_size: int, activation: Activation = None, reuse: Any = None
    ) -> None:
        super().__init__(cell)
        self._size = output_size
        self._activation = activation

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        output, new = self._cell(inputs, state)
        projected = linear(output, self._size)
        return (projected if self._activation is None else self._activation(projected)), new


class InputProjectionWrapper(_Scoped):
    """Multiplies the inputs by a matrix, and adds a bias.

    Args:
        cell: The cell.
        num_proj: The size that the cell gets.
        activation: Applied to these; None for none.
        input_size: Unused.
        reuse: Unused: a cell takes its variables again.
    """

    def __init__(
        self,
        cell: RNNCell,
        num_proj: int,
        activation: Activation = None,
        input_size: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(cell)
        self._size = num_proj
        self._activation = activation

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        projected = linear(inputs, self._size)
        return self._cell(projected if self._activation is None else self._activation(projected), state)


class EmbeddingWrapper(_Scoped):
    """Looks up a row of a table for each input, a class.

    Args:
        cell: The cell.
        embedding_classes: The number of classes.
        embedding_size: The size of a row.
        initializer: Of the table; None is uniform, with a variance of 1.
        reuse: Unused: a cell takes its variables again.
    """

    def __init__(
        self,
        cell: RNNCell,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(cell)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                f"An embedding has more than 0 classes and values, got {(embedding_classes, embedding_size)}"
            )
        self._shape = [embedding_classes, embedding_size]
        bound = math.sqrt(3)
        self._initializer = initializer or random_uniform_initializer(-bound, bound)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        table = get_variable("embedding", self._shape, initializer=self._initializer)
        return self._cell(embedding_lookup(table, jnp.reshape(as_array(inputs), -1)), state)


def _constant(value: float) -> Callable[..., Any]:
    return lambda shape, dtype=jnp.float32: jnp.full(shape, value, dtype)
