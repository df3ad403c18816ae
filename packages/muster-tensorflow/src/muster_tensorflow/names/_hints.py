"""Hints for missing names, shown by errors and by `muster port`.

Names are those of ``tf``; those of ``tf.compat.v1`` have the same lines. A key that ends in ``.*`` is for all
other names of a module.
"""

_SESSION = (
    "There is no session: an Estimator's model_fn is traced once, and train, evaluate and predict run it."
)
_GRAPH = "There is no graph: a step is traced from Python code. Leave it out."
_QUEUES = "There are no queues: read files by tf.data, as in TFRecordDataset(files).shuffle(…).batch(…)."
_HOOKED = (
    'Use an Estimator, whose train takes hooks, saves checkpoints and writes summaries: the page "Programs '
    'with sessions" of the documentation (docs/guides/session-programs.md) shows how.'
)
_GENERATOR = "Use keras.random with a keras.random.SeedGenerator, whose state is saved."
_RNN = "Use Keras' layers: keras.layers.LSTM, GRU, or RNN with cells."
_METRIC = "Use a metric of keras.metrics: EstimatorSpec.eval_metric_ops takes it."
_SUMMARY = "Write numbers, histograms, images and texts: tf.summary.scalar, histogram, image and text."
_WRITER = "Use keras.callbacks.TensorBoard with fit, or tf.summary.create_file_writer."
_LOOKUP = "Use tf.keras.layers.StringLookup or a dict, in Dataset.map."
_IMAGES = "Use keras.ops.image, or Keras' layers, such as keras.layers.Resizing."
_IMAGE_FILES = "Read it by Pillow or imageio in Dataset.map, or keras.utils.load_img."
_TEXT = "Text is Python's str: use its methods in input functions."
_COLLECTIONS = "There are no collections: keep what belongs together in a list of your own."
_TPU = "Use tf.estimator.Estimator with RunConfig(train_distribute=tf.distribute.TPUStrategy(…))."
_TREES = "Use a library for boosted trees, such as XGBoost or LightGBM: muster trains networks."
_LAYOUTS = (
    "Lay arrays out by jax.sharding: Mesh, NamedSharding and PartitionSpec; replicas of a model are "
    "tf.distribute.MirroredStrategy's."
)
_KERAS_OPS = "Use keras.ops, which has the operation for arrays and Keras' tensors."
_TESTED = "Use unittest or pytest, and numpy.testing."
_LAYERS = "Use Keras' layers, tf.keras.layers, or those of tf.compat.v1.layers."
_SPARSE = "Use another function of tf.sparse, feature columns, or an array of tf.sparse.to_dense."
_DIFFERENTIATED = (
    "Use JAX for it, such as jax.custom_vjp, jax.jacobian and jax.checkpoint, on functions of arrays."
)
_LITE = "Export by tf.saved_model.save; muster.saved_model and `muster serve` run it."
_GRAPH_DATA = (
    "Models are directories of muster.saved_model: tf.saved_model.save, Estimator.export_saved_model."
)
_TRANSFORMED = "Use the method of tf.data.Dataset, such as map, filter, batch, interleave and padded_batch."
_CONTRIB = "tf.contrib went with TensorFlow 1: look for the name without contrib, or write it with Keras."

