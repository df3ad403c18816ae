"""The hash of ``tf.strings.to_hash_bucket``: 64 bits of MurmurHash2, as of TensorFlow's first versions."""

from collections.abc import Sequence

import numpy as np

_FACTOR, _SHIFT, _SEED, _MASK = 0xC6A4A7935BD1E995, 47, 0xDECAFCAFFE, (1 << 64) - 1


def murmur_hash(texts: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the hashes of texts.

    Source: ``Hash64`` (tensorflow/tsl/platform/hash.cc).
    """
    return np.array([_hash(text.encode()) for text in texts], np.uint64)


def _hash(data: bytes) -> int:
    value = _SEED ^ (len(data) * _FACTOR & _MASK)
    whole = len(data) // 8 * 8
    for start in range(0, whole, 8):
        part = int.from_bytes(data[start : start + 8], "little") * _FACTOR & _MASK
        part = (part ^ part >> _SHIFT) * _FACTOR & _MASK
        value = (value ^ part) * _FACTOR & _MASK
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    value = (value ^ value >> _SHIFT) * _FACTOR & _MASK
    return value ^ value >> _SHIFT
