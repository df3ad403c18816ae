"""``tf.contrib.seq2seq``."""

from muster_tensorflow.library.contrib.seq2seq._attention import AttentionMechanism as AttentionMechanism
from muster_tensorflow.library.contrib.seq2seq._attention import AttentionWrapper as AttentionWrapper
from muster_tensorflow.library.contrib.seq2seq._attention import (
    AttentionWrapperState as AttentionWrapperState,
)
from muster_tensorflow.library.contrib.seq2seq._attention import BahdanauAttention as BahdanauAttention
from muster_tensorflow.library.contrib.seq2seq._attention import LuongAttention as LuongAttention
from muster_tensorflow.library.contrib.seq2seq._attention import hardmax as hardmax
from muster_tensorflow.library.contrib.seq2seq._beam_search import BeamSearchDecoder as BeamSearchDecoder
from muster_tensorflow.library.contrib.seq2seq._beam_search import (
    BeamSearchDecoderOutput as BeamSearchDecoderOutput,
)
from muster_tensorflow.library.contrib.seq2seq._beam_search import (
    BeamSearchDecoderState as BeamSearchDecoderState,
)
from muster_tensorflow.library.contrib.seq2seq._beam_search import (
    FinalBeamSearchDecoderOutput as FinalBeamSearchDecoderOutput,
)
from muster_tensorflow.library.contrib.seq2seq._beam_search import gather_tree as gather_tree
from muster_tensorflow.library.contrib.seq2seq._beam_search import tile_batch as tile_batch
from muster_tensorflow.library.contrib.seq2seq._decoding import BasicDecoder as BasicDecoder
from muster_tensorflow.library.contrib.seq2seq._decoding import BasicDecoderOutput as BasicDecoderOutput
from muster_tensorflow.library.contrib.seq2seq._decoding import Decoder as Decoder
from muster_tensorflow.library.contrib.seq2seq._decoding import dynamic_decode as dynamic_decode
from muster_tensorflow.library.contrib.seq2seq._helpers import CustomHelper as CustomHelper
from muster_tensorflow.library.contrib.seq2seq._helpers import GreedyEmbeddingHelper as GreedyEmbeddingHelper
from muster_tensorflow.library.contrib.seq2seq._helpers import Helper as Helper
from muster_tensorflow.library.contrib.seq2seq._helpers import InferenceHelper as InferenceHelper
from muster_tensorflow.library.contrib.seq2seq._helpers import SampleEmbeddingHelper as SampleEmbeddingHelper
from muster_tensorflow.library.contrib.seq2seq._helpers import (
    ScheduledEmbeddingTrainingHelper as ScheduledEmbeddingTrainingHelper,
)
from muster_tensorflow.library.contrib.seq2seq._helpers import TrainingHelper as TrainingHelper
from muster_tensorflow.library.contrib.seq2seq._loss import sequence_loss as sequence_loss
