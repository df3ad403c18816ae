"""More of ``tf.linalg``: decompositions, solvers, and parts of matrices."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    Axis,
    apply,
    array_module,
    as_array,
    as_axis,
)
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.math._math import norm


def _adjoint(value: Any) -> Any:
    return value.swapaxes(-1, -2).conj()


@operation
def adjoint(matrix: ArrayLike, name: str | None = None) -> Array:
    """Transpose and conjugate matrices."""
    return _adjoint(as_array(matrix))  # type: ignore[no-any-return]


@operation
def matrix_transpose(a: ArrayLike, name: str = "matrix_transpose", conjugate: bool = False) -> Array:
    """Transpose the last two axes, and conjugate if asked."""
    value = as_array(a)
    return _adjoint(value) if conjugate else value.swapaxes(-1, -2)


@operation
def cross(a: ArrayLike, b: ArrayLike, name: str | None = None) -> Array:
    """Return the cross products of vectors of three numbers, along the last axis."""
    return apply("cross", as_array(a), as_array(b))


@operation
def tensor_diag(diagonal: ArrayLike, name: str | None = None) -> Array:
    """Return zeros of shape (\\*S, \\*S) with the values of shape S where both indices agree."""
    values = as_array(diagonal)
    made = array_module(values).diag(values.reshape(-1))
    return made.reshape(values.shape * 2)


@operation
def tensor_diag_part(input: ArrayLike, name: str | None = None) -> Array:
    """Return the values of shape S where both indices of an array of shape (\\*S, \\*S) agree."""
    values = as_array(input)
    shape = values.shape[: values.ndim // 2]
    size = int(np.prod(shape))
    return array_module(values).diag(values.reshape(size, size)).reshape(shape)


@operation
def eigh(tensor: ArrayLike, name: str | None = None) -> tuple[Array, Array]:
    """Return the eigenvalues, in ascending order, and the eigenvectors of symmetric matrices."""
    values, vectors = jnp.linalg.eigh(jnp.asarray(as_array(tensor)))
    return values, vectors


@operation
def eigvalsh(tensor: ArrayLike, name: str | None = None) -> Array:
    """Return the eigenvalues of symmetric matrices, in ascending order."""
    return jnp.linalg.eigvalsh(jnp.asarray(as_array(tensor)))  # type: ignore[no-any-return]


@operation
def svd(
    tensor: ArrayLike, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """Return the singular values ``s``, and ``u`` and ``v``: matrices are ``u @ diag(s) @ adjoint(v)``."""
    value = jnp.asarray(as_array(tensor))
    if not compute_uv:
        return jnp.linalg.svd(value, compute_uv=False)
    u, s, vh = jnp.linalg.svd(value, full_matrices=full_matrices)
    return s, u, _adjoint(vh)


class Qr(NamedTuple):
    """The result of `qr`."""

    q: Array
    r: Array


class LogDeterminant(NamedTuple):
    """The result of `slogdet`."""

    sign: Array
    log_abs_determinant: Array


@operation
def qr(input: ArrayLike, full_matrices: bool = False, name: str | None = None) -> "Qr":
    """Return orthogonal and upper triangular matrices whose products are the given ones."""
    q, r = jnp.linalg.qr(jnp.asarray(as_array(input)), mode="complete" if full_matrices else "reduced")
    return Qr(q, r)


@operation
def slogdet(input: ArrayLike, name: str | None = None) -> "LogDeterminant":
    """Return the signs of determinants, and the logarithms of their absolute values."""
    sign, log = jnp.linalg.slogdet(jnp.asarray(as_array(input)))
    return LogDeterminant(sign, log)


@operation
def logdet(matrix: ArrayLike, name: str | None = None) -> Array:
    """Return the logarithms of the determinants of positive definite matrices."""
    lower = jnp.linalg.cholesky(jnp.asarray(as_array(matrix)))
    return 2 * jnp.sum(jnp.log(jnp.real(jnp.diagonal(lower, axis1=-2, axis2=-1))), -1)


@operation
def expm(input: ArrayLike, name: str | None = None) -> Array:
    """Return the exponentials of matrices."""
    return jax.scipy.linalg.expm(jnp.asarray(as_array(input)))  # type: ignore[no-any-return]


@operation
def matrix_rank(
    a: ArrayLike, tol: float | None = None, validate_args: bool = False, name: str | None = None
) -> Array:
    """Return the numbers of singular values above ``tol``; ``validate_args`` is unused."""
    value = jnp.asarray(as_array(a))
    singular = jnp.linalg.svd(value, compute_uv=False)
    eps = np.finfo(value.dtype).eps
    least = max(value.shape[-2:]) * eps * jnp.max(singular, -1, keepdims=True) if tol is None else tol
    return jnp.sum(singular > least, -1)


@operation
def pinv(
    a: ArrayLike, rcond: float | None = None, validate_args: bool = False, name: str | None = None
) -> Array:
    """Return the pseudo-inverses of matrices; ``validate_args`` is unused."""
    value = jnp.asarray(as_array(a))
    least = 10 * max(value.shape[-2:]) * np.finfo(value.dtype).eps if rcond is None else rcond
    return jnp.linalg.pinv(value, least)


@operation
def lstsq(
    matrix: ArrayLike,
    rhs: ArrayLike,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Array:
    """Return what the matrices must be multiplied by to come closest to the right-hand sides."""
    a, b = jnp.asarray(as_array(matrix)), jnp.asarray(as_array(rhs))
    if not l2_regularizer:
        return jnp.linalg.pinv(a) @ b
    gram = _adjoint(a) @ a + l2_regularizer * jnp.eye(a.shape[-1], dtype=a.dtype)
    return jnp.linalg.solve(gram, _adjoint(a) @ b)  # type: ignore[no-any-return]


@operation
def triangular_solve(
    matrix: ArrayLike, rhs: ArrayLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Array:
    """Return what triangular matrices, or their adjoints, must be multiplied by to give ``rhs``."""
    a, b = jnp.asarray(as_array(matrix)), jnp.asarray(as_array(rhs))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (a, b))
    return jax.lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=adjoint, conjugate_a=adjoint
    )


@operation
def cholesky_solve(chol: ArrayLike, rhs: ArrayLike, name: str | None = None) -> Array:
    """Solve equations whose matrices have the Cholesky decompositions ``chol``."""
    lower = as_array(chol)
    return triangular_solve(lower, triangular_solve(lower, rhs), adjoint=True)


@operation
def sqrtm(input: ArrayLike, name: str | None = None) -> Array:
    """Return matrices whose squares are the given ones; on CPUs."""
    value = jnp.asarray(as_array(input))
    root = jnp.vectorize(jax.scipy.linalg.sqrtm, signature="(n,n)->(n,n)")(value)
    return root if jnp.iscomplexobj(value) else jnp.real(root)


@operation
def normalize(
    tensor: ArrayLike, ord: Any = "euclidean", axis: Axis = None, name: str | None = None
) -> tuple[Array, Array]:
    """Divide values by their norm along an axis, or of all; return them and the norm."""
    value = as_array(tensor)
    size = norm(value, ord, as_axis(axis), keepdims=True)
    return value / size, size
