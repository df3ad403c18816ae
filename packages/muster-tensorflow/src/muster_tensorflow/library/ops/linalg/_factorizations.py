"""``tf.linalg``: eigenvalues of any matrix, LU, and matrices that have a few diagonals."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._needs_values import known


class Lu(NamedTuple):
    """Both triangular factors in one matrix, and the permutation of its rows; `lu` returns it."""

    lu: Any
    p: Any


@operation
def eig(tensor: ArrayLike, name: str | None = None) -> tuple[Array, Array]:
    """Return the eigenvalues and the eigenvectors of matrices, which are complex; on CPUs."""
    values, vectors = jnp.linalg.eig(jnp.asarray(as_array(tensor)))
    return values, vectors


@operation
def eigvals(tensor: ArrayLike, name: str | None = None) -> Array:
    """Return the eigenvalues of matrices, which are complex; on CPUs."""
    return jnp.linalg.eigvals(jnp.asarray(as_array(tensor)))  # type: ignore[no-any-return]


@operation
def logm(input: ArrayLike, name: str | None = None) -> Array:
    """Return the logarithms of complex matrices, which the host computes."""
    value = jnp.asarray(as_array(input))

    def compute(matrices: Any) -> Any:
        flat = np.asarray(matrices).reshape(-1, *matrices.shape[-2:])
        return (
            np.stack([scipy.linalg.logm(each) for each in flat]).reshape(matrices.shape).astype(value.dtype)
        )

    kind = jax.ShapeDtypeStruct(value.shape, value.dtype)
    return jax.pure_callback(compute, kind, value, vmap_method="expand_dims")  # type: ignore[no-any-return]


@operation
def lu(input: ArrayLike, output_idx_type: DTypeLike = np.int32, name: str | None = None) -> Lu:
    """Return the triangular factors of matrices, whose product has the rows in another order.

    Source: tensorflow/python/ops/gen_linalg_ops.py, ``lu``.
    """
    factors, _, order = jax.lax.linalg.lu(jnp.asarray(as_array(input)))
    return Lu(factors, as_array(order, output_idx_type))


def _factors(lower_upper: ArrayLike) -> tuple[Any, Any]:
    both = jnp.asarray(as_array(lower_upper))
    return jnp.tril(both, -1) + jnp.eye(both.shape[-1], dtype=both.dtype), jnp.triu(both)


def _rows(value: jax.Array, order: jax.Array) -> jax.Array:
    return jnp.take_along_axis(value, order[..., None], axis=-2)


@operation
def lu_reconstruct(
    lower_upper: ArrayLike, perm: ArrayLike, validate_args: bool = False, name: str | None = None
) -> Array:
    """Return the matrices of their factors, as `lu` returns them."""
    lower, upper = _factors(lower_upper)
    order = jnp.argsort(jnp.asarray(as_array(perm)), axis=-1)
    return _rows(lower @ upper, order)


@operation
def lu_solve(
    lower_upper: ArrayLike,
    perm: ArrayLike,
    rhs: ArrayLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Array:
    """Solve equations whose matrices have the factors that `lu` returns."""
    lower, upper = _factors(lower_upper)
    order, right = jnp.asarray(as_array(perm)), jnp.asarray(as_array(rhs))
    batch = np.broadcast_shapes(order.shape[:-1], right.shape[:-2])
    lower, upper = (jnp.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (lower, upper))
    right = _rows(
        jnp.broadcast_to(right, (*batch, *right.shape[-2:])),
        jnp.broadcast_to(order, (*batch, order.shape[-1])),
    )
    half = jax.lax.linalg.triangular_solve(lower, right, left_side=True, lower=True, unit_diagonal=True)
    return jax.lax.linalg.triangular_solve(upper, half, left_side=True, lower=False)


@operation
def lu_matrix_inverse(
    lower_upper: ArrayLike, perm: ArrayLike, validate_args: bool = False, name: str | None = None
) -> Array:
    """Return the inverses of the matrices whose factors `lu` returns."""
    both = as_array(lower_upper)
    return lu_solve(both, perm, np.eye(both.shape[-1], dtype=both.dtype))


def _diagonals(diagonals: Any, form: str) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the diagonals below, in, and above the middle, each as long: JAX ignores the ends."""
    if form == "matrix":
        matrix = jnp.asarray(as_array(diagonals))
        above, main, below = (jnp.diagonal(matrix, k, axis1=-2, axis2=-1) for k in (1, 0, -1))
    elif form == "compact":
        above, main, below = jnp.moveaxis(jnp.asarray(as_array(diagonals)), -2, 0)
    elif form == "sequence":
        above, main, below = (jnp.asarray(as_array(each)) for each in diagonals)
    else:
        raise ValueError(f"diagonals_format is 'compact', 'matrix' or 'sequence', got {form!r}.")
    room = [(0, 0)] * (main.ndim - 1)
    missing = main.shape[-1] - above.shape[-1]
    above = jnp.pad(above, [*room, (0, missing)]).at[..., -1].set(0)
    below = jnp.pad(below, [*room, (main.shape[-1] - below.shape[-1], 0)]).at[..., 0].set(0)
    return below, main, above


