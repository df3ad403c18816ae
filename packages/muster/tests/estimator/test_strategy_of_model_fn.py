"""A model_fn runs as a replica of the strategy of its Estimator's config, as in TensorFlow."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linear import dataset, estimator

import muster
from muster._keras import keras
from muster.distribute import (
    MirroredStrategy,
    ReduceOp,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from muster.estimator import EstimatorSpec, ModeKeys

SEEN: list[Any] = []


def model_fn(features: Any, labels: Any, mode: ModeKeys) -> EstimatorSpec:
    strategy, replica = get_strategy(), get_replica_context()
    assert replica is not None
    assert replica.strategy is strategy
    assert not in_cross_replica_context()
    SEEN.append((mode, strategy, has_strategy(), replica.num_replicas_in_sync))
    w = keras.Variable(np.zeros((2, 1), np.float32), name="w")
    sums = replica.all_reduce("sum", keras.ops.ones((1, 1)))
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": features @ w, "replicas": features[:, :1] * 0 + sums})
    loss = keras.ops.mean((features @ w - labels) ** 2) / strategy.num_replicas_in_sync
    replicas = keras.metrics.Mean()
    replicas.update_state(sums)
    optimizer = keras.optimizers.SGD(0.1)
    train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step(), loss_reduction="sum")
    return EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"replicas": replicas})


def test_the_strategy_is_that_of_the_config(tmp_path: Path) -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    SEEN.clear()
    made = estimator(tmp_path / "two", model_fn, train_distribute=strategy, eval_distribute=strategy)
    made.train(lambda: dataset(4).repeat(), max_steps=3)
    assert made.evaluate(lambda: dataset(4))["replicas"] == 2
    assert {each[1:] for each in SEEN} == {(strategy, True, 2)}
    SEEN.clear()
    predictions = list(made.predict(lambda: dataset(4)))
    assert {each[1:] for each in SEEN} == {(get_strategy(), False, 1)}
    assert predictions[0]["replicas"] == [1]
    # The sum of the replicas' losses, each of them its share, is the loss of their batch.
    alone = estimator(tmp_path / "one", model_fn)
    alone.train(lambda: dataset(8).repeat(), max_steps=3)
    np.testing.assert_allclose(made.get_variable_value("w"), alone.get_variable_value("w"), rtol=1e-5)


def test_the_operation_of_an_aggregation() -> None:
    assert ReduceOp.from_variable_aggregation("sum") is ReduceOp.SUM
    assert ReduceOp.from_variable_aggregation("mean") is ReduceOp.MEAN
    with pytest.raises(ValueError, match=r"Could not convert .* only_first_replica .*: the aggregations SUM"):
        ReduceOp.from_variable_aggregation("only_first_replica")
