"""SipHash-2-4 of many texts at a time: TensorFlow's hash with a key of one's own."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def keyed_hash(texts: Sequence[str], key: tuple[int, int]) -> Words:
    """Return the hashes, uint64 of shape (len(texts),), of the UTF-8 of texts.

    Source: ``StrongKeyedHash`` (tensorflow/core/lib/strong_hash.h).
    """
    encoded = [text.encode() for text in texts]
    counts = np.array([len(each) // 8 + 1 for each in encoded])
    # The last word ends with the length.
    padded = [
        each.ljust(8 * int(count) - 1, b"\0") + bytes([len(each) % 256])
        for each, count in zip(encoded, counts, strict=True)
    ]
    longest = int(counts.max(initial=0))
    words = np.frombuffer(b"".join(each.ljust(8 * longest, b"\0") for each in padded), "<u8")
    words = words.reshape(len(texts), longest)
    halves = np.array([key[0], key[1], key[0], key[1]], np.int64).view(np.uint64)
    state = np.repeat((np.array(_START, np.uint64) ^ halves)[:, None], len(texts), axis=1)
    for number in range(longest):
        at = (counts > number).nonzero()[0]
        v0, v1, v2, v3 = state[:, at]
        v3 = v3 ^ words[at, number]
        v0, v1, v2, v3 = _rounds(2, v0, v1, v2, v3)
        state[:, at] = v0 ^ words[at, number], v1, v2, v3
    v0, v1, v2, v3 = state
    found: Words = np.bitwise_xor.reduce(_rounds(4, v0, v1, v2 ^ np.uint64(0xFF), v3))
    return found


def _rounds(count: int, v0: Words, v1: Words, v2: Words, v3: Words) -> tuple[Words, Words, Words, Words]:
    for _ in range(count):
        v0, v2 = v0 + v1, v2 + v3
        v1, v3 = _rotated(v1, 13) ^ v0, _rotated(v3, 16) ^ v2
        v0 = _rotated(v0, 32)
        v2, v0 = v2 + v1, v0 + v3
        v1, v3 = _rotated(v1, 17) ^ v2, _rotated(v3, 21) ^ v0
        v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
