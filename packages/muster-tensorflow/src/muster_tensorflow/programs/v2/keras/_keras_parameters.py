"""Functions of ``tf.keras`` whose parameters have other names, or another order, in Keras 3.

Source: keras/src/activations.py, losses.py, utils/np_utils.py and utils/image_utils.py of Keras 2.15.
"""

from typing import Any

from muster import keras
from muster_tensorflow.library.ops._parameters import takes
from muster_tensorflow.library.ops.arrays._shape import convert_to_tensor

relu = takes(keras.activations.relu, "x alpha=negative_slope max_value threshold negative_slope")


def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1, ignore_class: int | None = None
) -> Any:
    """Return the cross entropy of each example's class and probabilities.

    Args:
        y_true: Integers, shape (…); may be a list.
        y_pred: Probabilities or logits, shape (…, classes).
        from_logits: Whether they are logits.
        axis: The axis of the classes.
        ignore_class: A class whose examples have the loss 0.
    """
    labels, predictions = (
        convert_to_tensor(each) if isinstance(each, list | tuple) else each for each in (y_true, y_pred)
    )
    return keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits, ignore_class, axis)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> Any:
    """Make the regularizer ``L1L2``, both of whose factors are 0.01 by default."""
    return keras.regularizers.L1L2(l1, l2)


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """Return the share of values of each example that are on the same side of the threshold.

    Args:
        y_true: Zeros and ones, shape (…, values).
        y_pred: Probabilities, of the same shape.
        threshold: From where on they stand for 1.
    """
    return keras.ops.mean(keras.metrics.binary_accuracy(y_true, y_pred, threshold), axis=-1)


def to_categorical(y: Any, num_classes: int | None = None, dtype: str = "float32") -> Any:
    """Return a row for each class, with a 1 in its place and zeros elsewhere.

    Args:
        y: Classes, whole numbers from 0 on, of any shape; a last axis of length 1 is left out.
        num_classes: How many there are; None for those up to the greatest.
        dtype: The dtype of the result.
    """
    rows = keras.utils.to_categorical(y, num_classes)
    return rows.astype(dtype) if hasattr(rows, "astype") else keras.ops.cast(rows, dtype)


def load_img(
    path: Any,
    grayscale: bool = False,
    color_mode: str = "rgb",
    target_size: Any = None,
    interpolation: str = "nearest",
    keep_aspect_ratio: bool = False,
) -> Any:
    """Open an image, as ``keras.utils.load_img`` does.

    Args:
        path: The file.
        grayscale: An old name of ``color_mode="grayscale"``.
        color_mode: ``"grayscale"``, ``"rgb"`` or ``"rgba"``.
        target_size: The height and the width to resize it to.
        interpolation: How.
        keep_aspect_ratio: Whether to crop it, so that it is not distorted.
    """
    mode = "grayscale" if grayscale else color_mode
    return keras.utils.load_img(path, mode, target_size, interpolation, keep_aspect_ratio)
