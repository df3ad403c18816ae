"""Lines that errors and `muster port` show for names that muster lacks: what to use instead.

Names are those of ``tf``; those of ``tf.compat.v1`` have the same lines. A key that ends in ``.*`` is for all
other names of a module.
"""

_SESSION = (
    "There is no session: an Estimator's model_fn is traced once, and train, evaluate and predict run it."
)
_GRAPH = "There is no graph: a step is traced from Python code. Leave it out."
_QUEUES = "There are no queues: read files by tf.data, as in TFRecordDataset(files).shuffle(…).batch(…)."
_HOOKED = "Use an Estimator, whose train takes hooks, saves checkpoints and writes summaries."
_GENERATOR = "Use keras.random with a keras.random.SeedGenerator, whose state is saved."
_KEYS = "Use jax.random, whose functions take a key."
_RNN = "Use Keras' layers: keras.layers.LSTM, GRU, or RNN with cells."
_SUMMED = "Losses are not collected: add them, and tf.losses.get_regularization_loss(), in the model_fn."
_METRIC = "Use a metric of keras.metrics: EstimatorSpec.eval_metric_ops takes it."
_SUMMARY = (
    "Steps write numbers by tf.summary.scalar; write others by muster.summary.EventFileWriter in a hook."
)
_WRITER = "Use keras.callbacks.TensorBoard with fit, or muster.summary.EventFileWriter."
_ASSERTED = (
    "A compiled step cannot stop at a value: check in the input function, or use jax.experimental.checkify."
)
_LOOKUP = "Use tf.keras.layers.StringLookup or a dict, in Dataset.map."
_IMAGES = "Use keras.ops.image, or Keras' layers, such as keras.layers.Resizing."
_IMAGE_FILES = "Read it by Pillow or imageio in Dataset.map, or keras.utils.load_img."
_TEXT = "Text is Python's str: use its methods in input functions."
_COLLECTIONS = "There are no collections: keep what belongs together in a list of your own."
_TPU = "Use tf.estimator.Estimator with RunConfig(train_distribute=tf.distribute.TPUStrategy(…))."
_TREES = "Use a library for boosted trees, such as XGBoost or LightGBM: muster trains networks."
_HPARAMS = "Use a dict or a dataclass for an Estimator's params."
_KERAS_OPS = "Use keras.ops, which has the operation for arrays and Keras' tensors."
_TESTED = "Use unittest or pytest, and numpy.testing."
_LAYERS = "Use Keras' layers, tf.keras.layers, or those of tf.compat.v1.layers."
_SPARSE = (
    "Sparse tensors are for input functions: make them dense by tf.sparse.to_dense, or use feature columns."
)
_DIFFERENTIATED = (
    "Use JAX for it, such as jax.custom_vjp, jax.jacobian and jax.checkpoint, on functions of arrays."
)
_LITE = "Export by tf.saved_model.save; muster.saved_model and `muster serve` run it."
_EMBEDDINGS = "Use tf.nn.embedding_lookup and a loss of all classes, or sample them in the input function."
_GRAPH_DATA = (
    "Models are directories of muster.saved_model: tf.saved_model.save, Estimator.export_saved_model."
)
_TRANSFORMED = "Use the method of tf.data.Dataset, such as map, filter, batch, interleave and padded_batch."
_CONTRIB = "tf.contrib went with TensorFlow 1: look for the name without contrib, or write it with Keras."

