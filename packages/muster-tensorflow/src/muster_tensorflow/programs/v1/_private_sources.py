"""List the public modules of ``tf`` in which each private module of TensorFlow finds its names.

A module of ``tensorflow.python`` asks those that export what it defines, TensorFlow 1's first, whose names it
has: those of TensorFlow 2 end in ``_v2`` there.

Source: ``__module__`` of what TensorFlow 2.15 exports, and TensorFlow 1.15's names of modules.
"""

from collections.abc import Mapping

_V1 = "compat.v1"
_ESTIMATOR = f"{_V1}.estimator"


def _by_module(rooms: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return, for each module, those of ``tf`` that are asked for a name, in this order.

    Args:
        rooms: By package, and by the modules that are asked, the modules in it. Spaces are between them.
    """
    return {
        f"{room}.{name}" if room else name: tuple(sources.split())
        for room, groups in rooms.items()
        for sources, names in groups.items()
        for name in names.split()
    }


# Those of ``tensorflow.python``.
OF_PYTHON = _by_module(
    {
        "": {
            "": "debug",  # programs import it, and use it when they look for an error
            "data": "data",
            "distribute.cluster_resolver": "distribute.cluster_resolver",
            "train": "pywrap_tensorflow",
        },
        "autograph": {
            f"{_V1}.autograph {_V1}.autograph.experimental": "core.converter impl.api lang.directives "
            "utils.ag_logging"
        },
        "checkpoint": {f"{_V1}.train": "checkpoint checkpoint_management checkpoint_options"},
        "client": {_V1: "session"},
        "compat": {_V1: "v2_compat", f"{_V1}.compat": "compat"},
        "data": {
            "data": "ops.dataset_ops ops.readers",
            "data data.experimental": "ops.iterator_ops ops.options",
            "data.experimental": "ops.optional_ops",
            "nest": "util.nest",
        },
        "data.experimental.ops": {
            f"{_V1}.data.experimental": "batching cardinality counter enumerate_ops error_ops from_list "
            "get_single_element grouping interleave_ops lookup_ops pad_to_cardinality prefetching_ops "
            "random_ops readers resampling scan_ops shuffle_ops snapshot take_while_ops unique writers",
            "data.experimental": "io random_access",
        },
        "debug.lib": {"debugging": "check_numerics_callback"},
        "distribute": {
            f"distribute {_V1}": "central_storage_strategy collective_all_reduce_strategy cross_device_ops "
            "distribute_lib distribution_strategy_context input_lib mirrored_strategy one_device_strategy "
            "parameter_server_strategy reduce_util sharded_variable tpu_strategy values",
            "distribute.experimental": "collective_util failure_handling.failure_handling",
        },
        "distribute.cluster_resolver": {
            "distribute.cluster_resolver": "cluster_resolver gce_cluster_resolver "
            "kubernetes_cluster_resolver slurm_cluster_resolver tfconfig_cluster_resolver",
            "distribute.cluster_resolver tpu.experimental": "tpu_cluster_resolver tpu.tpu_cluster_resolver",
        },
        "distribute.coordinator": {
            "distribute.coordinator": "cluster_coordinator coordinator_context remote_value values"
        },
        "eager": {
            _V1: "backprop context def_function polymorphic_function.polymorphic_function",
            "autodiff": "forwardprop",
            "config": "remote",
        },
        "estimator": {
            _ESTIMATOR: "estimator exporter model_fn run_config training mode_keys canned.baseline "
            "canned.dnn canned.dnn_linear_combined canned.linear",
            f"{_ESTIMATOR}.export": "export.export export.export_output",
            f"{_ESTIMATOR}.inputs": "inputs.inputs inputs.numpy_io inputs.pandas_io",
        },
        "feature_column": {
            f"{_V1}.feature_column": "feature_column feature_column_lib feature_column_v2 "
            "sequence_feature_column"
        },
        "framework": {
            _V1: "constant_op device device_spec dtypes indexed_slices ops random_seed sparse_tensor tensor "
            "tensor_conversion tensor_shape tensor_spec tensor_util type_spec",
            f"config.experimental config.threading config {_V1}.config.optimizer": "config",
            "errors": "errors errors_impl",
            "experimental": "extension_type",
            "test": "test_util",
        },
        "layers": {f"{_V1}.layers": "convolutional core layers normalization pooling"},
        "lib.io": {f"{_V1}.python_io": "tf_record"},
        "module": {_V1: "module"},
        "ops": {
            _V1: "array_ops array_ops_stack bincount_ops check_ops clip_ops cond confusion_matrix "
            "control_flow_assert control_flow_case control_flow_ops control_flow_switch_case "
            "critical_section_ops custom_gradient data_flow_ops embedding_ops functional_ops gradients "
            "gradients_impl histogram_ops init_ops io_ops linalg_ops logging_ops manip_ops map_fn "
            "parallel_for.control_flow_ops parsing_ops partitioned_variables random_ops "
            "resource_variable_ops script_ops sort_ops special_math_ops standard_ops state_ops string_ops "
            "template tensor_array_ops unconnected_gradients variable_scope variables while_loop",
            # What TensorFlow generates of its operations, programs take for those of the same names.
            f"{_V1} {_V1}.io": "gen_array_ops gen_control_flow_ops gen_data_flow_ops gen_io_ops "
            "gen_logging_ops gen_parsing_ops gen_state_ops",
            f"{_V1} {_V1}.debugging": "numerics",
            f"{_V1} math": "gen_math_ops math_ops",
            f"{_V1} sparse": "gen_sparse_ops sparse_ops",
            "bitwise": "bitwise_ops gen_bitwise_ops",
            "image": "gen_image_ops",
            "linalg": "gen_linalg_ops",
            "random": "gen_random_ops",
            "strings": "gen_string_ops",
            f"image {_V1}.image": "image_ops image_ops_impl random_crop_ops",
            f"{_V1}.io": "parsing_config",
            "lookup": "lookup_ops",
            f"{_V1}.losses": "losses.losses losses.losses_impl losses.util",
            f"{_V1}.metrics": "metrics metrics_impl",
            f"{_V1}.nn {_V1}": "ctc_ops gen_nn_ops nn nn_impl nn_impl_distribute nn_ops rnn",
            f"{_V1}.nn.rnn_cell": "rnn_cell rnn_cell_impl",
            "random random.experimental": "candidate_sampling_ops stateful_random_ops stateless_random_ops",
            "sets": "sets_impl",
        },
        "ops.distributions": {
            f"{_V1}.distributions": "bernoulli beta categorical dirichlet distribution distributions "
            "exponential gamma kullback_leibler laplace normal student_t uniform"
        },
        "ops.linalg": {
            f"{_V1}.linalg linalg": "linalg linalg_impl linear_operator linear_operator_adjoint "
            "linear_operator_block_diag linear_operator_composition linear_operator_diag "
            "linear_operator_full_matrix linear_operator_identity linear_operator_inversion "
            "linear_operator_kronecker linear_operator_low_rank_update linear_operator_lower_triangular "
            "linear_operator_zeros"
        },
        "ops.numpy_ops": {
            "experimental.numpy": "np_array_ops np_math_ops",
            "experimental.numpy.random": "np_random",
        },
        "ops.ragged": {
            f"{_V1}.ragged": "ragged_array_ops ragged_concat_ops ragged_factory_ops ragged_functional_ops "
            "ragged_math_ops segment_id_ops",
            _V1: "ragged_tensor",
            f"{_V1}.strings {_V1}": "ragged_string_ops",
        },
        "ops.signal": {
            "signal": "dct_ops fft_ops mel_ops mfcc_ops reconstruction_ops shape_ops signal spectral_ops "
            "window_ops"
        },
        "platform": {
            f"{_V1}.app": "app",
            f"{_V1}.flags": "flags",
            f"{_V1}.gfile": "gfile",
            f"{_V1}.logging": "tf_logging",
            "test": "googletest test",
        },
        "profiler": {"profiler.experimental": "profiler_v2 trace"},
        "saved_model": {
            "saved_model": "load load_options save save_options",
            f"{_V1}.saved_model": "builder builder_impl loader loader_impl saved_model",
            f"{_V1}.saved_model.signature_constants": "signature_constants",
            f"{_V1}.saved_model.tag_constants": "tag_constants",
        },
        "summary": {
            f"{_V1}.summary": "summary writer.writer writer.writer_cache",
            f"{_V1}.train": "summary_iterator",
        },
        "tpu": {f"{_V1}.tpu": "ops.tpu_ops tpu_optimizer"},
        "training": {
            f"{_V1}.train": "adadelta adagrad adam basic_session_run_hooks checkpoint_management "
            "checkpoint_utils coordinator device_setter ftrl gradient_descent input learning_rate_decay "
            "momentum monitored_session moving_averages optimizer proximal_adagrad proximal_gradient_descent "
            "py_checkpoint_reader rmsprop saver server_lib session_run_hook sync_replicas_optimizer "
            "training training_util warm_starting_util"
        },
        "util": {"compat": "compat", "debugging": "traceback_utils", "nest": "nest"},
    }
)

# Those of ``tensorflow.contrib``.
OF_CONTRIB = _by_module(
    {
        "contrib": {
            "contrib.crf": "crf.python.ops.crf",
            "contrib.data": "data.python.ops.batching data.python.ops.interleave_ops "
            "data.python.ops.shuffle_ops",
            "contrib.framework": "framework.python.ops framework.python.ops.arg_scope "
            "framework.python.ops.variables",
            "contrib.rnn": "rnn.python.ops.core_rnn_cell rnn.python.ops.rnn rnn.python.ops.rnn_cell",
            "contrib.training": "training.python.training.evaluation training.python.training.hparam "
            "training.python.training.training",
        },
        "contrib.layers.python.layers": {
            "contrib.layers": "initializers layers optimizers regularizers",
            "contrib.layers.utils": "utils",
        },
        "contrib.learn.python": {"contrib.learn": "learn"},
        "contrib.learn.python.learn": {
            "contrib.learn": "experiment metric_spec run_config estimators.dnn "
            "estimators.dnn_linear_combined estimators.estimator estimators.linear estimators.model_fn "
            "estimators.run_config",
            "contrib.learn.datasets": "datasets",
            "contrib.learn.datasets.base": "datasets.base",
            "contrib.learn.datasets.mnist": "datasets.mnist",
            "contrib.learn.learn_runner": "learn_runner",
            "contrib.learn.utils.input_fn_utils": "utils.input_fn_utils",
            "contrib.learn.utils.saved_model_export_utils": "utils.saved_model_export_utils",
        },
        "contrib.tpu.python.tpu": {"contrib.tpu": "tpu_config tpu_estimator tpu_optimizer tpu_function"},
    }
)

# Those of messages.
OF_MESSAGES = _by_module(
    {
        "core": {
            "train": "example.example_pb2 example.feature_pb2",
            _V1: "framework.node_def_pb2 framework.summary_pb2 protobuf.config_pb2",
        }
    }
)

# Those of ``tensorflow.python.keras``, whose others are those of ``tf.keras``, and of the package ``keras``
# before Keras 3, which programs import as ``keras``.
OF_KERAS = _by_module(
    {
        "": {"keras.layers keras": "engine"},
        "engine": {
            "": "data_adapter",
            "keras.layers": "base_layer input_spec",
            "keras.layers keras": "input_layer topology",
            "keras": "functional network sequential training",
        },
        "layers": {
            "keras.layers": "advanced_activations convolutional convolutional_recurrent core dense_attention "
            "embeddings local merge noise normalization pooling recurrent recurrent_v2 wrappers"
        },
        "optimizer_v2": {
            "keras.optimizers.legacy": "adadelta adagrad adam adamax ftrl gradient_descent nadam "
            "optimizer_v2 rmsprop",
            "keras.optimizers.schedules": "learning_rate_schedule",
        },
        "utils": {
            "": "conv_utils tf_utils",
            "keras.utils": "data_utils generic_utils layer_utils np_utils vis_utils",
        },
    }
)
