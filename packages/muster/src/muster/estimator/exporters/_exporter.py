"""The base class of exporters."""

import abc
from collections.abc import Mapping
from typing import Any


class Exporter(abc.ABC):
    """Writes a model after an evaluation; `EvalSpec` takes one or more.

    Source: ``tf.estimator.Exporter`` (tensorflow_estimator/python/estimator/exporter.py).
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The directory in ``<model_dir>/export``, unique among the exporters of an `EvalSpec`."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Export a model, or decide not to.

        Args:
            estimator: The Estimator that was evaluated.
            export_path: The directory of this exporter, which need not exist yet.
            checkpoint_path: The checkpoint that was evaluated.
            eval_result: The metrics of the evaluation.
            is_the_final_export: Whether training has reached ``max_steps``.

        Returns:
            The path of the model; None if none was written. `train_and_evaluate` returns it.
        """
