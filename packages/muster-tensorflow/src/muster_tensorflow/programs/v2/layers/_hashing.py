"""``Hashing`` and ``HashedCrossing`` of ``tf.keras.layers``, without TensorFlow: buckets are TensorFlow's."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster import keras
from muster.feature_column import buckets, crossed_column
from muster_tensorflow.library.ops.text._keyed_hash import keyed_hash
from muster_tensorflow.programs.v2.layers._host_layer import HostLayer, symbolic
from muster_tensorflow.programs.v2.layers._lookups import MODES, encoded, encoded_shape


@keras.saving.register_keras_serializable("muster")
class Hashing(HostLayer):
    """Map text or integers to buckets by their fingerprints, on the host.

    Args:
        num_bins: The number of buckets.
        mask_value: What goes to bucket 0, which nothing else then goes to; None for nothing.
        salt: The key of another hash, one integer or two; None for fingerprints.
        output_mode: "int" for buckets, or "one_hot", "multi_hot" or "count", as of `StringLookup`.
        sparse: Only False.
        name: The layer's name; None makes one of the class.
        kwargs: Further arguments of `HostLayer`.

    Raises:
        ValueError: An argument has another value.

    Source: keras/src/layers/preprocessing/hashing.py.
    """

    def __init__(
        self,
        num_bins: int,
        mask_value: Any = None,
        salt: Any = None,
        output_mode: str = "int",
        sparse: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        if num_bins is None or num_bins <= 0:
            raise ValueError(f"num_bins must be at least 1, got {num_bins!r}.")
        if sparse:
            raise ValueError("Hashing takes no sparse=True: rows are dense.")
        if salt is not None and np.shape(salt) not in ((), (2,)):
            raise ValueError(f"salt must be an integer or two, got {salt!r}.")
        if output_mode not in MODES:
            raise ValueError(f"output_mode must be one of {MODES}, got {output_mode!r}.")
        self.num_bins, self.mask_value, self.output_mode = num_bins, mask_value, output_mode
        self.salt: list[int] | None = None if salt is None else np.resize(salt, 2).tolist()

    def call(self, inputs: Any) -> Any:
        """Map values.

        Args:
            inputs: Text or numbers of any shape; of fractions the whole part counts.

        Returns:
            An array as of `StringLookup`.
        """
        values = np.asarray(inputs)
        masked = self.mask_value is not None and self.num_bins > 1
        hashed = values.astype(np.int64) if values.dtype.kind == "f" else values
        found = self._buckets(hashed.ravel(), self.num_bins - masked).reshape(values.shape)
        if masked:
            found = np.where(values == self.mask_value, 0, found + 1)
        return encoded(found, self.output_mode, self.num_bins)

    def compute_output_spec(self, inputs: Any) -> Any:
        """Return what stands for the results in a model."""
        return _spec(inputs.shape, self.output_mode, self.num_bins)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer."""
        return {
            "name": self.name,
            "num_bins": self.num_bins,
            "mask_value": self.mask_value,
            "salt": self.salt,
            "output_mode": self.output_mode,
        }

    def _buckets(self, values: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
        if self.salt is None:
            return buckets(values, count)
        unique, inverse = np.unique(values, return_inverse=True)
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in unique.tolist()]
        hashes = keyed_hash(texts, (self.salt[0], self.salt[1])) % np.uint64(count)
        return hashes.astype(np.int64)[inverse]


@keras.saving.register_keras_serializable("muster")
class HashedCrossing(HostLayer):
    """Map combinations of the values of several features to buckets, on the host.

    Args:
        num_bins: The number of buckets.
        output_mode: "int" for buckets, or "one_hot".
        sparse: Only False.
        name: The layer's name; None makes one of the class.
        kwargs: Further arguments of `HostLayer`.

    Raises:
        ValueError: An argument has another value.

    Source: keras/src/layers/preprocessing/hashed_crossing.py.
    """

    def __init__(
        self,
        num_bins: int,
        output_mode: str = "int",
        sparse: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        if sparse:
            raise ValueError("HashedCrossing takes no sparse=True: rows are dense.")
        if output_mode not in ("int", "one_hot"):
            raise ValueError(f"output_mode must be 'int' or 'one_hot', got {output_mode!r}.")
        self.num_bins, self.output_mode = num_bins, output_mode

    def call(self, inputs: Any) -> Any:
        """Map combinations.

        Args:
            inputs: Two or more arrays of text or integers, of one shape: (), (n,) or (n, 1).

        Returns:
            An array as of `StringLookup`.

        Raises:
            ValueError: There are fewer arrays, or their shapes differ.
        """
        arrays = [*map(np.asarray, inputs)] if isinstance(inputs, list | tuple) else []
        if len(arrays) < 2 or len({each.shape for each in arrays}) > 1:
            raise ValueError(
                "HashedCrossing takes a list of two or more arrays of one shape, got "
                f"{[each.shape for each in arrays] or type(inputs).__name__}."
            )
        features = {str(number): each.reshape(-1, 1) for number, each in enumerate(arrays)}
        found = crossed_column(list(features), self.num_bins).sparse_ids(features).ids.values
        return encoded(found.reshape(arrays[0].shape), self.output_mode, self.num_bins)

    def compute_output_spec(self, inputs: Sequence[Any]) -> Any:
        """Return what stands for the results in a model."""
        return _spec(inputs[0].shape, self.output_mode, self.num_bins)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer."""
        return {"name": self.name, "num_bins": self.num_bins, "output_mode": self.output_mode}


def _spec(shape: Any, mode: str, size: int) -> Any:
    if mode == "int":
        return symbolic(tuple(shape), "int64")
    return symbolic(encoded_shape(tuple(shape), mode, size), "float32")
