"""``tf.contrib.slim``: layers, and their default arguments; an Estimator trains."""

from muster_tensorflow.contrib import losses as _losses
from muster_tensorflow.contrib import metrics as _metrics
from muster_tensorflow.library.contrib import named_outputs as _named_outputs
from muster_tensorflow.library.contrib.arg_scopes import add_arg_scope as add_arg_scope
from muster_tensorflow.library.contrib.arg_scopes import arg_scope as arg_scope
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
from muster_tensorflow.library.contrib.layers import flatten as flatten
from muster_tensorflow.library.contrib.layers import fully_connected as fully_connected
from muster_tensorflow.library.contrib.layers import layer_norm as layer_norm
from muster_tensorflow.library.contrib.layers import max_pool2d as max_pool2d
from muster_tensorflow.library.contrib.layers import one_hot_encoding as one_hot_encoding
from muster_tensorflow.library.contrib.layers import repeat as repeat
from muster_tensorflow.library.contrib.layers import softmax as softmax
from muster_tensorflow.library.contrib.layers import stack as stack
from muster_tensorflow.library.contrib.layers import unit_norm as unit_norm
from muster_tensorflow.library.contrib.more_layers import group_norm as group_norm
from muster_tensorflow.library.contrib.more_layers import instance_norm as instance_norm
from muster_tensorflow.library.contrib.more_layers import separable_conv2d as separable_conv2d
from muster_tensorflow.library.contrib.more_layers import separable_convolution2d as separable_convolution2d
from muster_tensorflow.library.contrib.regularizers import l1_l2_regularizer as l1_l2_regularizer
from muster_tensorflow.library.contrib.regularizers import l1_regularizer as l1_regularizer
from muster_tensorflow.library.contrib.regularizers import l2_regularizer as l2_regularizer
from muster_tensorflow.library.contrib.regularizers import (
    variance_scaling_initializer as variance_scaling_initializer,
)
from muster_tensorflow.library.contrib.regularizers import xavier_initializer as xavier_initializer
from muster_tensorflow.library.contrib.slim_variables import (
    assign_from_checkpoint_fn as assign_from_checkpoint_fn,
)
from muster_tensorflow.library.contrib.slim_variables import get_model_variables as get_model_variables
from muster_tensorflow.library.contrib.slim_variables import get_variables as get_variables
from muster_tensorflow.library.contrib.slim_variables import get_variables_by_name as get_variables_by_name
from muster_tensorflow.library.contrib.slim_variables import (
    get_variables_by_suffix as get_variables_by_suffix,
)
from muster_tensorflow.library.contrib.slim_variables import (
    get_variables_to_restore as get_variables_to_restore,
)
from muster_tensorflow.library.contrib.training import create_slim_train_op as _create_train_op
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1._step import get_global_step as get_global_step
from muster_tensorflow.programs.v1._step import get_or_create_global_step as create_global_step
from muster_tensorflow.programs.v1._step import get_or_create_global_step as get_or_create_global_step
from muster_tensorflow.programs.v1._step import trainable_variables as get_trainable_variables
from muster_tensorflow.programs.v1.variables._variables import get_variable as model_variable
from muster_tensorflow.programs.v1.variables._variables import get_variable as variable

learning = _Names("tf.contrib.slim.learning", create_train_op=_create_train_op)
losses = _Names(
    "tf.contrib.slim.losses",
    **{name: each for name, each in vars(_losses).items() if name[0] != "_" and name != "metric_learning"},
)
metrics = _Names(
    "tf.contrib.slim.metrics", **{name: each for name, each in vars(_metrics).items() if name[0] != "_"}
)
utils = _Names(
    "tf.contrib.slim.utils",
    collect_named_outputs=_named_outputs.collect_named_outputs,
    convert_collection_to_dict=_named_outputs.convert_collection_to_dict,
    last_dimension=_named_outputs.last_dimension,
)
