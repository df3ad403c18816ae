"""Summaries of a `GANModel`: its variables, grids of images, and images beside each other.

Source: tensorflow/contrib/gan/python/eval/python/summaries_impl.py and eval_utils_impl.py.
"""

import enum
from typing import Any

import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import Array, as_array
from muster_tensorflow.programs.v1._summary import histogram, image, of_graphs

_histogram = of_graphs(histogram, "values", "collections", "family")
_image = of_graphs(image, "tensor", "max_outputs", "collections", "family")


class SummaryType(enum.IntEnum):
    """Says what ``GANEstimator(add_summaries=…)`` writes.

    Attributes:
        NONE: Nothing.
        VARIABLES: A histogram of each variable.
        IMAGES: A grid of 16 real and of 16 generated images, and the variables.
        IMAGE_COMPARISON: Two images of the generator's inputs, with what it makes of them, and real ones.

    Source: tensorflow/contrib/gan/python/estimator/python/gan_estimator_impl.py, ``SummaryType``.
    """

    NONE = 0
    VARIABLES = 1
    IMAGES = 2
    IMAGE_COMPARISON = 3


def add_summaries(model: Any, kind: SummaryType) -> None:
    """Write the summaries of one kind.

    Args:
        model: The `GANModel`.
        kind: What to write.

    Raises:
        ValueError: What should be images has no shape (batch, height, width, channels).
    """
    match kind:
        case SummaryType.NONE:
            return
        case SummaryType.VARIABLES:
            _add_variables(model)
        case SummaryType.IMAGES:
            for name in ("real_data", "generated_data"):
                _image(name, _in_rows(_images(model, name)[:16], columns=4), max_outputs=1)
            _add_variables(model)
        case SummaryType.IMAGE_COMPARISON:
            names = ("generator_inputs", "generated_data", "real_data")
            shown = jnp.concatenate([_images(model, name)[:2] for name in names])
            _image("image_comparison", _in_rows(shown, columns=2), max_outputs=1)


def _add_variables(model: Any) -> None:
    for name in ("generator_variables", "discriminator_variables"):
        for variable in getattr(model, name):
            _histogram(f"{name}/{variable.path}", as_array(variable))


def _images(model: Any, name: str) -> Array:
    images = as_array(getattr(model, name), jnp.float32)
    if images.ndim != 4:
        raise ValueError(
            f"{name} must be images, of shape (batch, height, width, channels), "
            f"received shape: {images.shape}."
        )
    return images


def _in_rows(images: Array, columns: int) -> Array:
    """Return one image of shape (1, height, width, channels), from 0 to 1: as many rows as images fill."""
    count, height, width, channels = images.shape
    missing = -count % columns
    images = jnp.pad(images, [(0, missing), (0, 0), (0, 0), (0, 0)])
    rows = (count + missing) // columns
    grid = images.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    # TensorFlow 1's scale: black is the least value, or the negative of the largest magnitude.
    largest = jnp.maximum(jnp.abs(grid).max(), 1e-6)
    scaled = jnp.where(grid.min() < 0, (grid / largest + 1) / 2, grid / largest)
    return scaled.reshape(1, rows * height, columns * width, channels)
