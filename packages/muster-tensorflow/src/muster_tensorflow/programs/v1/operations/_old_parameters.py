"""Operations with TensorFlow 1's parameter names and order where TensorFlow 2 differs.

Source: the functions of these names in tensorflow/python/ops/.
"""

import jax

from muster_tensorflow.library.ops._arrays import ArrayLike
from muster_tensorflow.library.ops._parameters import takes
from muster_tensorflow.library.ops.arrays import _blocks, _sets, _shape, _sparse
from muster_tensorflow.library.ops.control import _asserts
from muster_tensorflow.library.ops.images import _image, _image_boxes
from muster_tensorflow.library.ops.math import _math, _special
from muster_tensorflow.library.ops.nn import _layers_of_nn, _more_layers_of_nn, _nn, _rarer_nn, _windows_of_nn
from muster_tensorflow.library.ops.random import _random, _stateless
from muster_tensorflow.library.ops.text import _strings

_OF_REDUCTIONS = "input_tensor axis keepdims name reduction_indices=axis keep_dims=keepdims"

reduce_all = takes(_math.reduce_all, _OF_REDUCTIONS)
reduce_any = takes(_math.reduce_any, _OF_REDUCTIONS)
reduce_logsumexp = takes(_math.reduce_logsumexp, _OF_REDUCTIONS)
reduce_max = takes(_math.reduce_max, _OF_REDUCTIONS)
reduce_mean = takes(_math.reduce_mean, _OF_REDUCTIONS)
reduce_min = takes(_math.reduce_min, _OF_REDUCTIONS)
reduce_prod = takes(_math.reduce_prod, _OF_REDUCTIONS)
reduce_sum = takes(_math.reduce_sum, _OF_REDUCTIONS)
count_nonzero = takes(
    _math.count_nonzero,
    "input_tensor=input axis keepdims dtype name reduction_indices=axis keep_dims=keepdims input",
)
expand_dims = takes(_shape.expand_dims, "input axis name dim=axis")
squeeze = takes(_shape.squeeze, "input axis name squeeze_dims=axis")
ones_like = takes(_math.ones_like, "tensor=input dtype name optimize= input")
zeros_like = takes(_math.zeros_like, "tensor=input dtype name optimize= input")
constant = takes(_shape.constant, "value dtype shape name verify_shape=")
convert_to_tensor = takes(_shape.convert_to_tensor, "value dtype name preferred_dtype=dtype_hint dtype_hint")
size = takes(_shape.size, "input name out_type")
depth_to_space = takes(_blocks.depth_to_space, "input block_size name data_format")
space_to_depth = takes(_blocks.space_to_depth, "input block_size name data_format")
space_to_batch = takes(_blocks.space_to_batch, "input paddings block_size=block_shape name block_shape")
batch_to_space = takes(_blocks.batch_to_space, "input crops block_size=block_shape name block_shape")
random_poisson = takes(_random.poisson, "lam shape dtype seed name")
stateless_multinomial = takes(
    _stateless.stateless_categorical, "logits num_samples seed output_dtype=dtype name"
)

softmax = takes(_nn.softmax, "logits axis name dim=axis")
log_softmax = takes(_nn.log_softmax, "logits axis name dim=axis")


def _softmax_of_constants(
    labels: ArrayLike, logits: ArrayLike, axis: int = -1, name: str | None = None
) -> jax.Array:
    """Return the softmax cross entropy of labels, which gradients treat as constants, and logits."""
    return _nn.softmax_cross_entropy_with_logits(_shape.stop_gradient(labels), logits, axis, name)