@operation
def tridiagonal_solve(
    diagonals: Any,
    rhs: ArrayLike,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Array:
    """Solve equations whose matrices have three diagonals.

    Args:
        diagonals: The diagonals above, in and below the middle, in an axis before the last one for
            ``"compact"``, as three arrays for ``"sequence"``, or the matrices for ``"matrix"``.
        rhs: The right-hand sides, of shape (…, M) or (…, M, K).
        diagonals_format: Says which of these ``diagonals`` are.
        transpose_rhs: Whether the right-hand sides have the shape (…, K, M).
        conjugate_rhs: Whether to conjugate them.
        name: Unused.
        partial_pivoting: Unused.
        perturb_singular: Unused.
    """
    below, main, above = _diagonals(diagonals, diagonals_format)
    right = jnp.asarray(as_array(rhs))
    right = right.conj() if conjugate_rhs else right
    vectors = right.ndim == main.ndim
    right = right[..., None] if vectors else right.swapaxes(-1, -2) if transpose_rhs else right
    found = jax.lax.linalg.tridiagonal_solve(below, main, above, right)
    return found[..., 0] if vectors else found


@operation
def tridiagonal_matmul(
    diagonals: Any, rhs: ArrayLike, diagonals_format: str = "compact", name: str | None = None
) -> Array:
    """Return the products of matrices that have three diagonals and others; as for `tridiagonal_solve`."""
    below, main, above = (each[..., None] for each in _diagonals(diagonals, diagonals_format))
    right = jnp.asarray(as_array(rhs))
    return main * right + above * jnp.roll(right, -1, -2) + below * jnp.roll(right, 1, -2)


@operation
def eigh_tridiagonal(
    alpha: ArrayLike,
    beta: ArrayLike,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: Any = None,
    name: str | None = None,
) -> Any:
    """Return eigenvalues, in ascending order, and if asked the eigenvectors of a matrix with three diagonals.

    Args:
        alpha: The main diagonal.
        beta: The one above it.
        eigvals_only: Whether to return no vectors.
        select: ``"a"`` for all, ``"i"`` for those of numbers in a range, ``"v"`` for values in a range.
        select_range: The range: two numbers; the last one is in it for ``"i"``.
        tol: Unused.
        name: Unused.
    """
    main, beside = jnp.asarray(as_array(alpha)), jnp.asarray(as_array(beta))
    values, vectors = jnp.linalg.eigh(jnp.diag(main) + jnp.diag(beside, 1) + jnp.diag(beside.conj(), -1))
    if select == "i":
        part: Any = slice(int(select_range[0]), int(select_range[1]) + 1)
    elif select == "v":
        there = known(values, "tf.linalg.eigh_tridiagonal with select='v'")
        part = np.flatnonzero((there > select_range[0]) & (there <= select_range[1]))
    elif select == "a":
        part = slice(None)
    else:
        raise ValueError(f"select is 'a', 'i' or 'v', got {select!r}.")
    return values[part] if eigvals_only else (values[part], vectors[:, part])


@operation
def banded_triangular_solve(
    bands: ArrayLike, rhs: ArrayLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Array:
    """Solve equations whose triangular matrices have a few diagonals, of shape (…, diagonals, M)."""
    rows = jnp.asarray(as_array(bands))
    count, size = rows.shape[-2:]
    matrix = jnp.zeros((*rows.shape[:-2], size, size), rows.dtype)
    for k in range(count):
        at = np.arange(k, size) if lower else np.arange(size - k)
        band = rows[..., k if lower else count - 1 - k, :][..., at]
        matrix = matrix.at[..., at, at - k if lower else at + k].set(band)
    right = jnp.asarray(as_array(rhs))
    return jax.lax.linalg.triangular_solve(
        matrix, right, left_side=True, lower=lower, transpose_a=adjoint, conjugate_a=adjoint
    )
