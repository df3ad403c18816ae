"""``Input(ragged=True)``: functional and sequential models that take rows of any lengths.

A step has arrays, so rows are padded before it, with a value that no data has, and the places of the padding
become the mask of the input: recurrent layers and means leave it out. Layers that know no masks would
compute with the padding, and are refused.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster.data import RaggedTensor, replaced
from muster_tensorflow.patches import wrap

_Functional = keras.src.models.functional.Functional
_PADDING = float(np.iinfo(np.int32).min)  # the same as a whole number and as a float

_layers = keras.layers
# Layers that return rows of the lengths that they got, and layers that return one value of each row.
_BY_ROWS = (
    *(_layers.Embedding, _layers.Dense, _layers.Dropout, _layers.Activation, _layers.LayerNormalization),
    *(_layers.TimeDistributed, _layers.ReLU, _layers.LeakyReLU, _layers.Softmax, _layers.Identity),
    *(_layers.SpatialDropout1D, _layers.GaussianNoise, _layers.Add, _layers.Average, _layers.Rescaling),
)
_OF_ROWS = (_layers.RNN, _layers.Bidirectional, _layers.GlobalAveragePooling1D)


class RaggedPart:
    """Pads the ragged tensors among a model's inputs."""

    def parts(self, inputs: Any) -> Any:
        """Return inputs with arrays in place of ragged tensors."""
        return replaced(inputs, RaggedTensor, _padded)


def _padded(rows: Any) -> Any:
    """Return rows as an array, padded to a power of two: a step is compiled for each length."""
    if rows.ragged_rank != 1:
        raise ValueError(
            f"A model's ragged input has rows of numbers or vectors, got {rows.ragged_rank} axes."
        )
    values = np.asarray(rows.plain_values)
    kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.int32)
    longest = max(1, int(np.max(np.diff(np.asarray(rows.plain_splits[0])), initial=1)))
    dense = rows.with_flat_values(values.astype(kind)).to_tensor(kind.type(_PADDING))
    more = (1 << (longest - 1).bit_length()) - dense.shape[1]
    pads = [(0, 0), (0, more), *[(0, 0)] * (dense.ndim - 2)]
    return np.pad(np.asarray(dense), pads, constant_values=kind.type(_PADDING))


def ragged_part(model: Any) -> RaggedPart | None:
    """Return what pads the inputs of a model; None for one without ragged inputs.

    Raises:
        ValueError: A layer would compute with the padding, or the model returns rows.
    """
    functional = getattr(model, "_functional", None) if isinstance(model, keras.Sequential) else model
    if not isinstance(functional, _Functional):
        return None
    kept = functional.__dict__  # behind Keras' back, which would track it
    if "muster_ragged_part" not in kept:
        rows = {id(each) for each in functional.inputs if _is_ragged(each)}
        if rows:
            _check(functional, rows)
        kept["muster_ragged_part"] = RaggedPart() if rows else None
    part: RaggedPart | None = kept["muster_ragged_part"]
    return part


def _is_ragged(tensor: Any) -> bool:
    return bool(getattr(tensor._keras_history.operation, "ragged", False))


def _check(model: Any, rows: set[int]) -> None:
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            layer = node.operation
            if node.is_input or not any(id(each) in rows for each in node.input_tensors):
                continue
            if not isinstance(layer, (*_BY_ROWS, *_OF_ROWS)):
                raise ValueError(
                    f"{layer.name}, a {type(layer).__name__}, takes no rows of several lengths, as "
                    "Input(ragged=True) has them. Give the model x.to_tensor(), and leave ragged out."
                )
            if isinstance(layer, _BY_ROWS) or getattr(layer, "return_sequences", False):
                rows.update(map(id, node.outputs))
    if any(id(each) in rows for each in model.outputs):
        raise ValueError(
            f"The model {model.name!r} returns rows of several lengths, and its results are arrays. Give it "
            "x.to_tensor(), and leave ragged out."
        )


def _masked(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Functional.call``: what is padded has a mask, and zeros in it."""

    @functools.wraps(original)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        if ragged_part(self) is None:
            return original(self, inputs, training=training, mask=mask, **kwargs)
        flat = keras.tree.flatten(inputs)
        values, masks = [], []
        for value, tensor in zip(flat, self.inputs, strict=True):
            there = None
            if _is_ragged(tensor):
                array = jnp.asarray(value)
                axes = tuple(range(2, array.ndim))
                there = jnp.any(array != array.dtype.type(_PADDING), axis=axes)
                value = jnp.where(jnp.expand_dims(there, axes), array, 0)
            values.append(value)
            masks.append(there)
        inputs = keras.tree.pack_sequence_as(inputs, values)
        return original(self, inputs, training=training, mask=masks, **kwargs)

    return call


def _padding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``__call__`` of models: ragged tensors are padded."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and any(isinstance(each, RaggedTensor) for each in _leaves(args[0])):
            part = ragged_part(self)
            args = (args[0] if part is None else part.parts(args[0]), *args[1:])
        return original(self, *args, **kwargs)

    return call


def _leaves(values: Any) -> list[Any]:
    return jax.tree.leaves(values, is_leaf=lambda each: isinstance(each, RaggedTensor))


def _passing_masks(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Embedding.compute_mask``: rows keep the mask that they had."""

    @functools.wraps(original)
    def compute_mask(self: Any, inputs: Any, mask: Any = None) -> Any:
        own = original(self, inputs, mask)
        return own if mask is None else mask if own is None else keras.ops.logical_and(own, mask)

    return compute_mask


def _supporting(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Embedding.__init__``."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.supports_masking = True

    return init


def patch() -> None:
    """Let models have ragged inputs."""
    for kind in (_Functional, keras.Sequential):
        wrap(kind, "__call__", _padding)
    wrap(_Functional, "call", _masked)
    wrap(_layers.Embedding, "compute_mask", _passing_masks)
    wrap(_layers.Embedding, "__init__", _supporting)
