"""Kinds of ``tf.linalg.LinearOperator``: dense, diagonal, and composed of others."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_dtype
from muster_tensorflow.library.ops.linalg._linear_operator import (
    LinearOperator,
    OfOthers,
    adjoint_of,
    array_of,
)


class LinearOperatorFullMatrix(LinearOperator):
    """A dense matrix."""

    def __init__(
        self,
        matrix: ArrayLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        self.matrix = matrix
        super().__init__(
            array_of(matrix).dtype,
            None,
            is_non_singular,
            is_self_adjoint,
            is_positive_definite,
            is_square,
            name,
        )

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        return array_of(self.matrix)


class LinearOperatorDiag(LinearOperator):
    """A diagonal matrix."""

    def __init__(
        self,
        diag: ArrayLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        self.diag = diag
        dtype = array_of(diag).dtype
        is_real = not jnp.issubdtype(dtype, jnp.complexfloating)
        super().__init__(
            dtype, None, is_non_singular, is_real or is_self_adjoint, is_positive_definite, True, name
        )

    def diag_part(self, name: str = "diag_part") -> jax.Array:
        return array_of(self.diag)

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        values = self.diag_part()
        return values[..., None] * jnp.eye(values.shape[-1], dtype=values.dtype)

    def _matmul(self, x: jax.Array) -> jax.Array:
        return self.diag_part()[..., None] * x

    def _rmatmul(self, x: jax.Array) -> jax.Array:
        return self.diag_part().conj()[..., None] * x

    def _solve(self, rhs: jax.Array) -> jax.Array:
        return rhs / self.diag_part()[..., None]

    def _rsolve(self, rhs: jax.Array) -> jax.Array:
        return rhs / self.diag_part().conj()[..., None]

    def determinant(self, name: str = "det") -> jax.Array:
        return self.diag_part().prod(-1)

    def log_abs_determinant(self, name: str = "log_abs_det") -> jax.Array:
        return jnp.log(jnp.abs(self.diag_part())).sum(-1)

    def eigvals(self, name: str = "eigvals") -> jax.Array:
        return self.diag_part()

    def cond(self, name: str = "cond") -> jax.Array:
        values = jnp.abs(self.diag_part())
        return values.max(-1) / values.min(-1)

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        return self if self.is_self_adjoint else LinearOperatorDiag(self.diag_part().conj(), True)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        return LinearOperatorDiag(1 / self.diag_part(), True, is_positive_definite=self.is_positive_definite)

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        return LinearOperatorDiag(jnp.sqrt(self.diag_part()), True, is_positive_definite=True)


class LinearOperatorScaledIdentity(LinearOperatorDiag):
    """A multiple of the identity.

    Args:
        num_rows: The number of rows.
        multiplier: What to multiply by, of the shape of the batch.
    """

    def __init__(
        self,
        num_rows: int,
        multiplier: ArrayLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        self.multiplier, self._rows = multiplier, int(num_rows)
        super().__init__(
            self.diag_part(), is_non_singular, is_self_adjoint, is_positive_definite, is_square, name
        )

    def diag_part(self, name: str = "diag_part") -> jax.Array:
        value = array_of(self.multiplier)
        return jnp.broadcast_to(value[..., None], (*value.shape, self._rows))


class LinearOperatorIdentity(LinearOperatorScaledIdentity):
    """The identity.

    Args:
        num_rows: The number of rows.
        batch_shape: The shape of the batch; None for none.
        dtype: The dtype; None for float32.
    """

    def __init__(
        self,
        num_rows: int,
        batch_shape: Any = None,
        dtype: DTypeLike | None = None,
        is_non_singular: bool | None = True,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        ones = jnp.ones(() if batch_shape is None else tuple(batch_shape), as_dtype(dtype or np.float32))
        super().__init__(num_rows, ones, True, True, True, True, name=name)


class LinearOperatorZeros(LinearOperator):
    """Zeros, of any number of rows and columns."""

    def __init__(
        self,
        num_rows: int,
        num_columns: int | None = None,
        batch_shape: Any = None,
        dtype: DTypeLike | None = None,
        is_non_singular: bool | None = False,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = False,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        columns = num_rows if num_columns is None else num_columns
        self._sizes = (*(() if batch_shape is None else tuple(batch_shape)), int(num_rows), int(columns))
        super().__init__(
            dtype or np.float32, None, False, num_rows == columns, False, num_rows == columns, name
        )

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        return jnp.zeros(self._sizes, self.dtype)


class LinearOperatorBlockDiag(OfOthers):
    """Operators along the diagonal, and zeros elsewhere."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        options = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(operators, options, name or "_ds_".join(each.name for each in operators))
        self.is_non_singular = self.is_non_singular or self._all("is_non_singular")
        self.is_self_adjoint = self.is_self_adjoint or self._all("is_self_adjoint")
        self.is_positive_definite = self.is_positive_definite or self._all("is_positive_definite")

    def _shape(self) -> tuple[int, ...]:
        shapes = [each._shape() for each in self.operators]
        batch = jnp.broadcast_shapes(*(each[:-2] for each in shapes))
        return (*batch, sum(each[-2] for each in shapes), sum(each[-1] for each in shapes))

    def _blocks(self, x: jax.Array, method: str, axis: int) -> jax.Array:
        ends = np.cumsum([each._shape()[axis] for each in self.operators])[:-1]
        parts = jnp.split(x, ends, axis=-2)
        made = [getattr(each, method)(part) for each, part in zip(self.operators, parts, strict=True)]
        batch = jnp.broadcast_shapes(*(each.shape[:-2] for each in made))
        return jnp.concatenate([jnp.broadcast_to(each, (*batch, *each.shape[-2:])) for each in made], axis=-2)

    def _matmul(self, x: jax.Array) -> jax.Array:
        return self._blocks(x, "_matmul", -1)

    def _rmatmul(self, x: jax.Array) -> jax.Array:
        return self._blocks(x, "_rmatmul", -2)

    def _solve(self, rhs: jax.Array) -> jax.Array:
        return self._blocks(rhs, "_solve", -2)

    def _rsolve(self, rhs: jax.Array) -> jax.Array:
        return self._blocks(rhs, "_rsolve", -1)

    def diag_part(self, name: str = "diag_part") -> jax.Array:
        return jnp.concatenate([each.diag_part() for each in self.operators], axis=-1)

    def determinant(self, name: str = "det") -> jax.Array:
        return jnp.prod(jnp.stack([each.determinant() for each in self.operators]), 0)

    def log_abs_determinant(self, name: str = "log_abs_det") -> jax.Array:
        return jnp.sum(jnp.stack([each.log_abs_determinant() for each in self.operators]), 0)


