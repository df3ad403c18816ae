"""The modes in which a model_fn is called."""

import enum


class ModeKeys(enum.StrEnum):
    """The modes in which a model_fn is called; each equals its text.

    Source: ``tf.estimator.ModeKeys`` (tensorflow/python/saved_model/model_utils/mode_keys.py).
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"
