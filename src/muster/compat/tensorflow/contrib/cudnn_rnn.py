"""``tf.contrib.cudnn_rnn``."""

from muster.compat.v1.contrib.cudnn_rnn import CudnnCompatibleGRUCell as CudnnCompatibleGRUCell
from muster.compat.v1.contrib.cudnn_rnn import CudnnCompatibleLSTMCell as CudnnCompatibleLSTMCell
from muster.compat.v1.contrib.cudnn_rnn import CudnnGRU as CudnnGRU
from muster.compat.v1.contrib.cudnn_rnn import CudnnLSTM as CudnnLSTM
