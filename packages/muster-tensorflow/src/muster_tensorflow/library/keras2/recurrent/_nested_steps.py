"""Let `RNN` run cells with nested inputs, and states and outputs of any shapes.

Keras 3's takes one array of sequences, and sizes that are ints. In Keras 2 the sequences may be a tuple, and
``state_size`` and ``output_size`` may have a `tf.TensorShape` where they have an int.

Source: keras/layers/rnn/base_rnn.py of Keras 2.15, ``RNN``.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape
from muster_tensorflow.patches import wrap

_map = keras.tree.map_structure


def _making(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``RNN.__init__``: a shape is the size of one state."""

    @functools.wraps(original)
    def __init__(self: Any, cell: Any, *args: Any, **kwargs: Any) -> None:
        original(self, cell, *args, **kwargs)
        if isinstance(size := getattr(cell, "state_size", None), ArrayShape):
            self.state_size, self.single_state = [size], True

    return __init__


def _building(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``RNN.build``: the cell gets the shapes of a step in the structure of the sequences."""

    @functools.wraps(original)
    def build(self: Any, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        if not _is_structure(sequences_shape):
            return original(self, sequences_shape, initial_state_shape)
        if isinstance(self.cell, keras.Layer) and not self.cell.built:
            self.cell.build(_of_shapes(lambda shape: (shape[0], *shape[2:]), sequences_shape))
            self.cell.built = True
        return original(self, _first(sequences_shape), initial_state_shape)

    return build


def _shaping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.compute_output_shape``: the sizes of the cell's outputs may be several, of any rank."""

    @functools.wraps(original)
    def compute_output_shape(self: Any, sequences_shape: Any, initial_state_shape: Any = None) -> Any:
        batch, length = _first(sequences_shape)[:2]
        if (output := getattr(self.cell, "output_size", None)) is None:
            output = self.state_size[0]
        if all(isinstance(size, int) for size in (output, *self.state_size)):
            return original(self, _first(sequences_shape), initial_state_shape)
        steps = (length,) if self.return_sequences else ()
        shape = _of_sizes(lambda size: (batch, *steps, *size), output)
        states = [_of_sizes(lambda size: (batch, *size), size) for size in self.state_size]
        return (shape, *states) if self.return_state else shape

    return compute_output_shape


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.get_initial_state``: a cell that does not say them has zeros of its sizes."""

    @functools.wraps(original)
    def get_initial_state(self: Any, batch_size: Any) -> Any:
        if hasattr(self.cell, "get_initial_state") or all(isinstance(each, int) for each in self.state_size):
            return original(self, batch_size)
        zeros = functools.partial(keras.ops.zeros, dtype=self.cell.compute_dtype)
        return [_of_sizes(lambda size: zeros((batch_size, *size)), each) for each in self.state_size]

    return get_initial_state


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.call``: structures of sequences or outputs are gone through here."""

    @functools.wraps(original)
    def call(
        self: Any, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool | None = False
    ) -> Any:
        if not (keras.tree.is_nested(sequences) or _is_several(getattr(self.cell, "output_size", None))):
            return original(self, sequences, initial_state=initial_state, mask=mask, training=training)
        if initial_state is None:
            batch = keras.ops.shape(keras.tree.flatten(sequences)[0])[0]
            initial_state = self.states if self.stateful else self.get_initial_state(batch_size=batch)
        states = initial_state if keras.tree.is_nested(initial_state) else [initial_state]
        states = _map(lambda each: jnp.asarray(each, self.cell.compute_dtype), list(states))
        last, outputs, states = _run(self, sequences, states, mask, training)
        last, outputs, states = _map(lambda each: each.astype(self.compute_dtype), (last, outputs, states))
        if self.stateful:
            for variable, state in zip(keras.tree.flatten(self.states), jax.tree.leaves(states), strict=True):
                variable.assign(state)
        output = outputs if self.return_sequences else last
        return (output, *states) if self.return_state else output

    return call


def _run(layer: Any, sequences: Any, states: Any, mask: Any, training: Any) -> tuple[Any, Any, Any]:
    """Call the cell for one step after the other; where the mask is False, all stays as it was.

    Returns:
        The last output, all outputs, and the last states.
    """
    options = {"training": training} if getattr(layer.cell, "_call_has_training_arg", False) else {}
    masks = [each for each in keras.tree.flatten(mask) if each is not None][:1]

    def compute(inputs: Any, states: Any) -> tuple[Any, Any]:
        output, after = layer.cell(inputs, states, **options)
        return output, jax.tree.unflatten(jax.tree.structure(states), jax.tree.leaves(after))

    def step(carried: tuple[Any, Any], given: tuple[Any, list[Any]]) -> tuple[tuple[Any, Any], Any]:
        states, before = carried
        inputs, valid = given
        output, after = compute(inputs, states)
        if valid:
            kept = before if not layer.zero_output_for_mask else _map(jnp.zeros_like, before)
            output, after = _where(valid[0], output, kept), _where(valid[0], after, states)
        return (after, output), output

    valid = [jnp.asarray(each, bool) for each in masks]
    steps = _map(lambda each: jnp.swapaxes(each, 0, 1), (sequences, valid))
    scope = contextlib.nullcontext() if keras.src.backend.in_stateless_scope() else keras.StatelessScope()
    with scope:  # as in Keras: what is assigned to in a loop would be traced values
        shapes = jax.eval_shape(compute, jax.tree.map(lambda each: each[0], steps[0]), states)[0]
        before = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)
        (states, last), outputs = jax.lax.scan(
            step, (states, before), steps, reverse=layer.go_backwards, unroll=bool(layer.unroll)
        )
    outputs = jax.tree.map(lambda each: jnp.swapaxes(each, 0, 1), outputs)
    if layer.go_backwards:
        outputs = jax.tree.map(lambda each: jnp.flip(each, 1), outputs)
    return last, outputs, states


