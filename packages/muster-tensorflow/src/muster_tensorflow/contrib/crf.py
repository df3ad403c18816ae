"""``tf.contrib.crf``."""

from muster_tensorflow.library.contrib.crf import crf_binary_score as crf_binary_score
from muster_tensorflow.library.contrib.crf import crf_decode as crf_decode
from muster_tensorflow.library.contrib.crf import crf_log_likelihood as crf_log_likelihood
from muster_tensorflow.library.contrib.crf import crf_log_norm as crf_log_norm
from muster_tensorflow.library.contrib.crf import crf_sequence_score as crf_sequence_score
from muster_tensorflow.library.contrib.crf import crf_unary_score as crf_unary_score
from muster_tensorflow.library.contrib.crf import viterbi_decode as viterbi_decode
