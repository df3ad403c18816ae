"""``StringLookup`` and ``IntegerLookup`` of ``tf.keras.layers``, without TensorFlow.

Keras' lookup layers call TensorFlow. These compute on the host: in `Dataset.map`, in eager code, and before
the steps of models that have them.
"""

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from muster import keras
from muster.data import Dataset, RaggedTensor
from muster.extend import local_path
from muster.feature_column import buckets
from muster_tensorflow.programs.v2.layers._host_layer import (
    HostLayer,
    no_vocabulary_yet,
    on_example,
    symbolic,
)

Token: TypeAlias = str | int
Vocabulary: TypeAlias = Iterable[Token] | str | os.PathLike[str]
Tokens: TypeAlias = np.ndarray[Any, Any]
MODES = ("int", "one_hot", "multi_hot", "count")
_OLD_MODES = {"binary": "multi_hot", "tf-idf": "tf_idf"}


class IndexLookup(HostLayer):
    """Maps tokens to their indices in a vocabulary, or indices to tokens.

    Index 0 is the mask token, if there is one and ``output_mode`` is "int". Then follow the OOV tokens, which
    stand for all tokens out of the vocabulary, and the vocabulary in its order.

    Args:
        max_tokens: The largest size of the vocabulary, including the mask and the OOV token; None for any.
        num_oov_indices: The number of indices that share the tokens out of the vocabulary, text by its hash
            and integers by their remainder; 0 refuses such tokens.
        mask_token: The token that marks padding, or None.
        oov_token: The token that replaces those out of the vocabulary.
        vocabulary: The tokens in order, with or without the special ones, or the path of a file with one per
            line; None if `adapt` or `set_vocabulary` is called later.
        invert: Whether to map indices to tokens.
        output_mode: "int" for indices, "one_hot" for a one-hot row for each token, "multi_hot" and "count"
            for one row for all tokens along the last axis: which there are, or how often. "tf_idf" is "count"
            times a weight of each token. "binary" is the old name of "multi_hot".
        idf_weights: In the mode "tf_idf" the weights of the vocabulary; None if `adapt` is called.
        pad_to_max_tokens: Whether rows have `max_tokens` columns.
        sparse: Only False.
        name: The layer's name; None makes one of the class.
        kwargs: Further arguments of `HostLayer`.

    Raises:
        ValueError: An argument has another value, the vocabulary has a token twice or a special token among
            the others, or there is not a weight for each of its tokens.

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
        idf_weights: Sequence[float] | None,
        pad_to_max_tokens: bool,
        sparse: bool,
        name: str | None,
        kwargs: Mapping[str, Any],
    ) -> None:
        super().__init__(name, **kwargs)
        if sparse:
            raise ValueError("sparse=True is not available: rows are dense.")
        if num_oov_indices < 0:
            raise ValueError(f"num_oov_indices must be at least 0, got {num_oov_indices}.")
        output_mode = mode_of(output_mode)
        modes = (*MODES, "tf_idf")
        if output_mode not in modes or (invert and output_mode != "int"):
            allowed = "'int' with invert=True" if invert else f"one of {modes}"
            raise ValueError(f"output_mode must be {allowed}, got {output_mode!r}.")
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(f"If set, max_tokens must be greater than 1, got {max_tokens}.")
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError("pad_to_max_tokens=True needs max_tokens, the number of columns.")
        self._max_tokens, self._mask, self._oov = max_tokens, mask_token, oov_token
        self._pads, self._oov_count = pad_to_max_tokens, num_oov_indices
        self._invert, self._mode = invert, output_mode
        masks = [mask_token] if mask_token is not None and output_mode == "int" else []
        self._oov_number = len(masks) if num_oov_indices else None
        self._special = (*masks, *[oov_token] * num_oov_indices)
        self._numbers: Mapping[Token, int] | None = None
        self._weights: Tokens | None = None
        self._tokens = self.tokens_of([])
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    @abstractmethod
    def tokens_of(self, values: object) -> Tokens:
        """Convert values to an array of tokens.

        Raises:
            TypeError: A value is no token.
        """

    def set_vocabulary(self, vocabulary: Vocabulary, idf_weights: Sequence[float] | None = None) -> None:
        """Set the vocabulary, and its weights for "tf_idf", in the form of the constructor's arguments."""
        if isinstance(vocabulary, str | os.PathLike):
            with open(local_path(vocabulary), encoding="utf-8") as lines:
                vocabulary = [self.token_type(line.rstrip("\r\n")) for line in lines]
        tokens = self.tokens_of(list(vocabulary)).tolist()
        if not tokens:
            raise ValueError("Cannot set an empty vocabulary: give its tokens, or call adapt with data.")
        if tuple(tokens[: len(self._special)]) == self._special:
            tokens = tokens[len(self._special) :]
        if repeated := [token for token, count in Counter(tokens).items() if count > 1]:
            raise ValueError(f"The vocabulary has {repeated[0]!r} more than once.")
        for name, token in [("mask_token", self._mask)] + [("oov_token", self._oov)] * self._invert:
            if token in tokens:
                raise ValueError(f"The {name} {token!r} is also in the vocabulary: choose another.")
        if self._mode == "tf_idf" and (idf_weights is None or len(idf_weights) != len(tokens)):
            raise ValueError(f"tf_idf needs a weight for each of {len(tokens)} tokens, got {idf_weights!r}.")
        size = len(self._special) + len(tokens)
        if self._max_tokens is not None and size > self._max_tokens:
            raise ValueError(f"The vocabulary has {size} tokens, more than max_tokens={self._max_tokens}.")
        self._take(tokens)
        self._weigh(idf_weights)

    def adapt(self, data: object, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary from data: by descending frequency, and among equals by descending token.

        Args:
            data: Tokens of any shape, also of rows of different lengths, or a Dataset of them. For "tf_idf" a
                row along the last axis is a document.
            batch_size: Unused.
            steps: How many elements of a Dataset to read; None for all.
        """
        elements: Iterable[object] = [data]
        if isinstance(data, Dataset):
            elements = data if steps is None else data.take(steps)
        documents = 0
        with_token: Counter[Token] = Counter()

        def tokens() -> Iterable[Token]:
            nonlocal documents
            for each in elements:
                for row in self._rows(each):
                    documents += 1
                    with_token.update(set(row))
                    yield from row

        self.adapt_to(tokens())
        if self._mode == "tf_idf":
            counts = np.array([with_token[token] for token in self.get_vocabulary(False)])
            self._weigh(np.log(1 + documents / (1 + counts)))

    def _rows(self, element: object) -> list[list[Token]]:
        """Return the tokens of an element of data: those along its last axis."""
        if isinstance(element, RaggedTensor):
            return [self.tokens_of(row).tolist() for row in element.rows()]
        array = self.tokens_of(element)
        rows: list[list[Token]] = array.reshape(-1, array.shape[-1] if array.ndim > 1 else 1).tolist()
        return rows

    def _weigh(self, weights: Any) -> None:
        """Set the weights of the vocabulary; tokens out of it have the mean."""
        if self._mode == "tf_idf":
            found = np.asarray(weights, np.float32)
            self._weights = np.append(np.full(self._oov_count, found.mean(), np.float32), found)

    def adapt_to(self, tokens_in_data: Iterable[Token]) -> None:
        """Learn the vocabulary as `adapt` does."""
        counts = Counter(tokens_in_data)
        tokens = sorted(
            counts.keys() - {self._mask, self._oov}, key=lambda token: (counts[token], token), reverse=True
        )
        self._take(tokens if self._max_tokens is None else tokens[: self._max_tokens - len(self._special)])

    def _take(self, tokens: list[Token]) -> None:
        numbers = {token: number for number, token in enumerate(tokens, len(self._special))}
        self._numbers = MappingProxyType(numbers)  # of a dict, Keras would make one that watches each item
        # The last one is for numbers that no token has.
        self._tokens = self.tokens_of([*self._special, *tokens, self._oov])

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Token]:
        """Return the tokens in the order of their indices."""
        return [*self._special * include_special_tokens, *(self._numbers or {})]

    def vocabulary_size(self) -> int:
        """Return the number of tokens, including special ones."""
        return len(self._special) + len(self._numbers or ())

    vocab_size = vocabulary_size  # its name before TensorFlow 2.6

    def call(self, inputs: Any) -> Any:
        """Map tokens to indices, or with ``invert`` indices to tokens.

        Args:
            inputs: Tokens or indices of any shape; of a RaggedTensor the values are mapped.

        Returns:
            An array of the shape of the inputs: int64 indices, or tokens. In the other output modes a float32
            array whose last axis has the vocabulary's size. It replaces the last axis of the inputs; with
            "one_hot" it is a new axis, unless the last one has size 1.

        Raises:
            ValueError: There is no vocabulary, or a token is not in it and ``num_oov_indices`` is 0.
            TypeError: An input is no token.
        """
        if isinstance(inputs, RaggedTensor) and self._mode in ("int", "one_hot"):
            return inputs.with_flat_values(self.call(inputs.plain_values))
        if isinstance(inputs, RaggedTensor):
            return np.stack([self.call(row) for row in inputs.rows()])
        if self._invert:
            if self._numbers is None:
                raise self._no_vocabulary()
            numbers, last = np.asarray(inputs), len(self._tokens) - 1
            if numbers.dtype.kind not in "iu":
                raise TypeError(f"With invert=True it takes integers, got {numbers.dtype}: {inputs!r}.")
            return np.asarray(self._tokens[np.where((numbers >= 0) & (numbers < last), numbers, last)])
        values = self.tokens_of(inputs)
        found = np.array(self.numbers_of(values.ravel().tolist()), np.int64).reshape(values.shape)
        rows = encoded(found, self._mode, self._width())
        if self._weights is not None:
            rows[..., : len(self._weights)] *= self._weights
        return rows

    def compute_output_spec(self, inputs: Any) -> Any:
        """Return what stands for the results in a model."""
        shape = tuple(inputs.shape)
        if self._mode == "int":
            return symbolic(shape, "string" if self._invert and self.token_type is str else "int64")
        if self._numbers is None and not self._pads:
            raise no_vocabulary_yet(self, self._mode)
        return symbolic(encoded_shape(shape, self._mode, self._width()), "float32")

    def _width(self) -> int:
        return self._max_tokens if self._pads and self._max_tokens else self.vocabulary_size()

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer, with its vocabulary."""
        return {
            "name": self.name,
            "max_tokens": self._max_tokens,
            "num_oov_indices": self._oov_count,
            "mask_token": self._mask,
            "oov_token": self._oov,
            "vocabulary": None if self._numbers is None else self.get_vocabulary(False),
            "invert": self._invert,
            "output_mode": self._mode,
            "idf_weights": None if self._weights is None else self._weights[self._oov_count :].tolist(),
            "pad_to_max_tokens": self._pads,
        }

    def numbers_of(self, tokens: Sequence[Token]) -> list[int]:
        """Return the index of each token, or -1 for the mask token in modes that do not count it.

        Raises:
            ValueError: There is no vocabulary, or a token is not in it and ``num_oov_indices`` is 0.
        """
        if self._numbers is None:
            raise self._no_vocabulary()
        find, other = self._numbers.get, self._oov_number if self._oov_count == 1 else None
        if self._mask is None:
            found = [find(token, other) for token in tokens]
        else:
            mask, masked = self._mask, 0 if self._mode == "int" else -1
            found = [masked if token == mask else find(token, other) for token in tokens]
        if other is None and None in found:
            unknown = [token for token, number in zip(tokens, found, strict=True) if number is None]
            others = iter(self._numbers_out_of_it(unknown))
            found = [next(others) if number is None else number for number in found]
        return found  # type: ignore[return-value]  # none is None

    def _numbers_out_of_it(self, tokens: list[Token]) -> list[int]:
        """Return indices, shared by their hash or remainder, for tokens out of the vocabulary.

        Raises:
            ValueError: There are none for such tokens.
        """
        count = self._oov_count
        if not count and on_example.get():
            return [0] * len(tokens)
        if not count:
            raise ValueError(
                f"{tokens[0]!r} is not in the vocabulary of {len(self._numbers or ())} tokens: "
                "num_oov_indices=1 gives such tokens a number."
            )
        values = np.array(tokens)
        shares = buckets(values, count) if self.token_type is str else values % count
        return (len(self._special) - count + shares).tolist()  # type: ignore[no-any-return]

    def _no_vocabulary(self) -> ValueError:
        return ValueError(f"This {type(self).__name__} has no vocabulary: give one, or call adapt.")


def encoded(numbers: Tokens, mode: str, size: int) -> Tokens:
    """Return numbers below a size in an ``output_mode``: as they are, or as rows of that size, float32."""
    if mode == "int":
        return numbers
    rows: Tokens = np.equal(numbers[..., None], np.arange(size)).astype(np.float32)
    if numbers.ndim == 0 or (mode == "one_hot" and numbers.shape[-1] != 1):
        return rows
    counts: Tokens = rows.sum(axis=-2)
    return counts.clip(max=1) if mode in ("one_hot", "multi_hot") else counts


def encoded_shape(shape: tuple[int | None, ...], mode: str, size: int) -> tuple[int | None, ...]:
    """Return the shape of `encoded` numbers of a shape, in a mode that makes rows."""
    if not shape or (mode == "one_hot" and shape[-1] != 1):
        return (*shape, size)
    return (*shape[:-1], size)


def mode_of(output_mode: str) -> str:
    """Return today's name of an ``output_mode``, some of which had others in TensorFlow 2.3."""
    return _OLD_MODES.get(output_mode, output_mode)


@keras.saving.register_keras_serializable("muster")
class StringLookup(IndexLookup):
    """Map words to indices, or indices to words; see `IndexLookup` for the arguments.

    Words are ``str``, or ``bytes`` in ``encoding``.

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
        idf_weights: Sequence[float] | None = None,
        invert: bool = False,
        output_mode: str = "int",
        pad_to_max_tokens: bool = False,
        sparse: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.__dict__["_encoding"] = encoding  # before Keras lets a layer have attributes
        super().__init__(
            max_tokens,
            num_oov_indices,
            mask_token,
            oov_token,
            vocabulary,
            invert,
            output_mode,
            idf_weights,
            pad_to_max_tokens,
            sparse,
            name,
            kwargs,
        )

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer, with its vocabulary."""
        return {**super().get_config(), "encoding": self._encoding}

    def tokens_of(self, values: object) -> Tokens:
        """Convert values to an array of ``str``."""
        array = np.asarray(values)
        words = [w.decode(self._encoding) if isinstance(w, bytes) else w for w in array.ravel().tolist()]
        if wrong := [word for word in words if not isinstance(word, str)]:
            raise TypeError(f"StringLookup takes str or bytes, got {type(wrong[0]).__name__}: {wrong[0]!r}.")
        return np.array(words, str).reshape(array.shape)


@keras.saving.register_keras_serializable("muster")
class IntegerLookup(IndexLookup):
    """Map the integers of a vocabulary to indices, or indices to integers.

    See `IndexLookup` for the arguments; ``vocabulary_dtype`` can only be int64. Their older names are known:
    ``max_values``, ``mask_value`` and ``oov_value``.

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
        idf_weights: Sequence[float] | None = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if vocabulary_dtype != "int64":
            raise ValueError(f"vocabulary_dtype must be 'int64', got {vocabulary_dtype!r}.")
        super().__init__(
            kwargs.pop("max_values", max_tokens),
            num_oov_indices,
            kwargs.pop("mask_value", mask_token),
            kwargs.pop("oov_value", oov_token),
            vocabulary,
            invert,
            output_mode,
            idf_weights,
            pad_to_max_tokens,
            sparse,
            name,
            kwargs,
        )

    def tokens_of(self, values: object) -> Tokens:
        """Convert values to an array of int64."""
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"IntegerLookup takes integers, got {array.dtype}: {array.flat[0]!r}.")
        return array.astype(np.int64)
