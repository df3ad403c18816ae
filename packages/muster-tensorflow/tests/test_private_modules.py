"""The private modules of TensorFlow that programs import."""

import importlib
import json
import operator
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import feature_column
from muster.cluster import TFConfigClusterResolver, TPUClusterResolver
from muster_tensorflow.programs.v1.estimator._arguments import OPTIMIZERS

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("autograph.impl.api.do_not_convert", tf.autograph.experimental.do_not_convert),
        ("checkpoint.checkpoint.Checkpoint", v1.train.Checkpoint),
        ("client.session.Session", v1.Session),
        ("data.Dataset", tf.data.Dataset),
        (
            "data.experimental.ops.interleave_ops.parallel_interleave",
            v1.data.experimental.parallel_interleave,
        ),
        ("data.ops.dataset_ops.Dataset", tf.data.Dataset),
        ("distribute.cluster_resolver.TFConfigClusterResolver", TFConfigClusterResolver),
        ("distribute.cluster_resolver.tpu_cluster_resolver.TPUClusterResolver", TPUClusterResolver),
        ("distribute.coordinator.cluster_coordinator.RemoteValue", tf.distribute.coordinator.RemoteValue),
        ("distribute.distribute_lib.Strategy", tf.distribute.Strategy),
        ("distribute.mirrored_strategy.MirroredStrategy", tf.distribute.MirroredStrategy),
        (
            "distribute.collective_all_reduce_strategy.CollectiveAllReduceStrategy",
            tf.distribute.MultiWorkerMirroredStrategy,
        ),
        (
            "distribute.parameter_server_strategy_v2.ParameterServerStrategyV2",
            tf.distribute.ParameterServerStrategy,
        ),
        ("training.server_lib.ClusterSpec", tf.train.ClusterSpec),
        ("estimator.canned.dnn.DNNClassifier", v1.estimator.DNNClassifier),
        ("estimator.estimator.Estimator", tf.estimator.Estimator),
        ("estimator.export.export.ServingInputReceiver", tf.estimator.export.ServingInputReceiver),
        ("estimator.inputs.numpy_io.numpy_input_fn", v1.estimator.inputs.numpy_input_fn),
        ("estimator.model_fn.EstimatorSpec", tf.estimator.EstimatorSpec),
        ("feature_column.feature_column.input_layer", v1.feature_column.input_layer),
        ("feature_column.feature_column._EmbeddingColumn", feature_column.EmbeddingColumn),
        ("feature_column.feature_column_v2.NumericColumn", feature_column.NumericColumn),
        ("framework.dtypes.float32", tf.float32),
        ("framework.errors_impl.NotFoundError", tf.errors.NotFoundError),
        ("framework.ops.GraphKeys", v1.GraphKeys),
        ("keras.layers.Dense", tf.keras.layers.Dense),
        ("keras.backend.epsilon", tf.keras.backend.epsilon),
        ("keras.engine.base_layer.Layer", tf.keras.layers.Layer),
        ("keras.engine.input_layer.Input", tf.keras.layers.Input),
        ("keras.engine.network.Network", tf.keras.Model),
        ("keras.engine.training.Model", tf.keras.Model),
        ("keras.layers.pooling.GlobalAveragePooling1D", tf.keras.layers.GlobalAveragePooling1D),
        ("keras.optimizer_v2.adam.Adam", tf.keras.optimizers.legacy.Adam),
        ("keras.optimizer_v2.optimizer_v2.OptimizerV2", tf.keras.optimizers.legacy.Optimizer),
        ("keras.utils.np_utils.to_categorical", tf.keras.utils.to_categorical),
        ("keras.estimator.model_to_estimator", tf.keras.estimator.model_to_estimator),
        ("framework.config.list_physical_devices", tf.config.list_physical_devices),
        ("framework.config.set_memory_growth", tf.config.experimental.set_memory_growth),
        ("framework.device.DeviceSpec", tf.DeviceSpec),
        ("framework.tensor_spec.TensorSpec", tf.TensorSpec),
        ("layers.core.dense", v1.layers.dense),
        ("ops.array_ops.expand_dims", v1.expand_dims),
        ("ops.ctc_ops.ctc_loss", v1.nn.ctc_loss),
        ("ops.data_flow_ops.dynamic_partition", tf.dynamic_partition),
        ("ops.distributions.normal.Normal", v1.distributions.Normal),
        ("ops.gen_array_ops.reshape", tf.reshape),
        ("ops.gen_io_ops.read_file", tf.io.read_file),
        ("ops.gen_math_ops.sin", tf.sin),
        ("ops.gen_nn_ops.relu", tf.nn.relu),
        ("ops.image_ops_impl.resize_images", v1.image.resize_images),
        ("ops.init_ops.Zeros", v1.zeros_initializer),
        ("ops.init_ops_v2.glorot_normal", v1.glorot_normal_initializer),
        ("ops.lookup_ops.index_table_from_file", v1.contrib.lookup.index_table_from_file),
        ("ops.lookup_ops.StaticHashTable", tf.lookup.StaticHashTable),
        ("ops.linalg.linalg_impl.expm", tf.linalg.expm),
        ("ops.losses.losses.Reduction", v1.losses.Reduction),
        ("ops.math_ops.reduce_sum", v1.reduce_sum),
        ("ops.math_ops.polyval", tf.math.polyval),
        ("ops.metrics.accuracy", v1.metrics.accuracy),
        ("ops.nn_ops.bias_add", v1.nn.bias_add),
        ("ops.rnn_cell.LSTMCell", v1.nn.rnn_cell.LSTMCell),
        ("ops.ragged.ragged_tensor.RaggedTensor", tf.RaggedTensor),
        ("ops.script_ops.py_func", v1.py_func),
        ("ops.sparse_ops.sparse_tensor_to_dense", v1.sparse_tensor_to_dense),
        ("ops.sparse_ops.from_dense", tf.sparse.from_dense),
        ("platform.gfile.Exists", v1.gfile.Exists),
        ("platform.tf_logging.info", v1.logging.info),
        (
            "saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY",
            v1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        ),
        ("summary.writer.writer.FileWriter", v1.summary.FileWriter),
        ("training.coordinator.Coordinator", tf.train.Coordinator),
        ("training.input.batch", v1.train.batch),
        ("training.training.AdamOptimizer", v1.train.AdamOptimizer),
        ("util.compat.as_bytes", tf.compat.as_bytes),
        ("util.nest.flatten", tf.nest.flatten),
        ("util.nest.is_sequence", tf.nest.is_nested),
    ],
)
def test_they_hold_the_public_names(path, public):
    module, _, name = path.rpartition(".")
    for tensorflow in ("muster_tensorflow", "muster_tensorflow.compat.v1"):
        found = importlib.import_module(f"{tensorflow}.python.{module}")
        assert getattr(found, name) == public


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("engine.Layer", tf.keras.layers.Layer),
        ("engine.topology.InputSpec", tf.keras.layers.InputSpec),
        ("layers.advanced_activations.LeakyReLU", tf.keras.layers.LeakyReLU),
        ("layers.convolutional.Conv2DTranspose", tf.keras.layers.Conv2DTranspose),
        ("layers.core.Dense", tf.keras.layers.Dense),
        ("utils.generic_utils.Progbar", tf.keras.utils.Progbar),
        ("utils.np_utils.to_categorical", tf.keras.utils.to_categorical),
        ("utils.vis_utils.plot_model", tf.keras.utils.plot_model),
    ],
)
def test_modules_of_keras_2_hold_its_public_names(path, public):
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(f"muster_tensorflow.keras.{module}"), name) == public
    assert operator.attrgetter(path)(tf.keras) == public


