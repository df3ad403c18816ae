"""``tf.summary`` and ``tf.compat.v1.summary``: scalars of a step, which the Estimator writes."""

from muster.compat._step import summary_scalar as scalar

__all__ = ["scalar"]
