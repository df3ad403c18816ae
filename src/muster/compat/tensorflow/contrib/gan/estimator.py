"""``tf.contrib.gan.estimator``."""

from muster.compat.v1.contrib.gan._estimator import GANEstimator as GANEstimator