def test_data_of_steps_is_taken_apart():
    adapter = importlib.import_module("muster_tensorflow.python.keras.engine.data_adapter")
    x, y, weights = adapter.unpack_x_y_sample_weight((np.ones((10, 2)), np.arange(10)))
    assert weights is None
    assert [each.shape for each in adapter.expand_1d((x, y))] == [(10, 2), (10, 1)]
    train, test = adapter.train_validation_split((x, {"y": y}, weights), validation_split=0.25)
    assert (train[0].shape, test[0].shape, train[2], test[2]) == ((7, 2), (3, 2), None, None)
    assert test[1]["y"].tolist() == [7, 8, 9]
    with pytest.raises(ValueError, match="of 10 rows leaves none"):
        adapter.train_validation_split((x, y), validation_split=0.0)


def test_functions_have_arguments():
    has_arg = tf.keras.utils.generic_utils.has_arg
    assert has_arg(tf.keras.layers.LSTM(2).call, "training")
    assert not has_arg(tf.keras.layers.Dense(2).call, "mask")
    anything = (
        [lambda **kwargs: kwargs, "kwargs"],
        [lambda *args: args, "args"],
        [lambda **kwargs: kwargs, "x"],
    )
    assert not any(has_arg(function, name) for function, name in anything)
    assert has_arg(anything[0][0], "x", accept_all=True)


