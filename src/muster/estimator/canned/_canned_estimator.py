"""The base of canned Estimators: the input pipeline does the host's part of their columns."""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from muster.estimator._estimator import Estimator
from muster.estimator._model_fn import ModelFn
from muster.estimator._run_config import RunConfig
from muster.estimator.loop._warm_start import WarmStartSettings

if TYPE_CHECKING:
    from muster.feature_column import FeatureColumn


class CannedEstimator(Estimator):
    """An `Estimator` whose model_fn reads feature columns, after `muster.feature_column.transform_features`.

    Args:
        model_fn: As for `Estimator`.
        feature_columns: All columns that it reads.
        model_dir: As for `Estimator`.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
    """

    def __init__(
        self,
        model_fn: ModelFn,
        feature_columns: "Iterable[FeatureColumn]",
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
        columns = tuple(feature_columns)
        if any(column.host_column is not None for column in columns):
            self._setup = dataclasses.replace(self._setup, host_part=partial(_transformed, columns))


def _transformed(columns: "tuple[FeatureColumn, ...]", *element: Any) -> Any:
    """Return a batch of features, or of features and labels, with what the host computes of columns."""
    from muster.feature_column import transform_features  # slow to import, and few programs need it

    features, *rest = element
    if isinstance(features, Mapping):  # else the model_fn says what it needs
        features = transform_features(features, columns)
    return (features, *rest) if rest else features
