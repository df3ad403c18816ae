"""Text as lists of numbers and back: ``tfds.deprecated.text``, which was ``tfds.features.text``.

An encoder never gives a text's part the number 0, which pads: `decode` leaves it out at the end.
"""

import abc
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

from muster.extend import local_path
from muster_tensorflow.programs.v1._text import as_bytes, as_str

BYTES = 256
"""The number of byte values."""
_RUNS = re.compile(r"(\W+)")


def is_mixed(token: str) -> bool:
    """Return whether a token has both characters of words and others."""
    return sum(map(bool, _RUNS.split(token))) > 1


class TextEncoder(abc.ABC):
    """The interface of encoders, which convert text to ids and back.

    Source: tensorflow_datasets/core/deprecated/text/text_encoder.py.
    """

    _suffix = ""

    @abc.abstractmethod
    def encode(self, s: str | bytes) -> list[int]:
        """Return the numbers of a text, each from 1 to below `vocab_size`."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[Any]) -> str:
        """Return the text of numbers."""

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int:
        """The number of ids, with 0 for padding."""

    @abc.abstractmethod
    def save_to_file(self, filename_prefix: str) -> None:
        """Write what `load_from_file` makes an equal encoder of."""

    @classmethod
    @abc.abstractmethod
    def load_from_file(cls, filename_prefix: str) -> Self:
        """Make the encoder that `save_to_file` wrote."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} vocab_size={self.vocab_size}>"


class Tokenizer:
    """Splits text into words.

    Args:
        alphanum_only: Whether to leave out what is between words; else that is tokens, too.
        reserved_tokens: Texts that are tokens wherever they are.

    Raises:
        ValueError: A reserved token is there twice.
    """

    def __init__(
        self, alphanum_only: bool = True, reserved_tokens: Iterable[str | bytes] | None = None
    ) -> None:
        self._alphanum_only = alphanum_only
        self._reserved = distinct(reserved_tokens or ())
        self._split_reserved = splits(self._reserved)

    @property
    def alphanum_only(self) -> bool:
        """True if everything but words is dropped."""
        return self._alphanum_only

    @property
    def reserved_tokens(self) -> set[str]:
        """The texts that are tokens wherever they are."""
        return set(self._reserved)

    def tokenize(self, s: str | bytes) -> list[str]:
        """Return the tokens of a text."""
        text = as_str(s)
        tokens: list[str] = []
        for place, part in enumerate(self._split_reserved.split(text) if self._split_reserved else [text]):
            # What the pattern's group has found is at every other place.
            if place % 2:
                tokens.append(part)
            else:
                tokens += _RUNS.split(part)[:: 2 if self._alphanum_only else 1]
        return [token for token in tokens if token]

    def join(self, tokens: Iterable[str]) -> str:
        """Return the text of tokens; those of words alone get spaces in between."""
        return (" " if self._alphanum_only else "").join(tokens)

    def save_to_file(self, filename_prefix: str) -> None:
        """Write what `load_from_file` reads, to a file whose name ends in ``.tokenizer``."""
        settings = {"reserved_tokens": self._reserved, "alphanum_only": self._alphanum_only}
        write_lines(type(self), f"{filename_prefix}.tokenizer", [], settings)

    @classmethod
    def load_from_file(cls, filename_prefix: str) -> Self:
        """Make the tokenizer that `save_to_file` wrote."""
        return cls(**read_lines(cls, f"{filename_prefix}.tokenizer")[1])


class ByteTextEncoder(TextEncoder):
    """Numbers the bytes of text.

    Args:
        additional_tokens: Texts that have numbers of their own, which come before those of bytes.

    Raises:
        ValueError: One of them is there twice.
    """

    def __init__(self, additional_tokens: Iterable[str | bytes] | None = None) -> None:
        self._tokens = distinct(additional_tokens or ())
        self._split = splits(self._tokens)

    @property
    def additional_tokens(self) -> list[str]:
        """The texts that have numbers of their own."""
        return self._tokens

    @property
    def vocab_size(self) -> int:
        """The number of ids, with 0 for padding."""
        return 1 + len(self._tokens) + BYTES

    def encode(self, s: str | bytes) -> list[int]:
        """Return the numbers of the bytes of a text, in UTF-8."""
        first = len(self._tokens) + 1
        if self._split is None:
            return [byte + first for byte in as_bytes(s)]
        ids: list[int] = []
        for place, part in enumerate(self._split.split(as_str(s))):
            ids += [self._tokens.index(part) + 1] if place % 2 else [byte + first for byte in as_bytes(part)]
        return ids

    def decode(self, ids: Sequence[Any]) -> str:
        """Return the text of numbers; bytes that are no UTF-8 become U+FFFD."""
        count = len(self._tokens)
        return joined(self._tokens[each] if each < count else bytes([each - count]) for each in unpadded(ids))

    def save_to_file(self, filename_prefix: str) -> None:
        """Write what `load_from_file` reads, to a file whose name ends in ``.bytes``."""
        write_lines(type(self), f"{filename_prefix}.bytes", self._tokens, {})

    @classmethod
    def load_from_file(cls, filename_prefix: str) -> Self:
        """Make the encoder that `save_to_file` wrote."""
        return cls(read_lines(cls, f"{filename_prefix}.bytes")[0])


