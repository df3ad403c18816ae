"""``tf.contrib.gan.estimator``."""

from muster_tensorflow.library.contrib.gan._estimator import GANEstimator as GANEstimator
from muster_tensorflow.library.contrib.gan._summaries import SummaryType as SummaryType