INSTEAD = {
    "tf.Variable.count_up_to": "No step raises an error at a limit: add one, and let a hook or a loop stop.",
    "tf.Variable.create": "Variables have values from the start.",
    "tf.Variable.from_proto": _GRAPH,
    "tf.Variable.graph": _GRAPH,
    "tf.Variable.initial_value": "Keep what you give to tf.Variable, which knows its present value alone.",
    "tf.Variable.to_proto": _GRAPH,
    "tf.AggregationMethod": "Leave it out: XLA adds gradients as it likes best.",
    "tf.FIFOQueue": _QUEUES,
    "tf.GraphDef": _GRAPH_DATA,
    "tf.NoGradient": _DIFFERENTIATED,
    "tf.NotDifferentiable": _DIFFERENTIATED,
    "tf.Operation": _GRAPH,
    "tf.PaddingFIFOQueue": _QUEUES,
    "tf.RandomShuffleQueue": _QUEUES,
    "tf.RegisterGradient": _DIFFERENTIATED,
    "tf.RunMetadata": "Use tf.estimator.ProfilerHook or jax.profiler.",
    "tf.SessionLog": _SESSION,
    "tf.SparseTensorValue": "Use tf.SparseTensor, which holds values.",
    "tf.TypeSpec": "Use tf.TensorSpec.",
    "tf.add_check_numerics_ops": 'Use jax.config.update("jax_debug_nans", True).',
    "tf.config.experimental.enable_mlir_bridge": "Leave it out: XLA compiles everything.",
    "tf.config.experimental.set_device_policy": "Leave it out: arrays go to the device that computes.",
    "tf.config.experimental.reset_memory_stats": "Use jax.Device.memory_stats, which counts from the start.",
    "tf.config.experimental.set_synchronous_execution": "Leave it out: numpy() waits for a result.",
    "tf.config.experimental_connect_to_host": "Tasks find each other by TF_CONFIG or a cluster resolver.",
    "tf.config.optimizer.*": "Leave it out: XLA compiles everything.",
    "tf.container": _GRAPH,
    "tf.contrib.*": _CONTRIB,
    "tf.contrib.cluster_resolver.*": "Use tf.distribute.cluster_resolver.",
    "tf.contrib.compiler": "Leave it out: XLA compiles everything.",
    "tf.contrib.cudnn_rnn.*": _RNN,
    "tf.contrib.data.*": "Use tf.data.experimental, or the methods of tf.data.Dataset.",
    "tf.contrib.distribute.*": "Use tf.distribute and tf.distribute.experimental.",
    "tf.contrib.distributions.*": "Use jax.scipy.stats and jax.random, or TensorFlow Probability on JAX.",
    "tf.contrib.eager.*": "Use tf.GradientTape, tf.Variable and tf.function.",
    "tf.contrib.estimator.*": "Use tf.estimator and tf.estimator.experimental.",
    "tf.contrib.feature_column.*": "Use tf.feature_column.",
    "tf.contrib.framework.*": "Use tf.train: load_variable, list_variables and init_from_checkpoint.",
    "tf.contrib.gan.*": "Write it in a model_fn: gan_model, gan_loss, gan_train_ops and "
    "tf.contrib.gan.estimator.GANEstimator are there.",
    "tf.contrib.gan.gan_train": "Use tf.contrib.gan.estimator.GANEstimator.",
    "tf.contrib.hooks.*": "Use the hooks of tf.estimator.",
    "tf.contrib.hvd": "Use tf.distribute.MultiWorkerMirroredStrategy.",
    "tf.contrib.layers.*": "Use Keras' layers, tf.keras.layers, or those of tf.compat.v1.layers.",
    "tf.contrib.learn.*": "Use tf.estimator.",
    "tf.contrib.learn.datasets.*": "Use tf.keras.datasets, or muster.data.load_mnist.",
    "tf.contrib.lookup.*": _LOOKUP,
    "tf.contrib.losses.*": "Use tf.losses.",
    "tf.contrib.metrics.*": _METRIC,
    "tf.contrib.opt.*": "Use keras.optimizers: AdamW, Lion, LossScaleOptimizer and others.",
    "tf.contrib.predictor.*": "Use tf.saved_model.load or muster.saved_model.load.",
    "tf.contrib.quantize": "Use Keras' quantization: model.quantize.",
    "tf.contrib.rnn.*": _RNN,
    "tf.contrib.saved_model": "Use tf.saved_model.",
    "tf.contrib.seq2seq.*": _RNN,
    "tf.contrib.slim.*": "Use Keras' layers, tf.keras.layers, and an Estimator for the training loop.",
    "tf.contrib.summary.*": "Use tf.summary.scalar in the model_fn.",
    "tf.contrib.tensorboard": "Use muster.summary.EventFileWriter.",
    "tf.contrib.tensorrt": _LITE,
    "tf.contrib.timeseries": _CONTRIB,
    "tf.contrib.tpu.*": _TPU,
    "tf.contrib.training.*": "Use an Estimator for training and tf.data for input.",
    "tf.core.*": "It is private to TensorFlow: look for the public name.",
    "tf.data.Dataset.from_sparse_tensor_slices": "Use Dataset.from_tensor_slices, which takes sparse "
    "tensors.",
    "tf.data.Dataset.map_with_legacy_function": "Use Dataset.map.",
    "tf.data.Dataset.output_classes": "Use Dataset.element_spec.",
    "tf.data.Dataset.sparse_batch": "Use Dataset.padded_batch.",
    "tf.data.Iterator.from_string_handle": "Return the dataset from the input_fn.",
    "tf.data.Iterator.from_structure": "Return the dataset from the input_fn; train and evaluate take one "
    "each.",
    "tf.data.experimental.*": _TRANSFORMED,
    "tf.data.experimental.CheckpointInputPipelineHook": "Leave it out: checkpoints hold the input's "
    "position.",
    "tf.data.experimental.dense_to_sparse_batch": "Use Dataset.padded_batch.",
    "tf.data.experimental.make_saveable_from_iterator": "Leave it out: checkpoints hold the input's "
    "position.",
    "tf.data.experimental.service": "Workers read their share: Dataset.shard, or dispatch='dynamic'.",
    "tf.debugging.experimental": 'Use jax.config.update("jax_debug_nans", True).',
    "tf.distribute.cluster_resolver.SageMakerClusterResolver": "Use muster.cluster.SageMakerClusterResolver.",
    "tf.distributions.*": "Use jax.scipy.stats and jax.random, or TensorFlow Probability on JAX.",
    "tf.errors.*": "Errors have a number, error_code: those of muster, whose tree is in the reference, and "
    "those of tf.errors that programs raise.",
    "tf.estimator.BoostedTreesClassifier": _TREES,
    "tf.estimator.BoostedTreesEstimator": _TREES,
    "tf.estimator.BoostedTreesRegressor": _TREES,
    "tf.estimator.FeedFnHook": "Values come from the input_fn alone: put them into the dataset.",
    "tf.estimator.experimental.KMeans": "Use a library for clustering, such as scikit-learn.",
    "tf.estimator.experimental.LinearSDCA": "Use an optimizer, such as Ftrl.",
    "tf.experimental.dtensor": _LAYOUTS,
    "tf.fake_quant_with_min_max_args": "Use Keras' quantization: model.quantize.",
    "tf.get_default_session": _SESSION,
    "tf.get_session_handle": _SESSION,
    "tf.graph_util": _GRAPH_DATA,
    "tf.hessians": "Use jax.hessian on a function of arrays.",
    "tf.image.*": _IMAGES,
    "tf.image.resize_bicubic": "Use tf.compat.v2.image.resize with method='bicubic'.",
    "tf.import_graph_def": _GRAPH_DATA,
    "tf.io.decode_json_example": "Use json and tf.train.Example.",
    "tf.is_variable_initialized": "Variables have values from the start.",
    "tf.keras.backend.*": _KERAS_OPS,
    "tf.keras.backend.get_session": _SESSION,
    "tf.keras.backend.gradients": "Use tf.GradientTape, or tf.gradients in a model_fn.",
    "tf.keras.backend.manual_variable_initialization": "Variables have values from the start.",
    "tf.keras.callbacks.BaseLogger": "Leave it out: what callbacks get are means already.",
    "tf.keras.dtensor": _LAYOUTS,
    "tf.keras.experimental.*": "Look for it in keras or keras.layers.",
    "tf.keras.layers.experimental.*": "Look for it in keras.layers.",
    "tf.keras.premade": "Write the model with keras.Model, or use tf.estimator.LinearRegressor and others.",
    "tf.keras.utils.multi_gpu_model": "Use tf.distribute.MirroredStrategy.",
    "tf.keras.utils.OrderedEnqueuer": "Use keras.utils.PyDataset(workers=…), which reads ahead by itself.",
    "tf.keras.utils.SequenceEnqueuer": "Use keras.utils.PyDataset(workers=…), which reads ahead by itself.",
    "tf.layers.experimental": _LAYERS,
    "tf.linalg.*": "Use keras.ops.linalg, or jax.numpy.linalg and jax.scipy.linalg.",
    "tf.lite": _LITE,
    "tf.load_op_library": "Write the operation in JAX.",
    "tf.lookup.*": _LOOKUP,
    "tf.make_ndarray": "Use numpy.asarray.",
    "tf.make_tensor_proto": "Use tf.io.serialize_tensor.",
    "tf.metrics.*": _METRIC,
    "tf.mixed_precision": "Use keras.mixed_precision.",
    "tf.mlir": "Use jax.jit(…).lower(…).as_text().",
    "tf.moving_average_variables": _COLLECTIONS,
    "tf.nn.RNNCellDeviceWrapper": _RNN,
    "tf.nn.RNNCellDropoutWrapper": _RNN,
    "tf.nn.RNNCellResidualWrapper": _RNN,
    "tf.nn.all_candidate_sampler": "Use tf.range: it samples all classes.",
    "tf.nn.compute_accidental_hits": "Use tf.nn.sampled_softmax_loss with remove_accidental_hits=True.",
    "tf.nn.fractional_avg_pool": "Use tf.nn.avg_pool, or tf.image.resize for sizes that do not divide.",
    "tf.nn.fractional_max_pool": "Use tf.nn.max_pool, or tf.image.resize for sizes that do not divide.",
    "tf.nn.raw_rnn": _RNN,
    "tf.nn.rnn_cell.*": _RNN,
    "tf.plugins": _WRITER,
    "tf.profiler.*": "Use tf.profiler.experimental, or tf.estimator.ProfilerHook.",
    "tf.profiler.experimental.*": "Use jax.profiler, whose profiles TensorBoard shows, too.",
    "tf.python.debug.*": "There are no sessions to debug: use tf.print, tf.debugging.check_numerics, or "
    "jax.config.update('jax_debug_nans', True).",
    "tf.python.*": "It is private to TensorFlow, and muster knows only what programs use most: look for the "
    "public name.",
    "tf.pywrap_tensorflow": "Use tf.train.load_checkpoint.",
    "tf.quantization.*": "Use Keras' quantization: model.quantize.",
    "tf.quantize": "Use Keras' quantization: model.quantize.",
    "tf.queue": _QUEUES,
    "tf.random.*": _GENERATOR,
    "tf.raw_ops": _KERAS_OPS,
    "tf.register_tensor_conversion_function": "Give the class a method __array__.",
    "tf.report_uninitialized_variables": "Variables have values from the start.",
    "tf.resource_loader": "Use importlib.resources.",
    "tf.saved_model.Builder": "Use Estimator.export_saved_model or tf.saved_model.save.",
    "tf.saved_model.builder": "Use Estimator.export_saved_model or tf.saved_model.save.",
    "tf.saved_model.experimental.read_fingerprint": "Leave it out: a saved model of muster has none.",
    "tf.saved_model.loader": "Use tf.saved_model.load.",
    "tf.saved_model.signature_def_utils": "Use export_outputs of the EstimatorSpec, or signatures of "
    "tf.saved_model.save.",
    "tf.saved_model.simple_save": "Use Estimator.export_saved_model or tf.saved_model.save.",
    "tf.saved_model.utils": "Use tf.saved_model.save, whose signatures say inputs and outputs.",
    "tf.ragged.*": "Use another function of tf.ragged, or an array of to_tensor().",
    "tf.sparse.*": _SPARSE,
    "tf.sparse_merge": _SPARSE,
    "tf.sparse_placeholder": "Sparse features of a serving input are tf.io.VarLenFeature.",
    "tf.strings.*": _TEXT,
    "tf.summary.*": _SUMMARY,
    "tf.sysconfig": "Write operations in JAX.",
    "tf.test.*": _TESTED,
    "tf.tpu.*": _TPU,
    "tf.train.ChiefSessionCreator": _HOOKED,
    "tf.train.FeedFnHook": "Values come from the input_fn alone: put them into the dataset.",
    "tf.train.MonitoredSession": _HOOKED,
    "tf.train.MonitoredTrainingSession": _HOOKED,
    "tf.train.SessionManager": _HOOKED,
    "tf.train.SingularMonitoredSession": _HOOKED,
    "tf.train.Supervisor": _HOOKED,
    "tf.train.WorkerSessionCreator": _HOOKED,
    "tf.train.batch_join": "Read all files of one queue by one reader, and use tf.train.batch.",
    "tf.train.experimental": "Use keras.mixed_precision, and tf.train.Checkpoint.",
    "tf.train.export_meta_graph": _GRAPH_DATA,
    "tf.train.global_step": "Use tf.train.get_global_step: hooks get its value by SessionRunArgs, and "
    "Estimator.get_variable_value('global_step') returns it.",
    "tf.train.import_meta_graph": _GRAPH_DATA,
    "tf.train.queue_runner": "Leave it out: datasets read ahead by themselves.",
    "tf.train.replica_device_setter": "Use RunConfig and TF_CONFIG with a job ps, which place variables: the "
    'page "Programs with sessions" of the documentation (docs/guides/session-programs.md) shows how.',
    "tf.train.shuffle_batch_join": "Read all files of one queue by one reader, and use "
    "tf.train.shuffle_batch.",
    "tf.train.start_queue_runners": "Leave it out: datasets read ahead by themselves.",
    "tf.train.warm_start": "Use tf.estimator.WarmStartSettings, or tf.train.init_from_checkpoint.",
    "tf.train.write_graph": _GRAPH_DATA,
    "tf.user_ops": "Write the operation in JAX.",
    "tf.variable_creator_scope": "Look at layer.variables before and after a call; strategies place "
    "variables by scope().",
    "tf.variable_op_scope": "Use tf.variable_scope.",
    "tf.wrap_function": "Use tf.function.",
    "tf.xla": "Leave it out: XLA compiles everything.",
    "tfds.*": "tfds.load, builder and as_numpy are there, for few sets: use tf.data.Dataset.",
}

_PAGE = (
    'The page "Coming from TensorFlow" of the documentation says what to use instead and what is not '
    "there yet."
)


def advice_for(path: str) -> str:
    """Return the line for a name that is missing: its own, or that of the modules that it is in.

    Args:
        path: The whole name, such as ``tf.compat.v1.Session``.
    """
    name = canonical(path)
    if name in INSTEAD:
        return INSTEAD[name]
    while "." in name:
        name = name.rpartition(".")[0]
        if name in INSTEAD:
            return INSTEAD[name]
        if f"{name}.*" in INSTEAD:
            return INSTEAD[f"{name}.*"]
    return _PAGE


def canonical(path: str) -> str:
    """Return a name without ``compat.v1`` and ``compat.v2``, as TensorFlow 1 had it."""
    return path.replace("tf.compat.v1.", "tf.", 1).replace("tf.compat.v2.", "tf.", 1)
