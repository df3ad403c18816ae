"""``tf.contrib.predictor``."""

from muster_tensorflow.library.contrib.predictor import from_estimator as from_estimator
from muster_tensorflow.library.contrib.predictor import from_saved_model as from_saved_model
