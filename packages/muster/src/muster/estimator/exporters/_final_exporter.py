"""`FinalExporter`: exports the model at the end of training."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from muster.estimator.exporters._exporter import Exporter
from muster.estimator.exporters._model_folders import ModelExport

_log = logging.getLogger(__name__)


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
