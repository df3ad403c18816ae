"""``StringLookup`` and ``IntegerLookup`` of ``tf.keras.layers``, for input functions."""

import numpy as np

from muster.compat.v2._index_lookup import IndexLookup, Tokens, Vocabulary


class StringLookup(IndexLookup):
    """Turn words into numbers, or numbers into words; see `IndexLookup` for the arguments.

    Words are ``str``, or ``bytes`` in ``encoding``. ``name`` is unused.

    Source: keras/src/layers/preprocessing/string_lookup.py, ``StringLookup``.
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: str | None = None,
        oov_token: str = "[UNK]",
        vocabulary: Vocabulary | None = None,
        idf_weights: None = None,
        invert: bool = False,
        output_mode: str = "int",
        pad_to_max_tokens: bool = False,
        sparse: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
    ) -> None:
        self._encoding = encoding
        unused = {"idf_weights": idf_weights, "pad_to_max_tokens": pad_to_max_tokens, "sparse": sparse}
        super().__init__(
            max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, invert, output_mode, unused
        )

    def tokens_of(self, values: object) -> Tokens:
        """Convert values to an array of ``str``."""
        array = np.asarray(values)
        words = [w.decode(self._encoding) if isinstance(w, bytes) else w for w in array.ravel().tolist()]
        if wrong := [word for word in words if not isinstance(word, str)]:
            raise TypeError(f"StringLookup takes str or bytes, got {type(wrong[0]).__name__}: {wrong[0]!r}.")
        return np.array(words, str).reshape(array.shape)

    def token_of(self, line: str) -> str:
        """Return the line."""
        return line


class IntegerLookup(IndexLookup):
    """Turn integers of a vocabulary into numbers from 0 on, or these into integers of the vocabulary.

    See `IndexLookup` for the arguments; ``vocabulary_dtype`` can only be int64, and ``name`` is unused.

    Source: keras/src/layers/preprocessing/integer_lookup.py, ``IntegerLookup``.
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int = -1,
        vocabulary: Vocabulary | None = None,
        vocabulary_dtype: str = "int64",
        idf_weights: None = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        name: str | None = None,
    ) -> None:
        if vocabulary_dtype != "int64":
            raise ValueError(f"vocabulary_dtype must be 'int64', got {vocabulary_dtype!r}.")
        unused = {"idf_weights": idf_weights, "pad_to_max_tokens": pad_to_max_tokens, "sparse": sparse}
        super().__init__(
            max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, invert, output_mode, unused
        )

    def tokens_of(self, values: object) -> Tokens:
        """Convert values to an array of int64."""
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"IntegerLookup takes integers, got {array.dtype}: {array.flat[0]!r}.")
        return array.astype(np.int64)

    def token_of(self, line: str) -> int:
        """Return the number in the line."""
        return int(line)
