"""The 64-bit fingerprints by which TensorFlow hashes text, for many texts at a time.

``Fingerprint64`` is that of FarmHash (https://github.com/google/farmhash), which never changes: ids of hash
buckets agree with those of TensorFlow, also in checkpoints. All arithmetic is modulo 2**64.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from muster.feature_column._host_values import as_bytes

Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
_Reader: TypeAlias = Callable[[Any], Hashes]
_Pair: TypeAlias = tuple[Hashes, Hashes]

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_CAT = np.uint64(0xC6A4A7935BD1E995)
_LONGEST_WORD = 8
# The smallest numbers of two digits, of three, and so on.
_DIGITS = 10 ** np.arange(1, 19)


def fingerprint64(texts: Sequence[str | bytes]) -> Hashes:
    """Return the fingerprints of texts.

    Args:
        texts: Text, whose UTF-8 counts, or bytes, of any lengths, zero bytes among them.

    Returns:
        uint64 of shape (len(texts),).

    Raises:
        ValueError: A value is neither text nor bytes.

    Source: ``Fingerprint64`` (tensorflow/core/platform/fingerprint.h).
    """
    joined, lengths = _joined(texts)
    return _of_texts(joined, lengths.cumsum() - lengths + _LONGEST_WORD, lengths)


def fingerprint64_of_integers(numbers: np.ndarray[Any, Any]) -> Hashes:
    """Return the fingerprints of integers as text, in decimal.

    Args:
        numbers: Of shape (n,), of any dtype of integers.

    Returns:
        uint64 of shape (n,).
    """
    if not len(numbers) or numbers.min() < 0 or (most := int(numbers.max())) >= _DIGITS[-1]:
        return fingerprint64(list(map(str, numbers.tolist())))
    # Each number is as wide as the largest one, in pieces of four digits.
    pieces = -(-len(str(most)) // 4)
    digits = np.zeros(len(numbers) * pieces + _LONGEST_WORD // 4, "<u4")
    of_each, rest = digits[: len(numbers) * pieces].reshape(-1, pieces), numbers.astype(np.int64)
    lengths = np.searchsorted(_DIGITS, rest, side="right") + 1
    for piece in reversed(range(pieces)):
        higher = rest // 10000
        of_each[:, piece] = _four_digits()[rest - higher * 10000]
        rest = higher
    ends = np.arange(1, len(numbers) + 1) * (4 * pieces)
    return _of_texts(digits, ends - lengths, lengths)


@functools.cache
def _four_digits() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the text of each number of four digits, as a word."""
    return np.frombuffer("".join(f"{number:04}" for number in range(10000)).encode(), "<u4")


def _of_texts(joined: Any, starts: Any, lengths: Any) -> Hashes:
    """Return the fingerprints of texts in a buffer, which goes on for a word behind the last one."""
    size = memoryview(joined).nbytes
    # A word starts at every byte.
    words = np.ndarray(size - _LONGEST_WORD + 1, "<u8", joined, strides=(1,))
    hashes = np.full(len(lengths), _K2)
    least, most = lengths.min(initial=0), lengths.max(initial=0)
    for shortest, longest, function in _BY_LENGTH:
        if shortest <= most and least <= longest:
            chosen = ((lengths >= shortest) & (lengths <= longest)).nonzero()
            if len(chosen[0]):
                hashes[chosen] = function(_reader(words, starts[chosen]), lengths[chosen])
    return hashes


def _joined(texts: Sequence[str | bytes]) -> tuple[bytes, Any]:
    """Return the bytes of texts, with room around them to read words at any byte, and the texts' lengths."""
    room = bytes(_LONGEST_WORD)
    with suppress(TypeError):  # there are bytes among them
        text = "".join(texts)  # type: ignore[arg-type]
        if text.isascii():  # most often; to encode them at once takes a quarter of the time
            return b"".join((room, text.encode(), room)), _lengths(texts)
    encoded = as_bytes(texts)
    return b"".join((room, *encoded, room)), _lengths(encoded)


def _lengths(texts: Sequence[str | bytes]) -> Any:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def _reader(words: Hashes, first: Any) -> _Reader:
    """Return what reads words at distances from the first bytes of texts."""
    return lambda at: words[first + at]


def fingerprint_cat64(first: Hashes, second: Hashes) -> Hashes:
    """Return the fingerprints of pairs of fingerprints.

    Source: ``FingerprintCat64`` (tensorflow/core/platform/fingerprint.h).
    """
    mixed = (first ^ _CAT ^ (_shift_mix(second * _CAT) * _CAT)) * _CAT
    return _shift_mix(_shift_mix(mixed) * _CAT)


