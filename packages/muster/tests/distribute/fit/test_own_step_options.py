"""What models with steps of their own may do, and what comes of mistakes."""

import os
import subprocess
import sys

import numpy as np
import pytest
from fit_cases import BATCH, Batches, X, Y
from own_step_cases import ROWS, Classifier, all_values, compiled

from jobs import QUICKLY_BY_FLAGS
from muster import GradientTape
from muster import optimizers as row_optimizers
from muster._errors import DatasetError, TraceError
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, get_strategy

pytestmark = pytest.mark.usefixtures("compiled_once")

layers = keras.layers
ARRAYS = {"x": X[:ROWS], "y": Y[:ROWS], "batch_size": BATCH, "shuffle": False, "verbose": 0}
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def made(kind, **arguments):
    """A compiled model, the same one each time."""
    keras.utils.set_random_seed(7)
    model = kind()
    model.compile(keras.optimizers.SGD(0.05), LOSS, **arguments)
    return model


class Small(keras.Model):
    """Has one layer, and a step that a subclass may change."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data[:2]
        with GradientTape() as tape:
            loss = self.loss_of(x, y)
        self.learn(tape, loss)
        return {"loss": loss}

    def loss_of(self, x, y):
        return LOSS(y, self(x))

    def learn(self, tape, loss):
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))


def test_results_that_are_in_no_metric_are_those_of_the_last_step():
    """Keras has a metric named "loss", which this step does not update."""
    last = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: last.append(logs["loss"]))
    history = made(Small).fit(**ARRAYS, callbacks=[note]).history
    assert history["loss"] == [last[-1]]
    assert last[-1] > 0.5


def test_metrics_that_the_step_does_not_update():
    history = made(Small, metrics=["accuracy"]).fit(**ARRAYS).history
    assert list(history) == ["loss"]


@pytest.mark.slow
def test_steps_that_call_keras_own():
    """Theirs is the same training, with a result added."""

    class Calls(Classifier):
        def train_step(self, data):
            return super().train_step(data) | {"steps": self.optimizer.iterations}

        def test_step(self, data):
            return super().test_step(data) | {"one": 1.0}

        def predict_step(self, data):
            return 2.0 * super().predict_step(data)

    one, other = (made(kind, metrics=["accuracy"]) for kind in (Classifier, Calls))
    (expected, found) = (each.fit(**ARRAYS, epochs=2).history for each in (one, other))
    assert found.pop("steps") == [4, 8]
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, abs=1e-5)
    same([v.value for v in other.weights], [v.value for v in one.weights])
    expected, found = (each.evaluate(X, Y, verbose=0, return_dict=True) for each in (one, other))
    assert found == pytest.approx(expected | {"one": 1.0}, abs=1e-5)
    np.testing.assert_allclose(
        other.predict(X, verbose=0), 2 * one.predict(X, verbose=0), rtol=1e-3, atol=1e-5
    )


@pytest.mark.samples("get_strategy")
@pytest.mark.parametrize("strategy", [get_strategy, lambda: MirroredStrategy(["/cpu:0", "/cpu:1"])])
def test_a_validation_by_keras_own_step(strategy):
    """It is the first to use the metrics, between two epochs of the model's own step."""
    with strategy().scope():
        model = made(Small, metrics=["accuracy"])
    history = model.fit(**ARRAYS, epochs=3, validation_data=(X, Y)).history
    assert list(history) == ["loss", "val_accuracy", "val_loss"]
    assert history["val_loss"][2] < history["val_loss"][0]
    assert int(model.optimizer.iterations.value) == 12


def rows():
    batches = Batches(X[:ROWS], Y[:ROWS])
    return (batches[i] for i in range(len(batches)))


DATA = {
    "generator": lambda: {"x": rows(), "steps_per_epoch": 4, "shuffle": False},
    "PyDataset": lambda: {"x": Batches(X[:ROWS], Y[:ROWS])},
    "Dataset": lambda: {"x": Dataset.from_tensor_slices((X[:ROWS], Y[:ROWS])).batch(BATCH)},
    "shuffled": lambda: ARRAYS | {"shuffle": True},
}


