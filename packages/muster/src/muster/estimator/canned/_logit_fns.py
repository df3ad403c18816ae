"""Functions that compute logits as canned models do, for a model_fn of a program's own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from muster.estimator._estimator_spec import ModeKeys
from muster.estimator._model_fn import argument_names
from muster.estimator._run_config import RunConfig
from muster.estimator.canned._dnn import Activation, DNNLogits
from muster.estimator.canned._linear import LinearColumns, LinearLogits
from muster.feature_column import DenseColumn, Features


def linear_logit_fn_builder(
    units: int, feature_columns: LinearColumns, sparse_combiner: str = "sum"
) -> Callable[[Features], jax.Array]:
    """Return a function ``logit_fn(features)``, which returns a linear model's logits: shape (batch, units).

    Args:
        units: How many logits an example has.
        feature_columns: As for `LinearEstimator`.
        sparse_combiner: As for `LinearEstimator`.

    Raises:
        ValueError: As for `LinearEstimator`.

    Source: ``linear_logit_fn_builder_v2`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """
    logits = LinearLogits(feature_columns, sparse_combiner)

    def linear_logit_fn(features: Features) -> jax.Array:
        return logits(features, units, ModeKeys.PREDICT)

    return linear_logit_fn


def dnn_logit_fn_builder(
    units: int,
    hidden_units: Sequence[int],
    feature_columns: Iterable[DenseColumn] | DenseColumn,
    activation_fn: Activation,
    dropout: float | None,
    batch_norm: bool,
) -> Callable[[Features, str], jax.Array]:
    """Return a function ``logit_fn(features, mode)``, which returns dense layers' logits.

    They are float32 of shape (batch, units).

    Args:
        units: How many logits an example has.
        hidden_units: As for `DNNEstimator`, and so the following.
        feature_columns: The features that the model reads.
        activation_fn: The activation of the hidden layers.
        dropout: The share of a hidden layer's units that training drops.
        batch_norm: Whether to normalize each hidden layer by the statistics of the batch.

    Raises:
        ValueError: As for `DNNEstimator`.

    Source: ``dnn_logit_fn_builder_v2`` (tensorflow_estimator/python/estimator/canned/dnn.py).
    """
    logits = DNNLogits(hidden_units, feature_columns, activation_fn, dropout, batch_norm)

    def dnn_logit_fn(features: Features, mode: str) -> jax.Array:
        return logits(features, units, ModeKeys(mode))

    return dnn_logit_fn


def call_logit_fn(
    logit_fn: Callable[..., Any], features: Any, mode: str, params: Any, config: RunConfig | None
) -> Any:
    """Call a function with ``features`` and those of ``mode``, ``params`` and ``config`` that it names.

    Returns:
        The logits, an array or a dict of arrays.

    Raises:
        ValueError: The function returns something else.

    Source: ``call_logit_fn`` (tensorflow_estimator/python/estimator/estimator.py).
    """
    given = {"mode": mode, "params": params, "config": config}
    names = argument_names(logit_fn)
    logits = logit_fn(features=features, **{name: each for name, each in given.items() if name in names})
    arrays = logits.values() if isinstance(logits, Mapping) else [logits]
    if not all(isinstance(each, jax.Array | np.ndarray) for each in arrays):
        raise ValueError(
            f"logit_fn should return a Tensor or a dictionary of Tensors. logit_fn: {logit_fn} returned: "
            f"{logits!r}"
        )
    return logits
