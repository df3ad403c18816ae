"""Summaries among the metrics of an evaluation: how programs have images written."""

import logging

import jax.numpy as jnp
import numpy as np

from muster.data import Dataset, TFRecordDataset
from muster.estimator import Estimator, EstimatorSpec
from muster.program import summary_image, summary_scalar
from muster.summary import parse_message, summary_class

IMAGES = np.random.default_rng(0).uniform(size=(6, 4, 5, 3)).astype(np.float32)


def model_fn(features, labels, mode):
    metrics = {
        "Truth": (summary_image("truth", features, max_outputs=2), None),
        "brightness": (summary_scalar("mean", jnp.mean(features)), None),
    }
    return EstimatorSpec(mode, loss=jnp.float32(0), eval_metric_ops=metrics)


def test_they_are_written_beside_the_numbers(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    estimator = Estimator(model_fn, tmp_path)
    metrics = estimator.evaluate(lambda: Dataset.from_tensor_slices(IMAGES).batch(3))
    np.testing.assert_allclose(metrics["brightness"], IMAGES[3:].mean(), rtol=1e-6)
    summary = summary_class().FromString(metrics["Truth"])
    sizes = [(each.image.height, each.image.width, each.image.colorspace) for each in summary.value]
    assert sizes == [(4, 5, 3)] * 2
    (file,) = (tmp_path / "eval").iterdir()
    events = [parse_message(record) for record in TFRecordDataset(str(file))]
    written = [each for event in events for each in event.summary.value]
    assert [each for each in written if each.HasField("image")] == [*summary.value]
    assert {each.tag for each in written} == {"Truth/0", "Truth/1", "brightness", "loss"}
    assert [each for each in caplog.messages if "Truth = images" in each]
