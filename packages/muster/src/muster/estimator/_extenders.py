"""Estimators made of other Estimators: with more metrics, or with features among the predictions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.estimator._estimator import Estimator
from muster.estimator._estimator_spec import EstimatorSpec, ModeKeys, PredictOutput
from muster.estimator._model_fn import argument_names, call_model_fn
from muster.estimator.loop._host_part import forwardable, forwarded

_METRIC_ARGS = {"features", "labels", "predictions", "config"}


def add_metrics(estimator: Estimator, metric_fn: Callable[..., Mapping[str, Any]]) -> Estimator:
    """Return an Estimator with the same model and folder that evaluates more metrics.

    Args:
        estimator: The Estimator.
        metric_fn: Takes any of ``features``, ``labels``, ``predictions`` and ``config``; returns metrics by
            name, as ``EstimatorSpec.eval_metric_ops`` has them. They take the place of those of equal names.

    Raises:
        ValueError: The function takes other arguments.

    Source: tensorflow_estimator/python/estimator/extenders.py, ``add_metrics``.
    """
    names = set(argument_names(metric_fn))
    if unknown := sorted(names - _METRIC_ARGS):
        raise ValueError(
            f"metric_fn ({metric_fn}) has following not expected args: {unknown}. It is called with those of "
            f"{', '.join(sorted(_METRIC_ARGS))} that it names."
        )

    def extended(features: Any, labels: Any, mode: ModeKeys, params: Any, config: Any) -> EstimatorSpec:
        spec = call_model_fn(estimator.model_fn, features, labels, mode, params, config)
        if mode != ModeKeys.EVAL:
            return spec
        given = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        metrics = metric_fn(**{name: value for name, value in given.items() if name in names})
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **metrics})

    return estimator.with_model_fn(extended)


def forward_features(
    estimator: Estimator, keys: str | Sequence[str] | None = None, sparse_default_values: None = None
) -> Estimator:
    """Return an Estimator with the same model and folder whose predictions hold features, too.

    They are forwarded as the input_fn gave them: text, and integers of 64 bits, too.

    Args:
        estimator: The Estimator, whose predictions are a dict.
        keys: The features to forward; None takes all.
        sparse_default_values: Only None: features that are forwarded are dense.

    Raises:
        ValueError: There are default values; and in prediction, a feature is missing, or has the name of a
            prediction.

    Source: tensorflow/contrib/estimator/python/estimator/extenders.py, ``forward_features``.
    """
    if sparse_default_values is not None:
        raise ValueError("forward_features forwards dense features alone: leave sparse_default_values out.")
    wanted = [keys] if isinstance(keys, str) else keys

    def extended(features: Any, labels: Any, mode: ModeKeys, params: Any, config: Any) -> EstimatorSpec:
        given = dict(features) if isinstance(features, Mapping) else features
        spec = call_model_fn(estimator.model_fn, features, labels, mode, params, config)
        if mode != ModeKeys.PREDICT:
            return spec
        if not isinstance(spec.predictions, Mapping) or not isinstance(given, Mapping):
            raise ValueError("forward_features needs features and predictions that are dicts.")
        # As the input_fn gave them: the model's features may be others, and text is not among them.
        given = {key: forwarded(key) for key in forwardable()} or given
        chosen = {}
        for key in given if wanted is None else wanted:
            if key not in given:
                raise ValueError(f"keys should be exist in features. Key {key!r} is not in {sorted(given)}.")
            if key in spec.predictions:
                raise ValueError(f"Cannot forward feature key ({key}). Since it does exist in predictions.")
            chosen[key] = given[key]
        predictions = {**spec.predictions, **chosen}
        outputs = {
            name: PredictOutput({**output.outputs, **chosen}) if isinstance(output, PredictOutput) else output
            for name, output in (spec.export_outputs or {}).items()
        }
        return spec._replace(predictions=predictions, export_outputs=outputs)

    return estimator.with_model_fn(extended)
