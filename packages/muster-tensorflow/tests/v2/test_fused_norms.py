"""The moving variances of images, beside those of TensorFlow 2.15.1."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

BATCH_VARIANCES = [3.0, 2.34375]  # half of the first value, 1, and half of the variance of the batch
SAMPLE_VARIANCES = [3.83333333, 2.95833333]


def values(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 7).astype("float32").reshape(shape)


def normalized(shape: tuple[int, ...], **options: Any) -> tuple[Any, np.ndarray]:
    layer = tf.keras.layers.BatchNormalization(momentum=0.5, **options)
    return layer, np.asarray(layer(values(*shape), training=True))


@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        ((2, 2, 1, 2), {}, SAMPLE_VARIANCES),
        ((2, 1, 2, 1, 2), {}, SAMPLE_VARIANCES),
        ((2, 2, 2, 1), {"axis": 1}, [3.33333333, 3.625]),
        ((2, 2, 2, 1), {"axis": -3}, [3.33333333, 3.625]),
        ((1, 1, 1, 2), {}, [0.5, 0.5]),
        ((4, 2), {}, BATCH_VARIANCES),
        ((2, 2, 2), {}, BATCH_VARIANCES),
        ((2, 2, 1, 2), {"fused": False}, BATCH_VARIANCES),
        ((2, 2, 1, 2), {"dtype": "float64"}, BATCH_VARIANCES),
        ((2, 2, 2, 1), {"axis": 2}, BATCH_VARIANCES),
        ((2, 1, 2, 1, 2), {"axis": 2}, [2.625, 2.84375]),
    ],
)
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_images_move_the_variance_of_a_sample(
    shape: tuple[int, ...], options: dict[str, Any], expected: list[float]
) -> None:
    layer, _ = normalized(shape, **options)
    np.testing.assert_allclose(layer.moving_variance, expected, rtol=1e-6)


def test_images_are_normalized_by_the_variance_of_the_batch() -> None:
    """As by any other kernel: scaled, moved, in the dtype of the layer."""
    image, of_image = normalized((2, 2, 1, 2))
    row, of_row = normalized((4, 2))
    np.testing.assert_allclose(of_image.reshape(4, 2), of_row, rtol=1e-6)
    assert of_image.ravel()[1] == pytest.approx(-0.65086, abs=1e-5)
    np.testing.assert_allclose(image.moving_mean, row.moving_mean, rtol=1e-6)
    bare, outputs = normalized((2, 2, 1, 2), center=False, scale=False, dtype="bfloat16")
    assert len(bare.weights) == 2
    assert outputs.dtype == "bfloat16"
    np.testing.assert_allclose(outputs.astype("float32").ravel(), of_image.ravel(), rtol=1e-2)


def test_fit_moves_the_variance_of_a_sample_and_frozen_layers_none() -> None:
    def trained(trainable: bool) -> list[np.ndarray]:
        norm = tf.keras.layers.BatchNormalization(momentum=0.5, trainable=trainable)
        model = tf.keras.Sequential([tf.keras.layers.Input((2, 1, 2)), norm])
        model.compile("sgd", "mse")
        data = values(4, 2, 1, 2)
        model.fit(data, data, batch_size=2, epochs=2, shuffle=False, verbose=0)
        return [np.asarray(each) for each in model.get_weights()]

    scale, offset, mean, variance = trained(True)
    np.testing.assert_allclose(scale, [1.04244995, 1.0362600], atol=1e-5)
    np.testing.assert_allclose(offset, [0.10336000, 0.10846000], atol=1e-5)
    np.testing.assert_allclose(mean, [2.34375, 2.73438], atol=1e-5)
    np.testing.assert_allclose(variance, [5.21875, 4.67188], atol=1e-5)
    assert [each.tolist() for each in trained(False)] == [[1, 1], [0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize(("rank", "fused", "expected"), [
    (4, None, SAMPLE_VARIANCES),
    (4, False, BATCH_VARIANCES),
    (2, None, BATCH_VARIANCES),
])  # fmt: skip
def test_layers_of_tensorflow_1_do_as_well(rank: int, fused: bool | None, expected: list[float]) -> None:
    layer = tf.compat.v1.layers.BatchNormalization(momentum=0.5, fused=fused)
    layer(values(*((2, 2, 1, 2) if rank == 4 else (4, 2))), training=True)
    np.testing.assert_allclose(layer.moving_variance, expected, rtol=1e-6)


@pytest.mark.parametrize(("options", "expected"), [
    ({}, SAMPLE_VARIANCES),
    ({"fused": True}, SAMPLE_VARIANCES),
    ({"fused": False}, BATCH_VARIANCES),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(4, 2), (2, 2, 1, 2)])
def test_contrib_normalizes_rows_as_images(
    shape: tuple[int, ...], options: dict[str, Any], expected: list[float], tmp_path: Any
) -> None:
    data = values(*shape)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        training = mode == "train"
        normal = tf.contrib.layers.batch_norm(
            features, 0.5, is_training=training, scope="norm", updates_collections=None, **options
        )
        assert normal.shape == shape
        loss = tf.reduce_mean(normal)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensors((data, data)).repeat(), max_steps=1)
    np.testing.assert_allclose(estimator.get_variable_value("norm/moving_variance"), expected, rtol=1e-5)


def test_contrib_takes_renorm_and_refuses_an_adjustment() -> None:
    norm = tf.contrib.layers.batch_norm
    plain = np.asarray(norm(values(4, 2), is_training=True))
    again = np.asarray(norm(values(4, 2), is_training=True, renorm=True, renorm_clipping={"rmax": 1.0}))
    assert not np.allclose(plain, again)
    with pytest.raises(ValueError, match="no adjustment"):
        norm(values(4, 2), adjustment=lambda shape: (1, 0))