class TokenTextEncoder(TextEncoder):
    """Numbers the words of a vocabulary.

    Args:
        vocab_list: The words; the first has the number 1.
        oov_buckets: How many numbers there are for other words, which are told apart by a hash.
        oov_token: The word that `decode` writes for those.
        lowercase: Whether case does not count.
        tokenizer: What splits text into words; None takes one that knows words of the vocabulary with other
            characters in them.
        strip_vocab: Whether to strip white space from the words.
        decode_token_separator: What `decode` writes between words.
    """

    def __init__(
        self,
        vocab_list: Iterable[str | bytes],
        oov_buckets: int = 1,
        oov_token: str | bytes = "UNK",
        lowercase: bool = False,
        tokenizer: Tokenizer | None = None,
        strip_vocab: bool = True,
        decode_token_separator: str = " ",
    ) -> None:
        words = [as_str(word) for word in vocab_list]
        words = [word.strip() for word in words] if strip_vocab else words
        self._words = [word.lower() for word in words] if lowercase else words
        self._places = {word: place for place, word in enumerate(self._words)}
        self._oov_buckets, self._oov_token, self._lowercase = oov_buckets, as_str(oov_token), lowercase
        self._own_tokenizer = tokenizer
        self._tokenizer = tokenizer or Tokenizer(reserved_tokens=[w for w in self._words if is_mixed(w)])
        self._separator = decode_token_separator

    @property
    def vocab_size(self) -> int:
        """The number of ids, with 0 for padding."""
        return 1 + len(self._words) + self._oov_buckets

    @property
    def tokens(self) -> list[str]:
        """The words."""
        return list(self._words)

    @property
    def oov_token(self) -> str:
        """The word that `decode` writes for others than those of the vocabulary."""
        return self._oov_token

    @property
    def lowercase(self) -> bool:
        """True if text is lowercased."""
        return self._lowercase

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which splits text into words."""
        return self._tokenizer

    def encode(self, s: str | bytes) -> list[int]:
        """Return the numbers of the words of a text.

        Raises:
            ValueError: A word is not in the vocabulary, and there are no numbers for others.
        """
        text = as_str(s)
        words = self._tokenizer.tokenize(text.lower() if self._lowercase else text)
        return [1 + (self._places[word] if word in self._places else self._bucket(word)) for word in words]

    def decode(self, ids: Sequence[Any]) -> str:
        """Return the text of numbers."""
        count = len(self._words)
        return self._separator.join(
            self._words[each] if each < count else self._oov_token for each in unpadded(ids)
        )

    def _bucket(self, word: str) -> int:
        if self._oov_buckets <= 0:
            raise ValueError(f"Out of vocabulary token {word}")
        if self._oov_buckets == 1:
            return len(self._words)
        # TensorFlow Datasets' own hash, of which no secret depends.
        digest = hashlib.md5(as_bytes(word), usedforsecurity=False).hexdigest()
        return len(self._words) + int(digest, 16) % self._oov_buckets

    def save_to_file(self, filename_prefix: str) -> None:
        """Write what `load_from_file` reads, to a file whose name ends in ``.tokens``."""
        file = f"{filename_prefix}.tokens"
        settings: dict[str, Any] = {
            "oov_buckets": self._oov_buckets,
            "lowercase": self._lowercase,
            "oov_token": self._oov_token,
        }
        if self._own_tokenizer is not None:
            self._own_tokenizer.save_to_file(file)
            settings["has_tokenizer"] = True
        write_lines(type(self), file, self._words, settings)

    @classmethod
    def load_from_file(cls, filename_prefix: str) -> Self:
        """Make the encoder that `save_to_file` wrote."""
        file = f"{filename_prefix}.tokens"
        words, settings = read_lines(cls, file)
        if settings.pop("has_tokenizer", False):
            settings["tokenizer"] = Tokenizer.load_from_file(file)
        return cls(words, **settings)


def distinct(tokens: Iterable[str | bytes]) -> list[str]:
    """Return tokens as text.

    Raises:
        ValueError: One is there twice.
    """
    texts = [as_str(token) for token in tokens]
    twice = sorted({token for token in texts if texts.count(token) > 1})
    if twice:
        raise ValueError(f"Duplicates found in tokens: {twice}")
    return texts


def splits(tokens: list[str]) -> re.Pattern[str] | None:
    """Return the pattern that splits text at tokens, and finds them; None if there are none."""
    return re.compile(f"({'|'.join(map(re.escape, tokens))})") if tokens else None


def unpadded(ids: Sequence[Any]) -> list[int]:
    """Return numbers from 0 on without zeros at their end."""
    numbers = [int(each) for each in ids]
    while numbers and not numbers[-1]:
        numbers.pop()
    return [each - 1 for each in numbers]


def joined(parts: Iterable[str | bytes]) -> str:
    """Return a text of texts and bytes: bytes in a row are decoded together."""
    return b"".join(map(as_bytes, parts)).decode("utf-8", "replace")


def write_lines(made: type, file: str, lines: Iterable[str], settings: dict[str, Any]) -> None:
    """Write lines under a header that names the class."""
    header = (f"### {made.__name__}", f"### Metadata: {json.dumps(settings, sort_keys=True)}")
    with open(local_path(file), "w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in (*header, *lines))


def read_lines(made: type, file: str) -> tuple[list[str], dict[str, Any]]:
    """Read what `write_lines` wrote.

    Raises:
        ValueError: Another class wrote it.
    """
    with open(local_path(file), encoding="utf-8", newline="\n") as stream:
        first, settings, *lines = stream.read().removesuffix("\n").split("\n")
    if first != f"### {made.__name__}":
        raise ValueError(f"{file} was not written by {made.__name__}.save_to_file: it begins with {first!r}.")
    return lines, json.loads(settings.removeprefix("### Metadata: "))