INSTEAD = {
    "tf.AggregationMethod": "Leave it out: XLA adds gradients as it likes best.",
    "tf.Assert": _ASSERTED,
    "tf.DeviceSpec": "Strategies say which devices compute: tf.distribute.",
    "tf.Dimension": "Sizes of shapes are Python's int.",
    "tf.FIFOQueue": _QUEUES,
    "tf.FixedLengthRecordReader": "Use numpy.memmap with Dataset.from_tensor_slices.",
    "tf.Graph": _GRAPH,
    "tf.GraphDef": _GRAPH_DATA,
    "tf.GraphOptions": "Leave it out: XLA compiles everything.",
    "tf.InteractiveSession": _SESSION,
    "tf.Module": "Use keras.layers.Layer or keras.Model.",
    "tf.NoGradient": _DIFFERENTIATED,
    "tf.NotDifferentiable": _DIFFERENTIATED,
    "tf.Operation": _GRAPH,
    "tf.OptimizerOptions": "Leave it out: XLA compiles everything.",
    "tf.PaddingFIFOQueue": _QUEUES,
    "tf.RaggedTensor.from_tensor": "Use tf.RaggedTensor.from_row_lengths.",
    "tf.RaggedTensorSpec": "Use tf.TensorSpec: ragged tensors are for input functions.",
    "tf.RandomShuffleQueue": _QUEUES,
    "tf.RegisterGradient": _DIFFERENTIATED,
    "tf.RunMetadata": "Use tf.estimator.ProfilerHook or jax.profiler.",
    "tf.RunOptions": "Use tf.estimator.ProfilerHook or jax.profiler.",
    "tf.Session": _SESSION,
    "tf.SessionLog": _SESSION,
    "tf.SparseFeature": "Use tf.io.VarLenFeature, or tf.SparseTensor in Dataset.map.",
    "tf.SparseTensorSpec": "Use tf.TensorSpec: sparse tensors are for input functions.",
    "tf.SparseTensorValue": "Use tf.SparseTensor, which holds values.",
    "tf.TFRecordReader": "Use tf.data.TFRecordDataset.",
    "tf.TensorArray": "Use a Python list with tf.stack, or jax.lax.scan.",
    "tf.TextLineReader": "Use tf.data.TextLineDataset.",
    "tf.TypeSpec": "Use tf.TensorSpec.",
    "tf.UnconnectedGradients": "Gradients of what a loss does not depend on are zeros.",
    "tf.WholeFileReader": "Read files in Dataset.map: tf.io.read_file.",
    "tf.accumulate_n": "Use tf.add_n.",
    "tf.add_check_numerics_ops": 'Use jax.config.update("jax_debug_nans", True).',
    "tf.add_to_collection": _COLLECTIONS,
    "tf.add_to_collections": _COLLECTIONS,
    "tf.all_variables": "Use tf.global_variables.",
    "tf.arg_max": "Use tf.argmax.",
    "tf.arg_min": "Use tf.argmin.",
    "tf.assert_equal": _ASSERTED,
    "tf.assert_greater": _ASSERTED,
    "tf.assert_greater_equal": _ASSERTED,
    "tf.assert_less": _ASSERTED,
    "tf.assert_less_equal": _ASSERTED,
    "tf.assert_non_negative": _ASSERTED,
    "tf.assert_none_equal": _ASSERTED,
    "tf.assert_positive": _ASSERTED,
    "tf.assert_rank": "Shapes are known when code is traced: compare value.ndim in Python.",
    "tf.assert_rank_at_least": "Shapes are known when code is traced: compare value.ndim in Python.",
    "tf.assert_type": "Dtypes are known when code is traced: compare value.dtype in Python.",
    "tf.audio": "Read it by scipy.io.wavfile or soundfile in Dataset.map.",
    "tf.autograph": "Functions are traced as they are: write loops and conditions with keras.ops or JAX.",
    "tf.batch_gather": "Use tf.gather with batch_dims.",
    "tf.batch_to_space": "Use tf.reshape and tf.transpose.",
    "tf.bitcast": "Use jax.lax.bitcast_convert_type.",
    "tf.bitwise": "Use keras.ops.bitwise_and and its like.",
    "tf.broadcast_dynamic_shape": "Use numpy.broadcast_shapes: shapes are tuples.",
    "tf.broadcast_static_shape": "Use numpy.broadcast_shapes: shapes are tuples.",
    "tf.case": "Use tf.cond, or jax.lax.switch.",
    "tf.complex": "Use jax.lax.complex.",
    "tf.config.experimental.enable_op_determinism": "Input is always in one order; on GPUs set "
    "XLA_FLAGS=--xla_gpu_deterministic_ops=true.",
    "tf.config.experimental.get_memory_info": "Use jax.Device.memory_stats.",
    "tf.config.optimizer.*": "Leave it out: XLA compiles everything.",
    "tf.config.threading": "XLA decides; `muster run` gives each task its share of the cores.",
    "tf.container": _GRAPH,
    "tf.contrib.*": _CONTRIB,
    "tf.contrib.cluster_resolver": "Use tf.distribute.cluster_resolver.",
    "tf.contrib.compiler": "Leave it out: XLA compiles everything.",
    "tf.contrib.cudnn_rnn": _RNN,
    "tf.contrib.data.*": "Use tf.data.experimental, or the methods of tf.data.Dataset.",
    "tf.contrib.data.batch_and_drop_remainder": "Use Dataset.batch(size, drop_remainder=True).",
    "tf.contrib.distribute.*": "Use tf.distribute and tf.distribute.experimental.",
    "tf.contrib.distribute.AllReduceCrossDeviceOps": "Use tf.distribute.NcclAllReduce.",
    "tf.contrib.distribute.CollectiveAllReduceStrategy": "Use tf.distribute.MultiWorkerMirroredStrategy.",
    "tf.contrib.distribute.DistributeConfig": "Use RunConfig(train_distribute=…, eval_distribute=…).",
    "tf.contrib.distribute.MirroredStrategy": "Use tf.distribute.MirroredStrategy, without num_gpus.",
    "tf.contrib.distribute.OneDeviceStrategy": "Use tf.distribute.OneDeviceStrategy.",
    "tf.contrib.distribute.ParameterServerStrategy": "Use "
    "tf.compat.v1.distribute.experimental.ParameterServerStrategy.",
    "tf.contrib.distribute.TPUStrategy": "Use tf.distribute.TPUStrategy.",
    "tf.contrib.eager": "Use tf.GradientTape, tf.Variable and tf.function.",
    "tf.contrib.estimator.*": "Use tf.estimator and tf.estimator.experimental.",
    "tf.contrib.estimator.InMemoryEvaluatorHook": "Use tf.estimator.experimental.InMemoryEvaluatorHook.",
    "tf.contrib.estimator.add_metrics": "Return the metrics in EstimatorSpec.eval_metric_ops, or add them "
    "by a head: tf.estimator.MultiClassHead.",
    "tf.contrib.estimator.binary_classification_head": "Use tf.estimator.BinaryClassHead.",
    "tf.contrib.estimator.multi_class_head": "Use tf.estimator.MultiClassHead.",
    "tf.contrib.estimator.regression_head": "Use tf.estimator.RegressionHead.",
    "tf.contrib.estimator.stop_if_no_decrease_hook": "Use "
    "tf.estimator.experimental.stop_if_no_decrease_hook.",
    "tf.contrib.estimator.stop_if_no_increase_hook": "Use "
    "tf.estimator.experimental.stop_if_no_increase_hook.",
    "tf.contrib.feature_column": "Use tf.feature_column.",
    "tf.contrib.framework.*": "Use tf.train: load_variable, list_variables and init_from_checkpoint.",
    "tf.contrib.framework.arg_scope": "Use functools.partial.",
    "tf.contrib.framework.get_or_create_global_step": "Use tf.train.get_or_create_global_step.",
    "tf.contrib.framework.nest": "Use tf.nest.",
    "tf.contrib.hvd": "Use tf.distribute.MultiWorkerMirroredStrategy.",
    "tf.contrib.layers.*": "Use Keras' layers, tf.keras.layers, or those of tf.compat.v1.layers.",
    "tf.contrib.layers.batch_norm": "Use tf.compat.v1.layers.batch_normalization.",
    "tf.contrib.layers.bucketized_column": "Use tf.feature_column.bucketized_column.",
    "tf.contrib.layers.conv2d": "Use tf.compat.v1.layers.conv2d, which has no activation by default.",
    "tf.contrib.layers.crossed_column": "Use tf.feature_column.crossed_column.",
    "tf.contrib.layers.dropout": "Use tf.compat.v1.layers.dropout, whose rate is 1 - keep_prob.",
    "tf.contrib.layers.embed_sequence": "Use keras.layers.Embedding.",
    "tf.contrib.layers.embedding_column": "Use tf.feature_column.embedding_column.",
    "tf.contrib.layers.flatten": "Use tf.compat.v1.layers.flatten.",
    "tf.contrib.layers.fully_connected": "Use tf.compat.v1.layers.dense, with activation=tf.nn.relu, which "
    "is the default of fully_connected.",
    "tf.contrib.layers.l1_regularizer": "Use tf.keras.regularizers.L1.",
    "tf.contrib.layers.l2_regularizer": "Use tf.keras.regularizers.L2, with half the scale.",
    "tf.contrib.layers.layer_norm": "Use keras.layers.LayerNormalization.",
    "tf.contrib.layers.max_pool2d": "Use tf.compat.v1.layers.max_pooling2d.",
    "tf.contrib.layers.one_hot_column": "Use tf.feature_column.indicator_column.",
    "tf.contrib.layers.optimize_loss": "Use tf.train.AdamOptimizer(…).minimize(loss, "
    "tf.train.get_global_step()).",
    "tf.contrib.layers.real_valued_column": "Use tf.feature_column.numeric_column.",
    "tf.contrib.layers.sparse_column_with_hash_bucket": "Use "
    "tf.feature_column.categorical_column_with_hash_bucket.",
    "tf.contrib.layers.sparse_column_with_keys": "Use "
    "tf.feature_column.categorical_column_with_vocabulary_list.",
    "tf.contrib.layers.variance_scaling_initializer": "Use "
    "tf.compat.v1.variance_scaling_initializer(scale=2.0), as contrib's default is.",
    "tf.contrib.layers.xavier_initializer": "Use tf.compat.v1.glorot_uniform_initializer.",
    "tf.contrib.layers.xavier_initializer_conv2d": "Use tf.compat.v1.glorot_uniform_initializer.",
    "tf.contrib.learn.*": "Use tf.estimator.",
    "tf.contrib.learn.DNNClassifier": "Use tf.estimator.DNNClassifier.",
    "tf.contrib.learn.DNNLinearCombinedClassifier": "Use tf.estimator.DNNLinearCombinedClassifier.",
    "tf.contrib.learn.DNNRegressor": "Use tf.estimator.DNNRegressor.",
    "tf.contrib.learn.Estimator": "Use tf.estimator.Estimator, whose model_fn returns an EstimatorSpec.",
    "tf.contrib.learn.LinearClassifier": "Use tf.estimator.LinearClassifier.",
    "tf.contrib.learn.MetricSpec": _METRIC,
    "tf.contrib.learn.ModeKeys": "Use tf.estimator.ModeKeys.",
    "tf.contrib.learn.ModelFnOps": "Use tf.estimator.EstimatorSpec.",
    "tf.contrib.learn.datasets": "Use tf.keras.datasets, or muster.data.load_mnist.",
    "tf.contrib.lookup": _LOOKUP,
    "tf.contrib.metrics": _METRIC,
    "tf.contrib.opt": "Use keras.optimizers: AdamW, Lion, LossScaleOptimizer and others.",
    "tf.contrib.predictor": "Use tf.saved_model.load or muster.saved_model.load.",
    "tf.contrib.quantize": "Use Keras' quantization: model.quantize.",
    "tf.contrib.rnn": _RNN,
    "tf.contrib.saved_model": "Use tf.saved_model.",
    "tf.contrib.seq2seq": _RNN,
    "tf.contrib.slim": "Use Keras' layers, tf.keras.layers, and an Estimator for the training loop.",
    "tf.contrib.summary": "Use tf.summary.scalar in the model_fn.",
    "tf.contrib.tensorboard": "Use muster.summary.EventFileWriter.",
    "tf.contrib.tensorrt": _LITE,
    "tf.contrib.timeseries": _CONTRIB,
    "tf.contrib.tpu.*": _TPU,
    "tf.contrib.tpu.CrossShardOptimizer": "Leave it out: minimize adds the gradients of replicas.",
    "tf.contrib.training.*": "Use an Estimator for training and tf.data for input.",
    "tf.contrib.training.HParams": _HPARAMS,
    "tf.convert_to_tensor_or_indexed_slices": "Use tf.convert_to_tensor.",
    "tf.convert_to_tensor_or_sparse_tensor": "Use tf.convert_to_tensor.",
    "tf.core": "It is private to TensorFlow: look for the public name.",
    "tf.cross": "Use keras.ops.cross.",
    "tf.custom_gradient": _DIFFERENTIATED,
    "tf.data.Dataset.bucket_by_sequence_length": "Use Dataset.padded_batch.",
    "tf.data.Dataset.choose_from_datasets": "Use Dataset.interleave, or Dataset.from_generator.",
    "tf.data.Dataset.counter": "Use Dataset.range.",
    "tf.data.Dataset.from_sparse_tensor_slices": "Use Dataset.from_tensor_slices, which takes sparse "
    "tensors.",
    "tf.data.Dataset.get_single_element": "Use next(iter(dataset)).",
    "tf.data.Dataset.group_by_window": "Use Dataset.padded_batch, or Dataset.from_generator.",
    "tf.data.Dataset.ignore_errors": "Use Dataset.filter, or catch errors in the function of Dataset.map.",
    "tf.data.Dataset.load": "Use tf.data.TFRecordDataset.",
    "tf.data.Dataset.make_initializable_iterator": "Use make_one_shot_iterator, or return the dataset from "
    "the input_fn.",
    "tf.data.Dataset.map_with_legacy_function": "Use Dataset.map.",
    "tf.data.Dataset.output_classes": "Use Dataset.element_spec.",
    "tf.data.Dataset.output_shapes": "Use Dataset.element_spec.",
    "tf.data.Dataset.output_types": "Use Dataset.element_spec.",
    "tf.data.Dataset.ragged_batch": "Use Dataset.padded_batch.",
    "tf.data.Dataset.random": "Use numpy.random in Dataset.from_generator.",
    "tf.data.Dataset.reduce": "Use a loop: for element in dataset.",
    "tf.data.Dataset.rejection_resample": "Use Dataset.filter.",
    "tf.data.Dataset.sample_from_datasets": "Use Dataset.interleave, or Dataset.from_generator.",
    "tf.data.Dataset.save": "Use tf.io.TFRecordWriter.",
    "tf.data.Dataset.scan": "Use Dataset.from_generator.",
    "tf.data.Dataset.snapshot": "Use Dataset.cache(filename).",
    "tf.data.Dataset.sparse_batch": "Use Dataset.padded_batch.",
    "tf.data.Dataset.take_while": "Use Dataset.from_generator.",
    "tf.data.Dataset.unique": "Use Dataset.from_generator.",
    "tf.data.Dataset.window": "Use Dataset.batch.",
    "tf.data.FixedLengthRecordDataset": "Use numpy.memmap with Dataset.from_tensor_slices.",
    "tf.data.Iterator.from_string_handle": "Return the dataset from the input_fn.",
    "tf.data.Iterator.from_structure": "Return the dataset from the input_fn; train and evaluate take one "
    "each.",
    "tf.data.experimental.*": _TRANSFORMED,
    "tf.data.experimental.CheckpointInputPipelineHook": "Leave it out: checkpoints hold the input's "
    "position.",
    "tf.data.experimental.assert_cardinality": "Leave it out: muster counts elements where it can.",
    "tf.data.experimental.copy_to_device": "Leave it out: the step moves batches to its devices itself.",
    "tf.data.experimental.dense_to_sparse_batch": "Use Dataset.padded_batch.",
    "tf.data.experimental.ignore_errors": "Use Dataset.filter, or catch errors in the function of "
    "Dataset.map.",
    "tf.data.experimental.make_batched_features_dataset": "Use "
    "tf.data.TFRecordDataset(files).batch(…).map(lambda batch: tf.io.parse_example(batch, features)).",
    "tf.data.experimental.make_saveable_from_iterator": "Leave it out: checkpoints hold the input's "
    "position.",
    "tf.data.experimental.sample_from_datasets": "Use Dataset.interleave, or Dataset.from_generator.",
    "tf.data.experimental.service": "Workers read their share: Dataset.shard, or dispatch='dynamic'.",
    "tf.data.get_output_shapes": "Use Dataset.element_spec.",
    "tf.data.get_output_types": "Use Dataset.element_spec.",
    "tf.data.make_initializable_iterator": "Use tf.compat.v1.data.make_one_shot_iterator, or return the "
    "dataset from the input_fn.",
    "tf.debugging.*": _ASSERTED,
    "tf.debugging.check_numerics": 'Use jax.config.update("jax_debug_nans", True).',
    "tf.debugging.enable_check_numerics": 'Use jax.config.update("jax_debug_nans", True).',
    "tf.depth_to_space": "Use tf.reshape and tf.transpose.",
    "tf.distribute.cluster_resolver.GCEClusterResolver": "Use TFConfigClusterResolver, with TF_CONFIG of "
    "your own.",
    "tf.distribute.cluster_resolver.SageMakerClusterResolver": "Use muster.cluster.SageMakerClusterResolver.",
    "tf.distributions": "Use jax.scipy.stats, keras.random, or TensorFlow Probability on JAX.",
    "tf.dynamic_partition": "Use tf.boolean_mask in the input function.",
    "tf.dynamic_stitch": "Use tf.concat and tf.gather.",
    "tf.edit_distance": "Compute it in Python, in the input function.",
    "tf.ensure_shape": "Shapes are known when code is traced: compare value.shape in Python.",
    "tf.errors.*": "Errors are those of muster, whose tree is in the reference: muster.MusterError and "
    "below, and Python's own.",
    "tf.errors.InvalidArgumentError": "Errors of values are ValueError, and muster.DatasetError in input.",
    "tf.errors.ResourceExhaustedError": "XLA raises jax.errors.JaxRuntimeError.",
    "tf.estimator.BoostedTreesClassifier": _TREES,
    "tf.estimator.BoostedTreesEstimator": _TREES,
    "tf.estimator.BoostedTreesRegressor": _TREES,
    "tf.estimator.FeedFnHook": "Values come from the input_fn alone: put them into the dataset.",
    "tf.estimator.add_metrics": "Return the metrics in EstimatorSpec.eval_metric_ops.",
    "tf.estimator.experimental.KMeans": "Use a library for clustering, such as scikit-learn.",
    "tf.estimator.experimental.LinearSDCA": "Use an optimizer, such as Ftrl.",
    "tf.estimator.tpu": _TPU,
    "tf.examples": "Use tf.keras.datasets.mnist.load_data or muster.data.load_mnist.",
    "tf.experimental.numpy": "Use jax.numpy.",
    "tf.extract_volume_patches": "Use keras.ops.image.extract_patches.",
    "tf.fake_quant_with_min_max_args": "Use Keras' quantization: model.quantize.",
    "tf.feature_column.shared_embedding_columns": "Use tf.feature_column.shared_embeddings.",
    "tf.fft": "Use keras.ops.fft.",
    "tf.foldl": "Use jax.lax.scan, or a loop of Python's.",
    "tf.foldr": "Use jax.lax.scan, or a loop of Python's.",
    "tf.get_collection_ref": _COLLECTIONS,
    "tf.get_default_graph": _GRAPH,
    "tf.get_default_session": _SESSION,
    "tf.get_local_variable": "Use a metric of keras.metrics, or tf.get_variable(…, trainable=False).",
    "tf.get_seed": "Use tf.random.set_seed; keras.random.SeedGenerator holds a seed.",
    "tf.get_session_handle": _SESSION,
    "tf.get_static_value": "Use numpy.asarray where values are known.",
    "tf.grad_pass_through": _DIFFERENTIATED,
    "tf.graph_util": _GRAPH_DATA,
    "tf.guarantee_const": _GRAPH,
    "tf.hessians": "Use jax.hessian on a function of arrays.",
    "tf.histogram_fixed_width": "Use jax.numpy.histogram.",
    "tf.identity_n": "Use tf.identity for each value.",
    "tf.image.*": _IMAGES,
    "tf.image.decode_gif": _IMAGE_FILES,
    "tf.image.decode_image": _IMAGE_FILES,
    "tf.image.decode_jpeg": _IMAGE_FILES,
    "tf.image.decode_png": _IMAGE_FILES,
    "tf.image.resize": "Use keras.ops.image.resize.",
    "tf.image.resize_images": "Use keras.ops.image.resize.",
    "tf.image.rgb_to_grayscale": "Use keras.ops.image.rgb_to_grayscale.",
    "tf.import_graph_def": _GRAPH_DATA,
    "tf.init_scope": "Leave it out: Python code outside of functions is not traced.",
    "tf.initialize_variables": "Variables have values from the start.",
    "tf.io.decode_image": _IMAGE_FILES,
    "tf.io.decode_jpeg": _IMAGE_FILES,
    "tf.io.decode_json_example": "Use json and tf.train.Example.",
    "tf.io.decode_png": _IMAGE_FILES,
    "tf.io.encode_jpeg": _IMAGE_FILES,
    "tf.io.parse_sequence_example": "Use FixedLenSequenceFeature or VarLenFeature of tf.train.Example.",
    "tf.io.parse_single_sequence_example": "Use FixedLenSequenceFeature or VarLenFeature of "
    "tf.train.Example.",
    "tf.io.parse_tensor": "Use tf.io.decode_raw, or numpy.load.",
    "tf.io.serialize_tensor": "Use numpy.ndarray.tobytes, or numpy.save.",
    "tf.is_variable_initialized": "Variables have values from the start.",
    "tf.keras.backend.*": _KERAS_OPS,
    "tf.keras.backend.get_session": _SESSION,
    "tf.keras.backend.set_session": _SESSION,
    "tf.keras.experimental.*": "Look for it in keras or keras.layers.",
    "tf.keras.experimental.export_saved_model": "Use tf.saved_model.save.",
    "tf.keras.layers.CuDNNGRU": "Use keras.layers.GRU.",
    "tf.keras.layers.CuDNNLSTM": "Use keras.layers.LSTM.",
    "tf.keras.layers.experimental": "Look for it in keras.layers.",
    "tf.keras.preprocessing.image.ImageDataGenerator": "Use keras.utils.image_dataset_from_directory, and "
    "layers such as keras.layers.RandomFlip.",
    "tf.keras.preprocessing.text": "Use tf.keras.layers.StringLookup in Dataset.map.",
    "tf.keras.utils.multi_gpu_model": "Use tf.distribute.MirroredStrategy.",
    "tf.layers.InputSpec": "Use keras.layers.InputSpec.",
    "tf.layers.Layer": "Use keras.layers.Layer.",
    "tf.layers.experimental": _LAYERS,
    "tf.linalg.*": "Use keras.ops.linalg and tf.matmul.",
    "tf.lite": _LITE,
    "tf.load_op_library": "Write the operation in JAX.",
    "tf.local_variables": "Metrics hold their own variables: keras.metrics.Metric.variables.",
    "tf.lookup": _LOOKUP,
    "tf.losses.add_loss": _SUMMED,
    "tf.losses.get_losses": _SUMMED,
    "tf.losses.get_total_loss": _SUMMED,
    "tf.losses.mean_pairwise_squared_error": "Compute it with tf.square and tf.reduce_mean.",
    "tf.make_ndarray": "Use numpy.asarray.",
    "tf.make_template": "Build one Keras layer or model, and call it twice.",
    "tf.make_tensor_proto": "Use numpy.ndarray.tobytes.",
    "tf.metrics.*": _METRIC,
    "tf.mixed_precision": "Use keras.mixed_precision.",
    "tf.mlir": "Use jax.jit(…).lower(…).as_text().",
    "tf.model_variables": "Use tf.global_variables.",
    "tf.moving_average_variables": _COLLECTIONS,
    "tf.multinomial": "Use keras.random.categorical with a keras.random.SeedGenerator.",
    "tf.nn.all_candidate_sampler": _EMBEDDINGS,
    "tf.nn.bidirectional_dynamic_rnn": "Use keras.layers.Bidirectional.",
    "tf.nn.conv2d_transpose": "Use keras.ops.conv_transpose, or keras.layers.Conv2DTranspose.",
    "tf.nn.ctc_loss": "Use keras.ops.ctc_loss.",
    "tf.nn.depthwise_conv2d": "Use keras.ops.depthwise_conv.",
    "tf.nn.dynamic_rnn": _RNN,
    "tf.nn.fused_batch_norm": "Use tf.layers.batch_normalization, or keras.layers.BatchNormalization.",
    "tf.nn.local_response_normalization": "Use keras.layers.LayerNormalization or BatchNormalization.",
    "tf.nn.lrn": "Use keras.layers.LayerNormalization or BatchNormalization.",
    "tf.nn.max_pool_with_argmax": "Use keras.ops.max_pool, and keras.ops.argmax of patches.",
    "tf.nn.nce_loss": _EMBEDDINGS,
    "tf.nn.rnn_cell": _RNN,
    "tf.nn.sampled_softmax_loss": _EMBEDDINGS,
    "tf.nn.separable_conv2d": "Use keras.ops.separable_conv.",
    "tf.nn.static_rnn": _RNN,
    "tf.parallel_stack": "Use tf.stack.",
    "tf.placeholder_with_default": "A step reads its batch: put the value into the dataset, or give the "
    "model_fn params.",
    "tf.plugins": _WRITER,
    "tf.profiler": "Use jax.profiler, whose profiles TensorBoard shows, too.",
    "tf.python": "It is private to TensorFlow: look for the public name, such as tf.keras of "
    "tensorflow.python.keras.",
    "tf.quantization": "Use Keras' quantization: model.quantize.",
    "tf.queue": _QUEUES,
    "tf.random.*": _GENERATOR,
    "tf.random.Generator": _GENERATOR,
    "tf.random.categorical": "Use keras.random.categorical with a keras.random.SeedGenerator.",
    "tf.random.experimental": _GENERATOR,
    "tf.random.stateless_normal": _KEYS,
    "tf.random.stateless_truncated_normal": _KEYS,
    "tf.random.stateless_uniform": _KEYS,
    "tf.random_crop": "Use keras.layers.RandomCrop.",
    "tf.random_gamma": _GENERATOR,
    "tf.raw_ops": _KERAS_OPS,
    "tf.realdiv": "Use tf.divide.",
    "tf.recompute_grad": "Use keras.remat or jax.checkpoint.",
    "tf.reduce_join": "Use str.join in the input function.",
    "tf.register_tensor_conversion_function": "Give the class a method __array__.",
    "tf.report_uninitialized_variables": "Variables have values from the start.",
    "tf.required_space_to_batch_paddings": "Use tf.reshape and tf.transpose.",
    "tf.resource_loader": "Use importlib.resources.",
    "tf.reverse_sequence": "Use tf.gather with the indices, which numpy makes of the lengths.",
    "tf.saved_model.Builder": "Use Estimator.export_saved_model or tf.saved_model.save.",
    "tf.saved_model.builder": "Use Estimator.export_saved_model or tf.saved_model.save.",
    "tf.saved_model.loader": "Use tf.saved_model.load.",
    "tf.saved_model.signature_def_utils": "Use export_outputs of the EstimatorSpec, or signatures of "
    "tf.saved_model.save.",
    "tf.saved_model.simple_save": "Use Estimator.export_saved_model or tf.saved_model.save.",
    "tf.saved_model.tag_constants": "Leave it out: a saved model has one set of signatures.",
    "tf.saved_model.utils": "Use tf.saved_model.save, whose signatures say inputs and outputs.",
    "tf.scalar_mul": "Use tf.multiply.",
    "tf.scan": "Use jax.lax.scan, or keras.ops.scan.",
    "tf.scatter_add": "Use the variable's scatter_add.",
    "tf.scatter_nd_update": "Use the variable's scatter_nd_update.",
    "tf.scatter_sub": "Use the variable's scatter_sub.",
    "tf.scatter_update": "Use the variable's scatter_update.",
    "tf.setdiff1d": "Use numpy.setdiff1d in the input function.",
    "tf.sets": "Use Python's set in input functions.",
    "tf.shape_n": "Use tf.shape for each value.",
    "tf.signal": "Use keras.ops.fft, stft and istft.",
    "tf.space_to_batch": "Use tf.reshape and tf.transpose.",
    "tf.space_to_depth": "Use tf.reshape and tf.transpose.",
    "tf.sparse.*": _SPARSE,
    "tf.sparse_placeholder": "Sparse features of a serving input are tf.io.VarLenFeature.",
    "tf.sparse_reduce_sum": _SPARSE,
    "tf.sparse_tensor_dense_matmul": "Use tf.nn.embedding_lookup_sparse.",
    "tf.sparse_to_dense": "Use tf.SparseTensor and tf.sparse.to_dense, in the input function.",
    "tf.strided_slice": "Use Python's slices: value[1:-1, ::2].",
    "tf.string_split": "Use str.split in the input function, or tf.strings.split.",
    "tf.string_to_hash_bucket": "Use tf.feature_column.categorical_column_with_hash_bucket, or "
    "muster.data.wide_ids.",
    "tf.string_to_hash_bucket_fast": "Use tf.feature_column.categorical_column_with_hash_bucket, or "
    "muster.data.wide_ids.",
    "tf.strings.*": _TEXT,
    "tf.strings.to_hash_bucket_fast": "Use tf.feature_column.categorical_column_with_hash_bucket, or "
    "muster.data.wide_ids.",
    "tf.summary.*": _SUMMARY,
    "tf.summary.FileWriter": _WRITER,
    "tf.summary.FileWriterCache": _WRITER,
    "tf.summary.create_file_writer": _WRITER,
    "tf.summary.merge": "Leave it out: the Estimator writes all summaries of a step.",
    "tf.summary.merge_all": "Leave it out: the Estimator writes all summaries of a step.",
    "tf.switch_case": "Use jax.lax.switch.",
    "tf.sysconfig": "Write operations in JAX.",
    "tf.tensor_scatter_nd_max": "Use jax.numpy.ndarray.at.",
    "tf.test.*": _TESTED,
    "tf.test.is_built_with_gpu_support": "Use tf.test.is_built_with_cuda.",
    "tf.tpu.*": _TPU,
    "tf.train.ChiefSessionCreator": _HOOKED,
    "tf.train.Coordinator": "Leave it out: tf.data has no threads to join.",
    "tf.train.ExponentialMovingAverage": "Use an optimizer of Keras with use_ema=True.",
    "tf.train.FeatureList": "Use tf.train.Example with lists of values.",
    "tf.train.FeatureLists": "Use tf.train.Example with lists of values.",
    "tf.train.FeedFnHook": "Values come from the input_fn alone: put them into the dataset.",
    "tf.train.MonitoredSession": _HOOKED,
    "tf.train.MonitoredTrainingSession": _HOOKED,
    "tf.train.SequenceExample": "Use tf.train.Example with lists of values.",
    "tf.train.SessionManager": _HOOKED,
    "tf.train.SingularMonitoredSession": _HOOKED,
    "tf.train.Supervisor": _HOOKED,
    "tf.train.SyncReplicasOptimizer": "Use tf.distribute.MultiWorkerMirroredStrategy, whose workers train "
    "in step.",
    "tf.train.WorkerSessionCreator": _HOOKED,
    "tf.train.batch": _QUEUES,
    "tf.train.experimental": "Use keras.mixed_precision, and tf.train.Checkpoint.",
    "tf.train.export_meta_graph": _GRAPH_DATA,
    "tf.train.global_step": "Use tf.train.get_global_step: hooks get its value by SessionRunArgs, and "
    "Estimator.get_variable_value('global_step') returns it.",
    "tf.train.import_meta_graph": _GRAPH_DATA,
    "tf.train.input_producer": _QUEUES,
    "tf.train.limit_epochs": "Use Dataset.repeat(epochs).",
    "tf.train.queue_runner": _QUEUES,
    "tf.train.replica_device_setter": "Use RunConfig and TF_CONFIG with a job ps, which place variables.",
    "tf.train.shuffle_batch": _QUEUES,
    "tf.train.slice_input_producer": "Use Dataset.from_tensor_slices.",
    "tf.train.start_queue_runners": _QUEUES,
    "tf.train.string_input_producer": _QUEUES,
    "tf.train.summary_iterator": "Use muster.summary.read_events.",
    "tf.train.warm_start": "Use tf.estimator.WarmStartSettings, or tf.train.init_from_checkpoint.",
    "tf.train.write_graph": _GRAPH_DATA,
    "tf.tuple": "Leave it out: a step computes all that its code says.",
    "tf.unique_with_counts": "Use numpy.unique in the input function.",
    "tf.unravel_index": "Use keras.ops.unravel_index.",
    "tf.user_ops": "Write the operation in JAX.",
    "tf.variable_op_scope": "Use tf.variable_scope.",
    "tf.variables_initializer": "Variables have values from the start.",
    "tf.vectorized_map": "Use jax.vmap or keras.ops.vectorized_map.",
    "tf.wrap_function": "Use tf.function.",
    "tf.xla": "Leave it out: XLA compiles everything.",
    "tf.zeta": "Use jax.scipy.special.zeta.",
    "tfds.*": "Only tfds.load is there, and for MNIST alone: make datasets by tf.data.Dataset.",
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
