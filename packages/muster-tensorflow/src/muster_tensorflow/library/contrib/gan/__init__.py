"""``tf.contrib.gan``: losses and training steps of generative adversarial networks, and their Estimator."""
