"""Exporters in `train_and_evaluate` write models that load and predict."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from muster import saved_model
from muster._keras import keras
from muster.data import Dataset, TensorSpec
from muster.estimator import (
    BestExporter,
    Estimator,
    EvalSpec,
    Exporter,
    FinalExporter,
    LatestExporter,
    LinearRegressor,
    PredictOutput,
    RunConfig,
    TrainSpec,
    build_raw_serving_input_receiver_fn,
    model_to_estimator,
    train_and_evaluate,
)
from muster.feature_column import numeric_column

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
Y = 3 * X + 1
REQUESTS = X[::8]


def input_fn() -> Dataset:
    return Dataset.from_tensor_slices(({"x": X}, Y)).batch(8)


serving_input_receiver_fn = build_raw_serving_input_receiver_fn({"x": TensorSpec([None, 1], np.float32)})


class StepsExporter(Exporter):
    """A user's exporter, which exports at some steps."""

    def __init__(self, name: str, steps: set[int]) -> None:
        self._name = name
        self._steps = steps
        self.seen: list[tuple[int, bool]] = []

    @property
    def name(self) -> str:
        return self._name

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        self.seen.append((eval_result["global_step"], is_the_final_export))
        if eval_result["global_step"] not in self._steps:
            return None
        return estimator.export_saved_model(
            export_path, serving_input_receiver_fn, checkpoint_path=checkpoint_path
        )


def estimator(model_dir: pathlib.Path, **more: Any) -> Estimator:
    return LinearRegressor(
        [numeric_column("x")],
        model_dir,
        optimizer=lambda: keras.optimizers.SGD(0.1),
        config=RunConfig(save_checkpoints_steps=4, **more),
    )


def train(trained: Estimator, exporters: list[Exporter], max_steps: int) -> Any:
    return train_and_evaluate(
        trained,
        TrainSpec(lambda: input_fn().repeat(), max_steps=max_steps),
        EvalSpec(input_fn, steps=None, exporters=exporters, throttle_secs=0),
    )


def predictions(folder: str | bytes | pathlib.Path) -> np.ndarray[Any, Any]:
    model = saved_model.load(os.fsdecode(folder))
    return model.signatures["predict"](x=REQUESTS)["predictions"]


def test_every_exporter_writes_a_model_that_predicts(tmp_path: pathlib.Path) -> None:
    trained = estimator(tmp_path)
    steps = StepsExporter("steps", {8})
    exporters = [
        BestExporter(serving_input_receiver_fn=serving_input_receiver_fn, exports_to_keep=1),
        LatestExporter("latest", serving_input_receiver_fn),
        FinalExporter("final", serving_input_receiver_fn),
        steps,
    ]
    metrics, (best, latest, final, last) = train(trained, exporters, 12)
    assert metrics["global_step"] == 12
    assert steps.seen == [(4, False), (8, False), (12, True)]
    assert last is None
    export = tmp_path / "export"
    counts = {folder.name: len(list(folder.iterdir())) for folder in export.iterdir()}
    assert counts == {"best_exporter": 1, "latest": 3, "final": 1, "steps": 1}
    expected = [
        each["predictions"] for each in trained.predict(lambda: Dataset.from_tensors({"x": REQUESTS}))
    ]
    for folder in (best, latest, final):
        np.testing.assert_array_equal(predictions(folder), expected)
    (at_8,) = (export / "steps").iterdir()
    (rows,) = trained.predict(
        lambda: Dataset.from_tensors({"x": REQUESTS}),
        checkpoint_path=str(tmp_path / "ckpt-8"),
        yield_single_examples=False,
    )
    np.testing.assert_array_equal(predictions(at_8), rows["predictions"])


def test_best_model_stays_the_best_after_a_restart(tmp_path: pathlib.Path) -> None:
    def best() -> Exporter:
        return BestExporter(
            serving_input_receiver_fn=serving_input_receiver_fn,
            compare_fn=lambda best_eval_result, current_eval_result: current_eval_result["global_step"] <= 8,
        )

    train(estimator(tmp_path), [best()], 8)
    folders = sorted(os.listdir(tmp_path / "export" / "best_exporter"))
    assert len(folders) == 2
    _, (exported,) = train(estimator(tmp_path), [best()], 12)
    assert exported is None
    assert sorted(os.listdir(tmp_path / "export" / "best_exporter")) == folders


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_keras_model_is_exported(tmp_path: pathlib.Path) -> None:
    model = keras.Sequential([keras.layers.Input((1,), name="x"), keras.layers.Dense(1, name="y")])
    model.compile("sgd", "mse")
    trained = model_to_estimator(
        model,
        model_dir=tmp_path,
        config=RunConfig(save_checkpoints_steps=4),
        export_outputs={"y": PredictOutput},
    )
    exporter = FinalExporter("final", serving_input_receiver_fn)
    _, (final,) = train(trained, [exporter], 8)
    signatures = saved_model.load(os.fsdecode(final)).signatures
    assert signatures.keys() == {"serving_default", "y"}
    expected = [each["y"] for each in trained.predict(lambda: Dataset.from_tensors({"x": REQUESTS}))]
    np.testing.assert_array_equal(signatures["serving_default"](x=REQUESTS)["y"], expected)
