"""The names of TensorFlow's guides on distribution, and the tables of the page "TensorFlow's names"."""

import re

import pytest

import muster_tensorflow as tf
import muster_tensorflow.datasets as tfds
from muster_tensorflow.names._hints import INSTEAD
from muster_tensorflow.port import tables
from muster_tensorflow.port._differences import rows
from muster_tensorflow.port._tables import names_by_module

# What the code of each page uses, in its editions since TensorFlow 2.3: names, methods of what it builds, and
# what the text tells programs to use.
GUIDES = {
    "guide/distributed_training": """
        tf.GradientTape tf.Variable tf.add_n tf.config.experimental_connect_to_cluster
        tf.config.list_physical_devices tf.data.Dataset.from_tensors tf.distribute.CrossDeviceOps
        tf.distribute.HierarchicalCopyAllReduce tf.distribute.MirroredStrategy
        tf.distribute.MultiWorkerMirroredStrategy tf.distribute.NcclAllReduce
        tf.distribute.OneDeviceStrategy tf.distribute.ReduceOp.SUM tf.distribute.ReductionToOneDevice
        tf.distribute.Strategy tf.distribute.Strategy.cluster_resolver
        tf.distribute.Strategy.experimental_distribute_dataset
        tf.distribute.Strategy.experimental_local_results
        tf.distribute.Strategy.experimental_make_numpy_dataset tf.distribute.Strategy.num_replicas_in_sync
        tf.distribute.Strategy.reduce tf.distribute.Strategy.run tf.distribute.Strategy.scope
        tf.distribute.TPUStrategy tf.distribute.cluster_resolver.TFConfigClusterResolver
        tf.distribute.cluster_resolver.TPUClusterResolver tf.distribute.experimental.CentralStorageStrategy
        tf.distribute.experimental.CollectiveCommunication.NCCL
        tf.distribute.experimental.CommunicationImplementation.NCCL
        tf.distribute.experimental.CommunicationOptions
        tf.distribute.experimental.MultiWorkerMirroredStrategy
        tf.distribute.experimental.ParameterServerStrategy tf.distribute.experimental.TPUStrategy
        tf.distribute.experimental.coordinator.ClusterCoordinator tf.distribute.get_strategy
        tf.estimator.LinearRegressor tf.estimator.RunConfig tf.feature_column.numeric_column tf.function
        tf.keras.Model.fit tf.keras.Sequential tf.keras.layers.Dense tf.keras.losses.BinaryCrossentropy
        tf.keras.losses.Reduction.NONE tf.keras.optimizers.SGD tf.keras.regularizers.L2
        tf.nn.compute_average_loss tf.nn.scale_regularization_loss tf.optimizers
        tf.tpu.experimental.initialize_tpu_system
        """,
    "guide/estimator": """
        tf.GradientTape tf.Variable tf.abs tf.cast tf.compat.v1.train.Scaffold
        tf.compat.v1.train.get_global_step tf.constant tf.data.AUTOTUNE tf.data.Dataset.cache
        tf.data.Dataset.from_tensor_slices tf.data.Dataset.from_tensors tf.data.Dataset.prefetch
        tf.data.experimental.make_csv_dataset tf.distribute.MirroredStrategy tf.estimator.DNNClassifier
        tf.estimator.Estimator tf.estimator.Estimator.evaluate tf.estimator.Estimator.predict
        tf.estimator.Estimator.train tf.estimator.EstimatorSpec tf.estimator.LinearClassifier
        tf.estimator.LinearRegressor tf.estimator.RunConfig
        tf.estimator.export.build_parsing_serving_input_receiver_fn
        tf.estimator.export.build_raw_serving_input_receiver_fn
        tf.feature_column.categorical_column_with_hash_bucket
        tf.feature_column.categorical_column_with_vocabulary_list tf.feature_column.make_parse_example_spec
        tf.feature_column.numeric_column tf.float32 tf.group tf.image.resize tf.int64 tf.keras.Model
        tf.keras.Sequential tf.keras.applications.MobileNetV2 tf.keras.backend.clear_session
        tf.keras.estimator.model_to_estimator tf.keras.layers.Dense tf.keras.layers.GlobalAveragePooling2D
        tf.keras.losses.BinaryCrossentropy tf.keras.optimizers.Adam tf.keras.utils.get_file tf.range
        tf.reduce_mean tf.saved_model.load tf.train.Checkpoint tf.train.Example tf.train.latest_checkpoint
        tfds.load
        """,
    "guide/gpu": """
        tf.add_n tf.config.LogicalDeviceConfiguration tf.config.experimental.VirtualDeviceConfiguration
        tf.config.experimental.list_logical_devices tf.config.experimental.set_memory_growth
        tf.config.experimental.set_virtual_device_configuration tf.config.experimental.set_visible_devices
        tf.config.list_logical_devices tf.config.list_physical_devices
        tf.config.set_logical_device_configuration tf.config.set_soft_device_placement
        tf.config.set_visible_devices tf.constant tf.debugging.set_log_device_placement tf.device
        tf.distribute.MirroredStrategy tf.keras.layers.Dense tf.keras.layers.Input tf.keras.models.Model
        tf.keras.optimizers.SGD tf.matmul
        """,
    "guide/tpu": """
        tf.GradientTape tf.add_n tf.cast tf.config.experimental_connect_to_cluster
        tf.config.list_logical_devices tf.constant tf.convert_to_tensor tf.data.Dataset.cache
        tf.data.FixedLengthRecordDataset tf.data.TFRecordDataset tf.data.TextLineDataset tf.device
        tf.distribute.Strategy.distribute_datasets_from_function tf.distribute.Strategy.num_replicas_in_sync
        tf.distribute.Strategy.run tf.distribute.TPUStrategy
        tf.distribute.cluster_resolver.TPUClusterResolver tf.float32 tf.function tf.keras.Sequential
        tf.keras.layers.Conv2D tf.keras.layers.Dense tf.keras.layers.Flatten
        tf.keras.losses.SparseCategoricalCrossentropy tf.keras.losses.sparse_categorical_crossentropy
        tf.keras.metrics.Mean tf.keras.metrics.SparseCategoricalAccuracy tf.keras.optimizers.Adam
        tf.keras.regularizers.L2 tf.matmul tf.nn.compute_average_loss tf.nn.scale_regularization_loss
        tf.range tf.tpu.experimental.initialize_tpu_system tfds.load
        """,
    "tutorials/distribute/custom_training": """
        tf.GradientTape tf.__version__ tf.add_n tf.cast tf.data.Dataset.from_tensor_slices
        tf.distribute.MirroredStrategy tf.distribute.ReduceOp.SUM
        tf.distribute.Strategy.experimental_local_results tf.distribute.Strategy.reduce
        tf.distribute.Strategy.run tf.distribute.get_strategy tf.float32 tf.function tf.keras.Model
        tf.keras.Sequential tf.keras.datasets.fashion_mnist tf.keras.layers.Conv2D tf.keras.layers.Dense
        tf.keras.layers.Flatten tf.keras.layers.MaxPooling2D tf.keras.losses.Reduction.AUTO
        tf.keras.losses.Reduction.NONE tf.keras.losses.SparseCategoricalCrossentropy tf.keras.metrics.Mean
        tf.keras.metrics.SparseCategoricalAccuracy tf.keras.optimizers.Adam tf.keras.regularizers.L2
        tf.losses.Reduction.NONE tf.losses.Reduction.SUM tf.losses.Reduction.SUM_OVER_BATCH_SIZE
        tf.math.divide tf.metrics.Mean tf.nn.compute_average_loss tf.nn.scale_regularization_loss
        tf.reduce_mean tf.reduce_prod tf.reduce_sum tf.shape tf.train.Checkpoint tf.train.Checkpoint.restore
        tf.train.Checkpoint.save tf.train.latest_checkpoint
        """,
    "tutorials/distribute/input": """
        tf.Tensor tf.TensorShape tf.TypeSpec tf.__version__ tf.config.LogicalDeviceConfiguration
        tf.config.list_logical_devices tf.config.list_physical_devices
        tf.config.set_logical_device_configuration tf.constant tf.data.AUTOTUNE tf.data.Dataset.batch
        tf.data.Dataset.enumerate tf.data.Dataset.from_generator tf.data.Dataset.from_tensor_slices
        tf.data.Dataset.from_tensors tf.data.Dataset.interleave tf.data.Dataset.list_files
        tf.data.Dataset.map tf.data.Dataset.prefetch tf.data.Dataset.range tf.data.Dataset.repeat
        tf.data.Dataset.shard tf.data.Dataset.shuffle tf.data.Dataset.with_options tf.data.Options
        tf.data.TFRecordDataset tf.data.experimental.AutoShardPolicy.AUTO
        tf.data.experimental.AutoShardPolicy.DATA tf.data.experimental.AutoShardPolicy.FILE
        tf.data.experimental.AutoShardPolicy.OFF tf.data.experimental.DistributeOptions
        tf.distribute.DistributedDataset.element_spec tf.distribute.DistributedIterator.element_spec
        tf.distribute.DistributedIterator.get_next tf.distribute.DistributedIterator.get_next_as_optional
        tf.distribute.DistributedValues tf.distribute.InputContext.get_per_replica_batch_size
        tf.distribute.InputContext.input_pipeline_id tf.distribute.InputContext.num_input_pipelines
        tf.distribute.MirroredStrategy tf.distribute.MultiWorkerMirroredStrategy
        tf.distribute.Strategy.distribute_datasets_from_function
        tf.distribute.Strategy.experimental_distribute_dataset
        tf.distribute.Strategy.experimental_distribute_values_from_function
        tf.distribute.Strategy.experimental_local_results tf.distribute.Strategy.run
        tf.distribute.Strategy.scope tf.distribute.TPUStrategy tf.distribute.experimental.ValueContext
        tf.errors.OutOfRangeError tf.experimental.Optional.get_value tf.experimental.Optional.has_value
        tf.float32 tf.function tf.keras.layers.IntegerLookup tf.keras.layers.Normalization
        tf.keras.layers.Rescaling tf.keras.layers.StringLookup tf.print tf.random.uniform tf.range
        """,
    "tutorials/distribute/keras": """
        tf.__version__ tf.cast tf.data.Dataset.cache tf.distribute.MirroredStrategy tf.float32
        tf.keras.Model.compile tf.keras.Model.evaluate tf.keras.Model.fit tf.keras.Model.load_weights
        tf.keras.Model.save tf.keras.Sequential tf.keras.callbacks.BackupAndRestore
        tf.keras.callbacks.Callback tf.keras.callbacks.LearningRateScheduler
        tf.keras.callbacks.ModelCheckpoint tf.keras.callbacks.TensorBoard tf.keras.layers.Conv2D
        tf.keras.layers.Dense tf.keras.layers.Flatten tf.keras.layers.MaxPooling2D
        tf.keras.losses.SparseCategoricalCrossentropy tf.keras.models.load_model tf.keras.optimizers.Adam
        tf.train.latest_checkpoint tfds.load
        """,
    "tutorials/distribute/multi_worker_with_ctl": """
        tf.GradientTape tf.Variable tf.add_n tf.constant tf.data.Dataset.from_tensor_slices
        tf.distribute.InputContext.get_per_replica_batch_size tf.distribute.InputContext.input_pipeline_id
        tf.distribute.InputContext.num_input_pipelines tf.distribute.MultiWorkerMirroredStrategy
        tf.distribute.ReduceOp.SUM tf.distribute.Strategy.cluster_resolver
        tf.distribute.Strategy.distribute_datasets_from_function tf.distribute.Strategy.reduce
        tf.distribute.Strategy.run tf.distribute.Strategy.scope
        tf.distribute.cluster_resolver.ClusterResolver.cluster_spec
        tf.distribute.cluster_resolver.TFConfigClusterResolver tf.dtypes.int64 tf.function
        tf.io.gfile.makedirs tf.io.gfile.rmtree tf.keras.Input tf.keras.Sequential
        tf.keras.datasets.mnist.load_data tf.keras.layers.Conv2D tf.keras.layers.Dense
        tf.keras.layers.Flatten tf.keras.layers.Reshape tf.keras.losses.Reduction.NONE
        tf.keras.losses.SparseCategoricalCrossentropy tf.keras.metrics.SparseCategoricalAccuracy
        tf.keras.optimizers.RMSprop tf.keras.regularizers.L2 tf.nn.compute_average_loss
        tf.nn.scale_regularization_loss tf.train.Checkpoint tf.train.CheckpointManager
        tf.train.CheckpointManager.save tf.train.ClusterSpec tf.train.ClusterSpec.as_dict
        tf.train.latest_checkpoint
        """,
    "tutorials/distribute/multi_worker_with_estimator": """
        tf.cast tf.compat.v1.train.GradientDescentOptimizer tf.compat.v1.train.get_or_create_global_step
        tf.distribute.InputContext.input_pipeline_id tf.distribute.InputContext.num_input_pipelines
        tf.distribute.experimental.CollectiveCommunication.AUTO
        tf.distribute.experimental.CollectiveCommunication.NCCL
        tf.distribute.experimental.MultiWorkerMirroredStrategy tf.estimator.Estimator
        tf.estimator.EstimatorSpec tf.estimator.EvalSpec tf.estimator.ModeKeys.EVAL
        tf.estimator.ModeKeys.PREDICT tf.estimator.ModeKeys.TRAIN tf.estimator.RunConfig
        tf.estimator.TrainSpec tf.estimator.train_and_evaluate tf.float32 tf.keras.Sequential
        tf.keras.layers.Conv2D tf.keras.layers.Dense tf.keras.layers.Flatten tf.keras.layers.MaxPooling2D
        tf.keras.losses.Reduction.NONE tf.keras.losses.SparseCategoricalCrossentropy tf.reduce_sum
        tfds.disable_progress_bar tfds.load
        """,
    "tutorials/distribute/multi_worker_with_keras": """
        tf.data.Dataset.from_tensor_slices tf.data.Dataset.with_options tf.data.Options
        tf.data.experimental.AutoShardPolicy.OFF tf.data.experimental.DistributeOptions
        tf.distribute.MultiWorkerMirroredStrategy tf.distribute.Strategy.cluster_resolver
        tf.distribute.TPUStrategy tf.distribute.experimental.CollectiveCommunication.NCCL
        tf.distribute.experimental.CommunicationImplementation.NCCL
        tf.distribute.experimental.CommunicationOptions tf.io.gfile.makedirs tf.io.gfile.rmtree
        tf.keras.Input tf.keras.Model.export tf.keras.Sequential tf.keras.callbacks.BackupAndRestore
        tf.keras.callbacks.ModelCheckpoint tf.keras.callbacks.experimental.BackupAndRestore
        tf.keras.datasets.mnist.load_data tf.keras.layers.Conv2D tf.keras.layers.Dense
        tf.keras.layers.Flatten tf.keras.layers.InputLayer tf.keras.layers.Reshape
        tf.keras.losses.SparseCategoricalCrossentropy tf.keras.models.load_model tf.keras.optimizers.SGD
        tf.saved_model.save tf.train.Checkpoint tf.train.CheckpointManager tf.train.CheckpointManager.save
        tf.train.latest_checkpoint
        """,
    "tutorials/distribute/parameter_server_training": """
        tf.GradientTape tf.Variable tf.cast tf.compat.v1.ConfigProto tf.data.Dataset.batch
        tf.data.Dataset.from_tensor_slices tf.data.Dataset.from_tensors tf.data.Dataset.prefetch
        tf.data.Dataset.repeat tf.data.Dataset.shard tf.data.Dataset.shuffle tf.data.Dataset.zip
        tf.distribute.InputContext.get_per_replica_batch_size tf.distribute.ParameterServerStrategy
        tf.distribute.ReduceOp.SUM tf.distribute.Server tf.distribute.Strategy.experimental_distribute_dataset
        tf.distribute.Strategy.gather tf.distribute.Strategy.reduce tf.distribute.Strategy.run
        tf.distribute.cluster_resolver.SimpleClusterResolver
        tf.distribute.cluster_resolver.TFConfigClusterResolver
        tf.distribute.coordinator.ClusterCoordinator.create_per_worker_dataset
        tf.distribute.coordinator.ClusterCoordinator.done tf.distribute.coordinator.ClusterCoordinator.fetch
        tf.distribute.coordinator.ClusterCoordinator.join
        tf.distribute.coordinator.ClusterCoordinator.schedule
        tf.distribute.coordinator.RemoteValue.fetch tf.distribute.coordinator.RemoteValue.get
        tf.distribute.experimental.ParameterServerStrategy
        tf.distribute.experimental.coordinator.ClusterCoordinator
        tf.distribute.experimental.coordinator.PerWorkerValues
        tf.distribute.experimental.coordinator.RemoteValue
        tf.distribute.experimental.partitioners.FixedShardsPartitioner
        tf.distribute.experimental.partitioners.MaxSizePartitioner
        tf.distribute.experimental.partitioners.MinSizePartitioner tf.errors.UnavailableError tf.float32
        tf.function tf.greater tf.int64 tf.keras.Input tf.keras.Model tf.keras.Sequential
        tf.keras.callbacks.BackupAndRestore tf.keras.callbacks.ModelCheckpoint
        tf.keras.callbacks.TensorBoard tf.keras.layers.Dense tf.keras.layers.Embedding
        tf.keras.layers.StringLookup tf.keras.losses.BinaryCrossentropy tf.keras.losses.Reduction.NONE
        tf.keras.metrics.Accuracy tf.keras.metrics.Mean tf.keras.optimizers.RMSprop tf.keras.optimizers.SGD
        tf.keras.utils.SidecarEvaluator tf.keras.utils.experimental.DatasetCreator
        tf.nn.compute_average_loss tf.random.uniform tf.reduce_sum tf.train.Checkpoint
        tf.train.CheckpointManager tf.train.ClusterSpec tf.train.latest_checkpoint
        """,
    "tutorials/distribute/save_and_load": """
        tf.cast tf.data.Dataset.from_tensors tf.data.Dataset.take tf.distribute.MirroredStrategy
        tf.distribute.OneDeviceStrategy tf.dtypes.float32 tf.float32 tf.keras.Model tf.keras.Model.predict
        tf.keras.Model.save tf.keras.Sequential tf.keras.layers.Conv2D tf.keras.layers.Dense
        tf.keras.layers.Flatten tf.keras.layers.Input tf.keras.layers.InputLayer
        tf.keras.layers.MaxPooling2D tf.keras.losses.SparseCategoricalCrossentropy
        tf.keras.models.load_model tf.keras.optimizers.Adam tf.metrics.SparseCategoricalAccuracy tf.range
        tf.saved_model.LoadOptions tf.saved_model.SaveOptions tf.saved_model.load tf.saved_model.save
        tfds.load
        """,
}