def _where(valid: Any, values: Any, others: Any) -> Any:
    """Return the rows of values that are valid, and those of others."""

    def choose(value: Any, other: Any) -> Any:
        return jnp.where(valid.reshape(-1, *[1] * (value.ndim - 1)), value, other)

    return jax.tree.map(choose, values, others)


def _is_structure(shape: Any) -> bool:
    """Return whether it is of several shapes or sizes, rather than one."""
    return isinstance(shape, dict | list | tuple) and not _is_shape(shape)


def _is_several(size: Any) -> bool:
    """Return whether a cell has several outputs; a list of ints is of their sizes."""
    return isinstance(size, dict | list | tuple) and not isinstance(size, ArrayShape)


def _is_shape(value: Any) -> bool:
    return isinstance(value, ArrayShape) or (
        isinstance(value, list | tuple) and all(size is None or isinstance(size, int) for size in value)
    )


def _first(shapes: Any) -> Any:
    """Return the first shape of a structure."""
    return jax.tree.leaves(shapes, is_leaf=_is_shape)[0]


def _of_shapes(function: Callable[[Any], Any], shapes: Any) -> Any:
    return jax.tree.map(lambda shape: function(tuple(shape)), shapes, is_leaf=_is_shape)


def _of_sizes(function: Callable[[tuple[int, ...]], Any], sizes: Any) -> Any:
    """Call a function for each size of a cell, an int or a shape; a list or tuple of ints has several."""
    if isinstance(sizes, dict):
        return {key: _of_sizes(function, size) for key, size in sizes.items()}
    if _is_several(sizes):  # maybe a list of Keras' own, which JAX does not know
        return [_of_sizes(function, size) for size in sizes]
    return function((sizes,) if isinstance(sizes, int) else tuple(sizes))


def patch() -> None:
    """Let recurrent layers go through structures."""
    layer = keras.layers.RNN
    wrap(layer, "__init__", _making)
    wrap(layer, "build", _building)
    wrap(layer, "compute_output_shape", _shaping)
    wrap(layer, "get_initial_state", _starting)
    wrap(layer, "call", _calling)
