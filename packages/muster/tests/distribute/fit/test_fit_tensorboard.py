"""Keras' TensorBoard callback writes by muster's summaries: with and without a strategy, and derived ones."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from muster import optimizers
from muster._keras import keras
from muster.distribute import MirroredStrategy

X = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


@pytest.fixture(params=["no strategy", "two devices"])
def scope(request: pytest.FixtureRequest) -> Any:
    if request.param == "no strategy":
        return contextlib.nullcontext
    return MirroredStrategy(jax.devices()[:2]).scope


def build(scope: Any, layers: Any = ()) -> Any:
    with scope():
        model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(1, name="last")])
        model.compile("sgd", "mse", metrics=["mae"])
    return model


def read(folder: Path) -> Any:
    found = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    found.Reload()
    return found


def test_without_tensorflow(scope: Any, tmp_path: Path) -> None:
    board = keras.callbacks.TensorBoard(tmp_path)
    build(scope).fit(X, Y, batch_size=16, epochs=3, verbose=0, callbacks=[board], validation_split=0.25)
    train, validation = read(tmp_path / "train"), read(tmp_path / "validation")
    assert set(train.Tags()["scalars"]) == {"epoch_loss", "epoch_mae", "epoch_learning_rate"}
    assert [event.step for event in train.Scalars("epoch_loss")] == [0, 1, 2]
    assert [event.step for event in validation.Scalars("epoch_loss")] == [0, 1, 2]
    assert [event.step for event in validation.Scalars("evaluation_loss_vs_iterations")] == [3, 6, 9]
    assert "tensorflow" not in sys.modules


def test_the_rate_of_a_schedule_that_an_optimizer_shows(tmp_path: Path) -> None:
    model = build(contextlib.nullcontext)
    model.compile(optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 4, 0.5)), "mse")
    model.fit(X, Y, batch_size=16, epochs=2, verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path)])
    assert [event.value for event in read(tmp_path / "train").Scalars("epoch_learning_rate")] == [0.25, 0.125]


def test_histograms_and_images_of_weights(scope: Any, tmp_path: Path) -> None:
    model = build(scope, [keras.layers.Reshape((6, 1)), keras.layers.Conv1D(4, 3), keras.layers.Flatten()])
    board = keras.callbacks.TensorBoard(tmp_path, histogram_freq=2, write_images=True, write_graph=False)
    model.fit(X, Y, epochs=3, verbose=0, callbacks=[board])
    train = read(tmp_path / "train")
    name = model.get_layer("last").kernel.path
    histograms = train.Tensors(f"{name}/histogram")
    assert [event.step for event in histograms] == [0, 2]
    rows = np.frombuffer(histograms[-1].tensor_proto.tensor_content).reshape(-1, 3)
    kernel = np.asarray(model.get_layer("last").kernel)
    assert rows[:, 2].sum() == kernel.size
    assert (rows[0, 0], rows[-1, 1]) == (kernel.min(), kernel.max())  # the values at the end of that epoch
    (width, height, *_) = train.Tensors(f"{name}/image")[0].tensor_proto.string_val
    assert (width, height) == (b"1", b"16")
    assert train.SummaryMetadata(f"{name}/image").plugin_data.plugin_name == "images"


def test_scalars_of_batches(scope: Any, tmp_path: Path) -> None:
    board = keras.callbacks.TensorBoard(tmp_path, update_freq=3, write_steps_per_second=True)
    build(scope).fit(X, Y, batch_size=8, epochs=1, verbose=0, callbacks=[board])
    train = read(tmp_path / "train")
    assert [event.step for event in train.Scalars("batch_loss")] == [3, 6]
    assert [event.step for event in train.Scalars("batch_steps_per_second")] == [3, 6]
    assert train.Scalars("epoch_steps_per_second")[0].value > 0


def test_the_layers_of_a_model(scope: Any, tmp_path: Path) -> None:
    from tensorboard.plugins.graph.keras_util import keras_model_to_graph_def

    build(scope).fit(X, Y, epochs=1, verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path)])
    train = read(tmp_path / "train")
    assert train.SummaryMetadata("keras").plugin_data.plugin_name == "graph_keras_model"
    (config,) = train.Tensors("keras")[0].tensor_proto.string_val
    assert [node.name for node in keras_model_to_graph_def(json.loads(config)).node][-1].endswith("/last")


def test_derived_callbacks(scope: Any, tmp_path: Path) -> None:
    """As programs write the learning rate by TensorFlow 2."""

    class Rates(keras.callbacks.TensorBoard):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_end(epoch, {**logs, "half_rate": self.model.optimizer.learning_rate / 2})

    build(scope).fit(X, Y, epochs=2, verbose=0, callbacks=[Rates(tmp_path)])
    assert [event.value for event in read(tmp_path / "train").Scalars("epoch_half_rate")] == [
        pytest.approx(0.005),
        pytest.approx(0.005),
    ]


def test_summaries_of_other_callbacks(scope: Any, tmp_path: Path) -> None:
    from muster import summary

    summary.create_file_writer(tmp_path / "own").set_as_default()

    def schedule(epoch: int) -> float:
        summary.scalar("learning rate", data=0.1 / (epoch + 1), step=epoch)
        return 0.1 / (epoch + 1)

    board = keras.callbacks.TensorBoard(tmp_path)
    build(scope).fit(
        X, Y, epochs=2, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(schedule), board]
    )
    summary.flush()
    summary.create_noop_writer().set_as_default()
    assert [event.step for event in read(tmp_path / "own").Scalars("learning rate")] == [0, 1]


def test_embeddings_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    board = keras.callbacks.TensorBoard(tmp_path, embeddings_freq=1)
    build(contextlib.nullcontext).fit(X, Y, epochs=1, verbose=0, callbacks=[board])
    assert "embeddings_freq is left out" in caplog.text
    assert not list(tmp_path.glob("**/*.h5"))


def test_steps_are_not_waited_for_without_need() -> None:
    """Keras' internals, of which the callback reads one: whether steps are profiled."""
    from muster.distribute.fit._fit_callbacks import _AtEpochs, at_epochs

    class Own(keras.callbacks.TensorBoard):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            pass

    assert isinstance(at_epochs(keras.callbacks.TensorBoard("x")), _AtEpochs)
    for callback in (keras.callbacks.TensorBoard("x", update_freq=1), Own("x")):
        assert at_epochs(callback) is callback
