"""``tf.contrib.seq2seq``."""

from muster.compat.v1.contrib.seq2seq import sequence_loss as sequence_loss
