"""``StringLookup`` and ``IntegerLookup`` of ``tf.keras.layers``, without TensorFlow, for input functions.

Keras' lookup layers call TensorFlow. These are functions of NumPy arrays, for `Dataset.map`, since text
cannot enter a model on JAX. They neither hash tokens nor weight them by TF-IDF.
"""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np

from muster._keras import keras
from muster.data import Dataset

Token: TypeAlias = str | int
Vocabulary: TypeAlias = Iterable[Token] | str | os.PathLike[str]
Tokens: TypeAlias = np.ndarray[Any, Any]
_MODES = ("int", "one_hot", "multi_hot", "count")


class IndexLookup(ABC):
    """Maps tokens to their indices in a vocabulary, or indices to tokens.

    Index 0 is the mask token, if there is one and ``output_mode`` is "int". Then follow the OOV token, which
    stands for all tokens out of the vocabulary, and the vocabulary in its order.

    Args:
        max_tokens: The largest size of the vocabulary, including the mask and the OOV token; None for any.
        num_oov_indices: 1, or 0 to refuse tokens out of the vocabulary.
        mask_token: The token that marks padding, or None.
        oov_token: The token that replaces those out of the vocabulary.
        vocabulary: The tokens in order, with or without the special ones, or the path of a file with one per
            line; None if `adapt` or `set_vocabulary` is called later.
        invert: Whether to map indices to tokens.
        output_mode: "int" for indices, "one_hot" for a one-hot row for each token, "multi_hot" and "count"
            for one row for all tokens along the last axis: which there are, or how often.
        unused: TensorFlow's other arguments by name, which may only be None or False.

    Raises:
        ValueError: An argument has another value, or the vocabulary has a token twice or a special token
            among the others.

    Attributes:
        token_type: The type of tokens, which also converts the lines of a vocabulary's file.

    Source: keras/src/layers/preprocessing/index_lookup.py, ``IndexLookup``.
    """

    token_type: type[str] | type[int]

    def __init__(
        self,
        max_tokens: int | None,
        num_oov_indices: int,
        mask_token: Token | None,
        oov_token: Token,
        vocabulary: Vocabulary | None,
        invert: bool,
        output_mode: str,
        unused: Mapping[str, object],
    ) -> None:
        for name, value in unused.items():
            if value is not None and value is not False:
                raise ValueError(f"{name}={value!r} is not available: leave it out.")
        if num_oov_indices not in (0, 1):
            raise ValueError(f"num_oov_indices must be 0 or 1, got {num_oov_indices}: tokens are not hashed.")
        if output_mode not in _MODES or (invert and output_mode != "int"):
            allowed = "'int' with invert=True" if invert else f"one of {_MODES}"
            raise ValueError(f"output_mode must be {allowed}, got {output_mode!r}.")
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(f"If set, max_tokens must be greater than 1, got {max_tokens}.")
        self._max_tokens, self._mask, self._oov = max_tokens, mask_token, oov_token
        self._invert, self._mode = invert, output_mode
        masks = [mask_token] if mask_token is not None and output_mode == "int" else []
        self._oov_number = len(masks) if num_oov_indices else None
        self._special = masks + [oov_token] * num_oov_indices
        self._numbers: dict[Token, int] | None = None
        self._tokens = self.tokens_of([])
        if vocabulary is not None:
            self.set_vocabulary(vocabulary)

    @abstractmethod
    def tokens_of(self, values: object) -> Tokens:
        """Convert values to an array of tokens.

        Raises:
            TypeError: A value is no token.
        """

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Set the vocabulary, in the form of the constructor's argument."""
        if isinstance(vocabulary, str | os.PathLike):
            with open(vocabulary, encoding="utf-8") as lines:
                vocabulary = [self.token_type(line.rstrip("\r\n")) for line in lines]
        tokens = self.tokens_of(list(vocabulary)).tolist()
        if not tokens:
            raise ValueError("Cannot set an empty vocabulary: give its tokens, or call adapt with data.")
        if tokens[: len(self._special)] == self._special:
            tokens = tokens[len(self._special) :]
        if repeated := [token for token, count in Counter(tokens).items() if count > 1]:
            raise ValueError(f"The vocabulary has {repeated[0]!r} more than once.")
        for name, token in [("mask_token", self._mask)] + [("oov_token", self._oov)] * self._invert:
            if token in tokens:
                raise ValueError(f"The {name} {token!r} is also in the vocabulary: choose another.")
        size = len(self._special) + len(tokens)
        if self._max_tokens is not None and size > self._max_tokens:
            raise ValueError(f"The vocabulary has {size} tokens, more than max_tokens={self._max_tokens}.")
        self._take(tokens)

    def adapt(self, data: object, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary from data: by descending frequency, and among equals by descending token.

        Args:
            data: Tokens of any shape, or a Dataset of them.
            batch_size: Unused.
            steps: How many elements of a Dataset to read; None for all.
        """
        elements: Iterable[object] = [data]
        if isinstance(data, Dataset):
            elements = data if steps is None else data.take(steps)
        counts: Counter[Token] = Counter()
        for element in elements:
            counts.update(self.tokens_of(element).ravel().tolist())
        tokens = sorted(
            counts.keys() - {self._mask, self._oov}, key=lambda token: (counts[token], token), reverse=True
        )
        self._take(tokens if self._max_tokens is None else tokens[: self._max_tokens - len(self._special)])

    def _take(self, tokens: list[Token]) -> None:
        self._numbers = {token: number for number, token in enumerate(tokens, len(self._special))}
        # The last one is for numbers that no token has.
        self._tokens = self.tokens_of([*self._special, *tokens, self._oov])

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Token]:
        """Return the tokens in the order of their indices."""
        return [*self._special * include_special_tokens, *(self._numbers or {})]

    def vocabulary_size(self) -> int:
        """Return the number of tokens, including special ones."""
        return len(self.get_vocabulary())

    def __call__(self, inputs: object) -> Tokens:
        """Map tokens to indices, or with ``invert`` indices to tokens.

        Args:
            inputs: Tokens or indices of any shape.

        Returns:
            An array of the shape of the inputs: int64 indices, or tokens. In the other output modes a float32
            array whose last axis has the vocabulary's size. It replaces the last axis of the inputs; with
            "one_hot" it is a new axis, unless the last one has size 1.

        Raises:
            ValueError: There is no vocabulary, or a token is not in it and ``num_oov_indices`` is 0.
            TypeError: An input is no token, or is a value of a model or of a compiled function.
        """
        if isinstance(inputs, keras.KerasTensor | jax.core.Tracer):
            raise TypeError(
                f"{type(self).__name__} takes values of input functions, not of models or of compiled "
                "functions: call it in Dataset.map."
            )
        if self._numbers is None:
            raise ValueError(f"This {type(self).__name__} has no vocabulary: give one, or call adapt.")
        if self._invert:
            numbers, last = np.asarray(inputs), len(self._tokens) - 1
            if numbers.dtype.kind not in "iu":
                raise TypeError(f"With invert=True it takes integers, got {numbers.dtype}: {inputs!r}.")
            return np.asarray(self._tokens[np.where((numbers >= 0) & (numbers < last), numbers, last)])
        values = self.tokens_of(inputs)
        unique, inverse = np.unique(values, return_inverse=True)
        found = np.array([self._number_of(token, self._numbers) for token in unique.tolist()], np.int64)
        return self._encoded(found[inverse].reshape(values.shape))

    def _number_of(self, token: Token, numbers: dict[Token, int]) -> int:
        if self._mask is not None and token == self._mask:
            return 0 if self._mode == "int" else -1
        number = numbers.get(token, self._oov_number)
        if number is None:
            raise ValueError(
                f"{token!r} is not in the vocabulary of {len(numbers)} tokens: num_oov_indices=1 gives such "
                "tokens a number."
            )
        return number

    def _encoded(self, numbers: Tokens) -> Tokens:
        if self._mode == "int":
            return numbers
        rows: Tokens = np.equal(numbers[..., None], np.arange(self.vocabulary_size())).astype(np.float32)
        if numbers.ndim == 0 or (self._mode == "one_hot" and numbers.shape[-1] != 1):
            return rows
        counts: Tokens = rows.sum(axis=-2)
        return counts if self._mode == "count" else counts.clip(max=1)


class StringLookup(IndexLookup):
    """Map words to indices, or indices to words; see `IndexLookup` for the arguments.

    Words are ``str``, or ``bytes`` in ``encoding``. ``name`` is unused.

    Source: keras/src/layers/preprocessing/string_lookup.py, ``StringLookup``.
    """

    token_type = str

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


class IntegerLookup(IndexLookup):
    """Map the integers of a vocabulary to indices, or indices to integers.

    See `IndexLookup` for the arguments; ``vocabulary_dtype`` can only be int64, and ``name`` is unused.

    Source: keras/src/layers/preprocessing/integer_lookup.py, ``IntegerLookup``.
    """

    token_type = int

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