@pytest.mark.parametrize("room", ["keras", "python.keras"])
def test_sizes_of_convolutions(room):
    utils = importlib.import_module(f"muster_tensorflow.{room}.utils.conv_utils")
    assert utils.normalize_tuple(2, 2, "strides") == utils.normalize_tuple([2, 2], 2, "strides") == (2, 2)
    assert utils.normalize_data_format(None) == "channels_last"
    assert (utils.normalize_padding("SAME"), utils.normalize_padding((1, 1))) == ("same", (1, 1))
    paddings = ("same", "valid", "full")
    assert [utils.conv_output_length(8, 3, each, 2, 2) for each in paddings] == [4, 2, 6]
    assert [utils.conv_input_length(4, 3, each, 2) for each in paddings] == [7, 9, 5]
    assert [utils.deconv_output_length(5, 3, each, stride=2) for each in paddings] == [10, 11, 7]
    assert [utils.deconv_output_length(5, 3, each, 1, 2, 2) for each in paddings] == [10, 14, 6]
    assert utils.conv_output_length(None, 3, "same", 2) is None
    for wrong in (0, (1,), "ab", None, 2.5):
        with pytest.raises(ValueError, match=r"strides takes a positive int, or a tuple of 2 of them, got"):
            utils.normalize_tuple(wrong, 2, "strides")
    with pytest.raises(ValueError, match="padding is one of valid, same, causal, got 'full'"):
        utils.normalize_padding("full")


def test_functions_for_devices_are_made_and_not_asked():
    """As the example of CIFAR-10 on several GPUs makes them."""
    from muster_tensorflow.core.framework import node_def_pb2
    from muster_tensorflow.python.training import device_setter

    in_turn = device_setter._RoundRobinStrategy(2)
    assert [in_turn(None) for _ in range(3)] == [0, 1, 0]
    training = tf.contrib.training
    sized = [types.SimpleNamespace(outputs=[tf.zeros((size,))]) for size in (5, 1, 1, 4)]
    balanced = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    assert [balanced(each) for each in sized] == [0, 1, 1, 1]
    with pytest.raises(ValueError, match="must have a single output"):
        training.byte_size_load_fn(types.SimpleNamespace(outputs=[]))

    def chosen(op):
        node_def = op if isinstance(op, node_def_pb2.NodeDef) else op.node_def
        return f"/gpu:{in_turn(node_def)}"

    with v1.device(chosen):
        assert int(tf.add(1, 2)) == 3
    assert in_turn(None) == 1


def test_functions_of_private_modules():
    from muster_tensorflow.python.keras.utils import tf_utils
    from muster_tensorflow.python.util.tf_export import keras_export

    @keras_export("keras.layers.Own", v1=[])
    class Own(tf.keras.layers.Layer):
        @tf_utils.shape_type_conversion
        def compute_output_shape(self, input_shape):
            return input_shape[0], 7

    assert Own().compute_output_shape((3, 2)) == (3, 7)
    assert tf_utils.smart_cond(True, lambda: 1, lambda: 2) == 1


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("v1.keras.models.Sequential", tf.keras.Sequential),
        ("v2.config.experimental.list_physical_devices", tf.config.experimental.list_physical_devices),
        ("v2.compat.v1.ConfigProto", v1.ConfigProto),
        ("v2.compat.v1.train.AdamOptimizer", v1.train.AdamOptimizer),
        ("v2.compat.v2.function", tf.function),
        ("v2.data.Dataset", tf.data.Dataset),
        ("v2.v2.keras.layers.Dense", tf.keras.layers.Dense),
    ],
)
def test_modules_that_editors_import(path, public):
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(f"muster_tensorflow._api.{module}"), name) == public
    assert operator.attrgetter(path)(tf._api) == public


