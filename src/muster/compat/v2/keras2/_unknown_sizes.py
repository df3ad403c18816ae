"""Layers and models of programs that are called with images of unknown sizes, ``Input((None, None, 3))``.

Keras traces what they compute with a symbol for each unknown size, and JAX cannot compare what follows from
such symbols: that an image which was halved and doubled has its size again, as in a feature pyramid. Where
that fails, the layer is traced with two sizes that can be halved often; what differs between both is unknown.

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
            of_layer = isinstance(getattr(function, "__self__", None), keras.layers.Layer)
            if of_layer and any(map(_is_open, jax.tree.leaves((args, kwargs)))):
                with contextlib.suppress(Exception):  # then what the layer says of symbols is what is wrong
                    known = [
                        jax.tree.map(functools.partial(_closed, size), (args, kwargs)) for size in _SIZES
                    ]
                    return jax.tree.map(
                        _common, *(original(function, *each, **named) for each, named in known)
                    )
            raise

    return compute_output_spec


def _is_open(leaf: Any) -> bool:
    """Return whether a symbolic tensor has an unknown size, beside that of the batch."""
    return isinstance(leaf, keras.KerasTensor) and None in leaf.shape[1:]


def _closed(size: int, leaf: Any) -> Any:
    """Return a symbolic tensor with a size for those that are unknown."""
    if not _is_open(leaf):
        return leaf
    sizes = [size if each is None else each for each in leaf.shape[1:]]
    return keras.KerasTensor((leaf.shape[0], *sizes), leaf.dtype, leaf.sparse, name=leaf.name)


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
