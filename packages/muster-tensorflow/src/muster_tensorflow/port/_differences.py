"""How names differ from TensorFlow's, as the page "Coming from TensorFlow" says it.

Names are without ``compat.v1``; the line for a module or class is for what is in it, too.
"""

DIFFERENCES = {
    "tf.DeviceSpec": "for tf.device; that of tf.compat.v1 never changes, neither",
    "tf.Dimension": "sizes of shapes are Python's int, with value; an unknown one is None",
    "tf.GradientTape": "in a step zeros instead of None if the target does not depend on a source",
    "tf.Graph": "stands for nothing; get_tensor_by_name gives a model_fn its value, and hooks a handle",
    "tf.Print": "prints in each step, to standard error",
    "tf.RaggedTensor": "row_splits are int64 and known when a function is traced; models with "
    "Input(ragged=True) get padded rows with a mask",
    "tf.Session": "takes options without effect, as tf.keras.backend.set_session does; run takes "
    "initializers only",
    "tf.SparseTensor": "indices are sorted, and known when a function is traced, but not in a model_fn; "
    "Keras' layers take arrays",
    "tf.Tensor": "or a NumPy array with 64 bits or text; both have numpy(); plain NumPy arrays are tensors "
    "in functions of datasets and in steps",
    "tf.TensorShape": "a tuple; None if the rank is unknown",
    "tf.app.run": "parses flags, if absl is installed",
    "tf.assert_equal": "checks what is known while code is traced; likewise tf.compat.v1.Assert and the "
    "other assertions",
    "tf.assign": "takes effect at its place in the step's code",
    "tf.boolean_mask": "a step has fixed shapes: in a model_fn single values and rows, sums, means, losses "
    "and metrics may be computed of it; a tf.function with it runs uncompiled",
    "tf.cast": "the compat function keeps NumPy arrays, with 64-bit types",
    "tf.cond": "of a value that a step computes: both functions are traced, and one computes and assigns to "
    "variables; likewise tf.case, tf.switch_case",
    "tf.config.experimental.set_memory_growth": "no effect, and a warning",
    "tf.config.list_logical_devices": "the CPU may be several",
    "tf.config.list_physical_devices": "the CPU is one physical device",
    "tf.config.set_logical_device_configuration": "only for the CPU, before anything is computed",
    "tf.config.set_soft_device_placement": "no effect, and a warning: the CPU takes the place of GPUs where "
    "there are none, and any other device that does not exist is an error",
    "tf.config.set_visible_devices": "hides nothing; raises an error if a device would be hidden",
    "tf.contrib.crf": "all but CrfForwardRnnCell and its kin, and scores of several tags at once",
    "tf.contrib.distribute.MirroredStrategy": "num_gpus counts nothing where there are no GPUs",
    "tf.contrib.estimator.forward_features": "dense features alone",
    "tf.contrib.estimator.replicate_model_fn": "one device computes whole batches, and a warning: "
    "RunConfig(train_distribute=tf.distribute.MirroredStrategy()) uses all; TowerOptimizer returns its "
    "optimizer",
    "tf.contrib.gan.estimator.GANEstimator": "both networks take their steps on one batch, where TensorFlow "
    "reads one for each; get_hooks_fn is what tf.contrib.gan.get_sequential_train_hooks returns, and "
    "add_summaries None",
    "tf.contrib.layers": "the layers, regularizers and columns that programs use; tf.contrib.slim has the "
    "layers, too",
    "tf.contrib.learn.DNNLinearCombinedClassifier": "the global step counts the steps of both parts as one; "
    "likewise DNNLinearCombinedRegressor",
    "tf.contrib.learn.Experiment": "what was deprecated in TensorFlow 1.15 is left out",
    "tf.contrib.learn.learn_runner.run": "by default each task of a cluster does its part",
    "tf.contrib.seq2seq": "in a step, zeros follow what is decoded, up to maximum_iterations, which is a "
    "Python number, or a value whose largest follows from shapes; no monotonic attention",
    "tf.data.Dataset": "order is always deterministic; the position can be saved",
    "tf.data.Dataset.make_one_shot_iterator": "get_next() stands for all elements, for an input_fn to "
    "return, and for operations",
    "tf.data.TFRecordDataset": "records are bytes, with numpy() in eager code; files are read in order",
    "tf.data.TextLineDataset": "lines are str",
    "tf.data.experimental.AutoShardPolicy": "AUTO takes FILE only if there are as many files as workers; "
    "HINT is refused",
    "tf.data.experimental.CsvDataset": "text is str",
    "tf.data.experimental.make_csv_dataset": "files are read in the order of their names",
    "tf.data.make_one_shot_iterator": "get_next() stands for all elements, for an input_fn to return, and "
    "for operations",
    "tf.debugging.set_log_device_placement": "no effect, and a warning",
    "tf.device": "for eager computations; NumPy values stay on the host; a function has no effect",
    "tf.disable_tensor_equality": "no effect: == compares values",
    "tf.distribute.DistributedDataset": "a batch that cannot be split equally gives the first replicas a "
    "row more; fewer rows than replicas are given to each, and count once",
    "tf.distribute.DistributedDataset.element_spec": "plain TensorSpecs of one replica's batch",
    "tf.distribute.DistributedIterator": "a tf.function takes it, and calls next or get_next_as_optional, "
    "without a loop over it",
    "tf.distribute.DistributedValues": "with one replica, values are plain arrays",
    "tf.distribute.MirroredStrategy": "in the place of GPUs, where there are none, it takes as many CPUs, "
    "if there are, with a warning; for Estimators: each replica takes a batch of the input_fn in each step; "
    "a batch that cannot be split equally, as at the end of the data, gives the first replicas a row more, "
    "and means count replicas by their rows",
    "tf.distribute.MultiWorkerMirroredStrategy": "for Estimators; tasks start in any order; uneven data is "
    "counted exactly; if a worker is lost, the others end with an error that names it",
    "tf.distribute.NcclAllReduce": "XLA does the all-reduce; num_packs has an effect, see Choosing a "
    "strategy",
    "tf.distribute.OneDeviceStrategy": "takes the CPU in the place of a GPU where there is none, with a "
    "warning",
    "tf.distribute.ParameterServerStrategy": "max_staleness is muster's; variables go to the server that "
    "holds the fewest bytes, slots where their weight is; weights of layers whose rows lie on several "
    "servers are one variable, tf.Variable gives a ShardedVariable",
    "tf.distribute.ReductionToOneDevice": "does an all-reduce",
    "tf.distribute.RunOptions": "accepted without effect; new shapes are traced",
    "tf.distribute.Server": "serves variables to Estimators, see Parameter servers; runs no graphs; join "
    "returns when the job has ended",
    "tf.distribute.TPUStrategy": "the TPUs of one host; tested only on virtual devices",
    "tf.distribute.cluster_resolver.ClusterResolver": "num_accelerators returns the resolver's argument: "
    "JAX knows the devices",
    "tf.distribute.cluster_resolver.GCEClusterResolver": "asks Google's HTTP API itself: takes no service",
    "tf.distribute.cluster_resolver.KubernetesClusterResolver": "takes the addresses of pods rather than "
    "nodes; finds the pod that it runs in",
    "tf.distribute.cluster_resolver.SlurmClusterResolver": "reads the environment when it is created; hosts "
    "keep their order; GPUs are not needed",
    "tf.distribute.cluster_resolver.TFConfigClusterResolver": "reads TF_CONFIG once, when it is created",
    "tf.distribute.cluster_resolver.TPUClusterResolver": "for programs on the hosts of a TPU; connect does "
    "nothing",
    "tf.distribute.cluster_resolver.UnionResolver": "equal addresses are the same task",
    "tf.distribute.coordinator.RemoteValue": "it survives the worker that computed it",
    "tf.distribute.coordinator.experimental_get_current_worker_index": "an array, which the program takes "
    "as an input",
    "tf.distribute.experimental.CentralStorageStrategy": "variables stay in the host's memory",
    "tf.distribute.experimental.MultiWorkerMirroredStrategy": "takes communication first, like TensorFlow "
    "2.3",
    "tf.distribute.experimental.ParameterServerStrategy": "variable_partitioner and max_staleness are "
    "muster's; in a cluster with ps, for Estimators only",
    "tf.distribute.experimental.PreemptionCheckpointHandler": "all workers save at the same step, before it "
    "rather than after it; save_checkpoint_if_preempted counts the step before it; no defaults for Google's "
    "machines. Custom training loops",
    "tf.distribute.experimental.partitioners.FixedShardsPartitioner": "numbers below 1 are refused",
    "tf.distributions": "validate_args checks parameters whose values are known",
    "tf.dtypes.int64": "types are NumPy's",
    "tf.errors.CancelledError": "of scheduled functions that did not run, since another one failed",
    "tf.errors.NotFoundError": "Python's; likewise AlreadyExistsError, PermissionDeniedError",
    "tf.errors.OpError": "Python's errors, such as NotFoundError, are none of it",
    "tf.errors.OutOfRangeError": "a StopIteration; only iterators raise it",
    "tf.errors.ResourceExhaustedError": "XLA raises it for all that fails on a device",
    "tf.errors.UnavailableError": "a task of the job is lost or refuses; a server that comes back with its "
    "snapshot is none",
    "tf.estimator.BestExporter": "a restart forgets nothing; an export that fails does not count; Exporters",
    "tf.estimator.CheckpointSaverHook": "saves on a thread",
    "tf.estimator.Estimator": "training resumes with the very next example; variables have Keras' names",
    "tf.estimator.Estimator.export_saved_model": "what it writes is muster.saved_model's, for JAX alone; to "
    "evaluate and to train, it answers for a batch, and changes nothing; a receiver's features are "
    "placeholders, or what operations compute of these: of numbers in the step, of text and images on the "
    "host, by Python code that is kept with the model",
    "tf.estimator.EstimatorSpec": "an unknown mode is refused; metrics may be Keras metrics",
    "tf.estimator.GlobalStepWaiterHook": "does not wait where no other worker advances the step",
    "tf.estimator.LatestExporter": "never deletes what it has just written",
    "tf.estimator.NanTensorHook": "may notice one step late; never saves a step with a NaN loss unnoticed",
    "tf.estimator.ProfilerHook": "writes folders that Perfetto and TensorBoard read",
    "tf.estimator.RunConfig": "session_config, device_fn and protocol have no effect",
    "tf.estimator.SessionRunArgs": "no feed_dict: a compiled step reads its batch only",
    "tf.estimator.SessionRunHook": "values are requested by name; interrupted is new",
    "tf.estimator.StepCounterHook": "records the time spent waiting for input, too",
    "tf.estimator.SummarySaverHook": "scalars",
    "tf.estimator.experimental.make_stop_at_checkpoint_step_hook": "workers that train in step stop together",
    "tf.estimator.experimental.stop_if_no_decrease_hook": "adds no variable to the model",
    "tf.estimator.tpu.TPUEstimator": "use_tpu=True needs TPUs that JAX has; host_call writes summaries in "
    "the step; also tf.contrib.tpu.TPUEstimator",
    "tf.estimator.train_and_evaluate": "an evaluator ends at once after its last evaluation",
    "tf.examples.tutorials.mnist.input_data.read_data_sets": "no fake data",
    "tf.executing_eagerly": "whether nothing is being traced",
    "tf.experimental.Optional": "not in a tf.function",
    "tf.feature_column.categorical_column_with_identity": "ids that are out of range are refused",
    "tf.feature_column.embedding_column": "ids that are out of range are refused; examples without ids are "
    "never lost",
    "tf.feature_column.sequence_numeric_column": "normalizer_fn gets numbers",
    "tf.feature_column.shared_embeddings": "in any program; in a model_fn layers share one table, elsewhere "
    "each layer has one of its own",
    "tf.fixed_size_partitioner": "only for the variables of parameter servers",
    "tf.flags": "absl's, which Keras brings along",
    "tf.function": "everything is compiled; traced for each structure, shape, dtype, and value of other "
    "arguments than arrays. Code with if or while on a tensor, which TensorFlow rewrites, runs uncompiled, "
    "and a warning names the line; an if in a function that another one calls, and in a schedule, becomes a "
    "branch if it only computes; in what strategy.run calls, and in layers and a model's own train_step, if "
    "and while become those of the program",
    "tf.get_collection": "in a model_fn: variables, losses, and what the program adds; UPDATE_OPS has the "
    "updates of tf.layers' batch normalization",
    "tf.get_variable": "in a model_fn; its path begins with the names of tf.name_scope, too",
    "tf.global_variables_initializer": "does nothing: variables have values from the start",
    "tf.identity": "names a value of the step for hooks",
    "tf.io.decode_csv": "text is str",
    "tf.io.gfile": "only local files",
    "tf.io.parse_example": "FixedLenFeature, FixedLenSequenceFeature and VarLenFeature; parse batches",
    "tf.keras.Model.fit": "under every strategy: Model.fit; keras.Model takes a muster.data.Dataset",
    "tf.keras.Sequential": "tf.keras is Keras 3",
    "tf.keras.activations.hard_sigmoid": "Keras 2's, of slope 0.2, also by name and as the default of "
    "ConvLSTM layers; keras.activations.hard_sigmoid is of slope 1/6",
    "tf.keras.backend.backend": "tensorflow, for programs that ask; keras.config.backend says jax",
    "tf.keras.callbacks.BackupAndRestore": "under a strategy resumes at the exact batch",
    "tf.keras.callbacks.TensorBoard": "without TensorFlow; no graphs but the model's layers, no embeddings",
    "tf.keras.estimator.model_to_estimator": "optimizers keep their state, and subclassed models their "
    "weights; Keras models",
    "tf.keras.layers.DenseFeatures": "fit, evaluate, predict and calls with values take text; in a step of "
    "your own it becomes ids in the input pipeline",
    "tf.keras.layers.StringLookup": "computes on the host; rows are dense",
    "tf.keras.layers.TFSMLayer": "of muster's saved models; its weights stay as they are",
    "tf.keras.layers.TextVectorization": "computes on the host; rows in models are dense",
    "tf.keras.losses.Reduction": 'Keras 3 takes the strings "none", "sum", "sum_over_batch_size"',
    "tf.keras.models.load_model": "takes h5 files and folders (SavedModels) that Keras 2 wrote, with the "
    "optimizer's state; a model of another class than Sequential and Model needs the class by custom_objects",
    "tf.keras.optimizers.legacy.SGD": "on Keras 3, for fit, Estimators and custom loops; decay, lr and "
    "minimize are there",
    "tf.keras.utils.SidecarEvaluator": "ends by itself when training has ended: Model.fit",
    "tf.keras.utils.experimental.DatasetCreator": "a validation begins anew each time, rather than going on "
    "where the last one ended",
    "tf.keras.utils.get_file": "unpacks an archive beside itself, as Keras does before 3.5, rather than "
    "into a folder of its own",
    "tf.keras.utils.track_tf1_style_variables": "names are TensorFlow's, such as scope/dense/kernel:0; "
    "layers without a name outside of any scope are found again, too",
    "tf.layers": "Keras' layers with TensorFlow 1's arguments; reuse finds layers that have a name, in the "
    "same model_fn",
    "tf.losses.get_regularization_loss": "the penalties so far of trainable variables, and of the outputs "
    "of tf.compat.v1.layers",
    "tf.make_template": "its scope lies in the one around its first call",
    "tf.map_fn": "results of different shapes need a tf.RaggedTensorSpec in fn_output_signature; a "
    "tf.function with that runs uncompiled",
    "tf.name_scope": "names variables, and values that have a name; entered again by the same name, a scope "
    "has a number in names of values alone",
    "tf.nn.dynamic_rnn": "with the cells of tf.compat.v1.nn.rnn_cell and TensorFlow's variables; no "
    "variational dropout",
    "tf.nn.embedding_lookup": "of shards; of a variable or an array, keras.ops.take",
    "tf.nn.embedding_lookup_sparse": "takes ids padded with -1, too; examples without ids are never lost",
    "tf.nn.nce_loss": "partition_strategy is unused: weights are one table",
    "tf.numpy_function": "a tf.function with it runs uncompiled; a step calls it each time, with the whole "
    "batch, and once more, with zeros, to see the shapes of its results: () if it fails with these",
    "tf.placeholder": "for ServingInputReceiver and for datasets that a hook feeds: a step reads its batch",
    "tf.placeholder_with_default": "for ServingInputReceiver: requests give the values, and the default is "
    "unused",
    "tf.print": "each replica prints",
    "tf.profiler.profile": "in a model_fn, counts the parameters of what is built so far, as a tree; "
    "operations, time and memory are 0, with a warning",
    "tf.random.set_seed": "before functions are called for the first time",
    "tf.random.uniform": "outside of functions and layers, NumPy draws; numbers are not TensorFlow's",
    "tf.reset_default_graph": "does nothing: there is no graph",
    "tf.saved_model.load": "loads what tf.saved_model.save, export_saved_model or model.save has written, "
    "as functions",
    "tf.saved_model.save": "Keras models and modules, with signatures; a directory of muster.saved_model, "
    "which TensorFlow cannot read; functions of a module that cannot be compiled, of text or for some "
    "sizes, are kept as Python code, which load runs: load only what you trust; signatures with branches "
    "and loops on tensors are compiled",
    "tf.sequence_mask": "in a step it needs maxlen, but for the lengths of its own batch in a model_fn",
    "tf.strings": "on the host: in Dataset.map, in eager code, and in models that begin with text; text is "
    "str, and regular expressions are Python's, whose \\w and its kin are of ASCII here",
    "tf.summary.image": "floating-point numbers are from 0 to 1, in TensorFlow 1's programs, too",
    "tf.summary.merge_all": "of the step of a model_fn; a dict for SummarySaverHook and FileWriter",
    "tf.summary.scalar": "in a model_fn the step is the global step; elsewhere of the default writer",
    "tf.summary.trace_on": "profiles with profiler=True, for trace_export to write; there are no graphs",
    "tf.test.TestCase": "there are no sessions: self.session() and its kin run a block as it is, and "
    "self.evaluate returns values",
    "tf.train.Checkpoint": "takes models, optimizers, metrics and variables that exist, also in lists, "
    "dicts and other Checkpoints",
    "tf.train.CheckpointOptions": "accepted without effect",
    "tf.train.Example": "immutable; SerializeToString, FromString",
    "tf.train.ExponentialMovingAverage": "in a model_fn; averages start from their variables' first values, "
    "and are updated where the train_op has apply",
    "tf.train.Optimizer": "subclasses define apply_gradients, or _apply_dense and its kin; gradients are "
    "dense, so that _apply_sparse is not called",
    "tf.train.Saver": "for a Scaffold: max_to_keep, and restore in its init_fn; in eager code for "
    "variables, with sess=None",
    "tf.train.Scaffold": "init_fn gets initial values to change; in evaluation the saver says which values "
    "of the checkpoint variables have; what sets up a graph is ignored, with one warning",
    "tf.train.SyncReplicasOptimizer": "all replicas of the strategy are in step, whatever "
    "replicas_to_aggregate says; an error with parameter servers, whose workers are not",
    "tf.train.get_checkpoint_state": "muster's returns a list, with steps and times",
    "tf.train.get_global_step": "outside of a model_fn, such as in a hook's begin, a handle for "
    "SessionRunArgs",
    "tf.train.get_or_create_global_step": "int32; JAX has no 64-bit types unless told",
    "tf.train.init_from_checkpoint": "in a model_fn, after the layers; the global step is in no scope",
    "tf.train.latest_checkpoint": "lists the directory; without a checkpoint of muster's, the one that "
    "TensorFlow's state file names",
    "tf.train.list_variables": "muster's returns a dict, with dtypes",
    "tf.train.load_checkpoint": "reads TensorFlow's checkpoints and muster's; likewise load_variable",
    "tf.train.noisy_linear_cosine_decay": "the noise of a step is the same on all replicas and in each run",
    "tf.train.string_input_producer": "for an input_fn, which returns what tf.train.batch or "
    "tf.train.shuffle_batch does, of the readers of tf.compat.v1 too; threads, and so the order, are a "
    "dataset's; readers have numbers of records in keys, where TFRecordReader has offsets",
    "tf.unique": "in input functions: a step has fixed shapes",
    "tf.variable_scope": "in a model_fn; a scope is entered again only inside of the scopes around it",
    "tf.version.VERSION": "2.15.1, the TensorFlow whose names these are; likewise tf.__version__",
    "tf.while_loop": "shapes stay; JAX gives gradients of it if it counts by numbers that are known when it "
    "is traced; a tf.function with another one runs uncompiled where it needs gradients or shapes that "
    "change",
}
