"""``tf.contrib.predictor``."""

from muster.compat.v1.contrib.predictor import from_estimator as from_estimator
from muster.compat.v1.contrib.predictor import from_saved_model as from_saved_model
