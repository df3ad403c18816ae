"""Recurrent cells whose ``state_size`` or ``output_size`` is a `tf.TensorShape`.

In Keras 3 a tuple of sizes says that there are several states. A shape, which is a tuple here, says in Keras
2 that there is one, and a list of shapes that there are several, such as of images.

The single state of a cell of ``StackedRNNCells`` is itself, and no list of one.

Source: keras/src/layers/rnn/base_rnn.py of Keras 2.15, ``RNN``.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.patches import change, wrap


def _initialising(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``RNN.__init__``, which also takes ``time_major=False``."""

    @functools.wraps(original)
    def init(self: Any, cell: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.pop("time_major", False):
            raise ValueError(
                "Layers have no time_major=True here: put the batch first, by keras.ops.transpose before and "
                "after the layer."
            )
        original(self, cell, *args, **kwargs)
        if isinstance(self.cell.state_size, TensorShape):
            self.state_size, self.single_state = [self.cell.state_size], True

    return init


def _beginning(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.get_initial_state``.

    Keras 3 takes the state of the last of stacked cells for its output at steps that are masked, and finds it
    in lists of states alone.
    """

    @functools.wraps(original)
    def get_initial_state(self: Any, batch_size: Any) -> Any:
        if isinstance(self.cell, keras.layers.StackedRNNCells):
            return [each if keras.tree.is_nested(each) else [each] for each in original(self, batch_size)]
        if not _has_shapes(self) or hasattr(self.cell, "get_initial_state"):
            return original(self, batch_size)
        shapes = [(batch_size, *_sizes(each)) for each in self.state_size]
        return [keras.ops.zeros(shape, dtype=self.cell.compute_dtype) for shape in shapes]

    return get_initial_state


def _bare(original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Wrap ``StackedRNNCells.get_initial_state``: what it begins with has the form of what cells return.

    Source: keras/src/layers/rnn/stacked_rnn_cells.py of Keras 2.15, ``StackedRNNCells.get_initial_state``.
    """

    @functools.wraps(original)
    def get_initial_state(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
        states = original(self, *args, **kwargs)
        return [
            each[0] if isinstance(cell.state_size, int) and isinstance(each, list | tuple) else each
            for cell, each in zip(self.cells, states, strict=True)
        ]

    return get_initial_state


def _single(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``get_initial_state`` of a cell with one state: it is the state, and no list of it.

    Source: keras/src/layers/rnn/rnn_utils.py of Keras 2.15, ``generate_zero_filled_state``.
    """

    @functools.wraps(original)
    def get_initial_state(self: Any, inputs: Any = None, batch_size: Any = None, dtype: object = None) -> Any:
        (state,) = original(self, inputs, batch_size, dtype)
        return state if dtype is None else keras.ops.cast(state, keras.backend.standardize_dtype(dtype))

    return get_initial_state


def _shaping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.compute_output_shape``."""

    @functools.wraps(original)
    def compute_output_shape(self: Any, sequences_shape: Any, initial_state_shape: Any = None) -> Any:
        size = getattr(self.cell, "output_size", None)
        if not _has_shapes(self) and not isinstance(size, TensorShape):
            return original(self, sequences_shape, initial_state_shape)
        batch, length = sequences_shape[:2]
        sizes = _sizes(self.state_size[0] if size is None else size)
        output = (batch, length, *sizes) if self.return_sequences else (batch, *sizes)
        states = [(batch, *_sizes(each)) for each in self.state_size]
        return (output, *states) if self.return_state else output

    return compute_output_shape


def _reset_states(self: Any, states: Any = None) -> None:
    """Set the states of a stateful layer to 0, or to values."""
    if states is None:
        self.reset_state()
        return
    for variable, value in zip(self.states, keras.tree.flatten(states), strict=True):
        variable.assign(value)


def _has_shapes(layer: Any) -> bool:
    return any(isinstance(each, TensorShape) for each in layer.state_size)


def _sizes(size: Any) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


def patch() -> None:
    """Let recurrent layers take such cells."""
    layer = keras.layers.RNN
    wrap(layer, "__init__", _initialising)
    wrap(layer, "get_initial_state", _beginning)
    change(layer, "reset_states", _reset_states)
    stacked = keras.layers.StackedRNNCells
    wrap(stacked, "get_initial_state", _bare)
    for cell in (keras.layers.GRUCell, keras.layers.SimpleRNNCell):
        wrap(cell, "get_initial_state", _single)
    wrap(layer, "compute_output_shape", _shaping)
