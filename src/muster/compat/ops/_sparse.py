"""``tf.sparse``: sparse tensors of input functions, and what Keras' layers give with ``sparse=True``."""

from typing import Any

from jax.experimental.sparse import BCOO

from muster.data import SparseTensor


def to_dense(
    sp_input: SparseTensor | BCOO,
    default_value: Any = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """Return the array, with a value for its empty places.

    Args:
        sp_input: A sparse tensor; or one of JAX, as layers give it with ``sparse=True``.
        default_value: The value; None is 0, or empty text. Of a sparse tensor of JAX, only 0.
        validate_indices: Unused.
        name: Unused.

    Raises:
        ValueError: Empty places of a sparse tensor of JAX are to have another value than 0.

    Source: tensorflow/python/ops/sparse_ops.py, ``sparse_tensor_to_dense``.
    """
    if not isinstance(sp_input, BCOO):
        return sp_input.to_dense(default_value)
    if default_value:
        raise ValueError(f"default_value must be 0 for what a layer gives, got {default_value!r}.")
    return sp_input.todense()
