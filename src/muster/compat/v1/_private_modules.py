"""``tensorflow.python`` and others: private modules that programs import; they hold public names."""

import sys
from collections.abc import Mapping
from operator import attrgetter
from types import ModuleType
from typing import Any

from muster import distribute, feature_column
from muster._keras import keras
from muster.compat._names import PACKAGE, importable_as, missing, passed_on
from muster.compat.ops._numpy_random import enable_numpy_behavior
from muster.compat.v1 import _initializers
from muster.compat.v1 import gfile as v1_files
from muster.compat.v1._metrics_at import streaming_confusion_matrix
from muster.compat.v1.estimator import _private
from muster.compat.v2 import _monitoring, _tables
from muster.compat.v2 import gfile as files
from muster.compat.v2._nest import is_nested

_V1 = "compat.v1"
_ESTIMATOR = f"{_V1}.estimator"
_TRAIN = f"{_V1}.train"

# For each module of ``tensorflow.python`` those of ``tf`` that are asked for a name, in this order.
_SOURCES: dict[str, tuple[str, ...]] = {
    "data": ("data",),
    "data.ops.dataset_ops": ("data",),
    "data.ops.readers": ("data",),
    **{
        f"distribute.{name}": ("distribute", _V1)
        for name in (
            *("central_storage_strategy", "collective_all_reduce_strategy", "cross_device_ops"),
            *("distribute_lib", "distribution_strategy_context", "input_lib", "mirrored_strategy"),
            *("one_device_strategy", "parameter_server_strategy", "reduce_util"),
            *("sharded_variable", "tpu_strategy", "values"),
        )
    },
    "distribute.coordinator.cluster_coordinator": ("distribute.coordinator",),
    **{
        f"distribute.cluster_resolver.{name}": ("distribute.cluster_resolver",)
        for name in (
            *("cluster_resolver", "kubernetes_cluster_resolver", "slurm_cluster_resolver"),
            *("tfconfig_cluster_resolver", "tpu_cluster_resolver"),
        )
    },
    "distribute.cluster_resolver": ("distribute.cluster_resolver",),
    "debug": (),  # programs import it, and use it when they look for an error
    "eager.context": (_V1,),
    "eager.backprop": (_V1,),
    "eager.def_function": (_V1,),
    **{
        f"estimator.{name}": (_ESTIMATOR,)
        for name in (
            *("estimator", "exporter", "model_fn", "run_config", "training", "mode_keys"),
            *("canned.baseline", "canned.dnn", "canned.dnn_linear_combined", "canned.linear"),
        )
    },
    "estimator.export.export": (f"{_ESTIMATOR}.export",),
    "estimator.export.export_output": (f"{_ESTIMATOR}.export",),
    "estimator.inputs.inputs": (f"{_ESTIMATOR}.inputs",),
    "estimator.inputs.numpy_io": (f"{_ESTIMATOR}.inputs",),
    "estimator.inputs.pandas_io": (f"{_ESTIMATOR}.inputs",),
    "feature_column.feature_column": (f"{_V1}.feature_column",),
    "feature_column.feature_column_lib": (f"{_V1}.feature_column",),
    "feature_column.feature_column_v2": (f"{_V1}.feature_column",),
    **{
        f"framework.{name}": (_V1,)
        for name in (
            *("constant_op", "dtypes", "ops", "random_seed", "sparse_tensor", "tensor_shape", "tensor_util"),
        )
    },
    "framework.errors": ("errors",),
    "framework.errors_impl": ("errors",),
    **{
        f"layers.{name}": (f"{_V1}.layers",)
        for name in ("convolutional", "core", "layers", "normalization", "pooling")
    },
    "lib.io.tf_record": (f"{_V1}.python_io",),
    **{
        f"ops.{name}": (_V1,)
        for name in (
            *("array_ops", "check_ops", "clip_ops", "control_flow_ops", "embedding_ops", "gradients"),
            *("gradients_impl", "init_ops", "io_ops", "linalg_ops", "parsing_ops", "partitioned_variables"),
            *("random_ops", "special_math_ops", "standard_ops", "state_ops", "string_ops"),
            *("tensor_array_ops", "variable_scope", "variables"),
        )
    },
    "ops.math_ops": (_V1, "math"),
    **{f"ops.{name}": (f"{_V1}.nn", _V1) for name in ("nn", "nn_impl", "nn_ops", "rnn")},
    "ops.image_ops": ("image",),
    "ops.lookup_ops": ("lookup",),
    "ops.losses.losses": (f"{_V1}.losses",),
    "ops.losses.losses_impl": (f"{_V1}.losses",),
    "ops.metrics": (f"{_V1}.metrics",),
    "ops.metrics_impl": (f"{_V1}.metrics",),
    "ops.rnn_cell": (f"{_V1}.nn.rnn_cell",),
    "ops.rnn_cell_impl": (f"{_V1}.nn.rnn_cell",),
    "platform.app": (f"{_V1}.app",),
    "platform.flags": (f"{_V1}.flags",),
    "platform.gfile": (f"{_V1}.gfile",),
    "platform.test": ("test",),
    "platform.tf_logging": (f"{_V1}.logging",),
    "saved_model.signature_constants": (f"{_V1}.saved_model.signature_constants",),
    "saved_model.tag_constants": (f"{_V1}.saved_model.tag_constants",),
    "summary.summary": (f"{_V1}.summary",),
    **{
        f"training.{name}": (_TRAIN,)
        for name in (
            *("adadelta", "adagrad", "adam", "basic_session_run_hooks", "checkpoint_utils", "ftrl"),
            *("gradient_descent", "learning_rate_decay", "momentum", "moving_averages", "optimizer"),
            *("rmsprop", "saver", "server_lib", "session_run_hook", "training", "training_util"),
        )
    },
    "util.nest": ("nest",),
}

