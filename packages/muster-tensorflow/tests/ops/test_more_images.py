"""Colours, random boxes, glimpses, boxes with scores, and files of images; the values are TensorFlow's."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

IMAGE = (np.arange(48).reshape(4, 4, 3) / 48).astype(np.float32)
PLACES = np.arange(50.0, dtype=np.float32).reshape(2, 5, 5, 1)
BOXES = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 0.5, 1, 1.5], [2, 2, 3, 3], [0, 0, 0.9, 1]], np.float32)
SCORES = np.array([0.9, 0.8, 0.7, 0.6, 0.5], np.float32)


@pytest.mark.parametrize(
    ("name", "expect"),
    [
        ("rgb_to_yiq", [0.0794792, -0.0191093, 0.002074]),
        ("yiq_to_rgb", [0.206835, -0.0275848, 0.147796]),
        ("yuv_to_rgb", [0.181238, -0.0308683, 0.231838]),
    ],
)
def test_colours(name: str, expect: list[float]) -> None:
    np.testing.assert_allclose(getattr(tf.image, name)(IMAGE)[0, 1], expect, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("centered", "normalized", "expect"),
    [
        (True, True, [[[5, 6], [10, 11], [15, 16]], [[41, 42], [46, 47], [0, 0]]]),
        (False, True, np.zeros((2, 3, 2))),
        (True, False, [[[16, 17], [21, 22], [0, 0]], np.zeros((3, 2))]),
        (False, False, [[[0, 5], [0, 10], [0, 15]], [[40, 41], [45, 46], [0, 0]]]),
    ],
)
def test_glimpses(centered: bool, normalized: bool, expect: Any) -> None:
    offsets = [[0.2, -0.4], [1.0, 0.0]] if normalized else [[1.0, -1.0], [3.0, 0.0]]
    found = tf.image.extract_glimpse(PLACES, [3, 2], offsets, centered, normalized, noise="zero")
    np.testing.assert_array_equal(found[..., 0], expect)


def test_glimpses_of_tensorflow_1() -> None:
    found = tf1.image.extract_glimpse(PLACES, [3, 2], [[1.0, -1.0], [3.0, 0.0]], normalized=False)
    expect = [[[6, 7], [11, 12], [16, 17]], [[36, 37], [41, 42], [46, 47]]]
    np.testing.assert_array_equal(found[..., 0], expect)
    noise = tf.image.extract_glimpse(PLACES, [3, 3], [[2.0, 2.0]] * 2)
    assert ((np.asarray(noise) >= 0) & (np.asarray(noise) <= 49)).all()
    with pytest.raises(ValueError, match="noise"):
        tf.image.extract_glimpse(PLACES, [3, 3], [[2.0, 2.0]] * 2, noise="none")


def test_the_best_boxes_and_their_scores() -> None:
    chosen, scores = tf.image.non_max_suppression_with_scores(BOXES, SCORES, 4)
    np.testing.assert_array_equal(chosen, [0, 2, 3])
    np.testing.assert_allclose(scores, [0.9, 0.7, 0.6])
    soft = {"iou_threshold": 1.0, "soft_nms_sigma": 0.5}
    chosen, scores = tf.image.non_max_suppression_with_scores(BOXES, SCORES, 5, **soft)
    np.testing.assert_array_equal(chosen, [0, 2, 3, 1, 4])
    np.testing.assert_allclose(scores, [0.9, 0.626387, 0.6, 0.331458, 0.103428], rtol=1e-4)
    narrow = soft | {"soft_nms_sigma": 0.2, "score_threshold": 0.2}
    chosen, scores = tf.image.non_max_suppression_with_scores(BOXES, SCORES, 5, **narrow)
    np.testing.assert_array_equal(chosen, [0, 3, 2])
    np.testing.assert_allclose(scores, [0.9, 0.6, 0.530226], rtol=1e-4)


def test_padded_indices() -> None:
    chosen, count = tf.image.non_max_suppression_padded(BOXES, SCORES, 5, pad_to_max_output_size=True)
    np.testing.assert_array_equal(chosen, [0, 2, 3, 0, 0])
    assert count == 3
    np.testing.assert_array_equal(tf.image.non_max_suppression_padded(BOXES, SCORES, 2)[0], [0, 2])
    chosen, counts = tf.image.non_max_suppression_padded(
        np.stack([BOXES, BOXES]), np.stack([SCORES, SCORES[::-1]]), 5, pad_to_max_output_size=True
    )
    np.testing.assert_array_equal(chosen, [[0, 2, 3, 0, 0], [4, 3, 2, 0, 0]])
    np.testing.assert_array_equal(counts, [3, 3])


def test_boxes_by_their_overlaps() -> None:
    overlaps = np.eye(5, dtype=np.float32)
    overlaps[0, [1, 4]] = overlaps[[1, 4], 0] = 0.9
    found = tf.image.non_max_suppression_overlaps(overlaps, SCORES, 5, 0.5)
    np.testing.assert_array_equal(found, [0, 2, 3])


def test_random_parts_cover_a_box() -> None:
    box = np.array([[[0.1, 0.2, 0.9, 0.8]]], np.float32)
    for number in range(20):
        begin, size, part = tf.image.stateless_sample_distorted_bounding_box(
            [50, 60, 3], box, seed=[number, 2], min_object_covered=0.5, area_range=(0.3, 0.9)
        )
        (y, x, _), (h, w, all_channels) = begin, size
        assert 0 <= y <= 50 - h
        assert 0 <= x <= 60 - w
        assert all_channels == -1
        np.testing.assert_allclose(part[0, 0], [y / 50, x / 60, (y + h) / 50, (x + w) / 60], rtol=1e-6)
        if (h, w) != (50, 60):
            assert 0.29 * 3000 <= h * w <= 0.91 * 3000
            assert 0.7 <= w / h <= 1.4
            common = (min(y + h, 45) - max(y, 5)) * (min(x + w, 48) - max(x, 12))
            assert common >= 0.5 * 40 * 36
    whole = tf.image.sample_distorted_bounding_box([50, 60, 3], box, min_object_covered=1.1)
    np.testing.assert_array_equal(whole.size, [50, 60, -1])
    with pytest.raises(ValueError, match="no boxes"):
        tf.image.sample_distorted_bounding_box([50, 60, 3], np.zeros((1, 0, 4), np.float32))


def test_files_of_images() -> None:
    frames = [Image.fromarray(np.full((5, 6, 3), value, np.uint8)) for value in (200, 9)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    found = tf.io.decode_gif(file.getvalue())
    assert found.shape == (2, 5, 6, 3)
    np.testing.assert_array_equal(found[:, 0, 0, 0], [200, 9])
    contents = tf.io.encode_jpeg(np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3))
    assert tf.io.is_jpeg(contents)
    assert not tf.image.is_jpeg(file.getvalue())
    part = tf.image.decode_and_crop_jpeg(contents, [1, 2, 3, 4])
    np.testing.assert_array_equal(part, tf.io.decode_jpeg(contents)[1:4, 2:6])
    with pytest.raises(ValueError, match="no GIF"):
        tf.image.decode_gif(contents)


def test_qualities_of_jpeg() -> None:
    found = tf.image.adjust_jpeg_quality(IMAGE, 90)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, IMAGE, atol=0.05)
    again = tf.image.stateless_random_jpeg_quality(IMAGE, 50, 90, seed=[1, 2])
    np.testing.assert_array_equal(again, tf.image.stateless_random_jpeg_quality(IMAGE, 50, 90, seed=[1, 2]))
    assert tf.image.random_jpeg_quality(IMAGE, 50, 90).shape == IMAGE.shape
    with pytest.raises(ValueError, match="Qualities"):
        tf.image.random_jpeg_quality(IMAGE, 90, 50)


def test_similarity_at_several_scales():
    one = np.arange(2 * 48 * 50).reshape(2, 48, 50, 1) % 97 / 97.0
    other = one * 0.9 + 0.05 * np.cos(np.arange(one.size)).reshape(one.shape)
    one, other = one.astype("float32"), other.astype("float32")
    few = tf.image.ssim_multiscale(one, other, 1.0, power_factors=[0.3, 0.3, 0.4], filter_size=7)
    np.testing.assert_allclose(few, [0.956983, 0.958318], atol=1e-5)
    large = [tf.tile(each, [1, 4, 4, 1]) for each in (one, other)]
    np.testing.assert_allclose(tf.image.ssim_multiscale(*large, 1.0), [0.966908, 0.967925], atol=1e-5)