def _up_to_3(read: _Reader, lengths: Any) -> Hashes:
    size = _unsigned(lengths)
    first, middle, last = (read(at) & np.uint64(0xFF) for at in (0, lengths // 2, lengths - 1))
    y, z = first + (middle << np.uint64(8)), size + (last << np.uint64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _up_to_7(read: _Reader, lengths: Any) -> Hashes:
    size = _unsigned(lengths)
    first, last = (read(at) & np.uint64(0xFFFFFFFF) for at in (0, lengths - 4))
    return _mixed(size + (first << np.uint64(3)), last, _multiplier(lengths))


def _up_to_16(read: _Reader, lengths: Any) -> Hashes:
    multiplier = _multiplier(lengths)
    a, b = read(0) + _K2, read(lengths - 8)
    return _mixed(_rotated(b, 37) * multiplier + a, (_rotated(a, 25) + b) * multiplier, multiplier)


def _up_to_32(read: _Reader, lengths: Any) -> Hashes:
    multiplier = _multiplier(lengths)
    a, b, c, d = read(0) * _K1, read(8), read(lengths - 8) * multiplier, read(lengths - 16) * _K2
    return _mixed(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c, multiplier)


def _up_to_64(read: _Reader, lengths: Any) -> Hashes:
    multiplier = _multiplier(lengths)
    a, b, c, d = read(0) * _K2, read(8), read(lengths - 8) * multiplier, read(lengths - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _mixed(y, a + _rotated(b + _K2, 18) + c, multiplier)
    e, f = read(16) * multiplier, read(24)
    g, h = (y + read(lengths - 32)) * multiplier, (z + read(lengths - 24)) * multiplier
    return _mixed(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, multiplier)


def _longer(read: _Reader, lengths: Any) -> Hashes:
    blocks = (lengths - 1) // 64
    rest = _unsigned((lengths - 1) % 64)
    count = len(lengths)
    y = np.full(count, np.uint64(81)) * _K1 + np.uint64(113)
    z = _shift_mix(y * _K2 + np.uint64(113)) * _K2
    zeros = np.zeros(count, np.uint64)
    state = (np.full(count, np.uint64(81)) * _K2 + read(0), y, z, (zeros, zeros), (zeros, zeros))
    for block in range(int(blocks.max())):
        mixed = _block(partial(_read_block, read, block), state, _K1, np.uint64(1))
        state = _where(block < blocks, mixed, state)
    x, y, z, v, w = state
    multiplier = _K1 + ((z & np.uint64(0xFF)) << np.uint64(1))
    w = (w[0] + rest, w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = _block(lambda at: read(lengths - 64 + at), (x, y, z, v, w), multiplier, np.uint64(9))
    return _mixed(
        _mixed(v[0], w[0], multiplier) + _shift_mix(y) * _K0 + z,
        _mixed(v[1], w[1], multiplier) + x,
        multiplier,
    )


def _block(read: _Reader, state: Any, multiplier: Any, weight: Any) -> Any:
    """Mix 64 bytes into the state of texts that are longer."""
    x, y, z, v, w = state
    x = _rotated(x + y + v[0] + read(8), 37) * multiplier
    y = _rotated(y + v[1] + read(48), 42) * multiplier
    x = x ^ w[1] * weight
    y = y + v[0] * weight + read(40)
    z = _rotated(z + w[0], 33) * multiplier
    v = _weak(read, 0, v[1] * multiplier, x + w[0])
    w = _weak(read, 32, z + w[1], y + read(16))
    return z, y, x, v, w


def _read_block(read: _Reader, block: int, at: Any) -> Hashes:
    return read(64 * block + at)


def _weak(read: _Reader, at: int, a: Hashes, b: Hashes) -> _Pair:
    """Mix 32 bytes and two words into two words."""
    first, second, third, last = (read(at + 8 * i) for i in range(4))
    a = a + first
    b = _rotated(b + a + last, 21)
    total = a + second + third
    return total + last, b + _rotated(total, 44) + a


def _where(chosen: Any, new: Any, old: Any) -> Any:
    if isinstance(new, tuple):
        return tuple(_where(chosen, *each) for each in zip(new, old, strict=True))
    return np.where(chosen, new, old)


def _mixed(u: Hashes, v: Hashes, multiplier: Any) -> Hashes:
    a = _shift_mix((u ^ v) * multiplier)
    mixed: Hashes = _shift_mix((v ^ a) * multiplier) * multiplier
    return mixed


def _shift_mix(value: Hashes) -> Hashes:
    return value ^ (value >> np.uint64(47))


def _rotated(value: Hashes, bits: int) -> Hashes:
    return (value >> np.uint64(bits)) | (value << np.uint64(64 - bits))


def _multiplier(lengths: Any) -> Hashes:
    return _K2 + _unsigned(lengths) * np.uint64(2)


def _unsigned(numbers: Any) -> Hashes:
    unsigned: Hashes = numbers.astype(np.uint64)
    return unsigned


_BY_LENGTH: tuple[tuple[int, float, Callable[[_Reader, Any], Hashes]], ...] = (
    (1, 3, _up_to_3),
    (4, 7, _up_to_7),
    (8, 16, _up_to_16),
    (17, 32, _up_to_32),
    (33, 64, _up_to_64),
    (65, np.inf, _longer),
)
