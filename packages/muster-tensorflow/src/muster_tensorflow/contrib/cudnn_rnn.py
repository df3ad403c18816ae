"""``tf.contrib.cudnn_rnn``."""

from muster_tensorflow.library.contrib.cudnn_rnn import CudnnCompatibleGRUCell as CudnnCompatibleGRUCell
from muster_tensorflow.library.contrib.cudnn_rnn import CudnnCompatibleLSTMCell as CudnnCompatibleLSTMCell
from muster_tensorflow.library.contrib.cudnn_rnn import CudnnGRU as CudnnGRU
from muster_tensorflow.library.contrib.cudnn_rnn import CudnnLSTM as CudnnLSTM
