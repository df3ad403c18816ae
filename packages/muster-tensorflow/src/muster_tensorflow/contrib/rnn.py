"""``tf.contrib.rnn``."""

from muster_tensorflow.library.contrib.fused_rnn import FusedRNNCellAdaptor as FusedRNNCellAdaptor
from muster_tensorflow.library.contrib.fused_rnn import LSTMBlockFusedCell as LSTMBlockFusedCell
from muster_tensorflow.library.contrib.fused_rnn import TimeReversedFusedRNN as TimeReversedFusedRNN
from muster_tensorflow.library.contrib.rnn_cells import EmbeddingWrapper as EmbeddingWrapper
from muster_tensorflow.library.contrib.rnn_cells import InputProjectionWrapper as InputProjectionWrapper
from muster_tensorflow.library.contrib.rnn_cells import LayerNormBasicLSTMCell as LayerNormBasicLSTMCell
from muster_tensorflow.library.contrib.rnn_cells import LSTMBlockCell as LSTMBlockCell
from muster_tensorflow.library.contrib.rnn_cells import OutputProjectionWrapper as OutputProjectionWrapper
from muster_tensorflow.programs.v1.rnn import (
    stack_bidirectional_dynamic_rnn as stack_bidirectional_dynamic_rnn,
)
from muster_tensorflow.programs.v1.rnn import static_bidirectional_rnn as static_bidirectional_rnn
from muster_tensorflow.programs.v1.rnn import static_rnn as static_rnn
from muster_tensorflow.programs.v1.rnn_cell import BasicLSTMCell as BasicLSTMCell
from muster_tensorflow.programs.v1.rnn_cell import BasicRNNCell as BasicRNNCell
from muster_tensorflow.programs.v1.rnn_cell import DeviceWrapper as DeviceWrapper
from muster_tensorflow.programs.v1.rnn_cell import DropoutWrapper as DropoutWrapper
from muster_tensorflow.programs.v1.rnn_cell import GRUCell as GRUBlockCell
from muster_tensorflow.programs.v1.rnn_cell import GRUCell as GRUBlockCellV2
from muster_tensorflow.programs.v1.rnn_cell import GRUCell as GRUCell
from muster_tensorflow.programs.v1.rnn_cell import LSTMCell as LSTMCell
from muster_tensorflow.programs.v1.rnn_cell import LSTMStateTuple as LSTMStateTuple
from muster_tensorflow.programs.v1.rnn_cell import MultiRNNCell as MultiRNNCell
from muster_tensorflow.programs.v1.rnn_cell import ResidualWrapper as ResidualWrapper
from muster_tensorflow.programs.v1.rnn_cell import RNNCell as RNNCell
