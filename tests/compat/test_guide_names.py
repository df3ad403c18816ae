"""The names of TensorFlow's guides on distribution, and the tables of the page "Coming from TensorFlow"."""

import re
import types
import typing
from pathlib import Path

import pytest

import muster.compat.tensorflow as tf
from muster.compat._missing import INSTEAD, Names

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-tensorflow.md").read_text()

# What the snippets of each guide use, DTensor apart.
GUIDES = {
    "guide/distributed_training": """
        tf.GradientTape tf.Variable tf.config.experimental_connect_to_cluster tf.data.Dataset
        tf.data.Dataset.from_tensors tf.distribute.HierarchicalCopyAllReduce tf.distribute.MirroredStrategy
        tf.distribute.MultiWorkerMirroredStrategy tf.distribute.NcclAllReduce tf.distribute.OneDeviceStrategy
        tf.distribute.ReduceOp.MEAN tf.distribute.ReduceOp.SUM tf.distribute.ReductionToOneDevice
        tf.distribute.Strategy tf.distribute.TPUStrategy
        tf.distribute.cluster_resolver.TPUClusterResolver
        tf.distribute.experimental.CentralStorageStrategy
        tf.distribute.experimental.CollectiveCommunication.NCCL
        tf.distribute.experimental.CommunicationImplementation.NCCL
        tf.distribute.experimental.ParameterServerStrategy tf.distribute.experimental.TPUStrategy
        tf.estimator.LinearRegressor tf.estimator.RunConfig tf.feature_column.numeric_column
        tf.distribute.experimental.CommunicationOptions tf.distribute.get_strategy tf.function
        tf.keras.Sequential tf.keras.layers.Dense tf.keras.losses.BinaryCrossentropy
        tf.keras.losses.Reduction.NONE tf.keras.optimizers.SGD tf.keras.regularizers.L2
        tf.nn.compute_average_loss tf.nn.scale_regularization_loss tf.tpu.experimental.initialize_tpu_system
        """,
    "tutorials/distribute/keras": """
        tf.__version__ tf.cast tf.distribute.MirroredStrategy tf.float32 tf.keras.Sequential
        tf.keras.callbacks.Callback tf.keras.callbacks.LearningRateScheduler
        tf.keras.callbacks.ModelCheckpoint tf.keras.callbacks.TensorBoard tf.keras.layers.Conv2D
        tf.keras.layers.Flatten tf.keras.layers.MaxPooling2D
        tf.keras.losses.SparseCategoricalCrossentropy tf.keras.models.load_model tf.keras.optimizers.Adam
        tf.train.latest_checkpoint
        """,
    "tutorials/distribute/custom_training": """
        tf.GradientTape tf.data.Dataset.from_tensor_slices tf.distribute.ReduceOp.SUM tf.function
        tf.keras.Model tf.keras.datasets.fashion_mnist.load_data tf.keras.metrics.Mean
        tf.keras.metrics.SparseCategoricalAccuracy tf.keras.regularizers.L2 tf.nn.compute_average_loss
        tf.nn.scale_regularization_loss tf.reduce_mean tf.train.Checkpoint tf.train.latest_checkpoint
        """,
    "tutorials/distribute/multi_worker_with_keras": """
        tf.config.list_physical_devices tf.data.Options tf.data.experimental.AutoShardPolicy.OFF
        tf.distribute.MultiWorkerMirroredStrategy tf.distribute.cluster_resolver.TFConfigClusterResolver
        tf.io.gfile.makedirs tf.io.gfile.rmtree tf.keras.Input tf.keras.callbacks.BackupAndRestore
        tf.keras.layers.Reshape tf.keras.models.load_model tf.train.Checkpoint tf.train.CheckpointManager
        tf.train.latest_checkpoint
        """,
    "tutorials/distribute/multi_worker_with_ctl": """
        tf.Variable tf.constant tf.distribute.InputContext tf.distribute.MultiWorkerMirroredStrategy
        tf.dtypes.int64 tf.io.gfile.exists tf.io.gfile.makedirs tf.io.gfile.rmtree
        tf.keras.optimizers.RMSprop tf.train.Checkpoint tf.train.CheckpointManager tf.train.ClusterSpec
        """,
    "tutorials/distribute/multi_worker_with_estimator": """
        tf.compat.v1.train.GradientDescentOptimizer tf.compat.v1.train.get_or_create_global_step
        tf.distribute.experimental.MultiWorkerMirroredStrategy tf.estimator.Estimator
        tf.estimator.EstimatorSpec tf.estimator.EvalSpec tf.estimator.ModeKeys.PREDICT
        tf.estimator.ModeKeys.TRAIN tf.estimator.RunConfig tf.estimator.TrainSpec
        tf.estimator.train_and_evaluate tf.reduce_sum
        """,
    "tutorials/distribute/input": """
        tf.TensorShape tf.TensorSpec tf.data.Dataset.from_generator tf.data.Dataset.range
        tf.data.TFRecordDataset tf.data.TextLineDataset tf.data.experimental.AutoShardPolicy.AUTO
        tf.data.experimental.AutoShardPolicy.DATA tf.data.experimental.AutoShardPolicy.FILE
        tf.distribute.DistributedDataset.element_spec tf.distribute.DistributedIterator.element_spec
        tf.distribute.DistributedIterator.get_next tf.distribute.DistributedIterator.get_next_as_optional
        tf.distribute.DistributedValues tf.distribute.InputContext.get_per_replica_batch_size
        tf.distribute.InputOptions tf.distribute.InputReplicationMode.PER_REPLICA
        tf.distribute.Strategy.distribute_datasets_from_function
        tf.distribute.Strategy.experimental_distribute_dataset
        tf.distribute.Strategy.experimental_distribute_values_from_function
        tf.distribute.Strategy.experimental_local_results tf.distribute.experimental.ValueContext
        tf.errors.OutOfRangeError tf.experimental.Optional tf.print tf.range tf.string
        """,
    "tutorials/distribute/save_and_load": """
        tf.distribute.OneDeviceStrategy tf.keras.layers.Input tf.keras.models.load_model
        tf.saved_model.LoadOptions tf.saved_model.SaveOptions tf.saved_model.load tf.saved_model.save
        """,
    "guide/gpu, guide/tpu": """
        tf.config.LogicalDeviceConfiguration tf.config.experimental.set_memory_growth
        tf.config.list_logical_devices tf.config.list_physical_devices
        tf.config.set_logical_device_configuration tf.config.set_visible_devices
        tf.debugging.set_log_device_placement tf.device tf.distribute.TPUStrategy tf.matmul tf.random.normal
        tf.random.uniform tf.tpu.experimental.shutdown_tpu_system
        """,
}


