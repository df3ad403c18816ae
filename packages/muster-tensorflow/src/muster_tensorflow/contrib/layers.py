"""``tf.contrib.layers``."""

from muster_tensorflow.library.contrib import named_outputs as _named_outputs
from muster_tensorflow.library.contrib import training as _training
from muster_tensorflow.library.contrib.columns import bucketized_column as bucketized_column
from muster_tensorflow.library.contrib.columns import crossed_column as crossed_column
from muster_tensorflow.library.contrib.columns import embedding_column as embedding_column
from muster_tensorflow.library.contrib.columns import one_hot_column as one_hot_column
from muster_tensorflow.library.contrib.columns import real_valued_column as real_valued_column
from muster_tensorflow.library.contrib.columns import (
    sparse_column_with_hash_bucket as sparse_column_with_hash_bucket,
)
from muster_tensorflow.library.contrib.columns import (
    sparse_column_with_integerized_feature as sparse_column_with_integerized_feature,
)
from muster_tensorflow.library.contrib.columns import sparse_column_with_keys as sparse_column_with_keys
from muster_tensorflow.library.contrib.layers import avg_pool2d as avg_pool2d
from muster_tensorflow.library.contrib.layers import batch_norm as batch_norm
from muster_tensorflow.library.contrib.layers import bias_add as bias_add
from muster_tensorflow.library.contrib.layers import conv1d as conv1d
from muster_tensorflow.library.contrib.layers import conv1d as convolution1d
from muster_tensorflow.library.contrib.layers import conv2d as conv2d
from muster_tensorflow.library.contrib.layers import conv2d as convolution2d
from muster_tensorflow.library.contrib.layers import conv2d_transpose as conv2d_transpose
from muster_tensorflow.library.contrib.layers import conv3d as conv3d
from muster_tensorflow.library.contrib.layers import conv3d as convolution3d
from muster_tensorflow.library.contrib.layers import convolution as convolution
from muster_tensorflow.library.contrib.layers import convolution2d_transpose as convolution2d_transpose
from muster_tensorflow.library.contrib.layers import dropout as dropout
from muster_tensorflow.library.contrib.layers import embed_sequence as embed_sequence
from muster_tensorflow.library.contrib.layers import flatten as flatten
from muster_tensorflow.library.contrib.layers import fully_connected as fully_connected
from muster_tensorflow.library.contrib.layers import layer_norm as layer_norm
from muster_tensorflow.library.contrib.layers import linear as linear
from muster_tensorflow.library.contrib.layers import max_pool2d as max_pool2d
from muster_tensorflow.library.contrib.layers import one_hot_encoding as one_hot_encoding
from muster_tensorflow.library.contrib.layers import relu as relu
from muster_tensorflow.library.contrib.layers import repeat as repeat
from muster_tensorflow.library.contrib.layers import softmax as softmax
from muster_tensorflow.library.contrib.layers import stack as stack
from muster_tensorflow.library.contrib.layers import unit_norm as unit_norm
from muster_tensorflow.library.contrib.more_layers import group_norm as group_norm
from muster_tensorflow.library.contrib.more_layers import instance_norm as instance_norm
from muster_tensorflow.library.contrib.more_layers import separable_conv2d as separable_conv2d
from muster_tensorflow.library.contrib.more_layers import separable_convolution2d as separable_convolution2d
from muster_tensorflow.library.contrib.regularizers import apply_regularization as apply_regularization
from muster_tensorflow.library.contrib.regularizers import l1_l2_regularizer as l1_l2_regularizer
from muster_tensorflow.library.contrib.regularizers import l1_regularizer as l1_regularizer
from muster_tensorflow.library.contrib.regularizers import l2_regularizer as l2_regularizer
from muster_tensorflow.library.contrib.regularizers import sum_regularizer as sum_regularizer
from muster_tensorflow.library.contrib.regularizers import (
    variance_scaling_initializer as variance_scaling_initializer,
)
from muster_tensorflow.library.contrib.regularizers import xavier_initializer as xavier_initializer
from muster_tensorflow.library.contrib.regularizers import xavier_initializer as xavier_initializer_conv2d
from muster_tensorflow.library.contrib.training import optimize_loss as optimize_loss
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1.operations._old_arguments import cond as _cond
from muster_tensorflow.programs.v1.operations._old_arguments import (
    safe_embedding_lookup_sparse as safe_embedding_lookup_sparse,
)

OPTIMIZER_SUMMARIES = _training.OPTIMIZER_SUMMARIES
utils = _Names(
    "tf.contrib.layers.utils",
    collect_named_outputs=_named_outputs.collect_named_outputs,
    convert_collection_to_dict=_named_outputs.convert_collection_to_dict,
    last_dimension=_named_outputs.last_dimension,
    smart_cond=_cond,
)
