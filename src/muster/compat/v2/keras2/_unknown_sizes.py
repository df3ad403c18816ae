"""Layers and models of programs that are called with images of unknown sizes, ``Input((None, None, 3))``.

Keras traces what they compute with a symbol for each unknown size, and JAX cannot compare what follows from
such symbols: that an image which was halved and doubled has its size again, as in a feature pyramid. Where
that fails, the layer is traced with two sizes that can be halved often; what differs between both is unknown.
If the last axis is unknown, too, as in ``Input((None, None))``, and must fit the layer's weights, it has
their size.

`patch` is called when `muster.compat.tensorflow` is imported.
Tried on keras 3.15.1: ``tests/compat/v2/test_keras2_unknown_sizes.py`` fails when what is used here changes.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax

from muster._keras import keras

_SIZES = (256, 512)


def _specifying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function of Keras' backend, which traces the ``call`` of layers, and other functions."""

    @functools.wraps(original)
    def compute_output_spec(function: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(function, *args, **kwargs)
        except Exception:
            layer = getattr(function, "__self__", None)
            if isinstance(layer, keras.layers.Layer) and any(map(_is_open, jax.tree.leaves((args, kwargs)))):
                for width in (None, *_widths(layer)):
                    # If all fail, what the layer says of symbols is what is wrong.
                    with contextlib.suppress(Exception):
                        known = [
                            jax.tree.map(functools.partial(_closed, size, width or size), (args, kwargs))
                            for size in _SIZES
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


def _closed(size: int, width: int, leaf: Any) -> Any:
    """Return a symbolic tensor with a size for those that are unknown, and one for the last axis."""
    if not _is_open(leaf):
        return leaf
    inner = [size if each is None else each for each in leaf.shape[1:-1]]
    last = width if leaf.shape[-1] is None else leaf.shape[-1]
    return keras.KerasTensor((leaf.shape[0], *inner, last), leaf.dtype, leaf.sparse, name=leaf.name)


def _common(one: Any, other: Any) -> Any:
    """Return a symbolic tensor with the sizes that two have in common."""
    if not isinstance(one, keras.KerasTensor):
        return one
    sizes = [first if first == second else None for first, second in zip(one.shape, other.shape, strict=True)]
    return keras.KerasTensor(sizes, one.dtype, one.sparse)


def patch() -> None:
    """Let layers compute with images of unknown sizes."""
    backend = keras.src.backend
    backend.compute_output_spec = _specifying(backend.compute_output_spec)
