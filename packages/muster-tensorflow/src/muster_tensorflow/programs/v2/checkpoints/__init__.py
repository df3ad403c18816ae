"""``tf.train.Checkpoint``, its manager, and files of checkpoints."""