softmax_cross_entropy_with_logits = takes(_softmax_of_constants, "labels logits dim=axis name axis")
softmax_cross_entropy_with_logits_v2 = takes(
    _nn.softmax_cross_entropy_with_logits, "labels logits axis name dim=axis"
)
weighted_cross_entropy_with_logits = takes(
    _nn.weighted_cross_entropy_with_logits, "labels logits pos_weight name targets=labels"
)
in_top_k = takes(_nn.in_top_k, "predictions targets k name")
_OF_POOLING = "value=input ksize strides padding data_format name input"
max_pool = takes(_layers_of_nn.max_pool2d, _OF_POOLING)
avg_pool = takes(_layers_of_nn.avg_pool2d, _OF_POOLING)
max_pool_with_argmax = takes(
    _windows_of_nn.max_pool_with_argmax,
    "input ksize strides padding data_format Targmax=output_dtype name output_dtype include_batch_in_index",
)
pool = takes(
    _more_layers_of_nn.pool,
    "input window_shape pooling_type padding dilation_rate=dilations strides name data_format dilations",
)
conv1d = takes(
    _layers_of_nn.conv1d,
    "value=input filters stride padding use_cudnn_on_gpu= data_format name input dilations",
)
conv2d_transpose = takes(
    _more_layers_of_nn.conv2d_transpose,
    "value=input filter=filters output_shape strides padding data_format name input filters dilations",
)
conv2d_backprop_input = takes(
    _windows_of_nn.conv2d_backprop_input,
    "input_sizes filter out_backprop strides padding use_cudnn_on_gpu data_format dilations name "
    "filters=filter",
)
conv3d = takes(
    _more_layers_of_nn.conv3d,
    "input filter=filters strides padding data_format dilations name filters",
)
conv3d_transpose = takes(
    _more_layers_of_nn.conv3d_transpose,
    "value=input filter=filters output_shape strides padding data_format name input filters dilations",
)
convolution = takes(
    _more_layers_of_nn.convolution,
    "input filter=filters padding strides dilation_rate=dilations name data_format filters dilations",
)
depthwise_conv2d = takes(
    _more_layers_of_nn.depthwise_conv2d,
    "input filter strides padding rate=dilations name data_format dilations",
)
separable_conv2d = takes(
    _more_layers_of_nn.separable_conv2d,
    "input depthwise_filter pointwise_filter strides padding rate=dilations name data_format dilations",
)
crelu = takes(_more_layers_of_nn.crelu, "features name axis")
sufficient_statistics = takes(
    _more_layers_of_nn.sufficient_statistics, "x axes shift keep_dims=keepdims name keepdims"
)
weighted_moments = takes(
    _special.weighted_moments, "x axes frequency_weights name keep_dims=keepdims keepdims"
)
batch_norm_with_global_normalization = takes(
    _rarer_nn.batch_norm_with_global_normalization,
    "t=input m=mean v=variance beta gamma variance_epsilon scale_after_normalization name "
    "input mean variance",
)

to_number = takes(_strings.to_number, "string_tensor=input out_type name input")
to_hash_bucket = takes(_strings.to_hash_bucket, "string_tensor=input num_buckets name input")
length = takes(_strings.length, "input name unit")

sparse_add = takes(_sparse.add, "a b threshold thresh=threshold")
sparse_concat = takes(
    _sparse.concat,
    "axis sp_inputs name expand_nonconcat_dim=expand_nonconcat_dims concat_dim=axis expand_nonconcat_dims",
)
_OF_SPARSE_REDUCTIONS = "sp_input axis keepdims reduction_axes=axis keep_dims=keepdims"
sparse_reduce_max = takes(_sparse.reduce_max, _OF_SPARSE_REDUCTIONS)
sparse_reduce_sum = takes(_sparse.reduce_sum, _OF_SPARSE_REDUCTIONS)
sparse_split = takes(_sparse.split, "keyword_required= sp_input num_split axis name split_dim=axis")
_OF_SPARSE_SEGMENTS = "data indices segment_ids name num_segments sparse_gradient"
sparse_segment_mean = takes(_sets.sparse_segment_mean, _OF_SPARSE_SEGMENTS)
sparse_segment_sqrt_n = takes(_sets.sparse_segment_sqrt_n, _OF_SPARSE_SEGMENTS)
sparse_segment_sum = takes(_sets.sparse_segment_sum, _OF_SPARSE_SEGMENTS)

crop_and_resize = takes(
    _image.crop_and_resize,
    "image boxes box_ind=box_indices crop_size method extrapolation_value name box_indices",
)
draw_bounding_boxes = takes(_image_boxes.draw_bounding_boxes, "images boxes name colors")
assert_all_finite = takes(_asserts.assert_all_finite, "t=x msg=message name x message")
