"""Sound in files: values are those of TensorFlow's kernels."""

from pathlib import Path

import numpy as np
import pytest

import muster_tensorflow as tf


def write(path: Path, samples: list[float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tf.io.write_file(str(path), tf.audio.encode_wav(np.array(samples)[:, None], 8000))


def test_a_file_is_decoded_to_samples_from_minus_one_to_one(tmp_path: Path) -> None:
    tf.io.write_file(str(tmp_path / "a.wav"), tf.audio.encode_wav([[0.0, 1.0], [-0.5, -2.0]], 16000))
    audio, rate = tf.audio.decode_wav(tf.io.read_file(str(tmp_path / "a.wav")))
    assert (audio.dtype, audio.shape.as_list()) == (np.float32, [2, 2])
    assert audio.numpy().tolist() == [[0, 32767 / 32768], [-0.5, -1]]
    assert (rate.numpy(), rate.dtype) == (16000, np.int32)


def test_channels_and_samples_as_asked_for() -> None:
    stored = tf.audio.encode_wav([[0.25, 0.5], [0.5, 0.75]], 100)
    audio = tf.audio.decode_wav(stored, desired_channels=3, desired_samples=3).audio
    assert audio.numpy().tolist() == [[0.25, 0.5, 0.5], [0.5, 0.75, 0.75], [0, 0, 0]]
    assert tf.audio.decode_wav(stored, 1, 1).audio.numpy().tolist() == [[0.25]]


def test_what_is_no_sound() -> None:
    with pytest.raises(ValueError, match="These 3 bytes are no WAV file"):
        tf.audio.decode_wav(b"abc")
    with pytest.raises(TypeError, match="from the bytes of its file"):
        tf.audio.decode_wav(3)
    with pytest.raises(ValueError, match=r"\(samples, channels\), got \(2,\)"):
        tf.audio.encode_wav([0.0, 1.0], 100)
    eight_bits = tf.audio.encode_wav([[0.0]], 100).replace(b"\x02\x00\x10\x00", b"\x01\x00\x08\x00")
    with pytest.raises(ValueError, match="Can only read 16-bit WAV files, but received 8"):
        tf.audio.decode_wav(eight_bits)


def test_a_folder_of_sounds_has_batches_as_long_as_their_longest(tmp_path: Path) -> None:
    for name, samples in {"no/a": [0.5], "no/b": [0.25, 0.5], "yes/c": [0.125] * 3}.items():
        write(tmp_path / f"{name}.wav", samples)
    read = tf.keras.utils.audio_dataset_from_directory
    batches = list(read(tmp_path, batch_size=2, shuffle=False))
    assert [(audio.shape, labels.numpy().tolist()) for audio, labels in batches] == [
        ((2, 2, 1), [0, 0]),
        ((1, 3, 1), [1]),
    ]
    assert batches[0][0].numpy()[..., 0].tolist() == [[0.5, 0], [0.25, 0.5]]
    fixed = read(tmp_path, output_sequence_length=2, shuffle=False)
    assert fixed.class_names == ["no", "yes"]
    assert next(iter(fixed))[0].numpy()[..., 0].tolist() == [[0.5, 0], [0.25, 0.5], [0.125, 0.125]]
    ragged, _ = next(iter(read(tmp_path, ragged=True, shuffle=False)))
    assert ragged.row_lengths().tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="Cannot set both ragged and output_sequence_length"):
        read(tmp_path, ragged=True, output_sequence_length=2)
    with pytest.raises(ValueError, match="sampling_rate=16000 would change the rate"):
        read(tmp_path, sampling_rate=16000)
