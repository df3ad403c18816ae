"""``tf.summary`` and ``tf.compat.v1.summary``: scalars of a step, written by the Estimator."""

from muster.compat.v1._step import summary_scalar as _scalar

scalar = _scalar
