"""``tf.image.random_…``: new at each call, of arrays, in ``Dataset.map``, and the same for a seed."""

import numpy as np
import pytest

import muster_tensorflow as tf

IMAGE = np.random.default_rng(0).uniform(0.2, 0.8, (8, 6, 3)).astype(np.float32)
BATCH = np.stack([IMAGE] * 40)

CHANGES = {
    "flip_left_right": lambda f, image, **seed: f(image, **seed),
    "flip_up_down": lambda f, image, **seed: f(image, **seed),
    "crop": lambda f, image, **seed: f(image, (*image.shape[:-3], 4, 4, 3), **seed),
    "brightness": lambda f, image, **seed: f(image, 0.2, **seed),
    "hue": lambda f, image, **seed: f(image, 0.2, **seed),
    "contrast": lambda f, image, **seed: f(image, 0.5, 1.5, **seed),
    "saturation": lambda f, image, **seed: f(image, 0.5, 1.5, **seed),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_call_changes_otherwise(name):
    change = CHANGES[name]
    random = getattr(tf.image, f"random_{name}")
    seen = {np.asarray(change(random, IMAGE)).tobytes() for _ in range(20)}
    assert len(seen) > 1

    compiled = tf.function(lambda image: change(random, image))
    seen = {np.asarray(compiled(IMAGE)).tobytes() for _ in range(20)}
    assert len(seen) > 1

    mapped = tf.data.Dataset.from_tensor_slices(BATCH).map(lambda image: change(random, image))
    assert len({np.asarray(each).tobytes() for each in mapped}) > 1


@pytest.mark.parametrize("name", CHANGES)
def test_a_seed_says_what_changes(name):
    stateless = getattr(tf.image, f"stateless_random_{name}")
    made = [np.asarray(CHANGES[name](stateless, IMAGE, seed=(1, i))) for i in range(20)]
    again = np.asarray(CHANGES[name](stateless, IMAGE, seed=(1, 3)))
    np.testing.assert_array_equal(made[3], again)
    assert len({each.tobytes() for each in made}) > 1


def test_images_of_a_batch_are_flipped_alone():
    flipped = np.asarray(tf.image.random_flip_left_right(BATCH))
    turned = (flipped == BATCH[:, :, ::-1]).all((1, 2, 3))
    assert ((flipped == BATCH).all((1, 2, 3)) != turned).all()
    assert 0 < turned.sum() < 40


def test_crops_are_parts():
    crop = np.asarray(tf.image.random_crop(IMAGE, (3, 2, -1)))
    places = [(i, j) for i in range(6) for j in range(5) if (IMAGE[i : i + 3, j : j + 2] == crop).all()]
    assert len(places) == 1
    with pytest.raises(ValueError, match="does not fit"):
        tf.image.random_crop(IMAGE, (9, 2, 3))