# Likewise for those below ``tensorflow``.
_SOURCES_OF_CONTRIB: dict[str, tuple[str, ...]] = {
    "contrib.crf.python.ops.crf": ("contrib.crf",),
    **{
        f"contrib.data.python.ops.{name}": ("contrib.data",)
        for name in ("batching", "interleave_ops", "shuffle_ops")
    },
    **{f"contrib.framework.python.ops.{name}": ("contrib.framework",) for name in ("arg_scope", "variables")},
    **{
        f"contrib.layers.python.layers.{name}": ("contrib.layers",)
        for name in ("initializers", "layers", "optimizers", "regularizers")
    },
    "contrib.learn.python.learn": ("contrib.learn",),
    "contrib.learn.python.learn.learn_runner": ("contrib.learn.learn_runner",),
    **{
        f"contrib.learn.python.learn.{name}": ("contrib.learn",)
        for name in ("experiment", "metric_spec", "estimators.estimator", "estimators.model_fn")
    },
    **{
        f"contrib.learn.python.learn.utils.{name}": (f"contrib.learn.utils.{name}",)
        for name in ("input_fn_utils", "saved_model_export_utils")
    },
    **{f"contrib.rnn.python.ops.{name}": ("contrib.rnn",) for name in ("core_rnn_cell", "rnn", "rnn_cell")},
    **{
        f"contrib.tpu.python.tpu.{name}": ("contrib.tpu",)
        for name in ("tpu_config", "tpu_estimator", "tpu_optimizer", "tpu_function")
    },
    "contrib.training.python.training.hparam": ("contrib.training",),
}

# Likewise for those of messages, below ``tensorflow``, too.
_SOURCES_OF_MESSAGES: dict[str, tuple[str, ...]] = {
    "core.example.example_pb2": ("train",),
    "core.example.feature_pb2": ("train",),
    "core.framework.summary_pb2": (_V1,),
    "core.protobuf.config_pb2": (_V1,),
}

# Likewise for those of ``tensorflow.python.keras``, whose others are those of ``tf.keras``, and of the
# package ``keras`` before Keras 3, which programs import as ``keras``.
_SOURCES_OF_KERAS: dict[str, tuple[str, ...]] = {
    "engine": ("keras.layers", "keras"),
    "engine.base_layer": ("keras.layers",),
    "engine.input_layer": ("keras.layers", "keras"),
    "engine.input_spec": ("keras.layers",),
    "engine.network": ("keras",),
    "engine.sequential": ("keras",),
    "engine.topology": ("keras.layers", "keras"),
    "engine.training": ("keras",),
    **{
        f"layers.{name}": ("keras.layers",)
        for name in (
            *("advanced_activations", "convolutional", "convolutional_recurrent", "core", "dense_attention"),
            *("embeddings", "local", "merge", "noise", "normalization", "pooling", "recurrent"),
            *("recurrent_v2", "wrappers"),
        )
    },
    **{
        f"optimizer_v2.{name}": ("keras.optimizers.legacy",)
        for name in ("adadelta", "adagrad", "adam", "adamax", "ftrl", "gradient_descent", "nadam", "rmsprop")
    },
    "optimizer_v2.learning_rate_schedule": ("keras.optimizers.schedules",),
    "optimizer_v2.optimizer_v2": ("keras.optimizers.legacy",),
    **{
        f"utils.{name}": ("keras.utils",)
        for name in ("data_utils", "generic_utils", "layer_utils", "np_utils", "vis_utils")
    },
}

