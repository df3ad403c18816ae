"""The names that programs for TensorFlow 1, and tutorials for TensorFlow 2, use most."""

NAMES = """
tf.AUTO_REUSE tf.Assert tf.ConfigProto tf.Dimension tf.FIFOQueue tf.FixedLenFeature tf.FixedLenSequenceFeature
tf.GPUOptions tf.GradientTape tf.Graph tf.GraphDef tf.GraphKeys tf.GraphKeys.GLOBAL_VARIABLES
tf.GraphKeys.REGULARIZATION_LOSSES tf.GraphKeys.TRAINABLE_VARIABLES tf.GraphKeys.UPDATE_OPS tf.IndexedSlices
tf.InteractiveSession tf.Module tf.Operation tf.Print tf.RaggedTensor tf.RunMetadata tf.RunOptions tf.Session
tf.SparseTensor tf.SparseTensorValue tf.TFRecordReader tf.Tensor tf.TensorArray tf.TensorShape tf.TensorSpec
tf.TextLineReader tf.VERSION tf.VarLenFeature tf.Variable tf.__version__ tf.abs tf.add tf.add_n
tf.add_to_collection tf.all_variables tf.app.flags tf.app.flags.DEFINE_boolean tf.app.flags.DEFINE_integer
tf.app.flags.DEFINE_string tf.app.flags.FLAGS tf.app.run tf.arg_max tf.argmax tf.argmin tf.argsort tf.as_dtype
tf.assert_equal tf.assert_greater tf.assign tf.assign_add tf.assign_sub tf.autograph tf.batch_gather
tf.bfloat16 tf.bool tf.boolean_mask tf.broadcast_to tf.case tf.cast tf.ceil tf.clip_by_global_norm
tf.clip_by_norm tf.clip_by_value tf.compat.as_bytes tf.compat.as_str tf.compat.as_str_any tf.compat.as_text
tf.complex64 tf.concat tf.cond tf.config.experimental.list_physical_devices
tf.config.experimental.set_memory_growth tf.config.list_logical_devices tf.config.list_physical_devices
tf.config.run_functions_eagerly tf.confusion_matrix tf.constant tf.constant_initializer
tf.contrib.cluster_resolver.TPUClusterResolver tf.contrib.data.AUTOTUNE tf.contrib.data.map_and_batch
tf.contrib.data.shuffle_and_repeat tf.contrib.distribute.CollectiveAllReduceStrategy
tf.contrib.distribute.MirroredStrategy tf.contrib.distribute.ParameterServerStrategy
tf.contrib.eager.Variable tf.contrib.estimator.add_metrics tf.contrib.estimator.stop_if_no_decrease_hook
tf.contrib.framework.arg_scope tf.contrib.framework.get_or_create_global_step tf.contrib.framework.nest
tf.contrib.layers.batch_norm tf.contrib.layers.conv2d tf.contrib.layers.dropout
tf.contrib.layers.embed_sequence tf.contrib.layers.flatten tf.contrib.layers.fully_connected
tf.contrib.layers.l2_regularizer tf.contrib.layers.optimize_loss tf.contrib.layers.real_valued_column
tf.contrib.layers.xavier_initializer tf.contrib.learn.DNNClassifier tf.contrib.learn.Estimator
tf.contrib.learn.Experiment tf.contrib.learn.ModeKeys tf.contrib.learn.RunConfig
tf.contrib.learn.learn_runner.run tf.contrib.lookup.index_table_from_tensor tf.contrib.metrics.f1_score
tf.contrib.opt.AdamWOptimizer tf.contrib.predictor.from_saved_model tf.contrib.rnn.BasicLSTMCell
tf.contrib.rnn.LSTMCell tf.contrib.seq2seq.sequence_loss tf.contrib.slim tf.contrib.slim.conv2d
tf.contrib.summary.scalar tf.contrib.tpu.CrossShardOptimizer tf.contrib.tpu.RunConfig
tf.contrib.tpu.TPUEstimator tf.contrib.training.HParams tf.control_dependencies tf.convert_to_tensor tf.cos
tf.count_nonzero tf.cumsum tf.custom_gradient tf.data.AUTOTUNE tf.data.Dataset tf.data.Dataset.apply
tf.data.Dataset.batch tf.data.Dataset.from_generator tf.data.Dataset.from_tensor_slices
tf.data.Dataset.list_files tf.data.Dataset.make_initializable_iterator
tf.data.Dataset.make_one_shot_iterator tf.data.Dataset.map tf.data.Dataset.output_shapes
tf.data.Dataset.output_types tf.data.Dataset.range tf.data.Dataset.reduce tf.data.Dataset.window
tf.data.Dataset.zip tf.data.FixedLengthRecordDataset tf.data.Iterator tf.data.Iterator.from_structure
tf.data.Options tf.data.TFRecordDataset tf.data.TextLineDataset tf.data.experimental.AUTOTUNE
tf.data.experimental.CsvDataset tf.data.experimental.make_batched_features_dataset
tf.data.experimental.make_csv_dataset tf.data.experimental.map_and_batch
tf.data.experimental.parallel_interleave tf.data.experimental.prefetch_to_device
tf.data.experimental.shuffle_and_repeat tf.data.make_initializable_iterator tf.data.make_one_shot_iterator
tf.debugging.assert_equal tf.debugging.check_numerics tf.decode_csv tf.decode_raw tf.device
tf.disable_eager_execution tf.disable_v2_behavior tf.distribute.MirroredStrategy
tf.distribute.MultiWorkerMirroredStrategy tf.distribute.OneDeviceStrategy tf.distribute.ReduceOp.SUM
tf.distribute.Server tf.distribute.Strategy tf.distribute.TPUStrategy
tf.distribute.cluster_resolver.TFConfigClusterResolver tf.distribute.cluster_resolver.TPUClusterResolver
tf.distribute.experimental.CentralStorageStrategy tf.distribute.experimental.CollectiveCommunication
tf.distribute.experimental.MultiWorkerMirroredStrategy tf.distribute.experimental.ParameterServerStrategy
tf.distribute.get_replica_context tf.distribute.get_strategy tf.div tf.divide tf.dtypes.cast
tf.dynamic_partition tf.einsum tf.enable_eager_execution tf.enable_v2_behavior tf.equal tf.erf
tf.errors.InvalidArgumentError tf.errors.NotFoundError tf.errors.OutOfRangeError
tf.estimator.BaselineClassifier tf.estimator.BestExporter tf.estimator.BoostedTreesClassifier
tf.estimator.CheckpointSaverHook tf.estimator.DNNClassifier tf.estimator.DNNLinearCombinedClassifier
tf.estimator.DNNRegressor tf.estimator.Estimator tf.estimator.EstimatorSpec tf.estimator.EvalSpec
tf.estimator.FinalExporter tf.estimator.LatestExporter tf.estimator.LinearClassifier
tf.estimator.LinearRegressor tf.estimator.LoggingTensorHook tf.estimator.ModeKeys
tf.estimator.ModeKeys.TRAIN tf.estimator.RunConfig tf.estimator.SessionRunHook tf.estimator.TrainSpec
tf.estimator.WarmStartSettings tf.estimator.add_metrics tf.estimator.experimental.stop_if_no_decrease_hook
tf.estimator.export.PredictOutput tf.estimator.export.ServingInputReceiver
tf.estimator.export.build_parsing_serving_input_receiver_fn
tf.estimator.export.build_raw_serving_input_receiver_fn tf.estimator.inputs.numpy_input_fn
tf.estimator.inputs.pandas_input_fn tf.estimator.tpu.TPUEstimator tf.estimator.train_and_evaluate
tf.executing_eagerly tf.exp tf.expand_dims tf.eye tf.feature_column.bucketized_column
tf.feature_column.categorical_column_with_hash_bucket tf.feature_column.categorical_column_with_identity
tf.feature_column.categorical_column_with_vocabulary_list tf.feature_column.crossed_column
tf.feature_column.embedding_column tf.feature_column.indicator_column tf.feature_column.input_layer
tf.feature_column.linear_model tf.feature_column.make_parse_example_spec tf.feature_column.numeric_column
tf.feature_column.shared_embedding_columns tf.fill tf.flags tf.flags.DEFINE_bool tf.flags.DEFINE_enum
tf.flags.DEFINE_float tf.flags.DEFINE_integer tf.flags.DEFINE_string tf.flags.FLAGS
tf.flags.mark_flag_as_required tf.float16 tf.float32 tf.float64 tf.floor tf.floordiv tf.floormod tf.foldl
tf.function tf.gather tf.gather_nd tf.get_collection tf.get_default_graph tf.get_default_session
tf.get_local_variable tf.get_logger tf.get_variable tf.get_variable_scope tf.gfile.Copy
tf.gfile.DeleteRecursively tf.gfile.Exists tf.gfile.FastGFile tf.gfile.GFile tf.gfile.Glob
tf.gfile.IsDirectory tf.gfile.ListDirectory tf.gfile.MakeDirs tf.gfile.MkDir tf.gfile.Open tf.gfile.Remove
tf.gfile.Rename tf.gfile.Stat tf.gfile.Walk tf.global_norm tf.global_variables
tf.global_variables_initializer tf.glorot_normal_initializer tf.glorot_uniform_initializer tf.gradients
tf.graph_util.convert_variables_to_constants tf.greater tf.greater_equal tf.group tf.hessians tf.identity
tf.image.convert_image_dtype tf.image.decode_jpeg tf.image.decode_png tf.image.per_image_standardization
tf.image.random_brightness tf.image.random_flip_left_right tf.image.resize tf.image.resize_images
tf.image.resize_with_crop_or_pad tf.image.rgb_to_grayscale tf.import_graph_def tf.initialize_all_variables
tf.initializers.he_normal tf.initializers.random_normal tf.initializers.truncated_normal
tf.initializers.variance_scaling tf.initializers.zeros tf.int32 tf.int64 tf.int8 tf.io.FixedLenFeature
tf.io.TFRecordWriter tf.io.VarLenFeature tf.io.decode_csv tf.io.decode_image tf.io.decode_jpeg
tf.io.decode_png tf.io.decode_raw tf.io.gfile.GFile tf.io.gfile.exists tf.io.gfile.glob
tf.io.gfile.makedirs tf.io.parse_example tf.io.parse_single_example tf.io.parse_tensor tf.io.read_file
tf.io.serialize_tensor tf.io.write_file tf.is_nan tf.is_tensor tf.keras.Input tf.keras.Model
tf.keras.Sequential tf.keras.activations.relu tf.keras.applications.ResNet50
tf.keras.backend.clear_session tf.keras.backend.epsilon tf.keras.backend.learning_phase
tf.keras.backend.mean tf.keras.backend.set_session tf.keras.callbacks.Callback
tf.keras.callbacks.EarlyStopping tf.keras.callbacks.LearningRateScheduler
tf.keras.callbacks.ModelCheckpoint tf.keras.callbacks.TensorBoard tf.keras.datasets.cifar10.load_data
tf.keras.datasets.fashion_mnist.load_data tf.keras.datasets.mnist.load_data
tf.keras.estimator.model_to_estimator tf.keras.initializers.GlorotUniform
tf.keras.layers.BatchNormalization tf.keras.layers.Conv2D tf.keras.layers.CuDNNLSTM tf.keras.layers.Dense
tf.keras.layers.DenseFeatures tf.keras.layers.Dropout tf.keras.layers.Embedding tf.keras.layers.Flatten
tf.keras.layers.LSTM tf.keras.layers.Layer tf.keras.layers.experimental.preprocessing.Rescaling
tf.keras.losses.BinaryCrossentropy tf.keras.losses.Reduction.NONE
tf.keras.losses.SparseCategoricalCrossentropy tf.keras.metrics.Accuracy tf.keras.metrics.Mean
tf.keras.models.Model tf.keras.models.Sequential tf.keras.models.load_model tf.keras.optimizers.Adam
tf.keras.optimizers.SGD tf.keras.optimizers.schedules.ExponentialDecay
tf.keras.preprocessing.image.ImageDataGenerator tf.keras.preprocessing.sequence.pad_sequences
tf.keras.preprocessing.text.Tokenizer tf.keras.regularizers.l2 tf.keras.utils.Progbar
tf.keras.utils.get_file tf.keras.utils.multi_gpu_model tf.keras.utils.to_categorical
tf.layers.AveragePooling2D
tf.layers.BatchNormalization tf.layers.Conv1D tf.layers.Conv2D tf.layers.Conv2DTranspose tf.layers.Dense
tf.layers.Dropout tf.layers.Flatten tf.layers.InputSpec tf.layers.Layer tf.layers.MaxPooling2D
tf.layers.average_pooling2d tf.layers.batch_normalization tf.layers.conv1d tf.layers.conv2d
tf.layers.conv2d_transpose tf.layers.conv3d tf.layers.dense tf.layers.dropout tf.layers.flatten
tf.layers.max_pooling1d tf.layers.max_pooling2d tf.layers.separable_conv2d tf.less tf.less_equal
tf.lin_space tf.linalg.band_part tf.linalg.diag tf.linalg.inv tf.linalg.matmul tf.linalg.norm tf.linspace
tf.lite.TFLiteConverter tf.local_variables tf.local_variables_initializer tf.log tf.log1p tf.logging.DEBUG
tf.logging.ERROR tf.logging.INFO tf.logging.WARN tf.logging.debug tf.logging.error tf.logging.fatal
tf.logging.info tf.logging.log_every_n tf.logging.set_verbosity tf.logging.warn tf.logging.warning
tf.logical_and tf.logical_not tf.logical_or tf.lookup.KeyValueTensorInitializer tf.lookup.StaticHashTable
tf.losses.Reduction tf.losses.absolute_difference tf.losses.add_loss tf.losses.compute_weighted_loss
tf.losses.cosine_distance tf.losses.get_losses tf.losses.get_regularization_loss
tf.losses.get_regularization_losses tf.losses.get_total_loss tf.losses.hinge_loss tf.losses.huber_loss
tf.losses.log_loss tf.losses.mean_squared_error tf.losses.sigmoid_cross_entropy
tf.losses.softmax_cross_entropy tf.losses.sparse_softmax_cross_entropy tf.make_template tf.map_fn
tf.math.add tf.math.argmax tf.math.ceil tf.math.confusion_matrix tf.math.equal tf.math.exp
tf.math.l2_normalize tf.math.log tf.math.logical_and tf.math.multiply tf.math.reduce_max
tf.math.reduce_mean tf.math.reduce_std tf.math.reduce_sum tf.math.sqrt tf.math.top_k tf.matching_files
tf.matmul tf.matrix_band_part tf.matrix_inverse tf.maximum tf.meshgrid tf.metrics.accuracy tf.metrics.auc
tf.metrics.mean tf.metrics.mean_absolute_error tf.metrics.mean_iou tf.metrics.mean_per_class_accuracy
tf.metrics.mean_squared_error tf.metrics.precision tf.metrics.precision_at_k tf.metrics.recall
tf.metrics.recall_at_k tf.metrics.root_mean_squared_error tf.metrics.true_positives tf.minimum tf.mod
tf.model_variables tf.multinomial tf.multiply tf.name_scope tf.negative tf.nest.flatten
tf.nest.map_structure tf.newaxis tf.nn.avg_pool tf.nn.batch_normalization tf.nn.bias_add
tf.nn.bidirectional_dynamic_rnn tf.nn.compute_average_loss tf.nn.conv1d tf.nn.conv2d
tf.nn.conv2d_transpose tf.nn.ctc_loss tf.nn.depthwise_conv2d tf.nn.dropout tf.nn.dynamic_rnn tf.nn.elu
tf.nn.embedding_lookup tf.nn.embedding_lookup_sparse tf.nn.fused_batch_norm tf.nn.in_top_k tf.nn.l2_loss
tf.nn.l2_normalize tf.nn.leaky_relu tf.nn.log_softmax tf.nn.lrn tf.nn.max_pool tf.nn.moments
tf.nn.nce_loss tf.nn.relu tf.nn.relu6 tf.nn.rnn_cell.BasicLSTMCell tf.nn.rnn_cell.GRUCell
tf.nn.rnn_cell.LSTMCell tf.nn.rnn_cell.MultiRNNCell tf.nn.sampled_softmax_loss
tf.nn.scale_regularization_loss tf.nn.selu tf.nn.sigmoid tf.nn.sigmoid_cross_entropy_with_logits
tf.nn.softmax tf.nn.softmax_cross_entropy_with_logits tf.nn.softmax_cross_entropy_with_logits_v2
tf.nn.softplus tf.nn.sparse_softmax_cross_entropy_with_logits tf.nn.static_rnn tf.nn.swish tf.nn.tanh
tf.nn.top_k tf.nn.weighted_cross_entropy_with_logits tf.nn.xw_plus_b tf.nn.zero_fraction tf.no_op tf.norm
tf.not_equal tf.numpy_function tf.one_hot tf.ones tf.ones_initializer tf.ones_like
tf.optimizers.Adam tf.orthogonal_initializer tf.pad tf.parse_example tf.parse_single_example tf.placeholder
tf.placeholder_with_default tf.pow tf.print tf.profiler.experimental.start tf.py_func tf.py_function
tf.python_io.TFRecordOptions tf.python_io.TFRecordWriter tf.python_io.tf_record_iterator tf.queue.FIFOQueue
tf.ragged.constant tf.random.Generator tf.random.categorical tf.random.normal tf.random.set_random_seed
tf.random.set_seed tf.random.shuffle tf.random.truncated_normal tf.random.uniform tf.random_crop
tf.random_normal tf.random_normal_initializer tf.random_shuffle tf.random_uniform
tf.random_uniform_initializer tf.range tf.rank tf.read_file tf.realdiv tf.reciprocal tf.reduce_all
tf.reduce_any tf.reduce_logsumexp tf.reduce_max tf.reduce_mean tf.reduce_min tf.reduce_prod tf.reduce_sum
tf.repeat tf.reset_default_graph tf.reshape tf.reverse tf.reverse_sequence tf.roll tf.round tf.rsqrt
tf.saved_model.builder.SavedModelBuilder tf.saved_model.load tf.saved_model.loader.load
tf.saved_model.save tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
tf.saved_model.signature_def_utils.predict_signature_def tf.saved_model.simple_save
tf.saved_model.tag_constants.SERVING tf.saved_model.utils.build_tensor_info tf.scan tf.scatter_nd
tf.scatter_update tf.segment_sum tf.sequence_mask tf.set_random_seed tf.shape tf.sigmoid tf.sign tf.sin
tf.size tf.slice tf.sort tf.space_to_depth tf.sparse.SparseTensor tf.sparse.to_dense tf.sparse_placeholder
tf.sparse_tensor_dense_matmul tf.sparse_tensor_to_dense tf.sparse_to_dense tf.split tf.sqrt tf.square
tf.squared_difference tf.squeeze tf.stack tf.stop_gradient tf.strided_slice tf.string tf.string_join
tf.string_split tf.string_to_hash_bucket_fast tf.string_to_number tf.strings.join tf.strings.length
tf.strings.lower tf.strings.reduce_join tf.strings.regex_replace tf.strings.split tf.strings.strip
tf.strings.substr tf.strings.to_hash_bucket_fast tf.strings.to_number tf.subtract tf.summary.FileWriter
tf.summary.audio tf.summary.create_file_writer tf.summary.histogram tf.summary.image tf.summary.merge
tf.summary.merge_all tf.summary.scalar tf.summary.text tf.sysconfig.get_include tf.tables_initializer
tf.tan tf.tanh tf.tensor_scatter_nd_update tf.tensordot tf.test.TestCase tf.test.gpu_device_name
tf.test.is_built_with_cuda tf.test.is_gpu_available tf.test.main tf.test.mock tf.tile tf.to_double
tf.to_float tf.to_int32 tf.to_int64 tf.tpu.experimental.initialize_tpu_system tf.train.AdadeltaOptimizer
tf.train.AdagradOptimizer tf.train.AdamOptimizer tf.train.BytesList tf.train.Checkpoint
tf.train.CheckpointManager tf.train.CheckpointSaverHook tf.train.ClusterSpec tf.train.Coordinator
tf.train.Example tf.train.ExponentialMovingAverage tf.train.Feature tf.train.Features tf.train.FloatList
tf.train.FtrlOptimizer tf.train.GradientDescentOptimizer tf.train.Int64List tf.train.LoggingTensorHook
tf.train.MomentumOptimizer tf.train.MonitoredSession tf.train.MonitoredTrainingSession
tf.train.NewCheckpointReader tf.train.Optimizer tf.train.ProfilerHook tf.train.RMSPropOptimizer
tf.train.Saver tf.train.Scaffold tf.train.SequenceExample tf.train.Server tf.train.SessionRunArgs
tf.train.SessionRunHook tf.train.SingularMonitoredSession tf.train.StopAtStepHook
tf.train.SummarySaverHook tf.train.Supervisor tf.train.SyncReplicasOptimizer tf.train.batch
tf.train.cosine_decay tf.train.create_global_step tf.train.exponential_decay tf.train.get_checkpoint_state
tf.train.get_global_step tf.train.get_or_create_global_step tf.train.global_step
tf.train.import_meta_graph tf.train.init_from_checkpoint tf.train.latest_checkpoint
tf.train.list_variables tf.train.load_checkpoint tf.train.match_filenames_once
tf.train.natural_exp_decay tf.train.piecewise_constant tf.train.polynomial_decay
tf.train.replica_device_setter tf.train.shuffle_batch tf.train.slice_input_producer
tf.train.start_queue_runners tf.train.string_input_producer tf.train.write_graph tf.trainable_variables
tf.transpose tf.truediv tf.truncated_normal tf.truncated_normal_initializer tf.tuple tf.uint8 tf.unique
tf.unsorted_segment_sum tf.unstack tf.variable_scope tf.variables_initializer
tf.variance_scaling_initializer tf.vectorized_map tf.version.VERSION tf.where tf.while_loop tf.write_file
tf.zeros tf.zeros_initializer tf.zeros_like
""".split()
