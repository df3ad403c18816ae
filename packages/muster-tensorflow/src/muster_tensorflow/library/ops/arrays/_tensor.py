"""``tf.Tensor`` and ``tf.is_tensor``."""

from typing import Any, NoReturn

import jax
import numpy as np

from muster import keras
from muster.data import RaggedTensor, SparseTensor
from muster_tensorflow.library.ops._eager_values import HostBytes, HostTensor, HostText, is_inside


class _Tensors(type):
    """The class of `Tensor`, whose instances are of classes of JAX, NumPy and Python."""

    def __instancecheck__(cls, value: object) -> bool:
        if isinstance(value, jax.Array | HostTensor | HostText | HostBytes):
            return True
        return isinstance(value, np.ndarray | np.generic) and is_inside()

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("tf.Tensor makes no tensors: call tf.constant.")


class Tensor(metaclass=_Tensors):
    """Stand for all tensors in ``isinstance`` and annotations.

    A plain NumPy array is none in eager code, as in TensorFlow. Functions of datasets and steps, where
    operations on NumPy values are NumPy's, work on plain arrays: there each is one.

    Source: tensorflow/python/framework/tensor.py, ``Tensor``.
    """


def is_tensor(x: object) -> bool:
    """Return whether a value is a `Tensor`, a variable, or a sparse or ragged tensor."""
    return isinstance(x, Tensor | keras.Variable | SparseTensor | RaggedTensor)