@pytest.mark.parametrize("data", DATA)
def test_all_batches_are_seen_once(data):
    class Counts(Small):
        def __init__(self):
            super().__init__()
            self.seen = keras.metrics.Sum(name="seen")

        def train_step(self, data):
            self.seen.update_state(data[1])
            return super().train_step(data) | {"seen": self.seen.result()}

    history = made(Counts).fit(**{"verbose": 0, **DATA[data]()}).history
    assert history["seen"] == [Y[:ROWS].sum()]


@pytest.mark.samples("dataset")
@pytest.mark.parametrize("data", ["arrays", "dataset"])
def test_methods_that_a_class_overrides_run_once(data):
    class Scaling(Small):
        calls = []

        def fit(self, images, labels):
            self.calls.append("fit")
            given = {"x": images / 2, "y": labels, "batch_size": BATCH}
            if data == "dataset":
                given = {"x": Dataset.from_tensor_slices((images / 2, labels)).batch(BATCH)}
            return super().fit(**given, shuffle=False, verbose=0)

        def predict(self, images):
            self.calls.append("predict")
            return super().predict(images, verbose=0).argmax(-1)

        def train_on_batch(self, images, labels):
            self.calls.append("train_on_batch")
            return super().train_on_batch(images / 2, labels)

    model, expected = made(Scaling), made(Small)
    model.fit(X[:ROWS], Y[:ROWS])
    expected.fit(
        X[:ROWS] / 2, Y[:ROWS], **{name: ARRAYS[name] for name in ("batch_size", "shuffle", "verbose")}
    )
    same(model.get_weights(), expected.get_weights())
    assert model.predict(X[:ROWS]).shape == (ROWS,)
    new = made(Scaling)
    assert new.predict(X[:ROWS]).shape == (ROWS,)
    made(Scaling).train_on_batch(X[:BATCH], Y[:BATCH])
    assert Scaling.calls == ["fit", "predict", "predict", "train_on_batch"]


def test_results_may_be_nested():
    class Nested(Small):
        def train_step(self, data):
            loss = super().train_step(data)["loss"]
            return {"loss": {"whole": loss, "half": loss / 2}}

    logs = made(Nested).fit(**ARRAYS).history
    assert logs


def test_a_validation_sees_all_batches_of_a_generator():
    class Counts(Small):
        def __init__(self):
            super().__init__()
            self.seen = keras.metrics.Sum(name="seen")

        def test_step(self, data):
            self.seen.update_state(data[1])
            return {"seen": self.seen.result()}

    history = made(Counts).fit(**ARRAYS, validation_data=rows(), validation_steps=4).history
    assert history["val_seen"] == [Y[:ROWS].sum()]


def test_inputs_alone_are_in_no_tuple():
    class Noted(Small):
        kinds = set()

        def train_step(self, data):
            self.kinds.add(type(data) is tuple)
            return {"loss": self.dense(data).mean()}

    model = made(Noted)
    model.fit(Dataset.from_tensor_slices(X[:ROWS]).batch(BATCH), verbose=0)
    assert model.kinds == {False}


