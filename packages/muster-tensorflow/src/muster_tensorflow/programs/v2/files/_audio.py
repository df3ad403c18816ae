"""Sound in files: ``tf.audio``, for WAV files of 16 bits, in input functions."""

import io
import wave
from typing import Any, NamedTuple

import numpy as np

_ONE = 1 << 15  # the sample that stands for 1.0


class DecodedWav(NamedTuple):
    """Samples of a sound, and their rate.

    Attributes:
        audio: The samples, from -1 to 1: float32 of shape (samples, channels).
        sample_rate: How many of them are a second: int32 of shape ().
    """

    audio: Any
    sample_rate: Any


def decode_wav(
    contents: bytes, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> DecodedWav:
    """Decode a WAV file of 16 bits.

    Args:
        contents: The bytes of the file.
        desired_channels: How many channels to return; the last one of the file stands for those that it does
            not have. -1 for all of the file.
        desired_samples: How many samples to return, filled up by 0. -1 for all.
        name: Ignored.

    Raises:
        TypeError: `contents` is not bytes.
        ValueError: The bytes are no such file.

    Source: tensorflow/core/kernels/decode_wav_op.cc.
    """
    if not isinstance(contents, bytes):
        raise TypeError(
            f"Sound is decoded from the bytes of its file, as tf.io.read_file returns, got {contents!r} of "
            f"type {type(contents).__name__}."
        )
    try:
        with wave.open(io.BytesIO(contents)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            stored = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as exc:
        raise ValueError(f"These {len(contents)} bytes are no WAV file: {exc}.") from exc
    if width != 2:
        raise ValueError(f"Can only read 16-bit WAV files, but received {8 * width}.")
    samples = np.frombuffer(stored, "<i2").reshape(-1, channels).astype(np.float32) / np.float32(_ONE)
    if desired_channels != -1:
        samples = samples[:, np.minimum(np.arange(desired_channels), channels - 1)]
    if desired_samples != -1:
        missing = max(0, desired_samples - len(samples))
        samples = np.pad(samples[:desired_samples], ((0, missing), (0, 0)))
    return DecodedWav(samples, np.int32(rate))


def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> bytes:
    """Return the bytes of a WAV file of 16 bits.

    Args:
        audio: The samples, of shape (samples, channels); what is not from -1 to 1 is cut.
        sample_rate: How many of them are a second.
        name: Ignored.

    Raises:
        ValueError: `audio` has not two axes.

    Source: tensorflow/core/lib/wav/wav_io.cc.
    """
    samples = np.asarray(audio, np.float32)
    if samples.ndim != 2:
        raise ValueError(f"audio has the shape (samples, channels), got {samples.shape}.")
    whole = np.clip(np.trunc(samples * _ONE + np.copysign(0.5, samples)), -_ONE, _ONE - 1)
    stored = io.BytesIO()
    with wave.open(stored, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(int(sample_rate))
        file.writeframes(whole.astype("<i2").tobytes())
    return stored.getvalue()
