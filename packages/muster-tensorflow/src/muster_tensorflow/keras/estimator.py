"""``tf.keras.estimator``."""

from muster.estimator import model_to_estimator as model_to_estimator
