"""Text as numbers of frequent parts of words: ``tfds.deprecated.text.SubwordTextEncoder``."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

from muster_tensorflow.library._text_encoders import (
    BYTES,
    TextEncoder,
    Tokenizer,
    is_mixed,
    joined,
    read_lines,
    unpadded,
    write_lines,
)
from muster_tensorflow.programs.v1._text import as_bytes, as_str

_ESCAPED = "\\&undsc"
_REMEMBERED = 2**20


class SubwordTextEncoder(TextEncoder):
    """Numbers frequent parts of words, and the bytes of what is in none.

    ``_`` at the end of a part is the space after a word. `decode` gives what `encode` got, but for
    underscores in parts, which stay escaped, as those of TensorFlow Datasets.

    Args:
        vocab_list: The parts; the first has the number 1. Bytes come after them.

    Source: tensorflow_datasets/core/deprecated/text/subword_text_encoder.py.
    """

    def __init__(self, vocab_list: Iterable[str | bytes] | None = None) -> None:
        self._parts = [as_str(part) for part in vocab_list or () if part]
        self._places = {part: place for place, part in enumerate(self._parts)}
        self._longest = max(map(len, [_ESCAPED, *self._parts]))
        reserved = dict.fromkeys([_ESCAPED, *filter(is_mixed, self._parts)])
        self._tokenizer = Tokenizer(alphanum_only=False, reserved_tokens=reserved)
        self._known: dict[str, list[int]] = {}

    @property
    def vocab_size(self) -> int:
        """The number of ids, with 0 for padding."""
        return 1 + len(self._parts) + BYTES

    @property
    def subwords(self) -> list[str]:
        """The parts of words."""
        return list(self._parts)

    def encode(self, s: str | bytes) -> list[int]:
        """Return the numbers of the parts of a text."""
        ids: list[int] = []
        for token in _spaced(self._tokenizer.tokenize(s)):
            if token not in self._known:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[token] = [each for part in self.split(token) for each in self._numbers(part)]
            ids += self._known[token]
        return ids

    def decode(self, ids: Sequence[Any]) -> str:
        """Return the text of numbers; bytes that are no UTF-8 become U+FFFD.

        Raises:
            ValueError: There is no such number.
        """
        count = len(self._parts)
        parts: list[str | bytes] = []
        for each in unpadded(ids):
            if not 0 <= each < count + BYTES:
                raise ValueError(
                    f"Received id {each + 1} which is invalid. Ids must be within [0, {self.vocab_size})."
                )
            if each >= count:
                parts.append(bytes([each - count]))
            else:
                part = self._parts[each]
                parts.append(f"{part[:-1]} " if part.endswith("_") else part)
        return joined(parts)

    def split(self, token: str) -> Iterator[str]:
        """Split a token into parts: always the longest that there is, or a single character."""
        start = 0
        while start < len(token):
            ends = range(min(len(token), start + self._longest), start, -1)
            found = (token[start:end] for end in ends)
            part = next((each for each in found if each in self._places or each == _ESCAPED), token[start])
            yield part
            start += len(part)

    def _numbers(self, part: str) -> list[int]:
        if part in self._places:
            return [1 + self._places[part]]
        text = {_ESCAPED: "_", "_": " "}.get(part, part)
        return [1 + len(self._parts) + byte for byte in as_bytes(text)]

    def save_to_file(self, filename_prefix: str) -> None:
        """Write what `load_from_file` reads, to a file whose name ends in ``.subwords``."""
        lines = [f"'{part}'" for part in self._parts]
        write_lines(type(self), f"{filename_prefix}.subwords", lines, {})

    @classmethod
    def load_from_file(cls, filename_prefix: str) -> Self:
        """Make the encoder that `save_to_file` wrote, or TensorFlow Datasets."""
        return cls([line[1:-1] for line in read_lines(cls, f"{filename_prefix}.subwords")[0]])

    @classmethod
    def build_from_corpus(
        cls,
        corpus_generator: Iterable[str | bytes],
        target_vocab_size: int,
        max_subword_length: int = 20,
        max_corpus_chars: int | None = None,
        reserved_tokens: Iterable[str] | None = None,
    ) -> Self:
        """Choose the parts by how often they are in texts.

        Args:
            corpus_generator: The texts.
            target_vocab_size: About how many numbers there are to be.
            max_subword_length: How many characters a part has at most.
            max_corpus_chars: How many characters of the texts to read; None reads all.
            reserved_tokens: Parts that are tokens wherever they are, such as ``"<EOS>"``.

        Raises:
            ValueError: A number is too small, or a reserved token is a plain word or ends in ``_``.
        """
        reserved = list(reserved_tokens or ())
        if max_subword_length <= 0:
            raise ValueError(f"max_subword_length must be > 0, not {max_subword_length}.")
        if target_vocab_size < BYTES + 2:
            raise ValueError(f"target_vocab_size must be >= {BYTES + 2}. Got {target_vocab_size}")
        for token in reserved:
            if token.endswith("_") or not is_mixed(token):
                raise ValueError(
                    f"Reserved tokens mix characters of words and others, and do not end with _: {token!r}."
                )
        tokens = _counted(corpus_generator, max_corpus_chars, reserved)
        least, most = max(min(tokens.values()), 1), max(tokens.values())
        best: Self | None = None
        # How often a part has to be there: halving the range as long as the number of parts is off by 1%.
        while True:
            middle = (least + most) // 2
            made = cls._of_counts(tokens, middle, reserved, max_subword_length)
            off = made.vocab_size - target_vocab_size
            if best is None or abs(off) <= abs(best.vocab_size - target_vocab_size):
                best = made
            if abs(off) * 100 < target_vocab_size or least >= most or middle <= 1:
                return best
            least, most = (middle + 1, most) if off > 0 else (least, middle - 1)

    @classmethod
    def _of_counts(cls, tokens: Counter[str], least: int, reserved: list[str], longest: int) -> Self:
        """Choose parts that are there ``least`` times; four times, each where the last ones begin."""
        made = cls(reserved)
        for _ in range(4):
            counts: Counter[str] = Counter()
            for token, count in tokens.items():
                start = 0
                for part in made.split(token):
                    for end in range(start + 1, min(len(token), start + longest) + 1):
                        counts[token[start:end]] += count
                    start += len(part)
            enough = [part for part, count in counts.items() if count >= least and len(as_bytes(part)) > 1]
            chosen = []
            # The longest first: what begins like a part that is taken counts without it.
            for part in sorted(enough, key=len, reverse=True):
                count = counts[part]
                if count >= least:
                    chosen.append((count, part))
                    for end in range(1, len(part)):
                        counts[part[:end]] -= count
            made = cls([*reserved, *(part for _, part in sorted(chosen, reverse=True))])
        return made


def _counted(texts: Iterable[str | bytes], most: int | None, reserved: list[str]) -> Counter[str]:
    """Count the tokens of texts, of which ``most`` characters are read."""
    tokenizer = Tokenizer(alphanum_only=False, reserved_tokens=[*reserved, _ESCAPED])
    counts: Counter[str] = Counter()
    read = 0
    for each in texts:
        text = as_str(each)
        if most and read + len(text) >= most:
            text = text[: most - read]
        counts.update(_spaced(tokenizer.tokenize(text)))
        read += len(text)
        if most and read > most:
            break
    return counts


def _spaced(tokens: list[str]) -> Iterator[str]:
    """Escape underscores, and write the single space after a token as one at its end."""
    place = 0
    while place < len(tokens):
        token = tokens[place]
        # What text has that looks like an escaped underscore is two tokens.
        *before, last = (_ESCAPED[:2], _ESCAPED[2:]) if token == _ESCAPED else (token,)
        yield from (each.replace("_", _ESCAPED) for each in before)
        space = tokens[place + 1 : place + 2] == [" "]
        yield last.replace("_", _ESCAPED) + "_" * space
        place += 1 + space
