"""``keras.utils.FeatureSpace`` without TensorFlow.

Keras' class calls TensorFlow for its layers of text and for its values. Here the names that it finds in its
module are of muster's: it computes on the host, in eager code and in functions of datasets, and the models
that are made of it are split where text has become numbers.
"""

import contextlib
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from muster import keras
from muster.data import Dataset
from muster_tensorflow.library.ops._eager_values import shown_result
from muster_tensorflow.patches import change, wrap
from muster_tensorflow.programs.v2.layers._hashing import HashedCrossing, Hashing
from muster_tensorflow.programs.v2.layers._lookups import IntegerLookup, StringLookup
from muster_tensorflow.programs.v2.layers._text_vectorization import TextVectorization


class _Layers:
    """Keras' layers, with those of text that compute on the host."""

    HashedCrossing, Hashing = HashedCrossing, Hashing
    IntegerLookup, StringLookup = IntegerLookup, StringLookup
    TextVectorization = TextVectorization

    def __getattr__(self, name: str) -> Any:
        return getattr(keras.layers, name)


def _showing(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``__call__``: its results are those of other operations, such as integers of 64 bits."""

    @functools.wraps(original)
    def call(self: Any, data: Any) -> Any:
        return jax.tree.map(shown_result, original(self, data))

    return call


def patch() -> None:
    """Let the class compute on the host."""
    wrap(keras.utils.FeatureSpace, "__call__", _showing)
    module = keras.src.layers.preprocessing.feature_space
    change(module, "layers", _Layers())
    change(
        module,
        "tf",
        SimpleNamespace(
            data=SimpleNamespace(Dataset=Dataset),
            Tensor=(np.ndarray, jax.Array),
            SparseTensor=(),
            RaggedTensor=(),
            convert_to_tensor=np.asarray,
            expand_dims=np.expand_dims,
            reshape=np.reshape,
            squeeze=np.squeeze,
        ),
    )
    change(
        module,
        "backend_utils",
        SimpleNamespace(TFGraphScope=contextlib.nullcontext, in_tf_graph=lambda: True),
    )
