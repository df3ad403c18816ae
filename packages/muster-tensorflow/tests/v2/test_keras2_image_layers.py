"""Keras' layers of images with Keras 2's numbers, and what decodes and divides images.

Numbers are those of TensorFlow 2.15.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import muster_tensorflow as tf

layers = tf.keras.layers
BRIGHT = np.full((1, 4, 4, 3), 250, np.uint8)


def contrasts(factor: Any) -> list[float]:
    x = tf.reshape([100.0, 200.0], (1, 1, 2, 1))
    layer = layers.RandomContrast(factor, (0, 300), seed=1)
    rows = [np.asarray(layer(x, training=True)).ravel() for _ in range(60)]
    return [float(high - low) / 100 for low, high in rows]


@pytest.mark.parametrize(
    ("factor", "least", "most"), [(0.2, 0.8, 1.2), ((0.3, 0.1), 0.7, 1.1), ([0.0, 1.5], 1.0, 2.5)]
)
def test_contrast_is_lowered_and_raised(factor: Any, least: float, most: float) -> None:
    found = contrasts(factor)
    width = most - least
    assert least - 1e-4 <= min(found) < least + width / 4
    assert most + 1e-4 >= max(found) > most - width / 4
    layer = layers.RandomContrast(factor)
    assert layers.RandomContrast.from_config(layer.get_config()).factor == layer.factor


@pytest.mark.parametrize("factor", [-0.1, 1.1, (2.0, 0.1)])
def test_contrast_of_wrong_factors(factor: Any) -> None:
    with pytest.raises(ValueError, match="factor is a number from 0 to 1"):
        layers.RandomContrast(factor)


def test_integers_of_images_do_not_overflow() -> None:
    resized = layers.Resizing(2, 2)(BRIGHT)
    assert resized.dtype == np.float32
    np.testing.assert_allclose(resized, 250.0)
    brighter = layers.RandomBrightness((0.2, 0.2))(BRIGHT, training=True)
    np.testing.assert_allclose(brighter, 255.0)
    for layer in (layers.RandomBrightness(0.1), layers.RandomContrast(0.1)):
        same = layer(BRIGHT, training=False)
        assert same.dtype == np.float32
        np.testing.assert_allclose(same, 250.0)


def test_batch_normalization_takes_the_name_of_a_kernel() -> None:
    for fused in (True, False, None):
        assert layers.BatchNormalization(fused=fused).axis == -1


def gif(count: int) -> bytes:
    file = io.BytesIO()
    images = [Image.fromarray(np.full((4, 5, 3), 60 * i, np.uint8)) for i in range(count)]
    images[0].save(file, "GIF", save_all=True, append_images=images[1:])
    return file.getvalue()


def test_all_images_of_an_animation_are_decoded() -> None:
    assert tf.io.decode_image(gif(3)).shape == (3, 4, 5, 3)
    assert tf.io.decode_image(gif(1)).shape == (1, 4, 5, 3)
    assert tf.io.decode_image(gif(3), expand_animations=False).shape == (4, 5, 3)
    found = tf.image.decode_image(gif(3), dtype=tf.float32)
    np.testing.assert_allclose(np.asarray(found)[:, 0, 0, 0], [0, 60 / 255, 120 / 255], atol=0.02)
    assert tf.io.decode_image(gif(2), dtype=tf.uint16).dtype == np.uint16
    with pytest.raises(ValueError, match="channels is 0 or 3 for a GIF file, got 1"):
        tf.io.decode_image(gif(2), channels=1)


def test_parts_of_a_folder_are_those_of_keras_2(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(5):
            Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(tmp_path / name / f"{i}.png")
    found = tf.keras.utils.image_dataset_from_directory(
        tmp_path, validation_split=0.3, subset="validation", seed=123, image_size=(2, 2)
    )
    kept = sorted(str(Path(path).relative_to(tmp_path)) for path in found.file_paths)
    assert kept == ["a/2.png", "b/1.png", "b/4.png"]


def test_images_are_cropped_to_a_ratio_as_keras_does(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    rows = np.repeat(np.arange(100, dtype=np.uint8)[:, None], 100, 1)
    Image.fromarray(np.stack([rows] * 3, -1)).save(tmp_path / "a" / "0.png")
    data = tf.keras.utils.image_dataset_from_directory(
        tmp_path, image_size=(3, 7), crop_to_aspect_ratio=True, interpolation="nearest", shuffle=False
    )
    pixels = np.asarray(next(iter(data))[0])[0, :, 0, 0]
    assert pixels.tolist() == [36, 50, 64]
