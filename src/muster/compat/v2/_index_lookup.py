"""Tokens as numbers, and back, for input functions: NumPy, without TensorFlow.

Keras' own lookup layers call TensorFlow. These are no layers but functions of arrays, for `Dataset.map`: text
cannot enter a model on JAX. There is no hashing, and there are no tf-idf weights.
"""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

import jax
import numpy as np

from muster._keras import keras
from muster.data import Dataset

Vocabulary: TypeAlias = Iterable[Any] | str | os.PathLike[str]
Tokens: TypeAlias = np.ndarray[Any, Any]
_MODES = ("int", "one_hot", "multi_hot", "count")


class IndexLookup(ABC):
    """Turns the tokens of a vocabulary into numbers, or numbers into tokens.

    The number of a token is its place: first that of the mask, if there is one and ``output_mode`` is "int",
    then that of tokens out of the vocabulary (OOV), then those of the vocabulary.

    Args:
        max_tokens: how many tokens there are at most, with the special ones; None for any number.
        num_oov_indices: 0 or 1; with 0 tokens out of the vocabulary are refused.
        mask_token: what stands for no token.
        oov_token: what stands for a token out of the vocabulary.
        vocabulary: the tokens in order, with or without the special ones, or a file with one a line; None to
            call `adapt` or `set_vocabulary` later.
        invert: whether numbers become tokens.
        output_mode: "int" for numbers, "one_hot" for a row of zeros and a one for each token, "multi_hot" and
            "count" for one row for all tokens along the last axis.
        unused: arguments of TensorFlow's by name, which may ask for nothing.

    Raises:
        ValueError: An argument is not among these, or the vocabulary has a token twice or a special one
            among the others.

    Source: keras/src/layers/preprocessing/index_lookup.py, ``IndexLookup``.
    """

    def __init__(
        self,
        max_tokens: int | None,
        num_oov_indices: int,
        mask_token: Any,
        oov_token: Any,
        vocabulary: Vocabulary | None,
        invert: bool,
        output_mode: str,
        **unused: Any,
    ) -> None:
        for name, value in unused.items():
            if value is not None and value is not False:
                raise ValueError(f"{name}={value!r} is not there: leave it away.")
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
        self._oov_place = len(masks) if num_oov_indices else None
        self._special = masks + [oov_token] * num_oov_indices
        self._places: dict[Any, int] | None = None
        self._by_place = self.tokens_of([])
        if vocabulary is not None:
            self.set_vocabulary(vocabulary)

    @abstractmethod
    def tokens_of(self, values: Any) -> Tokens:
        """Values as an array of tokens; raises a TypeError if they are none."""

    @abstractmethod
    def token_of(self, line: str) -> Any:
        """The token of a line of a vocabulary's file."""

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Take a vocabulary, as the argument of this name."""
        if isinstance(vocabulary, str | os.PathLike):
            with open(vocabulary, encoding="utf-8") as lines:
                vocabulary = [self.token_of(line.rstrip("\r\n")) for line in lines]
        tokens = self.tokens_of(list(vocabulary)).tolist()
        if not tokens:
            raise ValueError("Cannot set an empty vocabulary: give its tokens, or call adapt with data.")
        if tokens[: len(self._special)] == self._special:
            tokens = tokens[len(self._special) :]
        if repeated := [token for token, count in Counter(tokens).items() if count > 1]:
            raise ValueError(f"The vocabulary has {repeated[0]!r} more than once.")
        for name, token in [("mask_token", self._mask)] + [("oov_token", self._oov)] * self._invert:
            if token in tokens:
                raise ValueError(f"The {name} {token!r} is among the vocabulary: choose another.")
        size = len(self._special) + len(tokens)
        if self._max_tokens is not None and size > self._max_tokens:
            raise ValueError(f"The vocabulary has {size} tokens, more than max_tokens={self._max_tokens}.")
        self._take(tokens)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Take the tokens of data as the vocabulary: frequent ones first, then those that sort last.

        Args:
            data: tokens of any shape, or a Dataset of such.
            batch_size: accepted for TensorFlow's programs.
            steps: how many elements of a Dataset to read; None for all.
        """
        elements: Iterable[Any] = [data]
        if isinstance(data, Dataset):
            elements = data if steps is None else data.take(steps)
        counts: Counter[Any] = Counter()
        for element in elements:
            counts.update(self.tokens_of(element).ravel().tolist())
        for special in (self._mask, self._oov):
            counts.pop(special, None)
        tokens = sorted(counts, key=lambda token: (counts[token], token), reverse=True)
        self._take(tokens if self._max_tokens is None else tokens[: self._max_tokens - len(self._special)])

    def _take(self, tokens: list[Any]) -> None:
        self._places = {token: place for place, token in enumerate(tokens, len(self._special))}
        others = [self._oov]  # numbers that no token has
        self._by_place = self.tokens_of(self._special + tokens + others)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The tokens in the order of their numbers."""
        return [*self._special * include_special_tokens, *(self._places or {})]

    def vocabulary_size(self) -> int:
        """How many numbers there are, with those of the special tokens."""
        return len(self.get_vocabulary())

    def __call__(self, inputs: Any) -> Tokens:
        """The numbers of tokens, or with ``invert`` the tokens of numbers.

        Args:
            inputs: of any shape.

        Returns:
            int64, or tokens, of the shape of the inputs. In the other output modes float32, with an axis of
            the vocabulary's size in the place of the last one, or after it with "one_hot" unless that has
            size 1.

        Raises:
            ValueError: There is no vocabulary, or a token is not in it and ``num_oov_indices`` is 0.
            TypeError: They are no tokens, or values of a model or of a compiled function.
        """
        if isinstance(inputs, keras.KerasTensor | jax.core.Tracer):
            raise TypeError(
                f"{type(self).__name__} takes values of input functions, not of models or of compiled "
                "functions: call it in Dataset.map."
            )
        if self._places is None:
            raise ValueError(f"This {type(self).__name__} has no vocabulary: give one, or call adapt.")
        if self._invert:
            numbers, last = np.asarray(inputs), len(self._by_place) - 1
            if numbers.dtype.kind not in "iu":
                raise TypeError(f"With invert=True it takes integers, got {numbers.dtype}: {inputs!r}.")
            return np.asarray(self._by_place[np.where((numbers >= 0) & (numbers < last), numbers, last)])
        values = self.tokens_of(inputs)
        different, which = np.unique(values, return_inverse=True)
        found = np.array([self._place(token, self._places) for token in different.tolist()], np.int64)
        return self._encoded(found[which].reshape(values.shape))

    def _place(self, token: Any, places: dict[Any, int]) -> int:
        if self._mask is not None and token == self._mask:
            return 0 if self._mode == "int" else -1
        place = places.get(token, self._oov_place)
        if place is None:
            raise ValueError(
                f"{token!r} is not in the vocabulary of {len(places)} tokens: num_oov_indices=1 gives such "
                "tokens a number."
            )
        return place

    def _encoded(self, numbers: Tokens) -> Tokens:
        if self._mode == "int":
            return numbers
        rows: Tokens = np.equal(numbers[..., None], np.arange(self.vocabulary_size())).astype(np.float32)
        if numbers.ndim == 0 or (self._mode == "one_hot" and numbers.shape[-1] != 1):
            return rows
        counts: Tokens = rows.sum(axis=-2)
        return counts if self._mode == "count" else counts.clip(max=1)
