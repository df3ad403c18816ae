"""``tf.distribute.experimental.MultiWorkerMirroredStrategy`` and its hints."""

import pytest

import muster_tensorflow as tf


def test_older_arguments_of_multi_worker_mirrored_strategy(monkeypatch, caplog):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    experimental = tf.distribute.experimental
    communication = experimental.CollectiveCommunication
    assert communication is experimental.CommunicationImplementation
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["localhost:1"]}), task_type="worker", task_id=0
    )
    strategy = experimental.MultiWorkerMirroredStrategy(communication.AUTO, resolver)
    assert isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    assert strategy.cluster_resolver is resolver
    assert experimental.MultiWorkerMirroredStrategy().num_replicas_in_sync == 1
    strategy = experimental.MultiWorkerMirroredStrategy(communication=communication.NCCL)
    assert float(strategy.run(lambda: tf.constant(2.0))) == 2.0
    assert "NCCL is for GPUs, and JAX has none here" in caplog.text
    with pytest.raises(ValueError, match="must be instance of"):
        experimental.MultiWorkerMirroredStrategy(resolver)  # the argument that the other class has first
    hints = experimental.CollectiveHints(bytes_per_pack=50, timeout_seconds=2.0)
    assert hints == experimental.CommunicationOptions(bytes_per_pack=50, timeout_seconds=2.0)
