"""An embedding of ids of 64 bits, in a table that grows."""

from typing import Any, Literal

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster._ratios import combined
from muster._row_ids import HASHED_ROWS
from muster.distribute.engine import hashed_initializer
from muster.program.variables import rows_by_id
from muster.ps.tables import Keeping

_ALL_BITS = 0xFFFFFFFF


@keras.saving.register_keras_serializable(package="muster")
class HashEmbedding(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """Embeds ids of 64 bits without a vocabulary: a row is made when an id is first trained.

    It is for the model_fn of an Estimator, beside parameter servers or in one process, and for functions that
    a ``ClusterCoordinator`` schedules, in a model that is created in the scope of a
    ``ParameterServerStrategy``. The table is divided among all servers, and the rows of a batch travel.

    When an Estimator evaluates, predicts or exports, an id without a row has zeros.

    Ids are int32 of any shape S, or what `muster.data.wide_ids` makes of ids of 64 bits: uint32 of shape
    (\\*S, 2). The id -1 is none: its row is zeros, and has no gradient.

    Args:
        dim: The size of a row.
        initializer: What rows begin with: ``RandomUniform``, ``RandomNormal``, ``TruncatedNormal``,
            ``Zeros``, ``Ones`` or ``Constant`` of Keras, or its name. A row depends on its id and the seed.
        admit_after: At which training batch an id gets a row; before, it has zeros.
        max_age: After how many training batches without it an id loses its row; None for never.
        max_rows: The most rows that one server holds; None for any number.
        evict: Which ids lose their rows when there are too many: those not trained for longest
            (``"recently"``), or trained least often (``"frequently"``).
        combiner: How the rows of the last axis of S are combined: ``"sum"``, ``"mean"`` or ``"sqrtn"``; None
            returns each.

    Raises:
        TypeError: The initializer is another one.
        ValueError: A number is not positive, or there is no such combiner.

    Example:
        ```python
        def make_model():  # in the scope of a ParameterServerStrategy
            ids = keras.Input((None, 2), dtype="uint32")  # from muster.data.wide_ids
            rows = muster.layers.HashEmbedding(16, combiner="mean", max_rows=1_000_000)(ids)
            return keras.Model(ids, keras.layers.Dense(1)(rows))
        ```
    """

    def __init__(
        self,
        dim: int,
        initializer: Any = "uniform",
        *,
        admit_after: int = 1,
        max_age: int | None = None,
        max_rows: int | None = None,
        evict: Literal["recently", "frequently"] = "recently",
        combiner: Literal["sum", "mean", "sqrtn"] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if dim < 1:
            raise ValueError(f"dim is {dim}, and must be at least 1.")
        if combiner not in (None, "sum", "mean", "sqrtn"):
            raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', or None, got {combiner!r}.")
        self.dim = dim
        self.combiner = combiner
        self.initializer = keras.initializers.get(initializer)
        self.keeping = Keeping(admit_after=admit_after, max_age=max_age, max_rows=max_rows, evict=evict)
        self._start = hashed_initializer(self.initializer, self.keeping)

    def build(self, *shapes: Any) -> None:
        """Create the variable that stands for the table."""
        self.embeddings = self.add_weight(
            name="embeddings", shape=(HASHED_ROWS, self.dim), initializer=self._start
        )
        self.built = True

    def call(self, ids: Any, weights: Any = None) -> jax.Array:
        """Return the rows of ids.

        Args:
            ids: Of shape S or (\\*S, 2).
            weights: With a combiner, the weight of each id, of shape S; None weighs all alike.

        Returns:
            Of shape (\\*S, dim); with a combiner without the last axis of S, and zeros where no ids are.
        """
        rows, there = rows_by_id(self.embeddings, _pairs(ids))
        rows = rows.astype(self.compute_dtype)
        if self.combiner is None:
            return rows
        weights = jnp.where(there, 1 if weights is None else weights, 0).astype(rows.dtype)
        return combined(rows, weights, self.combiner)

    def compute_output_shape(self, ids_shape: Any, weights_shape: Any = None) -> tuple[int | None, ...]:
        """Return the shape of the output for ids of 32 bits."""
        shape = tuple(ids_shape)
        return (*(shape if self.combiner is None else shape[:-1]), self.dim)

    def compute_output_spec(self, ids: Any, weights: Any = None) -> Any:
        """Return the shape and dtype of the output."""
        shape = ids.shape[:-1] if _is_wide(ids) else ids.shape
        return keras.KerasTensor(self.compute_output_shape(shape), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return what makes an equal layer."""
        return {
            **super().get_config(),
            "dim": self.dim,
            "initializer": keras.initializers.serialize(self.initializer),
            "admit_after": self.keeping.admit_after,
            "max_age": self.keeping.max_age,
            "max_rows": self.keeping.max_rows,
            "evict": self.keeping.evict,
            "combiner": self.combiner,
        }


def _is_wide(ids: Any) -> bool:
    return str(ids.dtype) == "uint32"


def _pairs(given: Any) -> jax.Array:
    """Return the lower and the upper half of ids, uint32 of shape (*S, 2)."""
    ids: jax.Array = jnp.asarray(given)
    if _is_wide(ids):
        if ids.shape[-1:] != (2,):
            raise ValueError(
                "HashEmbedding takes uint32 of shape (..., 2), as muster.data.wide_ids makes them, got "
                f"{ids.shape}. Other ids of 32 bits are int32."
            )
        return ids
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise TypeError(f"HashEmbedding takes integers, got {ids.dtype}. Hash text in the input pipeline.")
    narrow = ids.astype(jnp.int32)
    upper = jnp.where(narrow < 0, jnp.uint32(_ALL_BITS), jnp.uint32(0))
    return jnp.stack([jax.lax.bitcast_convert_type(narrow, jnp.uint32), upper], -1)