def value_of(name: str) -> object:
    module, *parts = name.split(".")
    value: object = {"tf": tf, "tfds": tfds}[module]
    for part in parts:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("guide", GUIDES)
def test_what_the_guides_use_is_there_or_is_said(guide: str) -> None:
    for name in GUIDES[guide].split():
        same = name.replace("tf.compat.v1.train.", "tf.train.")  # one module
        if same in INSTEAD:
            with pytest.raises(AttributeError, match=re.escape(f"muster has no {same}. {INSTEAD[same]}")):
                value_of(name)
        else:
            assert value_of(name) is not None


def test_the_tables_have_a_row_for_each_module_and_missing_name() -> None:
    there, missing = (tables()[f"Names that are{word} there"] for word in ("", " not"))
    found = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", there, re.MULTILINE))
    assert {module: re.findall(r"`(\w+)`", names) for module, names in found.items()} == names_by_module()
    assert {"tf", "tf.compat.v1", "tf.data", "tf.nn"} <= found.keys()
    assert dict(re.findall(r"^\| `([\w.*]+)` \| (.*) \|$", missing, re.MULTILINE)) == INSTEAD


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("tf.compat.v1.get_default_session", "tf.get_default_session"),
        ("tf.compat.v1.get_default_session.run", "tf.get_default_session"),
        ("tf.compat.v2.get_default_session", "tf.get_default_session"),
        ("tf.compat.v1.image.resize_bicubic", "tf.image.resize_bicubic"),
        ("tf.image.generate_bounding_box_proposals", "tf.image.*"),
        ("tf.contrib.layers.maxout", "tf.contrib.layers.*"),
        ("tf.compat.v1.metrics.streaming_mean", "tf.metrics.*"),
        ("tf.keras.backend.get_variable_shape", "tf.keras.backend.*"),
        ("tfds.folder_dataset", "tfds.*"),
    ],
)
def test_errors_say_what_to_use(name: str, line: str) -> None:
    with pytest.raises(AttributeError, match=f"muster has no .*{re.escape(INSTEAD[line])}$"):
        value_of(name)


@pytest.mark.parametrize(
    "name", ["tf.row_ops", "tf.data.Dateset", "tf.io.gfile.no", "tf.compat.v1.Sesion", "tf.keras.nothing"]
)
def test_other_names_have_an_error_that_names_the_page(name: str) -> None:
    with pytest.raises(AttributeError, match='muster has no .*The page "Coming from TensorFlow"'):
        value_of(name)


def test_modules_say_what_they_do_not_have() -> None:
    for path in names_by_module():
        if path != "tf.losses":
            with pytest.raises(AttributeError, match=rf"muster has no {re.escape(path)}\.nothing\."):
                value_of(f"{path}.nothing")


def test_the_names_that_became_others_exist() -> None:
    names = [names.strip("`") for names, _, _ in rows() if re.fullmatch(r"`[\w.*]+`", names)]
    assert len(names) > 100
    for name in names:
        assert value_of(name) is not None
