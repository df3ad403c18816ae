"""``tensorflow.python`` and other private modules that programs import; they hold public names."""

import sys
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import ModuleType
from typing import Any

from muster import distribute, feature_column, keras
from muster_tensorflow.library.ops.arrays._shape import get_static_value
from muster_tensorflow.library.ops.random._numpy_random import enable_numpy_behavior
from muster_tensorflow.names._names import PACKAGE, importable_as, missing, passed_on
from muster_tensorflow.programs.v1 import _device_setters, _own_columns, _private_functions, _step
from muster_tensorflow.programs.v1 import gfile as v1_files
from muster_tensorflow.programs.v1._metrics_at import streaming_confusion_matrix
from muster_tensorflow.programs.v1._private_sources import OF_CONTRIB, OF_KERAS, OF_MESSAGES, OF_PYTHON
from muster_tensorflow.programs.v1.estimator import _private
from muster_tensorflow.programs.v1.metrics import metric_variable
from muster_tensorflow.programs.v1.operations._old_arguments import cond
from muster_tensorflow.programs.v1.variables import _initializers
from muster_tensorflow.programs.v2 import _monitoring
from muster_tensorflow.programs.v2 import gfile as files
from muster_tensorflow.programs.v2._nest import is_nested
from muster_tensorflow.programs.v2.data import _tables
from muster_tensorflow.programs.v2.keras import _conv_utils, _older_functions

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
_COLUMNS_2 = {
    **{each.__name__: each for each in _COLUMNS},
    "SequenceCategoricalColumn": feature_column.SequenceCategoricalColumn,
    "SequenceDenseColumn": feature_column.SequenceDenseColumn,
    "SequenceNumericColumn": feature_column.SequenceNumericColumn,
    "CategoricalColumn": _own_columns.CategoricalColumn,
    "DenseColumn": _own_columns.DenseColumn,
    "FeatureTransformationCache": _own_columns.FeatureTransformationCache,
    "StateManager": _own_columns.StateManager,
    "is_feature_column_v2": _private_functions.is_feature_column_v2,
}
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


def _unchanged(function: Any) -> Any:
    """Return what stands for itself: a function whose shapes are tuples anyway, or a fetch."""
    return function


def _exported(*names: str, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator that leaves a function or class as it is: it has no public names by this."""
    return _unchanged


# Has names that modules in it have, too: `arg_scope` is a function.
_FRAMEWORK_OPS = "contrib.framework.python.ops"

# Names that are private themselves.
_OWN: dict[str, dict[str, Any]] = {
    "core.framework.node_def_pb2": {"NodeDef": _device_setters.NodeDef},
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
    "contrib.learn.python.learn.estimators.run_config": {
        "ClusterConfig": _private_functions.ClusterConfig,
        "Environment": _private_functions.ENVIRONMENTS,
        "TaskType": _private_functions.TASK_TYPES,
    },
    "feature_column.feature_column": {f"_{each.__name__}": each for each in _COLUMNS},
    "feature_column.feature_column_lib": _COLUMNS_2,
    "feature_column.feature_column_v2": _COLUMNS_2,
    "feature_column.sequence_feature_column": _COLUMNS_2,
    "framework.tensor_shape": {"unknown_shape": _private_functions.unknown_shape},
    "layers.utils": {
        "constant_value": get_static_value,
        "conv_input_length": _conv_utils.conv_input_length,
        "conv_output_length": _conv_utils.conv_output_length,
        "convert_data_format": _private_functions.convert_data_format,
        "deconv_output_length": _private_functions.layers_deconv_output_length,
        "normalize_data_format": _conv_utils.normalize_data_format,
        "normalize_padding": _conv_utils.normalize_padding,
        "normalize_tuple": _conv_utils.normalize_tuple,
        "smart_cond": cond,
    },
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
    "keras.engine.data_adapter": {
        "expand_1d": _older_functions.expand_1d,
        "pack_x_y_sample_weight": keras.utils.pack_x_y_sample_weight,
        "train_validation_split": _older_functions.train_validation_split,
        "unpack_x_y_sample_weight": keras.utils.unpack_x_y_sample_weight,
    },
    "keras.engine.network": {"Network": keras.Model},
    "keras.optimizer_v2.optimizer_v2": {"OptimizerV2": keras.optimizers.Optimizer},
    "keras.utils.conv_utils": {
        "conv_input_length": _conv_utils.conv_input_length,
        "conv_output_length": _conv_utils.conv_output_length,
        "deconv_output_length": _conv_utils.deconv_output_length,
        "normalize_data_format": _conv_utils.normalize_data_format,
        "normalize_padding": _conv_utils.normalize_padding,
        "normalize_tuple": _conv_utils.normalize_tuple,
    },
    "keras.utils.generic_utils": {"has_arg": _older_functions.has_arg},
    "keras.utils.tf_utils": {"shape_type_conversion": _unchanged, "smart_cond": cond},
    "training.basic_session_run_hooks": {"_as_graph_element": _unchanged},
    "training.training_util": {
        "_get_global_step_read": _step.get_global_step,
        "_get_or_create_global_step_read": _step.get_or_create_global_step,
    },
    "training.device_setter": {"_RoundRobinStrategy": _device_setters.RoundRobinStrategy},
    "ops.rnn_cell_impl": {
        "_concat": _private_functions.concat_shape,
        "_like_rnncell": _private_functions.is_like_rnn_cell,
    },
    "ops.metrics_impl": {
        "_streaming_confusion_matrix": streaming_confusion_matrix,
        "metric_variable": metric_variable,
    },
    "ops.numpy_ops.np_config": {"enable_numpy_behavior": enable_numpy_behavior},
    "framework.smart_cond": {"smart_cond": cond},
    "util.all_util": {
        "make_all": _private_functions.make_all,
        "remove_undocumented": _private_functions.remove_undocumented,
    },
    "util.function_utils": {"fn_args": _private.fn_args},
    "util.nest": {"is_sequence": is_nested},
    "util.tf_export": {"keras_export": _exported, "tf_export": _exported},
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
    of_python = [path for path in (*OF_PYTHON, *_OWN) if not path.startswith(("keras.", "core.", "contrib."))]
    sources = {f"python.{path}": OF_PYTHON.get(path, ()) for path in of_python}
    sources |= OF_CONTRIB | OF_MESSAGES
    around = {path.rsplit(".", count)[0] for path in sources for count in range(1, path.count(".") + 1)}
    for path in sorted({*sources, *around}):
        if (name := f"{PACKAGE}.{path}") not in sys.modules:
            parent, _, last = name.rpartition(".")
            own = _OWN.get(path.removeprefix("python."), {})
            module = _Passing(path, sources.get(path, ()), own)
            if parent != f"{PACKAGE}.{_FRAMEWORK_OPS}":  # its own names come before the modules in it
                setattr(sys.modules[parent], last, module)
    keras_in_python = f"{PACKAGE}.python.keras"
    tf.python.keras = sys.modules[keras_in_python] = tf.keras
    importable_as(keras_in_python, tf.keras)
    for package in ("keras", "python.keras"):
        for path, asked in OF_KERAS.items():
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
