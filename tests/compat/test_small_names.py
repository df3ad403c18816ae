"""Names that need no file of their own: shapes, types, files, options."""

import importlib

import numpy as np
import pytest

import muster.compat.tensorflow as tf
from muster import TraceError


def test_tensor_shapes_are_tuples():
    shape = tf.TensorShape([None, 3, 2])
    assert shape == (None, 3, 2)
    assert (shape.rank, shape.as_list(), shape.num_elements()) == (3, [None, 3, 2], None)
    assert isinstance(shape[1:], tf.TensorShape)
    assert shape[1:].num_elements() == 6
    assert shape[1:].is_fully_defined()
    assert not shape.is_fully_defined()
    assert shape.is_compatible_with([7, 3, 2])
    assert not shape.is_compatible_with((7, 3))
    assert shape[1:] + [4] == shape[1:].concatenate(4) == tf.TensorShape((3, 2, 4))
    assert str(shape) == "TensorShape([None, 3, 2])"
    assert np.zeros(tf.TensorShape([2])).shape == tf.TensorShape(2)
    with pytest.raises(ValueError, match=">= 0"):
        tf.TensorShape([-1])
    with pytest.raises(ValueError, match="is None here"):
        tf.TensorShape(None)


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
    exec(f"from muster.compat.tensorflow.{module} import *", found)
    assert names < set(found)
    own = vars(importlib.import_module(f"muster.compat.tensorflow.{module}"))
    assert {name for name in own if not name.startswith("_")} - {"Any", "keras"} <= set(found)
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


def test_gfile(tmp_path):
    gfile, deep = tf.io.gfile, tmp_path / "a" / "b"
    gfile.makedirs(deep)
    gfile.makedirs(deep)
    one, two = gfile.join(deep, "one.txt"), gfile.join(deep, "two.txt")
    with gfile.GFile(one, "w") as file:
        file.write("ä")
    with gfile.GFile(one, "rb") as file:
        assert file.read() == "ä".encode()
    gfile.copy(one, two)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        gfile.copy(one, two)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        gfile.rename(one, two)
    gfile.rename(one, two, overwrite=True)
    assert not gfile.exists(one)
    assert gfile.glob([deep / "*.txt", deep / "none"]) == [two]
    assert gfile.listdir(deep) == ["two.txt"]
    assert [files for _, _, files in gfile.walk(tmp_path)] == [[], [], ["two.txt"]]
    gfile.remove(two)
    assert gfile.isdir(deep)
    gfile.rmtree(tmp_path / "a")
    assert not gfile.exists(tmp_path / "a")


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


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_variables_of_64_bit_have_32():
    epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
    epoch.assign_add(1)
    assert epoch.numpy() < 2
    assert epoch.dtype == epoch.value.dtype == "int32"
    assert tf.Variable(np.float64(1.5)).dtype == "float32"
    with pytest.raises(ValueError, match="too large for: set jax_enable_x64"):
        tf.Variable(2**40)


def test_older_arguments_of_multi_worker_mirrored_strategy(monkeypatch):
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
    with pytest.raises(ValueError, match="NCCL needs GPUs"):
        experimental.MultiWorkerMirroredStrategy(communication=communication.NCCL)
    with pytest.raises(ValueError, match="must be instance of"):
        experimental.MultiWorkerMirroredStrategy(resolver)  # the argument that the other class has first
    hints = experimental.CollectiveHints(bytes_per_pack=50, timeout_seconds=2.0)
    assert hints == experimental.CommunicationOptions(bytes_per_pack=50, timeout_seconds=2.0)


def test_ranges_have_a_fixed_length():
    with pytest.raises(TraceError, match="Give the function a Python int"):
        tf.function(lambda steps: list(tf.range(steps)))(tf.convert_to_tensor(3))
