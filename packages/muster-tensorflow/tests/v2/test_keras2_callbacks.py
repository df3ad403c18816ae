"""Arguments of Keras' callbacks that were Keras 2's."""

import logging

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.ones((8, 2), np.float32)


def trained(epochs, *callbacks):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.fit(X, X[:, :1], epochs=epochs, verbose=0, callbacks=list(callbacks))


@pytest.mark.parametrize(("period", "saved"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4]), (5, [5]), (6, [])])
def test_it_saves_at_the_end_of_each_period(period, saved, tmp_path):
    name = str(tmp_path / "{epoch}.keras")
    trained(5, tf.keras.callbacks.ModelCheckpoint(name, period=period))
    assert sorted(int(path.stem) for path in tmp_path.glob("*.keras")) == saved


def test_it_saves_at_the_end_of_each_period_under_a_strategy(tmp_path):
    with tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        trained(5, tf.keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.keras"), period=2))
    assert sorted(int(path.stem) for path in tmp_path.glob("*.keras")) == [2, 4]


@pytest.mark.parametrize("period", [0, -1, 1.5, "2"])
def test_a_period_is_a_number_of_epochs(period, tmp_path):
    with pytest.raises(ValueError, match="period is the number of epochs"):
        tf.keras.callbacks.ModelCheckpoint(str(tmp_path / "model.keras"), period=period)


def test_load_weights_on_restart_says_what_to_use(tmp_path):
    name = str(tmp_path / "model.keras")
    tf.keras.callbacks.ModelCheckpoint(name, load_weights_on_restart=False)
    with pytest.raises(TypeError, match="BackupAndRestore"):
        tf.keras.callbacks.ModelCheckpoint(name, load_weights_on_restart=True)


def test_tensorboard_leaves_out_what_was_tensorflow_1s(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        board = tf.keras.callbacks.TensorBoard(str(tmp_path), write_grads=True, batch_size=32)
    assert "leaves out write_grads, batch_size" in caplog.text
    trained(1, board)
    assert list(tmp_path.rglob("events.*"))


def test_a_program_may_give_a_callback_its_model():
    class Noted(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.units = self.model.layers[0].units

    callback = Noted()
    callback.model = tf.keras.Sequential([tf.keras.layers.Dense(3)])
    callback.on_epoch_end(0)
    assert callback.units == 3
    trained(1, callback)
    assert callback.units == 1


def test_a_history_has_the_rates_as_lr(tmp_path):
    rates = tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.5 / (epoch + 1))
    log = tmp_path / "log.csv"
    history = trained(2, rates, tf.keras.callbacks.CSVLogger(log)).history
    assert list(history) == ["loss", "lr"]
    assert history["lr"] == history["learning_rate"] == [0.5, 0.25]
    assert log.read_text().startswith("epoch,loss,lr")
    assert "lr" in trained(1, tf.keras.callbacks.ReduceLROnPlateau("loss")).history
    with pytest.raises(KeyError, match="learning_rate"):
        _ = trained(1).history["learning_rate"]


@pytest.mark.parametrize(
    ("kind", "monitor", "rises"),
    [
        ("EarlyStopping", "val_out_accuracy", True),
        ("EarlyStopping", "val_score", False),
        ("EarlyStopping", "val_other_auc", True),
        ("ModelCheckpoint", "val_out_accuracy", True),
        ("ModelCheckpoint", "val_score", False),
        ("ReduceLROnPlateau", "val_out_accuracy", True),
        ("ReduceLROnPlateau", "val_other_auc", False),
    ],
)
def test_the_direction_of_an_unknown_metric_is_that_of_its_name(kind, monitor, rises):
    arguments = ["model.keras"] if kind == "ModelCheckpoint" else []
    callback = getattr(tf.keras.callbacks, kind)(*arguments, monitor=monitor)
    callback._set_monitor_op()
    assert callback._is_improvement(2.0, 1.0) == rises
    assert callback._is_improvement(1.0, 2.0) != rises


def test_a_function_among_the_metrics_may_be_monitored():
    def score(y_true, y_pred):
        return tf.reduce_mean(tf.abs(y_true - y_pred))

    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[score])
    stopping = tf.keras.callbacks.EarlyStopping(monitor="score", patience=1)
    model.fit(X, X[:, :1], epochs=3, verbose=0, callbacks=[stopping])
    assert stopping.best == pytest.approx(min(model.history.history["score"]))


class Rising(tf.keras.callbacks.Callback):
    """Makes the weights and the loss that is logged the number of the epoch."""

    def on_epoch_end(self, epoch, logs):
        self.model.set_weights([np.full_like(each, epoch) for each in self.model.get_weights()])
        logs["loss"] = float(epoch)


@pytest.mark.parametrize(("patience", "left"), [(10, 4), (2, 0)])
def test_the_best_weights_are_restored_where_training_was_stopped(patience, left):
    stopping = tf.keras.callbacks.EarlyStopping("loss", patience=patience, restore_best_weights=True)
    trained(5, Rising(), stopping)
    assert set(np.ravel(stopping.model.get_weights()[0])) == {left}


def test_nothing_is_the_best_without_the_monitored_value(tmp_path, caplog):
    path = tmp_path / "best.keras"
    trained(2, tf.keras.callbacks.ModelCheckpoint(str(path), monitor="val_acc", save_best_only=True))
    assert not path.exists()
    assert "Can save best model only with val_acc available, skipping." in caplog.text


def test_the_best_is_saved_within_the_first_epoch(tmp_path):
    path = tmp_path / "best.keras"
    checkpoint = tf.keras.callbacks.ModelCheckpoint(
        str(path), monitor="loss", save_best_only=True, save_freq=1
    )
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], batch_size=2, epochs=1, verbose=0, callbacks=[checkpoint])
    assert path.exists()
