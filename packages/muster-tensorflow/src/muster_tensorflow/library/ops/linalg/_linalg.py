"""TensorFlow's linear algebra."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, array_module, as_array
from muster_tensorflow.library.ops._operation import operation


@operation
def einsum(equation: str, *inputs: ArrayLike, name: str | None = None, **unused: object) -> Array:
    """Return the sum of products that an equation describes, such as ``"ij,jk->ik"``.

    Source: tensorflow/python/ops/special_math_ops.py, ``einsum``.
    """
    return array_module(*inputs).einsum(equation, *map(as_array, inputs))


@operation
def tensordot(
    a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | Sequence[Sequence[int]], name: str | None = None
) -> Array:
    """Return the sum of products over axes: a number of last and first ones, or those of ``a`` and ``b``."""
    if not isinstance(axes, int):
        axes = np.asarray(axes).tolist()
    return array_module(a, b).tensordot(as_array(a), as_array(b), axes=axes)


@operation
def matvec(
    a: ArrayLike,
    b: ArrayLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Array:
    """Return the product of matrices and vectors: (…, rows, columns) and (…, columns) give (…, rows).

    ``a_is_sparse`` and ``b_is_sparse``, hints for TensorFlow, are unused.
    """
    matrix = as_array(a)
    matrix = matrix.swapaxes(-1, -2) if transpose_a or adjoint_a else matrix
    matrix = matrix.conj() if adjoint_a else matrix
    return array_module(a, b).matmul(matrix, as_array(b)[..., None])[..., 0]


@operation
def trace(x: ArrayLike, name: str | None = None) -> Array:
    """Return the sums of the diagonals of matrices."""
    return array_module(x).trace(as_array(x), axis1=-2, axis2=-1)


@operation
def band_part(input: ArrayLike, num_lower: int, num_upper: int, name: str | None = None) -> Array:
    """Set what is outside of a band of matrices to zero.

    Args:
        input: Matrices, of shape (…, rows, columns).
        num_lower: How many diagonals below the main one stay; -1 for all.
        num_upper: How many above it stay; -1 for all.
        name: Unused.
    """
    value = as_array(input)
    above = np.arange(value.shape[-1]) - np.arange(value.shape[-2])[:, None]
    lower = above >= -num_lower if num_lower >= 0 else True
    upper = above <= num_upper if num_upper >= 0 else True
    zero = value.dtype.type(0)  # a product with it is NaN where a value is infinite
    return array_module(value).where(np.logical_and(lower, upper), value, zero)


@operation
def inv(input: ArrayLike, adjoint: bool = False, name: str | None = None) -> Array:
    """Return the inverses of matrices, or of their adjoints."""
    value = as_array(input)
    value = value.swapaxes(-1, -2).conj() if adjoint else value
    return _solver(input).inv(value)  # type: ignore[no-any-return]


@operation
def det(input: ArrayLike, name: str | None = None) -> Array:
    """Return the determinants of matrices."""
    return _solver(input).det(as_array(input))  # type: ignore[no-any-return]


@operation
def cholesky(input: ArrayLike, name: str | None = None) -> Array:
    """Return the lower triangular matrices whose products with their adjoints are the given ones."""
    return _solver(input).cholesky(as_array(input))  # type: ignore[no-any-return]


@operation
def solve(matrix: ArrayLike, rhs: ArrayLike, adjoint: bool = False, name: str | None = None) -> Array:
    """Return what the matrices, or their adjoints, must be multiplied by to give the right-hand sides."""
    value = as_array(matrix)
    value = value.swapaxes(-1, -2).conj() if adjoint else value
    return _solver(matrix, rhs).solve(value, as_array(rhs))  # type: ignore[no-any-return]


def _solver(*values: ArrayLike) -> Any:
    return array_module(*values).linalg
