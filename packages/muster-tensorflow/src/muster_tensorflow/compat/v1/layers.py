"""``tf.compat.v1.layers``."""

from muster import keras as _keras
from muster_tensorflow.programs.v1.layers import AveragePooling1D as AveragePooling1D
from muster_tensorflow.programs.v1.layers import AveragePooling2D as AveragePooling2D
from muster_tensorflow.programs.v1.layers import AveragePooling3D as AveragePooling3D
from muster_tensorflow.programs.v1.layers import BatchNormalization as BatchNormalization
from muster_tensorflow.programs.v1.layers import Conv1D as Conv1D
from muster_tensorflow.programs.v1.layers import Conv2D as Conv2D
from muster_tensorflow.programs.v1.layers import Conv2DTranspose as Conv2DTranspose
from muster_tensorflow.programs.v1.layers import Conv3D as Conv3D
from muster_tensorflow.programs.v1.layers import Conv3DTranspose as Conv3DTranspose
from muster_tensorflow.programs.v1.layers import Dense as Dense
from muster_tensorflow.programs.v1.layers import Dropout as Dropout
from muster_tensorflow.programs.v1.layers import Flatten as Flatten
from muster_tensorflow.programs.v1.layers import Layer as Layer
from muster_tensorflow.programs.v1.layers import MaxPooling1D as MaxPooling1D
from muster_tensorflow.programs.v1.layers import MaxPooling2D as MaxPooling2D
from muster_tensorflow.programs.v1.layers import MaxPooling3D as MaxPooling3D
from muster_tensorflow.programs.v1.layers import SeparableConv1D as SeparableConv1D
from muster_tensorflow.programs.v1.layers import SeparableConv2D as SeparableConv2D
from muster_tensorflow.programs.v1.layers import average_pooling1d as average_pooling1d
from muster_tensorflow.programs.v1.layers import average_pooling2d as average_pooling2d
from muster_tensorflow.programs.v1.layers import average_pooling3d as average_pooling3d
from muster_tensorflow.programs.v1.layers import batch_normalization as batch_normalization
from muster_tensorflow.programs.v1.layers import conv1d as conv1d
from muster_tensorflow.programs.v1.layers import conv2d as conv2d
from muster_tensorflow.programs.v1.layers import conv2d_transpose as conv2d_transpose
from muster_tensorflow.programs.v1.layers import conv3d as conv3d
from muster_tensorflow.programs.v1.layers import conv3d_transpose as conv3d_transpose
from muster_tensorflow.programs.v1.layers import dense as dense
from muster_tensorflow.programs.v1.layers import dropout as dropout
from muster_tensorflow.programs.v1.layers import flatten as flatten
from muster_tensorflow.programs.v1.layers import max_pooling1d as max_pooling1d
from muster_tensorflow.programs.v1.layers import max_pooling2d as max_pooling2d
from muster_tensorflow.programs.v1.layers import max_pooling3d as max_pooling3d
from muster_tensorflow.programs.v1.layers import separable_conv1d as separable_conv1d
from muster_tensorflow.programs.v1.layers import separable_conv2d as separable_conv2d

InputSpec = _keras.layers.InputSpec
