"""``keras.utils.conv_utils`` of Keras 2: arguments of convolutions, and the sizes that they make.

Source: keras/utils/conv_utils.py of Keras 2.12.
"""

import operator
from typing import Any

from muster import keras

_DATA_FORMATS = ("channels_first", "channels_last")
_PADDINGS = ("valid", "same", "causal")


def normalize_tuple(value: Any, n: int, name: str, allow_zero: bool = False) -> tuple[int, ...]:
    """Return a size for each axis.

    Args:
        value: An int for all axes, or one for each.
        n: How many axes there are.
        name: The argument's, for the error.
        allow_zero: Whether a size may be 0.

    Raises:
        ValueError: The value is none of these.
    """
    wanted = f"{name} takes {'an' if allow_zero else 'a positive'} int, or a tuple of {n} of them"
    try:
        sizes = (operator.index(value),) * n if hasattr(value, "__index__") else tuple(value)
        sizes = tuple(int(size) for size in sizes)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}, got {value!r}.") from error
    if len(sizes) != n or min(sizes, default=0) < (0 if allow_zero else 1):
        raise ValueError(f"{wanted}, got {value!r}.")
    return sizes


def normalize_data_format(value: str | None) -> str:
    """Return ``"channels_first"`` or ``"channels_last"``; of None the one of ``image_data_format``."""
    return _one_of(_DATA_FORMATS, "data_format", keras.config.image_data_format() if value is None else value)


def normalize_padding(value: Any) -> Any:
    """Return ``"valid"``, ``"same"`` or ``"causal"``; a list or tuple as it is."""
    return value if isinstance(value, list | tuple) else _one_of(_PADDINGS, "padding", value)


def conv_output_length(
    input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """Return the size of an axis after a convolution; None of None.

    Args:
        input_length: Its size before.
        filter_size: The kernel's.
        padding: ``"valid"``, ``"same"``, ``"causal"`` or ``"full"``.
        stride: The step from one place of the kernel to the next.
        dilation: The step from one value under the kernel to the next.
    """
    if input_length is None:
        return None
    reach = (filter_size - 1) * dilation
    more = {"same": 0, "causal": 0, "valid": -reach, "full": reach}[padding]
    return (input_length + more + stride - 1) // stride


def conv_input_length(output_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """Return the least size of an axis for which a convolution makes the given one; None of None.

    Args:
        output_length: Its size afterwards.
        filter_size: The kernel's.
        padding: ``"valid"``, ``"same"`` or ``"full"``.
        stride: The step from one place of the kernel to the next.
    """
    if output_length is None:
        return None
    return (output_length - 1) * stride - 2 * _pad(filter_size, padding) + filter_size


def deconv_output_length(
    input_length: int | None,
    filter_size: int,
    padding: str,
    output_padding: int | None = None,
    stride: int = 0,
    dilation: int = 1,
) -> int | None:
    """Return the size of an axis after a transposed convolution; None of None.

    Args:
        input_length: Its size before.
        filter_size: The kernel's.
        padding: ``"valid"``, ``"same"`` or ``"full"``.
        output_padding: How much is added behind; None for what makes the size a multiple of the stride.
        stride: The step from one place of the kernel to the next.
        dilation: The step from one value under the kernel to the next.
    """
    if input_length is None:
        return None
    size = filter_size + (filter_size - 1) * (dilation - 1)
    if output_padding is None:
        more = {"same": 0, "valid": max(size - stride, 0), "full": 2 - stride - size}[padding]
        return input_length * stride + more
    return (input_length - 1) * stride + size - 2 * _pad(size, padding) + output_padding


def _pad(size: int, padding: str) -> int:
    return {"same": size // 2, "valid": 0, "full": size - 1}[padding]


def _one_of(choices: tuple[str, ...], name: str, value: str) -> str:
    if (found := str(value).lower()) not in choices:
        raise ValueError(f"{name} is one of {', '.join(choices)}, got {value!r}.")
    return found
