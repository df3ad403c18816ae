"""Call a program's layers and models on images of unknown sizes, ``Input((None, None, 3))``.

Keras traces what they compute with a symbol for each unknown size, and JAX cannot compare what follows from
such symbols: that an image which was halved and doubled has its size again, as in a feature pyramid. Where
that fails, the layer is traced with two sizes that can be halved often; what differs between both is unknown.
Two short ones are tried likewise: sequences are no longer than a table of positions, ``table[:length]``.
If the last axis is unknown, too, as in ``Input((None, None))``, and must fit the layer's weights, it has
their size. If that fails, or for other operations, two batches of sizes with many divisors are tried: code
makes shapes of the batch's size, or reshapes rows into groups of them.

A model in a model that takes images of one size takes those of unknown sizes, too, as in Keras 2: where
layers like ``RandomHeight`` give it images of another one, only the symbolic tensors are compared with its
inputs.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax

from muster import keras
from muster.extend import layer_being_called
from muster_tensorflow.patches import wrap

_Functional = keras.src.models.functional.Functional
_FIXED = (_Functional, keras.Sequential)
_SIZES = (256, 512)
_LENGTHS = (8, 16)
_BATCHES = (5040, 10080)
_UNKNOWN = (None, None)


def _specifying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function of Keras' backend, which traces the ``call`` of layers, and other functions."""

    @functools.wraps(original)
    def compute_output_spec(function: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(function, *args, **kwargs)
        except Exception:
            owner = getattr(function, "__self__", None)
            is_layer = isinstance(owner, keras.Layer)
            widths = [None, *(_widths(owner) if is_layer else [])]
            is_open = is_layer and any(map(_is_open, jax.tree.leaves((args, kwargs))))
            tries: list[tuple[tuple[int, int], int | None, Any]] = [
                (sizes, width, _UNKNOWN) for sizes in (_SIZES, _LENGTHS) for width in widths if is_open
            ]
            if owner is None or isinstance(owner, keras.Operation):
                tries += [(_SIZES, width, _BATCHES) for width in widths]
            for sizes, width, batches in tries:
                # If all fail, what the layer says of symbols is what is wrong.
                with contextlib.suppress(Exception):
                    known = [
                        jax.tree.map(functools.partial(_closed, size, width or size, batch), (args, kwargs))
                        for size, batch in zip(sizes, batches, strict=True)
                    ]
                    return jax.tree.map(
                        _common, *(original(function, *each, **named) for each, named in known)
                    )
            raise

    return compute_output_spec


def _is_open(leaf: Any) -> bool:
    """Return whether a symbolic tensor has an unknown size, beside that of the batch."""
    return isinstance(leaf, keras.KerasTensor) and None in leaf.shape[1:]


def _widths(layer: Any) -> list[int]:
    """Return the sizes of the last axes of a layer's weights, without repetitions."""
    return list(dict.fromkeys(weight.shape[-1] for weight in layer.weights if len(weight.shape) > 0))


def _closed(size: int, width: int, batch: int | None, leaf: Any) -> Any:
    """Return a symbolic tensor with sizes for those that are unknown: the last and the first have others."""
    if not isinstance(leaf, keras.KerasTensor) or None not in leaf.shape:
        return leaf
    sizes = [size if each is None else each for each in leaf.shape]
    if len(sizes) > 1 and leaf.shape[-1] is None:
        sizes[-1] = width
    if leaf.shape[0] is None:
        sizes[0] = batch
    return keras.KerasTensor(sizes, leaf.dtype, leaf.sparse, name=leaf.name)


def _common(one: Any, other: Any) -> Any:
    """Return a symbolic tensor with the sizes that two have in common."""
    if not isinstance(one, keras.KerasTensor):
        return one
    sizes = [first if first == second else None for first, second in zip(one.shape, other.shape, strict=True)]
    return keras.KerasTensor(sizes, one.dtype, one.sparse)


def _compared_when_built(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Functional._assert_input_compatibility``."""

    @functools.wraps(original)
    def check(self: Any, *args: Any) -> None:
        try:
            original(self, *args)
        except ValueError:
            outer = layer_being_called()
            if self is outer or not isinstance(outer, _FIXED) or self not in outer._flatten_layers():
                raise

    return check


def patch() -> None:
    """Let layers compute with images of unknown sizes."""
    backend = keras.src.backend
    wrap(backend, "compute_output_spec", _specifying)
    wrap(_Functional, "_assert_input_compatibility", _compared_when_built)
