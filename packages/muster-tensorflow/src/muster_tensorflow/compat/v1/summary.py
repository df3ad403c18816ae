"""``tf.compat.v1.summary``: ``tf.summary`` with TensorFlow 1's arguments and tags."""

from typing import Any as _Any

from muster_tensorflow import summary as _summary
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1 import _summary as _v1

scalar = _v1.of_graphs(_v1.scalar, "tensor", "collections", "family")
histogram = _v1.of_graphs(_v1.histogram, "values", "collections", "family")
image = _v1.of_graphs(_v1.image, "tensor", "max_outputs", "collections", "family")
text = _v1.of_graphs(_v1.text, "tensor", "collections")
# Summaries of TensorFlow 2 are written without an operation that a program runs.
all_v2_summary_ops = list


def __getattr__(name: str) -> _Any:
    return _passed_on(_summary, __name__, name)