@pytest.mark.processes
def test_imports_of_all_kinds():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from muster_tensorflow.python.ops import math_ops\n"
            "from muster_tensorflow.python.keras.layers import Dense\n"
            "import muster_tensorflow.python.framework.ops as ops\n"
            "from muster_tensorflow.compat.v1.python.framework import dtypes\n"
            "print(math_ops.reduce_sum([1, 2]).dtype == dtypes.int32, ops.name_scope, Dense)",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("True <function name_scope"), done.stderr


def test_what_is_missing_is_said():
    with pytest.raises(AttributeError, match=r"no tf\.python\.ops\.math_ops\.nothing\. It is private"):
        getattr(tf.python.ops.math_ops, "noth" + "ing")
    with pytest.raises(AttributeError, match=r"no tf\.python\.compiler"):
        getattr(tf.python, "comp" + "iler")


def test_heads_of_tensorflow_1():
    head_lib = tf.python.estimator.canned.head
    head = head_lib._binary_logistic_or_multi_class_head(2, None, None, v1.losses.Reduction.SUM)
    assert (type(head), head.logits_dimension) == (tf.estimator.BinaryClassHead, 1)
    assert float(head.loss(tf.constant([[1], [0]]), tf.zeros((2, 1)))) == pytest.approx(2 * 0.6931472)
    more = head_lib._binary_logistic_or_multi_class_head(
        3, None, None, v1.losses.Reduction.SUM_OVER_BATCH_SIZE
    )
    assert (type(more), more.logits_dimension) == (tf.estimator.MultiClassHead, 3)
    assert float(more.loss(tf.constant([[1], [0]]), tf.zeros((2, 3)))) == pytest.approx(1.0986123)
    numbers = head_lib._regression_head(label_dimension=2)
    assert float(numbers.loss(tf.ones((2, 2)), tf.zeros((2, 2)))) == 4

    class Mine(head_lib._Head):
        name = "mine"
        logits_dimension = 1

        def create_loss(self, features, mode, logits, labels):
            return features

        def create_estimator_spec(self, features, mode, logits, labels=None, train_op_fn=None):
            return mode

    assert Mine().create_estimator_spec(1, "train", 3) == "train"
    with pytest.raises(TypeError, match="abstract"):
        head_lib._Head()


def test_optimizers_by_name():
    get = tf.python.estimator.canned.optimizers.get_optimizer_instance
    assert {type(get(name, 0.1)) for name in OPTIMIZERS} == set(OPTIMIZERS.values())
    mine = v1.train.AdamOptimizer()
    assert get(mine) is mine
    assert get(lambda: mine) is mine
    with pytest.raises(ValueError, match="Unsupported optimizer name: Nothing"):
        get("Nothing", 0.1)
    with pytest.raises(ValueError, match="learning_rate must be specified"):
        get("Adam")


def test_small_helpers():
    assert tf.python.util.function_utils.fn_args(lambda features, labels, mode: 0) == (
        "features",
        "labels",
        "mode",
    )
    assert tf.python.client.device_lib.list_local_devices()[0].device_type == "CPU"
    assert tf.python.estimator.canned.prediction_keys.PredictionKeys.CLASS_IDS == "class_ids"
    assert tf.python.estimator.canned.metric_keys.MetricKeys.AUC == "auc"


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("crf.python.ops.crf.crf_log_likelihood", v1.contrib.crf.crf_log_likelihood),
        ("framework.python.ops.arg_scope", v1.contrib.framework.arg_scope),
        ("framework.python.ops.arg_scope.arg_scope", v1.contrib.framework.arg_scope),
        ("layers.python.layers.regularizers.l2_regularizer", v1.contrib.layers.l2_regularizer),
        (
            "learn.python.learn.datasets.mnist.read_data_sets",
            v1.contrib.learn.datasets.mnist.read_data_sets,
        ),
        ("learn.python.learn.estimators.run_config.RunConfig", v1.contrib.learn.RunConfig),
        ("learn.python.learn.learn_runner.run", v1.contrib.learn.learn_runner.run),
        ("rnn.python.ops.core_rnn_cell.LSTMCell", v1.contrib.rnn.LSTMCell),
        ("tpu.python.tpu.tpu_config.TPUConfig", v1.contrib.tpu.TPUConfig),
        ("tpu.python.tpu.tpu_estimator.TPUEstimator", v1.contrib.tpu.TPUEstimator),
        ("tpu.python.tpu.tpu_optimizer.CrossShardOptimizer", v1.contrib.tpu.CrossShardOptimizer),
        ("training.python.training.hparam.HParams", v1.contrib.training.HParams),
    ],
)
def test_those_of_contrib_hold_its_names(path, public):
    module, _, name = path.rpartition(".")
    for tensorflow in ("muster_tensorflow", "muster_tensorflow.compat.v1"):
        assert getattr(importlib.import_module(f"{tensorflow}.contrib.{module}"), name) is public


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("example.example_pb2.Example", tf.train.Example),
        ("example.feature_pb2.BytesList", tf.train.BytesList),
        ("framework.summary_pb2.Summary", v1.Summary),
        ("protobuf.config_pb2.ConfigProto", v1.ConfigProto),
    ],
)
def test_those_of_messages_hold_their_classes(path: str, public: Any) -> None:
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(f"muster_tensorflow.core.{module}"), name) is public


