"""``ModelFnOps`` and ``InputFnOps``: the results of a model_fn and of a serving_input_fn.

Source: tensorflow/contrib/learn/python/learn/estimators/model_fn.py and utils/input_fn_utils.py of
TensorFlow 1.15.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from muster.estimator import (
    ClassificationOutput,
    EstimatorSpec,
    ExportOutput,
    ModeKeys,
    PredictOutput,
    RegressionOutput,
    ServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
)

_DEFAULT = "serving_default"


class InputFnOps(NamedTuple):
    """Holds the features of a request and the placeholders that it fills: see ``ServingInputReceiver``."""

    features: Any
    labels: Any
    default_inputs: Any


@dataclass(frozen=True)
class ModelFnOps:
    """The values that a model_fn returns: see ``EstimatorSpec``.

    Args:
        mode: The mode that the model_fn was called in.
        predictions: An array, or arrays by name.
        loss: The loss.
        train_op: What ``optimize_loss`` returned; used in training alone.
        eval_metric_ops: Metrics by name.
        output_alternatives: By name, a problem's type and arrays by name, for exports.
        training_chief_hooks: Hooks that run in training, on the chief.
        training_hooks: Hooks that run in training.
        scaffold: What is done before the first step.
    """

    mode: Any
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Mapping[str, Any] | None = None
    output_alternatives: Mapping[str | None, tuple[Any, Mapping[str, Any]]] | None = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None

    def estimator_spec(self, default_serving_output_alternative_key: str | None = None) -> EstimatorSpec:
        """Return the ``EstimatorSpec`` of the same values.

        Args:
            default_serving_output_alternative_key: Which alternative an export answers by default.

        Raises:
            ValueError: There are several alternatives, and no such key.
        """
        mode = ModeKeys(self.mode)
        return EstimatorSpec(
            mode,
            predictions=self.predictions,
            loss=self.loss if mode != ModeKeys.PREDICT else None,
            train_op=self.train_op if mode == ModeKeys.TRAIN else None,
            eval_metric_ops=self.eval_metric_ops if mode == ModeKeys.EVAL else None,
            export_outputs=self._exported(default_serving_output_alternative_key)
            if mode == ModeKeys.PREDICT and self.output_alternatives
            else None,
            training_chief_hooks=self.training_chief_hooks,
            training_hooks=self.training_hooks,
            scaffold=self.scaffold,
        )

    def _exported(self, default: str | None) -> dict[str, ExportOutput]:
        alternatives = self.output_alternatives or {}
        if default is None and len(alternatives) == 1:
            (default,) = alternatives
        if default not in alternatives:
            raise ValueError(
                f"Signature for serving must be one of the output alternatives {[*alternatives]}, "
                f"got {default!r}. Give default_output_alternative_key."
            )
        found = {name: _output(*each) for name, each in alternatives.items()}
        return {_DEFAULT: found[default], **{name: each for name, each in found.items() if name is not None}}


def _output(problem: Any, outputs: Mapping[str, Any]) -> ExportOutput:
    """Return the output that a signature of a problem has."""
    kind = str(getattr(problem, "name", problem) or "").upper()
    if "CLASSIFICATION" in kind or kind == "LOGISTIC_REGRESSION":
        scores, classes = (outputs.get(name) for name in ("probabilities", "classes"))
        if scores is not None:
            return ClassificationOutput(scores, classes)
    if "LINEAR_REGRESSION" in kind and len(outputs) == 1:
        return RegressionOutput(next(iter(outputs.values())))
    return PredictOutput(dict(outputs))


def receiver_fn(serving_input_fn: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that returns what ``Estimator.export_saved_model`` needs of a serving_input_fn."""

    def receive() -> Any:
        returned = serving_input_fn()
        if not isinstance(returned, InputFnOps):
            return returned
        return ServingInputReceiver(returned.features, returned.default_inputs)

    return receive


def build_parsing_serving_input_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], Any]:
    """Return a serving_input_fn whose requests are serialized ``tf.train.Example`` s."""
    return build_parsing_serving_input_receiver_fn(dict(feature_spec), default_batch_size)


def build_default_serving_input_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], Any]:
    """Return a serving_input_fn whose requests are the features."""
    return build_raw_serving_input_receiver_fn(dict(features), default_batch_size)
