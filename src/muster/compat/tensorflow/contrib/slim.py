"""``tf.contrib.slim``: layers, and their default arguments; an Estimator trains."""

from muster.compat._names import Names as _Names
from muster.compat.v1.contrib.arg_scopes import add_arg_scope as add_arg_scope
from muster.compat.v1.contrib.arg_scopes import arg_scope as arg_scope
from muster.compat.v1.contrib.layers import avg_pool2d as avg_pool2d
from muster.compat.v1.contrib.layers import batch_norm as batch_norm
from muster.compat.v1.contrib.layers import bias_add as bias_add
from muster.compat.v1.contrib.layers import conv2d as conv2d
from muster.compat.v1.contrib.layers import conv2d as convolution2d
from muster.compat.v1.contrib.layers import conv2d_transpose as conv2d_transpose
from muster.compat.v1.contrib.layers import dropout as dropout
from muster.compat.v1.contrib.layers import flatten as flatten
from muster.compat.v1.contrib.layers import fully_connected as fully_connected
from muster.compat.v1.contrib.layers import layer_norm as layer_norm
from muster.compat.v1.contrib.layers import max_pool2d as max_pool2d
from muster.compat.v1.contrib.layers import one_hot_encoding as one_hot_encoding
from muster.compat.v1.contrib.layers import repeat as repeat
from muster.compat.v1.contrib.layers import softmax as softmax
from muster.compat.v1.contrib.layers import stack as stack
from muster.compat.v1.contrib.layers import unit_norm as unit_norm
from muster.compat.v1.contrib.regularizers import l1_regularizer as l1_regularizer
from muster.compat.v1.contrib.regularizers import l2_regularizer as l2_regularizer
from muster.compat.v1.contrib.regularizers import variance_scaling_initializer as variance_scaling_initializer
from muster.compat.v1.contrib.regularizers import xavier_initializer as xavier_initializer
from muster.compat.v1.contrib.training import create_train_op as _create_train_op

learning = _Names("tf.contrib.slim.learning", create_train_op=_create_train_op)