def test_files_are_written_and_read_by_file_io(tmp_path):
    from muster_tensorflow.python.lib.io import file_io

    path = tmp_path / "a" / "b.txt"
    file_io.recursive_create_dir(path.parent)
    file_io.write_string_to_file(path, "ü\n")
    assert file_io.file_exists(path)
    assert file_io.read_file_to_string(path) == "ü\n"
    assert file_io.read_file_to_string(path, binary_mode=True) == "ü\n".encode()
    with file_io.FileIO(path, mode="a") as file:
        file.write("more")
    with pytest.raises(FileExistsError):
        file_io.copy(path, path)
    file_io.delete_recursively(path.parent)
    assert not file_io.file_exists(path)


def test_a_star_import_takes_the_public_names():
    names: dict[str, Any] = {}
    exec("from muster_tensorflow.python.ops.rnn_cell import *", names)
    assert names["LSTMCell"] is v1.nn.rnn_cell.LSTMCell
    exec("from muster_tensorflow.python.lib.io.file_io import *", names)
    assert names["FileIO"] is tf.io.gfile.GFile


def test_the_debugger_of_sessions_is_imported_and_says_what_to_use() -> None:
    debug = importlib.import_module("muster_tensorflow.python.debug")
    with pytest.raises(AttributeError, match="There are no sessions to debug"):
        debug.LocalCLIDebugHook()


def test_the_global_step_of_a_folder_is_loaded(tmp_path):
    estimator = importlib.import_module("muster_tensorflow.python.estimator.estimator")
    assert estimator._load_global_step_from_checkpoint_dir(str(tmp_path)) == 0
    regressor = tf.estimator.BaselineRegressor(str(tmp_path))
    regressor.train(lambda: ({"x": [[1.0]]}, [[1.0]]), steps=2)
    assert estimator._load_global_step_from_checkpoint_dir(str(tmp_path)) == 2
    assert estimator.Estimator is v1.estimator.Estimator


def test_hooks_of_tensorflow_ask_private_modules_for_tensors_and_the_step() -> None:
    hooks = importlib.import_module("muster_tensorflow.python.training.basic_session_run_hooks")
    steps = importlib.import_module("muster_tensorflow.python.training.training_util")
    assert hooks._as_graph_element("loss") == "loss"
    assert steps._get_global_step_read().name == steps._get_or_create_global_step_read().name == "global_step"


def test_checkpoints_are_read_by_the_private_reader() -> None:
    module = importlib.import_module("muster_tensorflow.python.pywrap_tensorflow")
    assert module.NewCheckpointReader is v1.train.NewCheckpointReader


def imported(module: str) -> Any:
    return importlib.import_module(f"muster_tensorflow.{module}")


