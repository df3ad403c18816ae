"""Products of arrays: ``lax.dot_general_p``.

A dense layer's kernel has a gradient that sums over batch and time. XLA's CPU compiler joins these two
dimensions only after it has put them last, and computes what the layer's input comes from once more in that
order, slowly: in a network of residual blocks, all that was added up before.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from muster.cpu._kernels import call, computes

Sizes = tuple[int, ...]
MANY_ROWS, SEVERAL_COLUMNS, LEAST_PRODUCTS = 1024, 32, 2**24
"""oneDNN computes products of so many rows, of so many columns each, with so many multiplications."""
OVER_ROWS, BY_ROWS, BY_ROWS_TRANSPOSED = range(3)
_ALGORITHMS = frozenset(
    getattr(lax.DotAlgorithmPreset, name)
    for name in (
        "DEFAULT",
        "F16_F16_F16",
        "F32_F32_F32",
        "F64_F64_F64",
        "BF16_BF16_F32",
        "BF16_BF16_F32_X3",
        "BF16_BF16_F32_X6",
    )
)


def check_algorithm(precision: lax.PrecisionLike) -> None:
    """Refuse the algorithms that JAX's rule for CPUs refuses: XLA would ignore them.

    Raises:
        ValueError: It is one of those.
    """
    if isinstance(precision, lax.DotAlgorithm | lax.DotAlgorithmPreset) and precision not in _ALGORITHMS:
        raise ValueError(f"The precision '{precision}' is not supported by dot_general on CPU")


def dot(
    lhs: jax.core.ShapedArray,
    rhs: jax.core.ShapedArray,
    *,
    dimension_numbers: tuple[tuple[Sizes, Sizes], tuple[Sizes, Sizes]],
    precision: lax.PrecisionLike,
    preferred_element_type: jax.typing.DTypeLike | None,
    out_sharding: jax.sharding.Sharding | None,
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """Choose how to compute ``dot_general``; see ``Chooser``.

    Args:
        lhs: The aval of an operand.
        rhs: The aval of the other.
        dimension_numbers: As for ``lax.dot_general``.
    """
    contracted, batched = dimension_numbers
    if (
        lhs.dtype != jnp.float32
        or rhs.dtype != jnp.float32
        or preferred_element_type not in (None, jnp.float32)
        or isinstance(precision, lax.DotAlgorithm | lax.DotAlgorithmPreset)
        or out_sharding is not None
        or any(batched)
        or not all(contracted)
        or not all(map(_follow_each_other, contracted))
        or 0 in (*lhs.shape, *rhs.shape)
    ):
        return None
    if (spec := _of_rows(lhs, rhs, contracted)) is not None:
        return partial(_by_onednn, spec=spec, shape=_result_shape(lhs, rhs, contracted))
    return partial(_joined, dimensions=contracted, precision=precision) if len(contracted[0]) > 1 else None


def _follow_each_other(dimensions: Sequence[int]) -> bool:
    return tuple(dimensions) == tuple(range(dimensions[0], dimensions[0] + len(dimensions)))


def _of_rows(
    lhs: jax.core.ShapedArray, rhs: jax.core.ShapedArray, contracted: tuple[Sizes, Sizes]
) -> Sizes | None:
    """Return what oneDNN computes, if ``lhs`` has many rows: of all its columns, or a sum over the rows."""
    summed = len(contracted[0])
    first, second = contracted[0][0], contracted[1][0]
    sizes = math.prod(lhs.shape[:summed]), math.prod(lhs.shape[summed:]), math.prod(rhs.shape[summed:])
    kind = OVER_ROWS
    if first or second:
        if first + summed != lhs.ndim or second not in (0, rhs.ndim - summed):
            return None
        kind = BY_ROWS_TRANSPOSED if second else BY_ROWS
        inner = math.prod(lhs.shape[first:])
        sizes = math.prod(lhs.shape[:first]), inner, math.prod(rhs.shape) // inner
    if sizes[0] < MANY_ROWS or min(sizes[1:]) < SEVERAL_COLUMNS or math.prod(sizes) < LEAST_PRODUCTS:
        return None
    spec = kind, *sizes
    return spec if computes("product", spec) else None


def _result_shape(
    lhs: jax.core.ShapedArray, rhs: jax.core.ShapedArray, contracted: tuple[Sizes, Sizes]
) -> Sizes:
    free = ([size for dim, size in enumerate(aval.shape) if dim not in dims]
            for aval, dims in zip((lhs, rhs), contracted, strict=True))  # fmt: skip
    return tuple(size for sizes in free for size in sizes)


def _by_onednn(lhs: jax.Array, rhs: jax.Array, *, spec: Sizes, shape: Sizes) -> jax.Array:
    (found,) = call("product", spec, [jax.ShapeDtypeStruct(shape, jnp.float32)], lhs, rhs)
    return found


def _joined(
    lhs: jax.Array, rhs: jax.Array, *, dimensions: tuple[Sizes, Sizes], precision: lax.PrecisionLike
) -> jax.Array:
    """Compute the product with the dimensions to sum over joined to one, in their place."""

    def joined(x: jax.Array, dims: Sizes) -> jax.Array:
        before, after = x.shape[: dims[0]], x.shape[dims[-1] + 1 :]
        return x.reshape(*before, math.prod(x.shape[dim] for dim in dims), *after)

    first, second = dimensions
    numbers = ((first[0],), (second[0],)), ((), ())
    return lax.dot_general(joined(lhs, first), joined(rhs, second), numbers, precision=precision)
