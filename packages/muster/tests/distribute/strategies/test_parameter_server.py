"""TensorFlow 1's ParameterServerStrategy: its settings, and what it is without parameter servers."""

import numpy as np
import pytest

from muster import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver, TFConfigClusterResolver
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategyV1
from muster.estimator import Estimator, RunConfig

SERVED = {"chief": ["c:1"], "worker": ["w:1"], "ps": ["p:1"]}


def resolver(kind, cluster=SERVED):
    return SimpleClusterResolver(ClusterSpec(cluster), task_type=kind, task_id=0)


def test_in_one_process_it_stores_variables_centrally():
    strategy = ParameterServerStrategyV1()
    assert isinstance(strategy.cluster_resolver, TFConfigClusterResolver)
    with strategy.scope():
        variable = keras.Variable(2.0)
        replicas = strategy.experimental_local_results(strategy.run(lambda: variable.value * 3))
    assert [float(each) for each in replicas] == [6.0] * strategy.num_replicas_in_sync


def test_it_keeps_its_settings():
    partitioner, chief = FixedShardsPartitioner(2), resolver("chief")
    strategy = ParameterServerStrategyV1(chief, variable_partitioner=partitioner, max_staleness=np.int32(2))
    assert strategy.cluster_resolver is chief
    assert strategy.variable_partitioner is partitioner
    assert strategy.max_staleness == 2


@pytest.mark.parametrize("kind", ["chief", "worker"])
def test_a_loop_of_its_own_cannot_train_with_parameter_servers(kind, tmp_path):
    strategy = ParameterServerStrategyV1(resolver(kind))
    with pytest.raises(NotImplementedError, match="only works with train_and_evaluate"), strategy.scope():
        pass
    estimator = Estimator(lambda features: None, str(tmp_path), RunConfig(train_distribute=strategy))
    with pytest.raises(NotImplementedError, match="only works with train_and_evaluate"):
        estimator.train(lambda: None)


@pytest.mark.parametrize("task", [resolver("evaluator"), resolver("chief", {"chief": ["c:1"]})])
def test_an_evaluator_and_a_chief_without_servers_have_it_to_themselves(task):
    strategy = ParameterServerStrategyV1(task)
    with strategy.scope() as entered:
        assert entered is strategy


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"cluster_resolver": "here"}, TypeError, "cluster_resolver must be a ClusterResolver"),
        ({"variable_partitioner": 2}, TypeError, "variable_partitioner must be a function"),
        ({"variable_partitioner": FixedShardsPartitioner}, TypeError, r"such as FixedShardsPartitioner\(2\)"),
        ({"max_staleness": "2"}, TypeError, "max_staleness must be an integer or None"),
        ({"max_staleness": True}, TypeError, "max_staleness must be an integer or None"),
        ({"max_staleness": -1}, ValueError, "max_staleness should be >= 0, given: -1"),
    ],
)
def test_wrong_settings_are_refused(options, error, says):
    with pytest.raises(error, match=says):
        ParameterServerStrategyV1(**options)