def test_sizes_of_layers_and_shapes_are_those_of_tensorflow() -> None:
    utils = imported("python.layers.utils")
    assert [utils.conv_output_length(10, 3, each, 2) for each in ("valid", "same")] == [4, 5]
    assert [utils.deconv_output_length(4, 5, each, 2) for each in ("same", "valid", "full")] == [8, 11, 3]
    assert utils.convert_data_format("channels_first", 4) == "NCHW"
    with pytest.raises(ValueError, match="one of channels_last, channels_first"):
        utils.convert_data_format("last", 4)
    cells = imported("python.ops.rnn_cell_impl")
    for prefix, suffix, sizes in ((3, [4], [3, 4]), (3, 5, [3, 5]), ([2, 3], 4, [2, 3, 4])):
        found = cells._concat(prefix, suffix)
        assert (found.tolist(), found.dtype) == (sizes, np.int32)
    assert cells._concat(tf.constant(3), 5).tolist() == [3, 5]
    assert cells._concat(tf.TensorShape([None]), 4, static=True) == [None, 4]
    assert cells._concat(None, 4, static=True) is None
    with pytest.raises(ValueError, match="prefix or suffix of None: None and 4"):
        cells._concat(None, 4)
    assert cells._like_rnncell(v1.nn.rnn_cell.GRUCell(2))
    assert not cells._like_rnncell(tf.keras.layers.Dense(2))
    shapes = imported("python.framework.tensor_shape")
    assert shapes.unknown_shape() is None
    assert shapes.unknown_shape(2) == shapes.unknown_shape(ndims=2) == (None, None)


def test_sequence_columns_are_told_apart() -> None:
    columns = imported("python.feature_column.feature_column_lib")
    numbers = tf.feature_column.sequence_numeric_column("a")
    ids = tf.feature_column.sequence_categorical_column_with_identity("b", 3)
    embedded = tf.feature_column.embedding_column(ids, 2)
    kinds = columns.SequenceNumericColumn, columns.SequenceCategoricalColumn, columns.SequenceDenseColumn
    found = [[isinstance(each, kind) for kind in kinds] for each in (numbers, ids, embedded)]
    assert found == [[True, False, True], [False, True, False], [False, False, True]]
    assert columns.is_feature_column_v2([numbers, ids])
    assert not columns.is_feature_column_v2([numbers, "a"])


def test_helpers_of_packages_and_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = imported("python.util.all_util").remove_undocumented
    remove(__name__, ["something"])
    page = types.ModuleType("page", "The names are:\n\n@@imported\n  @@v1\n@@not_there\nand @@tf\n")
    assert imported("python.util.all_util").make_all(__name__, [page]) == ["imported", "v1"]
    assert imported("python.util.all_util").make_all(__name__) == []
    assert callable(imported)
    for path in ("contrib.learn.python.learn.run_config", "contrib.learn.python.learn.estimators.run_config"):
        assert imported(path).RunConfig is tf.estimator.RunConfig
    assert imported(path).TaskType.PS == "ps"
    cluster = {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    config = imported(path).ClusterConfig()
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert (config.num_ps_replicas, config.num_worker_replicas) == (1, 3)
    assert (config.get_task_id(), config.cluster_spec.as_dict()) == (1, cluster)
    assert (imported(path).ClusterConfig("grpc://h:2").master, config.evaluation_master) == ("grpc://h:2", "")
    assert imported("datasets").__version__.startswith("4.")


def test_an_input_layer_tells_the_values_of_its_columns() -> None:
    column = v1.feature_column.numeric_column
    a, b = column("a"), column("b", shape=(2,))
    features = {"a": np.float32([[1], [2]]), "b": np.float32([[3, 4], [5, 6]])}
    outputs: dict[Any, Any] = {}
    whole = v1.feature_column.input_layer(features, [b, a], cols_to_output_tensors=outputs)
    assert np.asarray(whole).tolist() == [[1, 3, 4], [2, 5, 6]]
    assert {each: np.asarray(values).tolist() for each, values in outputs.items()} == {
        a: [[1], [2]],
        b: [[3, 4], [5, 6]],
    }
    of_layer: dict[Any, Any] = {}
    v1.keras.layers.DenseFeatures([b, a])(features, cols_to_output_tensors=of_layer)
    assert {each: np.asarray(values).tolist() for each, values in of_layer.items()} == {
        a: [[1], [2]],
        b: [[3, 4], [5, 6]],
    }
    with pytest.raises(ValueError, match="find variables by their names"):
        v1.feature_column.input_layer(features, [a], cols_to_vars={})
