"""Estimators of compiled Keras models."""

from muster.estimator.keras_models._batch import input_keys as input_keys