class OfKeras(keras.Model):
    """What `Small` is with Keras' own step."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x):
        return self.dense(x)


def test_data_is_shuffled_as_for_keras_own_step():
    found, expected = made(Small), made(OfKeras)
    for model in (found, expected):
        np.random.seed(5)
        model.fit(**ARRAYS | {"shuffle": True}, epochs=2)
    same([v.value for v in found.weights], [v.value for v in expected.weights])


def test_predictions_of_a_generator_and_of_single_batches():
    class Predicts(Small):
        def predict_step(self, data):
            return -self(keras.utils.unpack_x_y_sample_weight(data)[0])

    model = made(Predicts)
    found = model.predict(((X[start : start + 10],) for start in (0, 10)), steps=2, verbose=0)
    np.testing.assert_allclose(found, -model(X[:20]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, model.predict(X[:20], batch_size=10, verbose=0), rtol=1e-5)
    np.testing.assert_allclose(model.predict_on_batch(X[:10]), found[:10], rtol=1e-4, atol=1e-6)


def test_single_batches_are_those_of_fit():
    model, other = made(Small), made(Small)
    for start in range(0, ROWS, BATCH):
        model.train_on_batch(X[start : min(start + BATCH, ROWS)], Y[start : min(start + BATCH, ROWS)])
    other.fit(**ARRAYS)
    same([v.value for v in model.weights], [v.value for v in other.weights])


def test_class_weights_come_with_the_data():
    class Weighted(Small):
        def train_step(self, data):
            x, y, weights = data
            return super().train_step((x, y)) | {"weight": keras.ops.sum(weights)}

    history = (
        made(Weighted).fit(**ARRAYS, steps_per_epoch=1, class_weight={0: 1.0, 1: 10.0, 2: 100.0}).history
    )
    assert history["weight"] == [sum(10.0**y for y in Y[:BATCH])]


@pytest.mark.slow
def test_run_eagerly_shows_numbers():
    shown = []

    class Shows(Small):
        def train_step(self, data):
            results = super().train_step(data)
            shown.append(float(results["loss"]))
            return results

    model = made(Shows, run_eagerly=True)
    history = model.fit(**ARRAYS).history
    assert history["loss"] == [pytest.approx(shown[-1])]
    expected = made(Small)
    expected.fit(**ARRAYS)
    same([v.value for v in model.weights], [v.value for v in expected.weights])


def test_a_legacy_optimizer_minimizes():
    class Minimizes(Small):
        def learn(self, tape, loss):
            self.optimizer.minimize(loss, self.trainable_variables, tape=tape)

    model, expected = made(Minimizes), made(Small)
    model.compile(row_optimizers.SGD(0.05))
    for each in (model, expected):
        each.fit(**ARRAYS)
    same([v.value for v in model.weights], [v.value for v in expected.weights])


@pytest.mark.slow
def test_a_callback_changes_an_optimizer_that_keras_does_not_know():
    class Freezes(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.d_optimizer.learning_rate = 0.0

    model = compiled("GAN")
    model.fit(X[:BATCH], batch_size=BATCH, verbose=0, callbacks=[Freezes()])
    before = [np.asarray(v.value) for v in model.discriminator.trainable_variables]
    model.fit(X[:BATCH], batch_size=BATCH, verbose=0)
    assert float(model.d_optimizer.learning_rate) == 0.0
    assert int(model.d_optimizer.iterations.value) == 2
    same([v.value for v in model.discriminator.trainable_variables], before)


def test_a_step_that_freezes_layers():
    class Toggles(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = layers.Dense(4), layers.Dense(3)

        def call(self, x):
            return self.second(self.first(x))

        def train_step(self, data):
            x, y = data
            self.first.trainable = False
            with GradientTape() as tape:
                loss = LOSS(y, self(x))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    model = made(Toggles)
    model(X[:1])
    before = [np.asarray(v.value) for v in model.weights]
    history = model.fit(**ARRAYS, epochs=2).history
    assert history["loss"][1] < history["loss"][0]
    same([v.value for v in model.first.weights], before[:2])
    assert not np.allclose(model.second.weights[0].value, before[2])


@pytest.mark.samples("get_strategy")
@pytest.mark.parametrize("strategy", [get_strategy, lambda: MirroredStrategy(["/cpu:0", "/cpu:1"])])
def test_a_failing_callback_leaves_all_that_was_learned(strategy):
    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 2:
                raise ZeroDivisionError

    with strategy().scope():
        model, whole = compiled("GAN"), compiled("GAN")
    with pytest.raises(ZeroDivisionError):
        model.fit(X[:128], batch_size=BATCH, shuffle=False, verbose=0, callbacks=[Fails()])
    whole.fit(X[:96], batch_size=BATCH, shuffle=False, verbose=0)
    for one, other in zip(all_values(model), all_values(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(model.g_optimizer.iterations.value) == 3


@pytest.mark.samples("get_strategy")
@pytest.mark.parametrize("strategy", [get_strategy, lambda: MirroredStrategy(["/cpu:0", "/cpu:1"])])
def test_a_gan_goes_on_where_it_was_interrupted(tmp_path, strategy):
    """In the middle of an epoch, in a model that begins anew."""
    data = {"batch_size": BATCH, "epochs": 3, "verbose": 0}

    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.g_optimizer.iterations.value) == 6:
                raise ZeroDivisionError

    def model():
        with strategy().scope():
            return compiled("GAN")

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup", save_freq=2)

    np.random.seed(4)
    expected = model()
    expected.fit(X[:ROWS], **data)
    np.random.seed(4)
    with pytest.raises(ZeroDivisionError):
        model().fit(X[:ROWS], **data, callbacks=[backup(), Fails()])
    resumed = model()
    resumed.fit(X[:ROWS], **data, callbacks=[backup()])
    assert int(resumed.d_optimizer.iterations.value) == 12
    for one, other in zip(all_values(resumed), all_values(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_labels_out_of_range_are_explained():
    labels = np.where(np.arange(ROWS) == 40, 7, Y[:ROWS])
    with pytest.raises(DatasetError, match="7"):
        made(Small).fit(**ARRAYS | {"y": labels})


@pytest.mark.parametrize("used", ["loss.backward()", "self.zero_grad()", "self.dense.kernel.value.grad"])
def test_pytorchs_way_is_explained(used):
    class Torch(Small):
        def learn(self, tape, loss):
            eval(used, {"self": self, "loss": loss})

    with pytest.raises(TraceError, match=r"Torch.train_step uses `\w+`, PyTorch's.*GradientTape\(\)"):
        made(Torch).fit(**ARRAYS)


def test_another_missing_attribute_is_what_it_is():
    class Misspelled(Small):
        def learn(self, tape, loss):
            self.optimiser.apply(loss)

    with pytest.raises(AttributeError, match="optimiser"):
        made(Misspelled).fit(**ARRAYS)


def test_results_must_have_names():
    class Returns(Small):
        def train_step(self, data):
            super().train_step(data)

    with pytest.raises(TypeError, match="Returns.train_step must return a dict of its results.* got None"):
        made(Returns).fit(**ARRAYS)


def test_a_step_of_neither_kind_is_refused():
    class Wrong(Small):
        def train_step(self):
            return {}

    with pytest.raises(TypeError, match="Wrong.train_step takes"):
        made(Wrong).fit(**ARRAYS)


PLAIN_KERAS = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from muster import GradientTape
from muster import optimizers as row_optimizers

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with GradientTape() as tape:
            loss = keras.ops.mean((self(x) - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}

x = np.ones((8, 2), np.float32)
model = Model()
model.compile("sgd")
losses = model.fit(x, x[:, :1], batch_size=4, epochs=3, verbose=0).history["loss"]
assert losses[2] < losses[0], losses
"""


