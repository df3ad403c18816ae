"""``tf.contrib.image``, beside what TensorFlow's ImageProjectiveTransformV2 computes."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

image = tf.contrib.image
COUNTED = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
TURNED = {
    "NEAREST": [[0, 3, 3, 8], [1, 6, 7, 12], [5, 10, 10, 0]],
    "BILINEAR": [
        [0.6707, 2.2426, 4.8667, 5.1873],
        [2.3071, 5.1024, 7.8976, 10.6929],
        [3.9673, 8.1333, 9.2325, 4.572],
    ],
}


@pytest.mark.parametrize("interpolation", TURNED)
def test_images_are_rotated_about_their_centers(interpolation: str) -> None:
    turned = image.rotate(COUNTED, 0.5, interpolation)
    np.testing.assert_allclose(turned, TURNED[interpolation], atol=1e-4)
    both = image.rotate(np.stack([COUNTED, COUNTED])[..., None], [0.5, 0.0], interpolation)
    np.testing.assert_allclose(both[0, :, :, 0], turned)
    np.testing.assert_allclose(both[1, :, :, 0], COUNTED)


def test_images_are_moved_right_and_down() -> None:
    moved = image.translate(COUNTED[..., None], [1, -1])
    np.testing.assert_allclose(moved[:, :, 0], [[0, 5, 6, 7], [0, 9, 10, 11], [0, 0, 0, 0]])


def test_a_projection_has_its_own_size_and_keeps_the_kind_of_numbers() -> None:
    projection = [1, 0.1, -1, 0.2, 0.9, 0.5, 0.01, 0.02]
    images = (COUNTED * 20).astype(np.uint8)
    projected = image.transform(images, projection, "BILINEAR", output_shape=[2, 3])
    assert projected.dtype == np.uint8
    np.testing.assert_array_equal(projected, [[0, 75, 110], [15, 146, 179]])


def test_images_of_a_dataset_are_rotated_by_chance() -> None:
    def turned(each: Any) -> Any:
        return image.rotate(each, tf.random.uniform([], -1.0, 1.0))

    (first,) = tf.data.Dataset.from_tensors(COUNTED[..., None]).map(turned)
    assert first.shape == (3, 4, 1)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="NEAREST or BILINEAR, got 'CUBIC'"):
        image.rotate(COUNTED, 0.5, "CUBIC")
    with pytest.raises(ValueError, match=r"between 2 and 4 dimensions, got the shape \(3,\)"):
        image.rotate(np.ones(3), 0.5)