_COLUMNS = (
    feature_column.BucketizedColumn,
    feature_column.CrossedColumn,
    feature_column.EmbeddingColumn,
    feature_column.HashedCategoricalColumn,
    feature_column.IdentityCategoricalColumn,
    feature_column.IndicatorColumn,
    feature_column.NumericColumn,
    feature_column.SharedEmbeddingColumn,
    feature_column.VocabularyFileCategoricalColumn,
    feature_column.VocabularyListCategoricalColumn,
    feature_column.WeightedCategoricalColumn,
)
_INITIALIZERS = {
    "Constant": _initializers.constant_initializer,
    "GlorotNormal": _initializers.glorot_normal_initializer,
    "GlorotUniform": _initializers.glorot_uniform_initializer,
    "Identity": _initializers.identity_initializer,
    "Ones": _initializers.ones_initializer,
    "Orthogonal": _initializers.orthogonal_initializer,
    "RandomNormal": _initializers.random_normal_initializer,
    "RandomUniform": _initializers.random_uniform_initializer,
    "TruncatedNormal": _initializers.truncated_normal_initializer,
    "VarianceScaling": _initializers.variance_scaling_initializer,
    "Zeros": _initializers.zeros_initializer,
    "glorot_normal": _initializers.glorot_normal_initializer,
    "glorot_uniform": _initializers.glorot_uniform_initializer,
}

# Names that are private themselves.
_OWN: dict[str, dict[str, Any]] = {
    "client.device_lib": {"list_local_devices": _private.list_local_devices},
    "distribute.collective_all_reduce_strategy": {
        "CollectiveAllReduceStrategy": distribute.MultiWorkerMirroredStrategy
    },
    "distribute.parameter_server_strategy_v2": {
        "ParameterServerStrategyV2": distribute.ParameterServerStrategy
    },
    "eager.monitoring": {
        "BoolGauge": _monitoring.BoolGauge,
        "Counter": _monitoring.Counter,
        "IntGauge": _monitoring.IntGauge,
        "StringGauge": _monitoring.StringGauge,
    },
    "estimator.canned.head": {
        "_Head": _private.Head,
        "_binary_logistic_head_with_sigmoid_cross_entropy_loss": _private.binary_logistic_head,
        "_binary_logistic_or_multi_class_head": _private.binary_logistic_or_multi_class_head,
        "_multi_class_head_with_softmax_cross_entropy_loss": _private.multi_class_head,
        "_regression_head": _private.regression_head,
        "_regression_head_with_mean_squared_error_loss": _private.regression_head,
    },
    "estimator.canned.metric_keys": {"MetricKeys": _private.MetricKeys},
    "estimator.canned.optimizers": {"get_optimizer_instance": _private.get_optimizer_instance},
    "estimator.canned.prediction_keys": {"PredictionKeys": _private.PredictionKeys},
    "estimator.estimator": {"_load_global_step_from_checkpoint_dir": _private.load_global_step},
    "estimator.util": {"fn_args": _private.fn_args},
    "feature_column.feature_column": {f"_{each.__name__}": each for each in _COLUMNS},
    "feature_column.feature_column_v2": {each.__name__: each for each in _COLUMNS},
    "lib.io.file_io": {
        "FileIO": files.GFile,
        "copy": files.copy,
        "create_dir": v1_files.make_directory,
        "delete_file": v1_files.remove,
        "delete_recursively": v1_files.remove_directory,
        "file_exists": v1_files.exists,
        "get_matching_files": v1_files.matching_files,
        "is_directory": v1_files.is_directory,
        "list_directory": v1_files.list_directory,
        "read_file_to_string": v1_files.read_file_to_string,
        "recursive_create_dir": v1_files.make_directories,
        "rename": files.rename,
        "stat": v1_files.stat,
        "walk": v1_files.walk,
        "write_string_to_file": v1_files.write_string_to_file,
    },
    "ops.init_ops": _INITIALIZERS,
    "ops.init_ops_v2": _INITIALIZERS,
    "ops.lookup_ops": {
        "HashTable": _tables.StaticHashTable,
        "index_table_from_file": _tables.index_table_from_file,
        "index_table_from_tensor": _tables.index_table_from_tensor,
        "index_to_string_table_from_file": _tables.index_to_string_table_from_file,
        "index_to_string_table_from_tensor": _tables.index_to_string_table_from_tensor,
    },
    "ops.metrics_impl": {"_streaming_confusion_matrix": streaming_confusion_matrix},
    "keras.engine.network": {"Network": keras.Model},
    "keras.optimizer_v2.optimizer_v2": {"OptimizerV2": keras.optimizers.Optimizer},
    "ops.numpy_ops.np_config": {"enable_numpy_behavior": enable_numpy_behavior},
    "util.function_utils": {"fn_args": _private.fn_args},
    "util.nest": {"is_sequence": is_nested},
}


