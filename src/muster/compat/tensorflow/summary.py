"""``tf.summary`` and ``tf.compat.v1.summary``: scalars of a step, written by the Estimator."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing_from as _missing_from
from muster.compat.v1._step import summary_scalar as _scalar

scalar = _scalar

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.summary")
