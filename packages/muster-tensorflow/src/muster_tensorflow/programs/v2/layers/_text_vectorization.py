"""``tf.keras.layers.TextVectorization`` without TensorFlow."""

import string
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from muster import keras
from muster.data import Dataset, RaggedTensor
from muster_tensorflow.library.ops.text._strings import ascii_lower, ascii_split
from muster_tensorflow.programs.v2.layers._host_layer import HostLayer, no_vocabulary_yet, symbolic
from muster_tensorflow.programs.v2.layers._lookups import StringLookup, mode_of

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MODES = ("int", "multi_hot", "count", "tf_idf")


@keras.saving.register_keras_serializable("muster")
class TextVectorization(HostLayer):
    """Map texts to the indices of their words, or to counts of them, on the host.

    In the mode "int" index 0 is padding and 1 stands for words out of the vocabulary; in others 0 stands for
    these.

    Args:
        max_tokens: The largest size of the vocabulary, including special tokens; None for any.
        standardize: "lower_and_strip_punctuation", "lower", "strip_punctuation", None, or a function of an
            array of texts.
        split: "whitespace", "character", None, or a function of an array of texts that returns a ragged
            tensor.
        ngrams: The largest number of words, or a tuple of numbers of words, that are joined to a token; None
            for single words.
        output_mode: "int", "multi_hot", "count" or "tf_idf".
        output_sequence_length: In the mode "int" the number of indices of a text, which is cut or padded;
            None is that of the longest.
        pad_to_max_tokens: In the other modes, whether rows have `max_tokens` columns.
        vocabulary: Tokens, without special ones, or the path of a file with one per line; None if `adapt` is
            called.
        idf_weights: In the mode "tf_idf" the weights of the vocabulary.
        sparse: Only False.
        ragged: In the mode "int", whether to return a ragged tensor.
        encoding: That of texts which are bytes.
        name: The layer's name; None makes one of the class.
        kwargs: Further arguments of `HostLayer`.

    Raises:
        ValueError: An argument has a value that is not listed.

    Source: keras/src/layers/preprocessing/text_vectorization.py.
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace",
        ngrams: int | tuple[int, ...] | None = None,
        output_mode: str = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        idf_weights: Any = None,
        sparse: bool = False,
        ragged: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        kinds = ("lower_and_strip_punctuation", "lower", "strip_punctuation", None)
        if not callable(standardize) and standardize not in kinds:
            raise ValueError(f"standardize is a function or one of {kinds}, got {standardize!r}.")
        if not callable(split) and split not in ("whitespace", "character", None):
            raise ValueError(f"split is a function, 'whitespace', 'character' or None, got {split!r}.")
        output_mode = mode_of(output_mode)
        if output_mode not in _MODES:
            raise ValueError(f"output_mode is one of {_MODES}, got {output_mode!r}.")
        if sparse:
            raise ValueError("sparse=True is not there: rows are dense.")
        self._standardize = standardize
        self._split = split
        self._ngrams = tuple(range(1, ngrams + 1)) if isinstance(ngrams, int) else ngrams
        self._mode = output_mode
        self._length = output_sequence_length
        self._max_tokens, self._pads = max_tokens, pad_to_max_tokens
        self._width = max_tokens if pad_to_max_tokens else None
        self._ragged = ragged
        self._encoding = encoding
        self._lookup = StringLookup(
            max_tokens, mask_token="" if output_mode == "int" else None, encoding=encoding
        )
        self._weights: np.ndarray[Any, Any] | None = None
        self._has_input_vocabulary = vocabulary is not None  # FeatureSpace asks for it
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Set the vocabulary, in the form of the constructor's argument.

        Raises:
            ValueError: The mode is "tf_idf", and there is not a weight for each token.
        """
        self._lookup.set_vocabulary(vocabulary)
        if self._mode == "tf_idf":
            tokens = self._lookup.get_vocabulary(include_special_tokens=False)
            weights = np.asarray([] if idf_weights is None else idf_weights, np.float32)
            if len(weights) != len(tokens):
                raise ValueError(
                    f"tf_idf needs a weight for each of {len(tokens)} tokens, got {idf_weights!r}."
                )
            self._weights = np.append(weights.mean(), weights)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary, and weights for "tf_idf", from texts.

        Args:
            data: Texts, or a Dataset of texts or of batches of them.
            batch_size: Ignored.
            steps: How many elements of a Dataset to read; None for all.
        """
        elements: Iterable[Any] = [data]
        if isinstance(data, Dataset):
            elements = data if steps is None else data.take(steps)
        texts = 0
        with_token: Counter[str] = Counter()

        def words() -> Iterable[str]:
            nonlocal texts
            for element in elements:
                for row in self._rows(element)[0]:
                    texts += 1
                    with_token.update(set(row))
                    yield from row

        self._lookup.adapt_to(words())
        if self._mode == "tf_idf":
            counts = np.array([with_token[str(each)] for each in self.get_vocabulary()[1:]])
            weights = np.log(1 + texts / (1 + counts)).astype(np.float32)
            self._weights = np.append(weights.mean() if len(weights) else 0, weights).astype(np.float32)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """Return the tokens in the order of their indices."""
        return self._lookup.get_vocabulary(include_special_tokens)

    def vocabulary_size(self) -> int:
        """Return the number of tokens, including special ones."""
        return self._lookup.vocabulary_size()

    def call(self, inputs: Any) -> Any:
        """Map texts.

        Args:
            inputs: A text, or texts of shape (n,) or (n, 1).

        Returns:
            In the mode "int" int64 of shape (n, length) or a ragged tensor; in others float32 of shape
            (n, size of the vocabulary). Without the first axis for one text.

        Raises:
            ValueError: There is no vocabulary.
        """
        rows, single = self._rows(inputs)
        numbers = [np.array(self._lookup.numbers_of(row), np.int64) for row in rows]
        if self._mode == "int" and self._ragged:
            return RaggedTensor.from_row_lengths(np.concatenate(numbers), [len(each) for each in numbers])
        if self._mode != "int":
            found = np.stack([self._counts(each) for each in numbers])
        else:
            length = max(map(len, numbers)) if self._length is None else self._length
            found = np.zeros((len(numbers), length), np.int64)
            for row, each in zip(found, numbers, strict=True):
                row[: len(each)] = each[:length]
        return found[0] if single else found

    def compute_output_spec(self, inputs: Any) -> Any:
        """Return what stands for the results in a model."""
        if self._ragged:
            raise ValueError(
                "TextVectorization(ragged=True) is for input functions: a model's rows are dense."
            )
        if self._mode == "int":
            return symbolic((inputs.shape[0], self._length), "int64")
        size = self._width or self.vocabulary_size()
        if self._width is None and size <= 1:
            raise no_vocabulary_yet(self, self._mode)
        return symbolic((inputs.shape[0], size), "float32")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer, with its vocabulary."""
        tokens = self.get_vocabulary(include_special_tokens=False)
        return {
            "name": self.name,
            "max_tokens": self._max_tokens,
            "standardize": self._standardize,
            "split": self._split,
            "ngrams": self._ngrams,
            "output_mode": self._mode,
            "output_sequence_length": self._length,
            "pad_to_max_tokens": self._pads,
            "vocabulary": tokens or None,
            "idf_weights": None if self._weights is None else self._weights[1:].tolist(),
            "ragged": self._ragged,
            "encoding": self._encoding,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TextVectorization":
        """Return the layer of a config."""
        functions = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("standardize", "split")
            if isinstance(config[name], dict)
        }
        return cls(**{**config, **functions})

    def _counts(self, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        size = self.vocabulary_size()
        counts = np.bincount(numbers, minlength=self._width or size).astype(np.float32)
        if self._mode == "multi_hot":
            return counts.clip(max=1)
        if self._mode == "tf_idf" and self._weights is not None:
            counts[:size] *= self._weights
        return counts

    def _rows(self, inputs: Any) -> tuple[list[list[str]], bool]:
        """Return the tokens of each text, and whether there is one text alone."""
        array = np.asarray(inputs)
        texts = self._standardized(self._lookup.tokens_of(array).reshape(-1))
        if callable(self._split):
            split = self._split(texts)
            rows = [
                list(map(str, row)) for row in (split.rows() if isinstance(split, RaggedTensor) else split)
            ]
        elif self._split == "character":
            rows = [list(text) for text in texts.tolist()]
        else:
            rows = [ascii_split(text) if self._split else [text] for text in texts.tolist()]
        if self._ngrams is not None:
            rows = [_ngrams(row, self._ngrams) for row in rows]
        return rows, array.ndim == 0

    def _standardized(self, texts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if callable(self._standardize):
            return self._lookup.tokens_of(self._standardize(texts))
        each: list[Callable[[str], str]] = []
        if "lower" in (self._standardize or ""):
            each.append(ascii_lower)
        if "strip" in (self._standardize or ""):
            each.append(lambda text: text.translate(_NO_PUNCTUATION))
        words = texts.tolist()
        for function in each:
            words = [function(text) for text in words]
        return np.array(words, str)


def _ngrams(row: list[str], sizes: tuple[int, ...]) -> list[str]:
    return [" ".join(row[i : i + size]) for size in sizes for i in range(len(row) - size + 1)]
