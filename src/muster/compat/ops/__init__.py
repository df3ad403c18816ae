"""TensorFlow's operations on arrays, and the shapes of arrays.

Every operation accepts ``name``, as TensorFlow's does, and ignores it unless its docstring says otherwise.
"""

from muster.compat.ops._arrays import Array as Array
from muster.compat.ops._arrays import ArrayLike as ArrayLike
from muster.compat.ops._arrays import DTypeLike as DTypeLike
from muster.compat.ops._arrays import as_array as as_array
from muster.compat.ops._elementwise import abs as abs
from muster.compat.ops._elementwise import equal as equal
from muster.compat.ops._nn import sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits
from muster.compat.ops._nn import softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits
from muster.compat.ops._nn import (
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
)
