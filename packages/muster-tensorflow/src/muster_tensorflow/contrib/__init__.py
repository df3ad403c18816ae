"""``tf.contrib``, of TensorFlow 1: the parts that Estimator programs use, and hints for the rest."""

from functools import partial as _partial

from muster import summary as _summary
from muster.estimator import ProfilerHook as _ProfilerHook
from muster_tensorflow import signal as _signal
from muster_tensorflow.contrib import cluster_resolver as cluster_resolver
from muster_tensorflow.contrib import crf as crf
from muster_tensorflow.contrib import cudnn_rnn as cudnn_rnn
from muster_tensorflow.contrib import data as data
from muster_tensorflow.contrib import distribute as distribute
from muster_tensorflow.contrib import distributions as distributions
from muster_tensorflow.contrib import eager as eager
from muster_tensorflow.contrib import estimator as estimator
from muster_tensorflow.contrib import feature_column as feature_column
from muster_tensorflow.contrib import framework as framework
from muster_tensorflow.contrib import gan as gan
from muster_tensorflow.contrib import layers as layers
from muster_tensorflow.contrib import learn as learn
from muster_tensorflow.contrib import losses as losses
from muster_tensorflow.contrib import metrics as metrics
from muster_tensorflow.contrib import predictor as predictor
from muster_tensorflow.contrib import rnn as rnn
from muster_tensorflow.contrib import seq2seq as seq2seq
from muster_tensorflow.contrib import slim as slim
from muster_tensorflow.contrib import tpu as tpu
from muster_tensorflow.contrib import training as training
from muster_tensorflow.library.contrib import image as _image
from muster_tensorflow.library.contrib import lookup as _lookup
from muster_tensorflow.library.contrib import weight_decay as _weight_decay
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1 import _profiler
from muster_tensorflow.programs.v1 import _summary as _v1_summary
from muster_tensorflow.programs.v1.training._optimizers import AdamOptimizer as _AdamOptimizer
from muster_tensorflow.programs.v2.data import _tables

hooks = _Names("tf.contrib.hooks", ProfilerHook=_ProfilerHook)
image = _Names(
    "tf.contrib.image",
    angles_to_projective_transforms=_image.angles_to_projective_transforms,
    rotate=_image.rotate,
    transform=_image.transform,
    translate=_image.translate,
    translations_to_projective_transforms=_image.translations_to_projective_transforms,
)
lookup = _Names(
    "tf.contrib.lookup",
    HashTable=_tables.StaticHashTable,
    KeyValueTensorInitializer=_tables.KeyValueTensorInitializer,
    TextFileIndex=_tables.TextFileIndex,
    TextFileInitializer=_tables.TextFileInitializer,
    index_table_from_file=_tables.index_table_from_file,
    index_table_from_tensor=_lookup.index_table_from_tensor,
    index_to_string=_lookup.index_to_string,
    index_to_string_table_from_file=_tables.index_to_string_table_from_file,
    index_to_string_table_from_tensor=_lookup.index_to_string_table_from_tensor,
    string_to_index=_lookup.string_to_index,
)
opt = _Names(
    "tf.contrib.opt",
    AdamWOptimizer=_weight_decay.AdamWOptimizer,
    LazyAdamOptimizer=_AdamOptimizer,
    MomentumWOptimizer=_weight_decay.MomentumWOptimizer,
    extend_with_decoupled_weight_decay=_weight_decay.extend_with_decoupled_weight_decay,
)
signal = _Names("tf.contrib.signal", **{name: each for name, each in vars(_signal).items() if name[0] != "_"})
summary = _Names(
    "tf.contrib.summary",
    all_summary_ops=list,
    always_record_summaries=_partial(_summary.record_if, True),
    create_file_writer=_summary.create_file_writer,
    flush=_summary.flush,
    histogram=_v1_summary.of_contrib(_v1_summary.histogram),
    image=_v1_summary.of_contrib(_v1_summary.image),
    never_record_summaries=_partial(_summary.record_if, False),
    record_summaries_every_n_global_steps=_v1_summary.record_summaries_every_n_global_steps,
    scalar=_v1_summary.of_contrib(_v1_summary.scalar),
    should_record_summaries=_summary.should_record_summaries,
)
tfprof = _Names(
    "tf.contrib.tfprof",
    model_analyzer=_Names(
        "tf.contrib.tfprof.model_analyzer",
        FLOAT_OPS_OPTIONS=_profiler.ProfileOptionBuilder.float_operation(),
        TRAINABLE_VARS_PARAMS_STAT_OPTIONS=_profiler.ProfileOptionBuilder.trainable_variables_parameter(),
        print_model_analysis=_profiler.print_model_analysis,
    ),
)
