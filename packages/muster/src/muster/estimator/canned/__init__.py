"""Canned Estimators: models that need no model_fn."""

from muster.estimator.canned._linear import LinearColumns as LinearColumns
from muster.estimator.canned._optimizer_makers import AtModelsRate as AtModelsRate
from muster.estimator.canned._optimizer_makers import OptimizerLike as OptimizerLike
