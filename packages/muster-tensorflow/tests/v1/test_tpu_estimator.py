"""TPUEstimator without TPUs, and on a TPUStrategy of other devices."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf2
import muster_tensorflow.compat.v1 as tf
from muster._errors import ClusterError

X = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]


def input_fn(params: Any) -> Any:
    dataset = tf.data.Dataset.from_tensor_slices((X, 3 * X))
    return dataset.repeat(params["times"]).batch(params["batch_size"], drop_remainder=True)


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    outputs = tf.layers.dense(features, 1, name="line")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions={"y": outputs})
    loss = tf.losses.mean_squared_error(labels, outputs)
    optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(params["rate"]))
    rows = tf.reshape(tf.tile([tf.cast(tf.shape(features)[0], tf.float32)], [1]), [1])

    def host_call_fn(rows: Any, loss: Any) -> Any:
        tf.contrib.summary.scalar("rows", rows[0], step=0)
        tf.contrib.summary.scalar("loss_of_replica", loss[0])
        return []

    def metric_fn(labels: Any, outputs: Any) -> dict[str, Any]:
        return {"error": tf.metrics.mean_absolute_error(labels, outputs)}

    return tf.contrib.tpu.TPUEstimatorSpec(
        mode=mode,
        loss=loss,
        train_op=optimizer.minimize(loss, tf.train.get_global_step()),
        eval_metrics=(metric_fn, [labels, outputs]),
        host_call=(host_call_fn, {"rows": rows, "loss": tf.reshape(loss, [1])}),
        scaffold_fn=tf.train.Scaffold,
    )


def config(**more: Any) -> Any:
    return tf.contrib.tpu.RunConfig(
        tpu_config=tf.contrib.tpu.TPUConfig(iterations_per_loop=10, num_shards=8),
        cluster=None,
        save_checkpoints_steps=50,
        **more,
    )


def test_it_trains_evaluates_and_predicts_without_tpus(tmp_path: Path) -> None:
    estimator = tf.estimator.tpu.TPUEstimator(
        model_fn=model_fn,
        model_dir=str(tmp_path),
        config=config(),
        params={"rate": 0.3, "times": None},
        use_tpu=False,
        train_batch_size=16,
        eval_batch_size=8,
        predict_batch_size=4,
    )
    estimator.train(input_fn=input_fn, max_steps=100)
    results = estimator.evaluate(input_fn=input_fn, steps=8)
    assert results["error"] < 0.01
    first = next(estimator.predict(input_fn, yield_single_examples=False))
    assert first["y"].shape == (4, 1)


def test_replicas_divide_the_batch(tmp_path: Path) -> None:
    sizes = []

    def counted(params: Any) -> Any:
        sizes.append(params["batch_size"])
        return input_fn(params)

    strategy = tf2.distribute.TPUStrategy(devices=["cpu:0", "cpu:1"])
    estimator = tf.contrib.tpu.TPUEstimator(
        model_fn,
        str(tmp_path),
        config(train_distribute=strategy),
        {"rate": 0.3, "times": None},
        train_batch_size=16,
    )
    estimator.train(counted, steps=2)
    assert sizes == [8]


def test_without_tpus_it_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="use_tpu=False"):
        tf.contrib.tpu.TPUEstimator(model_fn, config=config(), params={}, train_batch_size=16)


def test_params_have_no_batch_size(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reserved keys"):
        tf.contrib.tpu.TPUEstimator(model_fn, params={"batch_size": 3}, use_tpu=False)


@pytest.mark.parametrize("name", ["", "local"])
def test_without_tpus_a_resolver_has_an_empty_cluster(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TPU_NAME", "TPU_WORKER_HOSTNAMES"):
        monkeypatch.delenv(variable, raising=False)
    of_contrib = tf.contrib.cluster_resolver.TPUClusterResolver(name, zone=None, project=None)
    of_version_1 = tf.distribute.cluster_resolver.TPUClusterResolver(name)
    for resolver in (of_contrib, of_version_1):
        assert (resolver.cluster_spec().as_dict(), resolver.master()) == ({}, "")
        assert tf.contrib.tpu.RunConfig(cluster=resolver).cluster is resolver
    with pytest.raises(ValueError, match="There is no TPU here"):  # by which programs look for one
        tf2.distribute.cluster_resolver.TPUClusterResolver("")
