"""Functions that are metrics get numbers of one type."""

from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow as tf


def test_a_function_gets_labels_of_the_type_of_the_metric() -> None:
    seen = []

    def difference(y_true: Any, y_pred: Any) -> Any:
        seen.append((y_true.dtype, y_pred.dtype))
        return tf.abs(y_true - y_pred)

    metric = keras.metrics.MeanMetricWrapper(difference)
    metric.update_state(np.array([[0], [2]], np.uint8), np.array([[1.0], [2.0]], np.float32))
    assert seen == [("float32", "float32")]
    assert float(metric.result()) == 0.5


def test_a_metric_of_images_does_not_scale_the_labels_alone() -> None:
    def psnr(y_true: Any, y_pred: Any) -> Any:
        return tf.image.psnr(y_true, y_pred, max_val=255)

    model = keras.Sequential([keras.Input((12, 12, 3)), keras.layers.Rescaling(1.0, offset=5.0)])
    model.compile(loss="mae", metrics=[psnr])
    images = np.arange(2 * 12 * 12 * 3).reshape(2, 12, 12, 3) % 200
    _, found = model.evaluate(images.astype(np.float32), images.astype(np.uint8), verbose=0)
    assert found == pytest.approx(20 * np.log10(255 / 5), rel=1e-4)
