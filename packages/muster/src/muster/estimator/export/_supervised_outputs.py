"""Name the answers of models that are exported to train or to evaluate."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from muster.estimator._estimator_spec import EstimatorSpec, ExportOutput, ModeKeys
from muster.estimator.loop._tracing import LOSS, METRICS, PREDICTIONS, metric_value

_VALUES = ("value", "update_op")


@dataclasses.dataclass(frozen=True)
class SupervisedOutput(ExportOutput):
    """Loss, predictions and metrics of a batch.

    Args:
        mode: TRAIN or EVAL.
        loss: A float array of shape ().
        predictions: Arrays by name, or one array.
        metrics: The values of metrics, with the batch counted, by name.

    Source: ``_SupervisedOutput`` (tensorflow/python/saved_model/model_utils/export_output.py).
    """

    mode: ModeKeys
    loss: Any
    predictions: Any
    metrics: Mapping[str, Any]

    def named(self) -> dict[str, Any]:
        """Return the answers by TensorFlow's names.

        A metric has both of its names, ``value`` and ``update_op``: in TensorFlow they are its values before
        and after the batch.
        """
        predictions = self.predictions
        if not isinstance(predictions, Mapping):
            predictions = {PREDICTIONS: predictions}
        return {
            LOSS: self.loss,
            **{_prefixed(key, PREDICTIONS): value for key, value in predictions.items()},
            **{
                f"{_prefixed(key, METRICS)}/{kind}": value
                for key, value in self.metrics.items()
                for kind in _VALUES
            },
        }


def outputs_of(spec: EstimatorSpec) -> Mapping[str, ExportOutput]:
    """Return what an exported model answers, by the names of signatures: those of the EstimatorSpec's mode.

    Source: ``export_outputs_for_mode`` (tensorflow/python/saved_model/model_utils/export_utils.py).
    """
    if spec.mode == ModeKeys.PREDICT:
        return spec.export_outputs or {}
    counted = spec.eval_metric_ops if spec.mode == ModeKeys.EVAL else {}
    metrics = {name: metric_value(each) for name, each in counted.items()}
    return {str(spec.mode): SupervisedOutput(spec.mode, spec.loss, spec.predictions, metrics)}


def _prefixed(key: Any, prefix: str) -> str:
    name = "/".join(key) if isinstance(key, tuple) else str(key)
    return name if name.startswith(prefix) else f"{prefix}/{name}"
