"""TensorFlow's arithmetic."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from recorded import cases


def test_cast_copies() -> None:
    image = np.ones(3, np.float32)
    scaled = tf.cast(image, tf.float32)
    scaled /= 255
    assert image.sum() == 3


def test_text_is_a_type_by_its_name() -> None:
    assert tf.as_dtype("string") == tf.string
    assert tf.as_dtype(np.dtype("<U3")) == tf.string
    assert tf.as_dtype(1) == tf.float32
    assert tf.TensorSpec([None], "string").dtype == tf.string
    for name in ("string", tf.string):
        assert tf.cast(tf.constant(["a", "b"], dtype=name), name).tolist() == ["a", "b"]
        assert tf.zeros([2], dtype=name).tolist() == ["", ""]
        assert [*tf.data.Dataset.from_tensor_slices(["a"]).map(lambda x, n=name: tf.cast(x, n))] == ["a"]
    assert tf.cast(np.array([b"\xff"], object), "string").tolist() == [b"\xff"]
    assert tf.io.FixedLenFeature([], "string").dtype == tf.io.VarLenFeature("string").dtype == tf.string
    with pytest.raises(TypeError, match="as_string"):
        tf.cast([1], "string")


@pytest.mark.parametrize("texts", [np.array([b"0", b"1"]), np.array([b"0", "1"], object), ["0", "1"]])
def test_text_equals_its_bytes(texts: Any) -> None:
    assert tf.equal(texts, "0").numpy().tolist() == [True, False]
    assert tf.not_equal(b"0", texts).numpy().tolist() == [False, True]
    assert tf.equal(texts, np.array(["0", "1"])).numpy().all()
    of_lines = tf.data.Dataset.from_tensor_slices(texts).map(lambda text: tf.not_equal(text, "1"))
    assert [bool(each) for each in of_lines] == [True, False]


def test_where_without_values_returns_places_outside_of_steps() -> None:
    np.testing.assert_array_equal(tf.where([[True, False], [False, True]]), [[0, 0], [1, 1]])
    with pytest.raises(ValueError, match="needs x and y"):
        tf.where(np.ones(2) > 0, 1.0)
    np.testing.assert_array_equal(tf.function(tf.where)(np.array([0, 2]) > 0), [[1]])


@pytest.mark.parametrize(
    "case", cases("optimizers", lambda case: case["name"].startswith(("clip_by_global_norm", "clip_by_norm")))
)
def test_clipping_is_tensorflows(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expect"]
    if given["api"] == "tf.clip_by_norm":
        found = tf.clip_by_norm(np.float32(given["value"]), given["clip_norm"])
        np.testing.assert_allclose(found, expected["value"], rtol=1e-6)
        return
    gradients = [None if g == "None" else np.float32(g) for g in given["gradients"]]
    clipped, norm = tf.clip_by_global_norm(gradients, given["clip_norm"])
    assert float(norm) == pytest.approx(expected["global_norm"])
    for ours, theirs in zip(clipped, expected["clipped"], strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_map_respects_the_dtypes_asked_for() -> None:
    def scale(image: Any, label: Any) -> Any:
        image = tf.cast(image, tf.float32)
        image /= 255
        return image, label

    images = np.full((4, 2), 255, np.uint8)
    data = tf.data.Dataset.from_tensor_slices((images, np.arange(4))).map(scale).batch(4)
    scaled, labels = next(iter(data))
    assert (scaled.dtype, labels.dtype) == (np.float32, np.int64)
    assert (scaled == 1).all()
    assert (images == 255).all()


@pytest.mark.parametrize("number", [41, 47, 1000])
@pytest.mark.parametrize("call", [lambda function: function, tf.function])
def test_the_mean_of_all_values_is_exact(call, number: int) -> None:
    mean = call(tf.reduce_mean)
    assert float(mean(tf.ones(number))) == 1.0
    assert float(mean(tf.ones([2, number]), [0, 1])) == 1.0
    assert np.isnan(mean(tf.ones(0)))
    assert mean(tf.constant([1, 2, 4])).numpy() == 2
