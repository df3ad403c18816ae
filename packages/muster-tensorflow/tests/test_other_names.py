"""Names without a module of their own: types, options, and those passed on from Keras and TensorFlow 2."""

import importlib

import numpy as np
import pytest

import muster_tensorflow as tf


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("keras.layers", {"Dense", "StringLookup"}),
        ("keras.losses", {"Reduction", "MeanSquaredError"}),
        ("losses", {"Reduction", "MeanSquaredError"}),
        ("keras.callbacks", {"experimental", "ModelCheckpoint"}),
        ("metrics", {"Mean"}),
        ("optimizers", {"Adam"}),
    ],
)
def test_everything_may_be_imported_from_modules_of_keras(module, names):
    found = {}
    exec(f"from muster_tensorflow.{module} import *", found)
    assert names < set(found)
    own = vars(importlib.import_module(f"muster_tensorflow.{module}"))
    of_older_kerases = {name for name, each in own.items() if type(each).__name__ == "_Passing"}
    public = {name for name in own if not name.startswith("_")}
    assert public - of_older_kerases - {"Any", "keras"} <= set(found)
    assert not [name for name in found if name.startswith("_") and name != "__builtins__"]


def test_generators_are_described_as_in_the_guide():
    dataset = tf.data.Dataset.from_generator(
        lambda: iter([np.zeros(4)]), output_types=(tf.float32), output_shapes=tf.TensorShape([4])
    )
    assert dataset.element_spec == tf.TensorSpec([4], tf.float32)
    assert isinstance(iter(dataset), tf.data.Iterator)


def test_types():
    assert tf.dtypes.int64 is tf.int64
    assert tf.dtypes.cast(1.5, tf.dtypes.int32) == 1
    assert isinstance(tf.constant(1), tf.Tensor)
    assert not isinstance(1, tf.Tensor)


def test_options_are_accepted(tmp_path):
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    options = tf.distribute.RunOptions(experimental_enable_dynamic_batch_size=False)
    assert strategy.run(lambda: 3, options=options) == 3
    options = tf.train.CheckpointOptions(experimental_io_device="/job:localhost")
    checkpoint = tf.train.Checkpoint(step=tf.Variable(1))
    checkpoint.restore(checkpoint.save(tmp_path / "ckpt", options=options), options=options)


def test_values_of_replicas_are_made_as_in_the_guide():
    context = tf.distribute.experimental.ValueContext(replica_id_in_sync_group=2, num_replicas_in_sync=4)
    assert context.replica_id_in_sync_group / context.num_replicas_in_sync == 0.5


def test_keras_has_what_it_dropped() -> None:
    loss = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )
    assert loss(np.array([0, 1]), np.zeros((2, 3))).shape == (2,)
    for reduction in ("AUTO", "SUM", "SUM_OVER_BATCH_SIZE"):
        mean = tf.losses.MeanSquaredError(reduction=getattr(tf.losses.Reduction, reduction))
        assert mean(np.ones((2, 3)), np.ones((2, 3))).shape == ()
    assert tf.optimizers.SGD is tf.keras.optimizers.SGD
    assert tf.metrics.Mean is tf.keras.metrics.Mean


def test_tensorflow_1_has_tensorflow_2s_names_too() -> None:
    import muster_tensorflow.compat.v1 as tf1

    assert tf1 is tf.compat.v1
    assert tf1.cast is tf.cast
    assert tf1.train is tf.train
    assert tf1.metrics is not tf.metrics
    with pytest.raises(AttributeError, match="There is no session"):
        _ = tf1.get_default_session
