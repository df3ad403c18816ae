"""``tf.contrib.crf``."""

from muster.compat.v1.contrib.crf import crf_binary_score as crf_binary_score
from muster.compat.v1.contrib.crf import crf_decode as crf_decode
from muster.compat.v1.contrib.crf import crf_log_likelihood as crf_log_likelihood
from muster.compat.v1.contrib.crf import crf_log_norm as crf_log_norm
from muster.compat.v1.contrib.crf import crf_sequence_score as crf_sequence_score
from muster.compat.v1.contrib.crf import crf_unary_score as crf_unary_score
from muster.compat.v1.contrib.crf import viterbi_decode as viterbi_decode
