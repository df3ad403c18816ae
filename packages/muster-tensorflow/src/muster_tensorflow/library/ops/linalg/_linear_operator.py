"""``tf.linalg.LinearOperator``: the base class of structured matrices, and operators derived from them.

Those with a structure multiply, solve and have determinants without their dense matrix; all else computes
with that. Parameters that are variables are read at each call.

Source: tensorflow/python/ops/linalg/linear_operator.py.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array, as_dtype
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape


def array_of(value: Any) -> jax.Array:
    """Return a parameter as an array of JAX."""
    return jnp.asarray(as_array(value))


def adjoint_of(value: jax.Array) -> jax.Array:
    """Return the adjoints of matrices."""
    return value.swapaxes(-1, -2).conj()


class LinearOperator:
    """A matrix, or a batch of matrices, of shape (*B, M, N).

    Args:
        dtype: The dtype of its entries.
        is_non_singular: Whether it has an inverse; None if that is not known.
        is_self_adjoint: Whether it is its adjoint, likewise.
        is_positive_definite: Whether it is positive definite, likewise.
        is_square: Whether it is square, likewise.
        name: Its name.
        parameters: What it was made of.
    """

    def __init__(
        self,
        dtype: DTypeLike,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: Any = None,
    ) -> None:
        self.dtype: Any = as_dtype(dtype)
        self.name = name or type(self).__name__
        self.parameters = parameters or {}
        self.is_self_adjoint, self.is_positive_definite = is_self_adjoint, is_positive_definite
        self.is_non_singular = True if is_positive_definite else is_non_singular
        self._is_square = True if self.is_non_singular or is_self_adjoint else is_square

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        """Return the matrix."""
        return self._matmul(jnp.eye(self._columns(), dtype=self.dtype))

    def _matmul(self, x: jax.Array) -> jax.Array:
        return self.to_dense() @ x

    def _rmatmul(self, x: jax.Array) -> jax.Array:
        """Multiply by the adjoint."""
        return adjoint_of(self.to_dense()) @ x

    def _solve(self, rhs: jax.Array) -> jax.Array:
        dense = self.to_dense()
        if self.is_positive_definite and self.is_self_adjoint:
            shape = (*jnp.broadcast_shapes(dense.shape[:-2], rhs.shape[:-2]), *dense.shape[-2:])
            factor = jnp.broadcast_to(jnp.linalg.cholesky(dense), shape)
            values = jnp.broadcast_to(rhs, (*shape[:-2], *rhs.shape[-2:]))
            return jax.scipy.linalg.cho_solve((factor, True), values)
        return jnp.linalg.solve(dense, rhs)  # type: ignore[no-any-return]

    def _rsolve(self, rhs: jax.Array) -> jax.Array:
        """Solve with the adjoint."""
        return jnp.linalg.solve(adjoint_of(self.to_dense()), rhs)  # type: ignore[no-any-return]

    def _shape(self) -> tuple[int, ...]:
        return tuple(jax.eval_shape(self.to_dense).shape)

    def _columns(self) -> int:
        return self._shape()[-1]

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return TensorShape(self._shape())

    @property
    def batch_shape(self) -> TensorShape:
        """The shape of the batch."""
        return TensorShape(self._shape()[:-2])

    @property
    def tensor_rank(self) -> int:
        """The number of axes."""
        return len(self._shape())

    @property
    def domain_dimension(self) -> int:
        """The number of columns."""
        return self._shape()[-1]

    @property
    def range_dimension(self) -> int:
        """The number of rows."""
        return self._shape()[-2]

    @property
    def is_square(self) -> bool:
        """True if it is square."""
        if self._is_square is None:
            self._is_square = self.domain_dimension == self.range_dimension
        return self._is_square

    @property
    def H(self) -> "LinearOperator":
        """The adjoint."""
        return self.adjoint()

    def shape_tensor(self, name: str = "shape_tensor") -> jax.Array:
        """Return the shape as an array."""
        return jnp.asarray(self._shape(), "int32")

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> jax.Array:
        """Return the shape of the batch as an array."""
        return jnp.asarray(self._shape()[:-2], "int32")

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> np.int32:
        """Return the number of axes."""
        return np.int32(self.tensor_rank)

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> np.int32:
        """Return the number of columns."""
        return np.int32(self.domain_dimension)

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> np.int32:
        """Return the number of rows."""
        return np.int32(self.range_dimension)

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Multiply matrices of shape (..., N, K), or compose it with another operator."""
        if isinstance(x, LinearOperator):
            operators = [self.adjoint() if adjoint else self, x.adjoint() if adjoint_arg else x]
            return LinearOperatorComposition(operators)
        value = adjoint_of(array_of(x)) if adjoint_arg else array_of(x)
        self._require("matmul", value.shape[-2], self.range_dimension if adjoint else self.domain_dimension)
        return self._rmatmul(value) if adjoint else self._matmul(value)

    __matmul__ = matmul

    def matvec(self, x: ArrayLike, adjoint: bool = False, name: str = "matvec") -> jax.Array:
        """Multiply vectors of shape (..., N)."""
        product: jax.Array = self.matmul(array_of(x)[..., None], adjoint)
        return product[..., 0]

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """Return the X with this times X = rhs, of shape (..., N, K)."""
        if self.is_non_singular is False:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to be singular."
            )
        if not self.is_square:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to not be square."
            )
        if isinstance(rhs, LinearOperator):
            inverse = self.adjoint().inverse() if adjoint else self.inverse()
            return inverse.matmul(rhs, adjoint_arg=adjoint_arg)
        value = adjoint_of(array_of(rhs)) if adjoint_arg else array_of(rhs)
        self._require("solve", value.shape[-2], self.domain_dimension)
        return self._rsolve(value) if adjoint else self._solve(value)

    def solvevec(self, rhs: ArrayLike, adjoint: bool = False, name: str = "solve") -> jax.Array:
        """Return the x with this times x = rhs, of shape (..., N)."""
        solution: jax.Array = self.solve(array_of(rhs)[..., None], adjoint)
        return solution[..., 0]

    def _require(self, what: str, rows: int, wanted: int) -> None:
        if rows != wanted:
            raise ValueError(f"{what} of {self.name} takes {wanted} rows, got {rows}.")

    def diag_part(self, name: str = "diag_part") -> jax.Array:
        """Return the diagonal."""
        return jnp.diagonal(self.to_dense(), axis1=-2, axis2=-1)  # type: ignore[no-any-return]

    def trace(self, name: str = "trace") -> jax.Array:
        """Return the sum of the diagonal."""
        return self.diag_part().sum(-1)

    def determinant(self, name: str = "det") -> jax.Array:
        """Return the determinant."""
        return jnp.linalg.det(self.to_dense())  # type: ignore[no-any-return]

    def log_abs_determinant(self, name: str = "log_abs_det") -> jax.Array:
        """Return the logarithm of the absolute value of the determinant."""
        return jnp.linalg.slogdet(self.to_dense())[1]  # type: ignore[no-any-return]

    def add_to_tensor(self, x: ArrayLike, name: str = "add_to_tensor") -> jax.Array:
        """Return the sum with matrices."""
        return self.to_dense() + array_of(x)

    def eigvals(self, name: str = "eigvals") -> jax.Array:
        """Return the eigenvalues of a self-adjoint operator, in ascending order."""
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        return jnp.linalg.eigvalsh(self.to_dense())  # type: ignore[no-any-return]

    def cond(self, name: str = "cond") -> jax.Array:
        """Return the condition number: that of the largest and the smallest singular value."""
        values = jnp.linalg.svd(self.to_dense(), compute_uv=False)
        return values.max(-1) / values.min(-1)

    def adjoint(self, name: str = "adjoint") -> "LinearOperator":
        """Return the adjoint."""
        return self if self.is_self_adjoint else LinearOperatorAdjoint(self)

    def inverse(self, name: str = "inverse") -> "LinearOperator":
        """Return the inverse."""
        if not self.is_square or self.is_non_singular is False:
            raise ValueError(
                "Cannot take the inverse: the operator is expected to be singular, or not square."
            )
        return LinearOperatorInversion(self)

    def cholesky(self, name: str = "cholesky") -> "LinearOperator":
        """Return the lower triangle L with L times its adjoint being this."""
        if not (self.is_positive_definite and self.is_self_adjoint):
            raise ValueError(
                "Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix."
            )
        return LinearOperatorLowerTriangular(jnp.linalg.cholesky(self.to_dense()), is_non_singular=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: shape {self._shape()}, dtype {np.dtype(self.dtype)}>"


class LinearOperatorLowerTriangular(LinearOperator):
    """A lower triangle; what is above the diagonal does not count."""

    def __init__(
        self,
        tril: ArrayLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        self.tril = tril
        super().__init__(
            array_of(tril).dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name
        )

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        return jnp.tril(array_of(self.tril))

    def _triangular(self, rhs: jax.Array, adjoint: bool) -> jax.Array:
        dense = self.to_dense()
        batch = jnp.broadcast_shapes(dense.shape[:-2], rhs.shape[:-2])
        factor = jnp.broadcast_to(dense, (*batch, *dense.shape[-2:]))
        values = jnp.broadcast_to(rhs, (*batch, *rhs.shape[-2:]))
        return jax.lax.linalg.triangular_solve(
            factor, values, left_side=True, lower=True, transpose_a=adjoint, conjugate_a=adjoint
        )

    def _solve(self, rhs: jax.Array) -> jax.Array:
        return self._triangular(rhs, adjoint=False)

    def _rsolve(self, rhs: jax.Array) -> jax.Array:
        return self._triangular(rhs, adjoint=True)

    def determinant(self, name: str = "det") -> jax.Array:
        return self.diag_part().prod(-1)

    def log_abs_determinant(self, name: str = "log_abs_det") -> jax.Array:
        return jnp.log(jnp.abs(self.diag_part())).sum(-1)


class OfOthers(LinearOperator):
    """An operator of others."""

    def __init__(self, operators: Any, options: tuple[bool | None, ...], name: str) -> None:
        if not operators:
            raise ValueError(f"{type(self).__name__} needs a list of one or more operators.")
        self.operators = list(operators)
        non_singular, self_adjoint, positive, square = options
        super().__init__(self.operators[0].dtype, None, non_singular, self_adjoint, positive, square, name)

    def _all(self, what: str) -> bool | None:
        return True if all(getattr(each, what) for each in self.operators) else None


class LinearOperatorComposition(OfOthers):
    """The product of operators."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        options = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(operators, options, name or "_o_".join(each.name for each in operators))
        self.is_non_singular = self.is_non_singular or self._all("is_non_singular")

    def _shape(self) -> tuple[int, ...]:
        shapes = [each._shape() for each in self.operators]
        return (*jnp.broadcast_shapes(*(each[:-2] for each in shapes)), shapes[0][-2], shapes[-1][-1])

    def _matmul(self, x: jax.Array) -> jax.Array:
        for each in reversed(self.operators):
            x = each._matmul(x)
        return x

    def _rmatmul(self, x: jax.Array) -> jax.Array:
        for each in self.operators:
            x = each._rmatmul(x)
        return x

    def _solve(self, rhs: jax.Array) -> jax.Array:
        for each in self.operators:
            rhs = each.solve(rhs)
        return rhs

    def _rsolve(self, rhs: jax.Array) -> jax.Array:
        for each in reversed(self.operators):
            rhs = each.solve(rhs, adjoint=True)
        return rhs

    def determinant(self, name: str = "det") -> jax.Array:
        if not all(each.is_square for each in self.operators):
            return super().determinant()
        return jnp.prod(jnp.stack([each.determinant() for each in self.operators]), 0)

    def log_abs_determinant(self, name: str = "log_abs_det") -> jax.Array:
        if not all(each.is_square for each in self.operators):
            return super().log_abs_determinant()
        return jnp.sum(jnp.stack([each.log_abs_determinant() for each in self.operators]), 0)


class LinearOperatorAdjoint(LinearOperator):
    """The adjoint of an operator."""

    def __init__(
        self,
        operator: LinearOperator,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        self.operator = operator
        super().__init__(
            operator.dtype,
            None,
            is_non_singular or operator.is_non_singular,
            is_self_adjoint or operator.is_self_adjoint,
            is_positive_definite or operator.is_positive_definite,
            is_square,
            name or f"{operator.name}_adjoint",
        )

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        return adjoint_of(self.operator.to_dense())

    def _matmul(self, x: jax.Array) -> jax.Array:
        return self.operator._rmatmul(x)

    def _rmatmul(self, x: jax.Array) -> jax.Array:
        return self.operator._matmul(x)

    def _solve(self, rhs: jax.Array) -> jax.Array:
        return self.operator._rsolve(rhs)

    def _rsolve(self, rhs: jax.Array) -> jax.Array:
        return self.operator._solve(rhs)

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        return self.operator


class LinearOperatorInversion(LinearOperator):
    """The inverse of an operator."""

    def __init__(
        self,
        operator: LinearOperator,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        self.operator = operator
        super().__init__(
            operator.dtype,
            None,
            True,
            is_self_adjoint or operator.is_self_adjoint,
            is_positive_definite or operator.is_positive_definite,
            True,
            name or f"{operator.name}_inv",
        )

    def _shape(self) -> tuple[int, ...]:
        return self.operator._shape()

    def _matmul(self, x: jax.Array) -> jax.Array:
        return self.operator._solve(x)

    def _rmatmul(self, x: jax.Array) -> jax.Array:
        return self.operator._rsolve(x)

    def _solve(self, rhs: jax.Array) -> jax.Array:
        return self.operator._matmul(rhs)

    def _rsolve(self, rhs: jax.Array) -> jax.Array:
        return self.operator._rmatmul(rhs)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        return self.operator

    def log_abs_determinant(self, name: str = "log_abs_det") -> jax.Array:
        return -self.operator.log_abs_determinant()

    def determinant(self, name: str = "det") -> jax.Array:
        return 1 / self.operator.determinant()