class _Passing(ModuleType):
    """A module that asks others for its names."""

    def __init__(self, path: str, sources: tuple[str, ...], own: Mapping[str, Any]) -> None:
        super().__init__(f"{PACKAGE}.{path}", f"``tensorflow.{path}``.")
        vars(self).update(own)
        self._sources, self._own = sources, own
        sys.modules[self.__name__] = self

    def __getattr__(self, name: str) -> Any:
        modules = [attrgetter(source)(sys.modules[PACKAGE]) for source in self._sources]
        if name == "__all__":  # for ``import *``
            public = {each for module in modules for each in passed_on(module, self.__name__, name)}
            return sorted({*public, *self._own})
        for module in modules:
            try:
                return getattr(module, name)
            except AttributeError:
                continue
        raise missing(f"tf{self.__name__.removeprefix(PACKAGE)}", name)


def provide_private_modules(tf: ModuleType) -> None:
    """Give the package that programs import as ``tf`` the private modules that they know of.

    Args:
        tf: The package, whose public modules are loaded.
    """
    of_python = [path for path in (*_SOURCES, *_OWN) if not path.startswith("keras.")]
    sources = {f"python.{path}": _SOURCES.get(path, ()) for path in of_python}
    sources |= _SOURCES_OF_CONTRIB | _SOURCES_OF_MESSAGES
    around = {path.rsplit(".", count)[0] for path in sources for count in range(1, path.count(".") + 1)}
    for path in sorted({*sources, *around}):
        if (name := f"{PACKAGE}.{path}") not in sys.modules:
            own = _OWN.get(path.removeprefix("python."), {}) if path.startswith("python.") else {}
            parent, _, last = name.rpartition(".")
            setattr(sys.modules[parent], last, _Passing(path, sources.get(path, ()), own))
    keras_in_python = f"{PACKAGE}.python.keras"
    tf.python.keras = sys.modules[keras_in_python] = tf.keras
    importable_as(keras_in_python, tf.keras)
    for package in ("keras", "python.keras"):
        for path, asked in _SOURCES_OF_KERAS.items():
            room, _, last = f"{package}.{path}".rpartition(".")
            if f"{PACKAGE}.{room}" not in sys.modules:
                _Passing(room, (), {})
            module = _Passing(f"{room}.{last}", asked, _OWN.get(f"keras.{path}", {}))
            within = sys.modules[f"{PACKAGE}.{room}"]
            if package == "keras" or isinstance(within, _Passing):
                setattr(within, last, module)


def provide_api(tf: ModuleType) -> None:
    """Provide ``tensorflow._api``, from which editors import: ``v1`` is TensorFlow 1, ``v2`` TensorFlow 2.

    Args:
        tf: The package that programs import as ``tf``, whose other modules can all be imported.
    """
    second = _Passing("_api.v2", ("compat.v2",), {"compat": tf.compat, "v2": tf})
    api = _Passing("_api", (), {"v1": tf.compat.v1, "v2": second})
    vars(tf)["_api"] = api
    importable_as(second.__name__, tf)
    for path, module in {
        "v1": tf.compat.v1,
        "v2.compat": tf.compat,
        "v2.compat.v1": tf.compat.v1,
        "v2.compat.v2": tf.compat.v2,
        "v2.v2": tf,
    }.items():
        sys.modules[name := f"{PACKAGE}._api.{path}"] = module
        importable_as(name, module)
