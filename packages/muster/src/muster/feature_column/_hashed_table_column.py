"""``categorical_column_with_hashed_table``: ids of 64 bits, whose rows are in tables that grow."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from muster._row_ids import HASHED_ROWS, NO_ID
from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._feature_column import ValuesByKey
from muster.feature_column._fingerprint import fingerprint64
from muster.feature_column._host_values import Features, IdsAndWeights, is_text, sparse_feature
from muster.feature_column._id_columns import checked_dtype, checked_key, string_or_integer

# A text with the fingerprint of no id: there is no other with this one that anybody knows.
_INSTEAD = np.int64(-2)


@dataclass(frozen=True, kw_only=True)
class HashedTableColumn(ValuesByKey, CategoricalColumn):
    """A column of ids of 64 bits, made and checked by `categorical_column_with_hashed_table`.

    Args:
        key: The key of the feature.
        dtype: That of text, or of integers.
        admit_after: As of ``HashEmbedding``, and so the following.
        max_age: See there.
        max_rows: See there.
        evict: See there.
    """

    key: str
    dtype: np.dtype[Any]
    admit_after: int
    max_age: int | None
    max_rows: int | None
    evict: Literal["recently", "frequently"]

    @property
    def num_buckets(self) -> int:
        """The number of rows that programs see: more than there can be."""
        return HASHED_ROWS

    @property
    def hashed_table(self) -> "HashedTableColumn":
        """The column itself."""
        return self

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the ids of the feature's values.

        Raises:
            ValueError: The feature is absent, or has another kind of values than the column.
        """
        values = string_or_integer(sparse_feature(features, self.key), self.key, self.dtype)
        given = values.plain_values
        if is_text(given.dtype):
            ids = fingerprint64(given.tolist()).view(np.int64)
            ids = np.where(ids == NO_ID, _INSTEAD, ids)
        else:
            ids = given.astype(np.int64)
        return IdsAndWeights(values.with_values(ids), None)


def categorical_column_with_hashed_table(
    key: str,
    dtype: DTypeLike = str,
    *,
    admit_after: int = 1,
    max_age: int | None = None,
    max_rows: int | None = None,
    evict: Literal["recently", "frequently"] = "recently",
) -> HashedTableColumn:
    """Return a column of any text or integers, without a vocabulary or a number of buckets.

    ``embedding_column``, ``shared_embeddings`` and linear models keep a row for each id that was trained, in
    tables that grow: beside parameter servers on these, else in the process that trains. Ids are the
    integers themselves, and 64-bit fingerprints of text, so that two texts share one hardly ever. In arrays,
    empty text and -1 stand for no value.

    In evaluation, prediction and exported models, an id without a row counts as none: its row is zeros.

    Args:
        key: The key of the feature, and the name of the column.
        dtype: That of text, or one of integers.
        admit_after: At which training batch that has it an id gets a row; before, it has zeros.
        max_age: After how many training batches without it an id loses its row; None for never.
        max_rows: The most rows that one server holds; None for any number.
        evict: Which ids lose their rows when there are too many: those not trained for longest
            (``"recently"``), or trained least often (``"frequently"``).

    Raises:
        ValueError: The key is not text, the dtype is another, or a number is not positive.
    """
    checked_key(key)
    for name, value in (("admit_after", admit_after), ("max_age", max_age), ("max_rows", max_rows)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1. {name}: {value}, key: {key}")
    if evict not in ("recently", "frequently"):
        raise ValueError(f"evict must be 'recently' or 'frequently'. evict: {evict!r}, key: {key}")
    return HashedTableColumn(
        key=key,
        dtype=checked_dtype(dtype, f"column_name: {key}"),
        admit_after=admit_after,
        max_age=max_age,
        max_rows=max_rows,
        evict=evict,
    )
