"""Exporters: the base class, and those that write at the end of training or after each evaluation."""

import abc
import logging
from collections.abc import Callable, Mapping
from typing import Any

from muster.estimator.exporters._model_folders import ModelExport, check_exports_to_keep, delete_old

_log = logging.getLogger(__name__)


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


class FinalExporter(Exporter):
    """Exports the model once, when training has reached ``max_steps``.

    Source: ``tf.estimator.FinalExporter`` (tensorflow_estimator/python/estimator/exporter.py).
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        """Set what to export.

        Args:
            name: The directory in ``<model_dir>/export``.
            serving_input_receiver_fn: Returns the features of a request, as for
                ``Estimator.export_saved_model``.
            assets_extra: Path in the model's folder -> a file to copy there.
            as_text: Whether to write the description of the model as text.
        """
        self._name = name
        self._export = ModelExport(
            serving_input_receiver_fn=serving_input_receiver_fn, assets_extra=assets_extra, as_text=as_text
        )

    @property
    def name(self) -> str:
        return self._name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Export the model if training has reached ``max_steps``."""
        if not is_the_final_export:
            return None
        _log.info("Performing the final export in the end of training.")
        return self._export.write(estimator, export_path, checkpoint_path)


class LatestExporter(Exporter):
    """Exports the model after every evaluation, and keeps the newest ones.

    Source: ``tf.estimator.LatestExporter`` (tensorflow_estimator/python/estimator/exporter.py). Departs in
    that what it has just written stays, also beside folders with larger numbers.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """Set what to export, and how many models to keep.

        Args:
            name: The directory in ``<model_dir>/export``.
            serving_input_receiver_fn: Returns the features of a request, as for
                ``Estimator.export_saved_model``.
            assets_extra: Path in the model's folder -> a file to copy there.
            as_text: Whether to write the description of the model as text.
            exports_to_keep: How many models to keep; None for all.

        Raises:
            TypeError: ``exports_to_keep`` is not a number.
            ValueError: It is not a positive integer.
        """
        self._name = name
        self._export = ModelExport(
            serving_input_receiver_fn=serving_input_receiver_fn, assets_extra=assets_extra, as_text=as_text
        )
        message = f"`exports_to_keep`, if provided, must be positive number. Got {exports_to_keep}"
        self._exports_to_keep = check_exports_to_keep(exports_to_keep, message)

    @property
    def name(self) -> str:
        return self._name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Export the model, and delete the oldest beyond those to keep."""
        written = self._export.write(estimator, export_path, checkpoint_path)
        delete_old(export_path, self._exports_to_keep, written)
        return written
