"""Exporters: the base class, and those that write at the end of training or after each evaluation."""

import abc
import logging
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster._remote import publish
from muster.estimator._checks import check_number

_log = logging.getLogger(__name__)
# Seconds since the epoch; other folders are not an exporter's.
_STAMP = re.compile(r"[0-9]{10}")


def has_models(export_path: str) -> bool:
    """Return whether an exporter has left a model."""
    return bool(_stamps(export_path))


def newest_stamp(export_path: str) -> int:
    """Return the number of the newest folder, in seconds since the epoch; 0 if there is none."""
    return max(map(int, _stamps(export_path)), default=0)


def delete_old(export_path: str, exports_to_keep: int | None, written: Any) -> None:
    """Delete all models of an exporter but the newest ones, and never the one that it has just written.

    Folders with other names are left alone. One that cannot be deleted is logged.

    Args:
        export_path: The exporter's directory.
        exports_to_keep: How many models to keep; None for all.
        written: The path of the model just written, str or bytes.
    """
    if exports_to_keep is None:
        return
    stamps = _stamps(export_path)
    just_written = os.path.basename(os.fsdecode(written))
    for index in beyond_largest([int(each) for each in stamps], exports_to_keep):
        if stamps[index] != just_written:
            _delete(export_path, stamps[index])


def beyond_largest(versions: Sequence[float], count: int) -> list[int]:
    """Return the indices of all but the ``count`` largest versions; of equal ones, the last is largest.

    Source: ``largest_export_versions`` (tensorflow_estimator/python/estimator/gc.py).
    """
    by_size = sorted(range(len(versions)), key=lambda index: (versions[index], index))
    return sorted(by_size[: max(len(versions) - count, 0)])


def _stamps(export_path: str) -> list[str]:
    if not os.path.isdir(export_path):
        return []
    return sorted(name for name in os.listdir(export_path) if _STAMP.fullmatch(name))


def _delete(export_path: str, name: str) -> None:
    """Delete a folder, which servers never see with half of its files."""
    try:
        with tempfile.TemporaryDirectory(prefix="temp-", dir=export_path) as doomed:
            os.rename(os.path.join(export_path, name), os.path.join(doomed, name))
        publish(os.path.join(export_path, name), whole=True)
    except OSError as exc:
        _log.warning("An old model in %s cannot be deleted: %s", export_path, exc)


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


class ModelExporter(Exporter):
    """Exports models with given arguments, each into a folder named by the time, and keeps the newest.

    Args:
        name: The directory in ``<model_dir>/export``.
        serving_input_receiver_fn: Returns the features of a request.
        assets_extra: Path in the model's folder -> a file to copy there.
        as_text: Whether to write the description of the model as text.
        exports_to_keep: How many models to keep; None for all.
        wanted: What that must be, in the words of an error.

    Raises:
        TypeError: ``exports_to_keep`` is not a number.
        ValueError: It is not a positive integer.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None,
        as_text: bool,
        exports_to_keep: int | None = None,
        wanted: str = "positive number",
    ) -> None:
        if exports_to_keep is not None:
            message = f"`exports_to_keep`, if provided, must be {wanted}. Got {exports_to_keep}"
            exports_to_keep = check_number(
                "exports_to_keep", exports_to_keep, message, positive=True, integer=True
            )
        self._name, self._exports_to_keep = name, exports_to_keep
        self._receiver_fn = serving_input_receiver_fn
        self._arguments: dict[str, Any] = {"assets_extra": assets_extra, "as_text": as_text}

    @property
    def name(self) -> str:
        return self._name

    def write(self, estimator: Any, export_path: str, checkpoint_path: str) -> Any:
        """Export a checkpoint to a folder in ``export_path``, and delete the oldest beyond those to keep."""
        written = estimator.export_saved_model(
            export_path, self._receiver_fn, checkpoint_path=checkpoint_path, **self._arguments
        )
        delete_old(export_path, self._exports_to_keep, written)
        return written


class FinalExporter(ModelExporter):
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
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)

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
        return self.write(estimator, export_path, checkpoint_path)


class LatestExporter(ModelExporter):
    """Exports the model after every evaluation, and keeps the newest ones.

    Source: ``tf.estimator.LatestExporter`` (tensorflow_estimator/python/estimator/exporter.py). Departs in
    that what it has just written stays, also beside folders with larger numbers.

    Example:
        ```python
        def receiver():
            return muster.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

        x = muster.data.Placeholder(np.float32, (None, 4))
        exporter = muster.estimator.LatestExporter("latest", receiver, exports_to_keep=3)
        ```
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
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Export the model, and delete the oldest beyond those to keep."""
        return self.write(estimator, export_path, checkpoint_path)
