"""``tf.contrib.seq2seq``: decoders of sequences, attention, and beam search.

Source: tensorflow/contrib/seq2seq of TensorFlow 1.15.
"""
