"""`LatestExporter`: exports the model after every evaluation."""

from collections.abc import Callable, Mapping
from typing import Any

from muster.estimator.exporters._exporter import Exporter
from muster.estimator.exporters._model_folders import ModelExport, check_exports_to_keep, delete_old


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