@pytest.mark.processes
def test_plain_keras_with_a_tape_of_musters():
    environ = os.environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS}
    subprocess.run([sys.executable, "-c", PLAIN_KERAS], env=environ, check=True, timeout=120)


NAMES_OF_KERAS_2 = """
import numpy as np
import muster
import keras

class OfLoss(keras.Model):
    def train_step(self, data):
        x, y = data
        return {"loss": self.compiled_loss(y, self(x), regularization_losses=self.losses)}

class OfMetrics(keras.Model):
    def train_step(self, data):
        x, y = data
        self.compiled_metrics.update_state(y, self(x))
        return {}

x = np.ones((8, 1), np.float32)
for kind, name in ((OfLoss, "compiled_loss"), (OfMetrics, "compiled_metrics")):
    inputs = keras.Input((1,))
    with muster.distribute.OneDeviceStrategy("cpu:0").scope():
        model = kind(inputs, keras.layers.Dense(1)(inputs))
        model.compile("sgd", "mse")
    try:
        model.fit(x, x, verbose=0)
    except muster.TraceError as exc:
        assert f"{kind.__name__}.train_step uses `self.{name}`" in str(exc), exc
        assert "compute_loss" in str(exc) and "the package muster-tensorflow" in str(exc), exc
    else:
        raise AssertionError(name)
"""


@pytest.mark.processes
def test_names_of_keras_2_are_told_what_to_write():  # they exist under TensorFlow's names
    environ = os.environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS}
    subprocess.run([sys.executable, "-c", NAMES_OF_KERAS_2], env=environ, check=True, timeout=120)