def value_of(name: str) -> object:
    value: object = tf
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def by_module() -> dict[str, list[str]]:
    """All names that there are, apart from those that are Keras'."""
    found: dict[str, list[str]] = {}

    def walk(path: str, module: object) -> None:
        for name, value in vars(module).items():
            ours = getattr(value, "__name__", "").startswith("muster.compat.")
            if name.startswith("_") or value is typing.Any or f"{path}.{name}" == "tf.keras":
                continue
            if isinstance(value, Names) or (isinstance(value, types.ModuleType) and ours):
                if not (path.startswith("tf.compat.v1") and hasattr(tf, name) and value is getattr(tf, name)):
                    walk(f"{path}.{name}", value)
            elif not isinstance(value, types.ModuleType):
                found.setdefault(path, []).append(name)

    walk("tf", tf)
    return {path: sorted(found[path]) for path in sorted(found)}


def rows(title: str) -> list[tuple[str, str]]:
    """The rows of the table below a title."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| (.*) \|$", section, re.MULTILINE)


@pytest.mark.parametrize("guide", GUIDES)
def test_what_the_guides_use_is_there_or_is_said(guide: str) -> None:
    for name in GUIDES[guide].split():
        told = next((each for each in INSTEAD if name == each or name.startswith(f"{each}.")), None)
        if told is None:
            assert value_of(name) is not None
        else:
            with pytest.raises(AttributeError, match=re.escape(f"muster has no {told}. {INSTEAD[told]}")):
                value_of(name)


def test_all_names_are_on_the_page() -> None:
    table = {module: re.findall(r"`(\w+)`", names) for module, names in rows("All names")}
    assert table == by_module()


def test_what_is_not_there_is_on_the_page() -> None:
    assert dict(rows("Names that are not there")) == INSTEAD
    for name in INSTEAD:
        with pytest.raises(AttributeError, match=re.escape(INSTEAD[name])):
            value_of(name)


@pytest.mark.parametrize(
    "name", ["tf.raw_ops", "tf.data.Dateset", "tf.io.gfile.no", "tf.compat.v1.Session", "tf.keras.estimator"]
)
def test_other_names_have_an_error_that_names_the_page(name: str) -> None:
    with pytest.raises(AttributeError, match='muster has no .*The page "Coming from TensorFlow"'):
        value_of(name)


def test_modules_say_what_they_do_not_have() -> None:
    for path in by_module():
        if path != "tf.losses":
            with pytest.raises(AttributeError, match=rf"muster has no {re.escape(path)}\.nothing\."):
                value_of(f"{path}.nothing")


def test_the_names_that_became_others_exist() -> None:
    table = rows("What each name became")
    assert len(table) > 100
    for name, _ in table:
        assert value_of(name) is not None
