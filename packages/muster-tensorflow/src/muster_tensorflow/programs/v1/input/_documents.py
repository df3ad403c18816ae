"""``tf.contrib.learn.preprocessing``: texts as rows of numbers, on the host."""

import os
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from muster.extend import local_path

# Words of capitals, words within joined ones, and runs of letters, digits, apostrophes and hyphens.
_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w-]+")
UNKNOWN = "<UNK>"


class ByteProcessor:
    """Maps texts to their first bytes in UTF-8, filled up with zeros.

    Args:
        max_document_length: The number of bytes.

    Source: ``ByteProcessor`` (tensorflow/contrib/learn/python/learn/preprocessing/text.py of 1.15).
    """

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def fit(self, x: Iterable[Any]) -> Self:
        """Do nothing: there is nothing to learn."""
        return self

    def fit_transform(self, x: Iterable[Any]) -> Iterator[np.ndarray[Any, Any]]:
        """Do as `transform`."""
        return self.transform(x)

    def transform(self, x: Iterable[Any]) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the bytes of each text, uint8[max_document_length]."""
        for document in x:
            data = document.encode() if isinstance(document, str) else bytes(document)
            row = np.zeros(self.max_document_length, np.uint8)
            data = data[: self.max_document_length]
            row[: len(data)] = np.frombuffer(data, np.uint8)
            yield row

    def reverse(self, x: Iterable[Any]) -> Iterator[str]:
        """Yield the text of each row of bytes, without the zeros at its end."""
        for row in x:
            yield bytes(np.asarray(row, np.uint8)).rstrip(b"\0").decode()


class Vocabulary:
    """Numbers words in the order in which they come, from 1 on; 0 is `UNKNOWN`."""

    def __init__(self) -> None:
        self._mapping: dict[str, int] = {UNKNOWN: 0}
        self._counts: Counter[str] = Counter()
        self._is_frozen = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Let words that are not there be unknown; or number them again."""
        self._is_frozen = freeze

    def get(self, category: str) -> int:
        """Return the number of a word, which gets one if the vocabulary is not frozen."""
        if not self._is_frozen:
            self._mapping.setdefault(category, len(self._mapping))
        return self._mapping.get(category, 0)

    def add(self, category: str, count: int = 1) -> None:
        """Count a word."""
        if self.get(category) > 0:
            self._counts[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Leave out rare words, and those beyond a maximum; number others by frequency, then by name."""
        kept = sorted(self._counts.items(), key=lambda each: (-each[1], each[0]))
        self._counts = Counter(
            {
                word: count
                for word, count in kept
                if count > min_frequency and (max_frequency < 0 or count < max_frequency)
            }
        )
        self._mapping = {word: number for number, word in enumerate([UNKNOWN, *self._counts])}

    def reverse(self, class_id: int) -> str:
        """Return the word of a number."""
        return [*self._mapping][class_id]


class VocabularyProcessor:
    """Maps texts to the numbers of their first words, filled up with zeros.

    Args:
        max_document_length: The number of words.
        min_frequency: Words that come so often, or more rarely, are unknown; 0 keeps all.
        vocabulary: A `Vocabulary`; None for a new one.
        tokenizer_fn: Yields the words of each of many texts; None for those between spaces and marks.

    Attributes:
        vocabulary_: The vocabulary.

    Source: ``VocabularyProcessor`` (tensorflow/contrib/learn/python/learn/preprocessing/text.py of 1.15).
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: Any = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterable[Iterable[str]]] | None = None,
    ) -> None:
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = Vocabulary() if vocabulary is None else vocabulary
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: object = None) -> Self:
        """Number the words of texts, and no others from now on."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(
        self, raw_documents: Iterable[str], unused_y: object = None
    ) -> Iterator[np.ndarray[Any, Any]]:
        """Number the words of texts, and yield their rows."""
        return self.fit(raw_documents).transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the numbers of each text's words, int64[max_document_length]."""
        for words in self._tokenizer(raw_documents):
            numbers = [self.vocabulary_.get(word) for word in words][: self.max_document_length]
            row = np.zeros(self.max_document_length, np.int64)
            row[: len(numbers)] = numbers
            yield row

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """Yield the words of each row of numbers."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(int(number)) for number in row)

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Pickle the processor to a file."""
        with open(local_path(filename), "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def restore(cls, filename: str | os.PathLike[str]) -> Any:
        """Return the processor of a file that `save` has written. It runs code that the file names."""
        with open(local_path(filename), "rb") as file:
            return pickle.load(file)


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each of many texts."""
    for text in iterator:
        yield _WORD.findall(text)