class LinearOperatorKronecker(OfOthers):
    """The Kronecker product of operators."""

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
        super().__init__(operators, options, name or "_x_".join(each.name for each in operators))
        self.is_non_singular = self.is_non_singular or self._all("is_non_singular")
        self.is_self_adjoint = self.is_self_adjoint or self._all("is_self_adjoint")
        self.is_positive_definite = self.is_positive_definite or self._all("is_positive_definite")

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        made, *others = [each.to_dense() for each in self.operators]
        for each in others:
            product = made[..., :, None, :, None] * each[..., None, :, None, :]
            made = product.reshape(
                *product.shape[:-4],
                product.shape[-4] * product.shape[-3],
                product.shape[-2] * product.shape[-1],
            )
        return made  # type: ignore[no-any-return]

    def log_abs_determinant(self, name: str = "log_abs_det") -> jax.Array:
        rows = self._shape()[-1]
        parts = [each.log_abs_determinant() * (rows / each._shape()[-1]) for each in self.operators]
        return jnp.sum(jnp.stack(parts), 0)


class LinearOperatorLowRankUpdate(LinearOperator):
    """An operator plus U D V^H, of a low rank.

    Args:
        base_operator: The operator.
        u: Shape (..., M, K).
        diag_update: Shape (..., K); None for ones.
        v: Shape (..., N, K); None for ``u``.
    """

    def __init__(
        self,
        base_operator: LinearOperator,
        u: ArrayLike,
        diag_update: ArrayLike | None = None,
        v: ArrayLike | None = None,
        is_diag_update_positive: bool | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        self.base_operator, self.u, self.diag_update = base_operator, u, diag_update
        self.v = u if v is None else v
        is_same = v is None and (diag_update is None or bool(is_diag_update_positive))
        if is_same and base_operator.is_self_adjoint and base_operator.is_positive_definite:
            is_self_adjoint = is_positive_definite = True
        super().__init__(
            base_operator.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name
        )

    def to_dense(self, name: str = "to_dense") -> jax.Array:
        left = array_of(self.u)
        scaled = left if self.diag_update is None else left * array_of(self.diag_update)[..., None, :]
        return self.base_operator.to_dense() + scaled @ adjoint_of(array_of(self.v))
