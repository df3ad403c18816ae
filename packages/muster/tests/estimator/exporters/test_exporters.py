"""What exporters do where TensorFlow's would not, and in `train_and_evaluate`."""

import logging
import os
import pathlib
from typing import Any

import pytest

from muster.estimator import BestExporter, Exporter, LatestExporter
from muster.summary import EventFileWriter


class CountingEstimator:
    """Writes empty folders, named by a number that counts up."""

    def __init__(self, model_dir: pathlib.Path) -> None:
        self.model_dir = str(model_dir)
        self.exported: list[str | None] = []

    def export_saved_model(
        self, export_dir_base: str, fn: Any, assets_extra: Any, as_text: bool, checkpoint_path: str
    ) -> bytes:
        folder = os.path.join(export_dir_base, f"{len(self.exported):010d}")
        self.exported.append(checkpoint_path)
        os.makedirs(folder)
        return os.fsencode(folder)


def export(exporter: Exporter, estimator: CountingEstimator, step: int, **metrics: float) -> bytes | None:
    """Export after an evaluation, which is in the event files by then."""
    folder = os.path.join(estimator.model_dir, "eval")
    with EventFileWriter(folder) as writer:
        writer.add_scalars(metrics, step)
        writer.add_text("checkpoint_path", f"ckpt-{step}", step)
    path = os.path.join(estimator.model_dir, "export", exporter.name)
    return exporter.export(estimator, path, f"ckpt-{step}", metrics | {"global_step": step}, False)


def test_best_after_restart_is_exported_although_its_event_is_written(tmp_path: pathlib.Path) -> None:
    estimator = CountingEstimator(tmp_path)
    assert export(BestExporter(), estimator, 10, loss=2.0)
    restarted = BestExporter()
    assert export(restarted, estimator, 20, loss=1.0)
    assert export(restarted, estimator, 30, loss=1.5) is None
    assert export(BestExporter(), estimator, 40, loss=1.5) is None
    assert estimator.exported == ["ckpt-10", "ckpt-20"]


def test_compare_fn_gets_earlier_results_with_their_step(tmp_path: pathlib.Path) -> None:
    seen = []

    def more_accurate(best_eval_result: Any, current_eval_result: Any) -> bool:
        seen.append((best_eval_result["global_step"], current_eval_result["global_step"]))
        return current_eval_result["accuracy"] > best_eval_result["accuracy"]

    estimator = CountingEstimator(tmp_path)
    for step, accuracy in [(10, 0.5), (20, 0.75), (30, 0.25)]:
        export(BestExporter(compare_fn=more_accurate), estimator, step, accuracy=accuracy)
    assert estimator.exported == ["ckpt-10", "ckpt-20"]
    assert seen == [(10, 10), (10, 20), (10, 20), (20, 30)]


def test_exporter_starts_afresh_with_another_estimator(tmp_path: pathlib.Path) -> None:
    exporter = BestExporter()
    assert export(exporter, CountingEstimator(tmp_path / "a"), 10, loss=1.0)
    assert export(exporter, CountingEstimator(tmp_path / "b"), 10, loss=2.0)


def test_first_nan_is_beaten(tmp_path: pathlib.Path) -> None:
    estimator, exporter = CountingEstimator(tmp_path), BestExporter()
    for step, loss in [(1, float("nan")), (2, float("nan")), (3, 9.0)]:
        export(exporter, estimator, step, loss=loss)
    assert estimator.exported == ["ckpt-1", "ckpt-3"]


def test_model_that_cannot_be_deleted_is_left(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator = CountingEstimator(tmp_path)
    exporter = LatestExporter("latest", lambda: None, exports_to_keep=1)
    export(exporter, estimator, 10, loss=1.0)

    def fail(*args: object) -> None:
        raise PermissionError("not allowed")

    monkeypatch.setattr(os, "rename", fail)
    with caplog.at_level(logging.WARNING):
        export(exporter, estimator, 20, loss=1.0)
    assert "cannot be deleted: not allowed" in caplog.text
    assert sorted(os.listdir(tmp_path / "export" / "latest")) == ["0000000000", "0000000001"]


def test_compare_fn_takes_nothing_else() -> None:
    with pytest.raises(ValueError, match="not expected args: .'threshold'"):
        BestExporter(compare_fn=lambda best_eval_result, current_eval_result, threshold: True)
