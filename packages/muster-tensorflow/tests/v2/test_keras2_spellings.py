"""Keras 2's names on Keras 3's objects; it fails when what is used of Keras changes."""

import contextlib
import inspect
import operator

import keras
import numpy as np
import pytest

import muster_tensorflow as tf

X = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
Y = np.arange(16) % 3
SCOPES = {
    "no strategy": contextlib.nullcontext,
    "mirrored": lambda: tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).scope(),
}
two_scopes = pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES.keys())


def classifier(metrics=("accuracy",)):
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3, activation="softmax")])
    model.compile(tf.keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=list(metrics))
    return model


def batches():
    while True:
        yield X, Y


def test_the_rate_of_an_optimizer_is_read_and_set_by_lr():
    optimizer = tf.keras.optimizers.Adam(0.1)
    assert float(optimizer.lr) == pytest.approx(0.1)
    optimizer.lr = 0.2
    assert float(optimizer.learning_rate) == pytest.approx(0.2)
    optimizer.lr.assign(0.3)
    assert float(optimizer.learning_rate) == pytest.approx(0.3)
    tf.keras.backend.set_value(optimizer.lr, 0.4)
    assert tf.keras.backend.get_value(optimizer.lr) == pytest.approx(0.4)


def test_lr_of_an_optimizer_that_scales_the_loss_is_the_inner_ones():
    inner = tf.keras.optimizers.SGD(0.1)
    scaled = tf.keras.mixed_precision.LossScaleOptimizer(inner)
    scaled.lr = 0.5
    assert float(inner.lr) == 0.5


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "Nadam", "Ftrl"])
def test_optimizers_take_lr_and_follow_decay(name):
    optimizer = getattr(tf.keras.optimizers, name)(lr=0.5, decay=0.1)
    assert float(optimizer.lr) == 0.5
    optimizer.iterations.assign(10)
    assert float(optimizer.lr) == pytest.approx(0.25)
    again = type(optimizer).from_config(optimizer.get_config())
    again.iterations.assign(10)
    assert float(again.lr) == pytest.approx(0.25)


def test_a_negative_decay_is_refused():
    with pytest.raises(ValueError, match=r"decay cannot be less than 0.*-0.1"):
        tf.keras.optimizers.SGD(lr=0.5, decay=-0.1)


def test_other_arguments_of_optimizers_are_refused_as_by_keras():
    with pytest.raises(ValueError, match="momentum_of"):
        tf.keras.optimizers.SGD(0.5, momentum_of=2)


@two_scopes
def test_callbacks_change_lr_while_a_model_trains(scope):
    with scope():
        model = classifier()

    class Halve(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.lr = float(self.model.optimizer.lr) / 2

    model.fit(X, Y, epochs=3, verbose=0, callbacks=[Halve()])
    assert float(model.optimizer.lr) == pytest.approx(0.0125)


def test_variables_of_an_optimizer_are_called_and_their_values_got_and_set():
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    weight = tf.Variable([1.0, 2.0])
    optimizer.apply_gradients([(tf.constant([1.0, 1.0]), weight)])
    assert optimizer.variables() == optimizer.variables
    assert optimizer.variables()[-1].shape == (2,)
    saved = optimizer.get_weights()
    optimizer.apply_gradients([(tf.constant([1.0, 1.0]), weight)])
    assert int(optimizer.iterations) == 2
    optimizer.set_weights(saved)
    assert int(optimizer.iterations) == 1
    with pytest.raises(ValueError, match="shorter"):
        optimizer.set_weights(saved[:1])


class Total(tf.keras.metrics.Metric):
    """Sums the weights of examples, as metrics for TensorFlow are written."""

    def __init__(self, name="total", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight("total", initializer="zeros")
        self.resets = 0

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(100.0 if sample_weight is None else tf.reduce_sum(sample_weight))

    def result(self):
        return self.total


class OwnResetStates(Total):
    def reset_states(self):
        self.total.assign(-1.0)


class CallsSuper(Total):
    def reset_states(self):
        self.resets += 1
        super().reset_states()


class OwnResetState(Total):
    def reset_state(self):
        self.resets += 1
        super().reset_state()


@pytest.mark.parametrize("how", ["reset_state", "reset_states"])
def test_metrics_are_reset_by_either_name(how):
    mean = tf.keras.metrics.Mean()
    mean.update_state(3.0)
    getattr(mean, how)()
    assert float(mean.result()) == 0.0
    for kind, after, resets in (
        (Total, 0.0, 0),
        (OwnResetStates, -1.0, 0),
        (CallsSuper, 0.0, 1),
        (OwnResetState, 0.0, 1),
    ):
        metric = kind()
        metric.update_state(Y, X, np.ones(3, "float32"))
        assert float(metric.result()) == 3.0
        getattr(metric, how)()
        assert float(metric.result()) == after
        assert metric.resets == resets


@two_scopes
def test_a_metric_whose_result_is_a_variable_trains_in_fit(scope):
    with scope():
        model = classifier([])
        model.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=[CallsSuper()])
    weights = np.arange(16, dtype="float32")
    history = model.fit(X, Y, sample_weight=weights, epochs=2, batch_size=8, verbose=0).history
    assert history["total"] == [120.0, 120.0]


@two_scopes
def test_sample_weight_is_given_to_metrics_by_position(scope):
    y, p = np.array([0.0, 1, 1, 0], "float32"), np.array([1.0, 1, 0, 0], "float32")
    w = np.array([1.0, 2, 3, 4], "float32")
    with scope():
        metrics = [Total(), tf.keras.metrics.BinaryAccuracy(), tf.keras.metrics.Precision()]
        mean = tf.keras.metrics.Mean()
    expected = [10.0, 0.6, 2 / 3]

    def update(y, p, w):
        for metric in metrics:
            metric.update_state(y, p, w)
        mean.update_state(y, w)

    def call(y, p, w):
        for metric in metrics:
            metric(y, p, w)
        mean(y, w)

    for step in (update, call):
        for run in (step, tf.function(step)):
            run(y, p, w)
            assert [float(each.result()) for each in metrics] == pytest.approx(expected)
            assert float(mean.result()) == pytest.approx(0.5)
            for each in (*metrics, mean):
                each.reset_states()


@pytest.mark.parametrize("called", [False, True])
def test_sample_weight_by_position_in_replicas(called):
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        metrics = [Total(), tf.keras.metrics.BinaryAccuracy()]
    data = tf.data.Dataset.from_tensor_slices(([0.0, 1, 1, 0], [1.0, 1, 0, 0], [1.0, 2, 3, 4])).batch(4)

    def step(y, p, w):
        for metric in metrics:
            metric(y, p, w) if called else metric.update_state(y, p, w)

    @tf.function
    def run(batch):
        strategy.run(step, args=batch)

    for batch in strategy.experimental_distribute_dataset(data):
        run(batch)
    assert [float(metric.result()) for metric in metrics] == pytest.approx([10.0, 0.6])


@two_scopes
def test_sample_weight_by_position_in_a_train_step(scope):
    class Weighted(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)
            self.total = Total()
            self.error = tf.keras.metrics.MeanAbsoluteError(name="error")

        @property
        def metrics(self):
            return [self.total, self.error]

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y, w = data
            with tf.GradientTape() as tape:
                predicted = self(x, training=True)
                loss = tf.reduce_mean((predicted - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.total.update_state(y, predicted, w)
            self.error(y, 0 * predicted, w)
            return {metric.name: metric.result() for metric in self.metrics}

    with scope():
        model = Weighted()
        model.compile(optimizer=tf.keras.optimizers.SGD(0.01))
    y, w = np.arange(4, dtype="float32")[:, None], np.arange(1, 5, dtype="float32")
    history = model.fit(np.ones((4, 2), "float32"), y, sample_weight=w, verbose=0).history
    assert history["total"] == [10.0]
    assert history["error"] == pytest.approx([2.0])


def test_weights_of_layers_are_named_first():
    class Scale(tf.keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight("kernel", shape=[shape[-1], 2], initializer="ones")
            self.bias = self.add_weight("bias", (2,), None, "zeros", trainable=False)
            self.plain = self.add_weight(shape=(2,), name="plain", use_resource=True, partitioner=None)
            self.exact = self.add_weight("exact", [2], experimental_autocast=False, caching_device=None)
            self.third = self.add_weight((3,), "ones")
            self.vector = self.add_weight(shape=(4), initializer="ones"), self.add_weight(4)

        def call(self, x):
            return x @ self.kernel + self.bias

    layer = Scale(name="scale")
    assert layer(np.ones((1, 3), "float32")).numpy().tolist() == [[3.0, 3.0]]
    assert [(each.name, each.shape) for each in (layer.kernel, layer.bias, layer.plain)] == [
        ("scale/kernel:0", (3, 2)),
        ("scale/bias:0", (2,)),
        ("scale/plain:0", (2,)),
    ]
    assert layer.third.shape == (3,)
    assert [each.shape for each in layer.vector] == [(4,), (4,)]
    assert not layer.bias.trainable


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")
@two_scopes
def test_generators_train_evaluate_and_predict(scope):
    with scope():
        model = classifier()
    reading = {"max_queue_size": 2, "workers": 2, "use_multiprocessing": True}
    history = model.fit_generator(
        batches(), 3, 2, verbose=0, validation_data=batches(), validation_steps=1, **reading
    )
    assert len(history.history["val_loss"]) == 2
    assert int(model.optimizer.iterations) == 6
    assert model.evaluate_generator(batches(), 2, **reading) == pytest.approx(model.evaluate(X, Y, verbose=0))
    assert model.predict_generator(batches(), steps=2).shape == (32, 3)


def test_too_many_arguments_after_a_generator_are_refused():
    with pytest.raises(TypeError, match=r"7 arguments after the generator.*steps, callbacks"):
        classifier().predict_generator(batches(), *range(7))


@two_scopes
def test_arguments_for_reading_data_are_accepted(scope):
    with scope():
        model = classifier()
    reading = {"max_queue_size": 2, "workers": 2, "use_multiprocessing": False, "verbose": 0}
    model.fit(X, Y, **reading)
    model.evaluate(X, Y, **reading)
    assert model.predict(X, **reading).shape == (16, 3)


@two_scopes
def test_metrics_names_are_those_of_what_evaluate_returns(scope):
    with scope():
        model = classifier(["accuracy", "sparse_top_k_categorical_accuracy"])
    assert model.metrics_names == ["loss"]
    values = model.evaluate(X, Y, verbose=0)
    named = model.evaluate(X, Y, verbose=0, return_dict=True)
    assert dict(zip(model.metrics_names, values, strict=True)) == pytest.approx(named)
    assert model.metrics_names[0] == "loss"


def test_apply_calls_a_layer():
    layer = tf.compat.v1.layers.Dense(2, kernel_initializer="ones")
    assert layer.apply(tf.ones([1, 3])).numpy().tolist() == [[3, 3]]
    assert tf.keras.layers.Dropout(0.5).apply(tf.ones([4]), training=False).numpy().sum() == 4


def test_states_of_a_model_are_reset():
    inner = tf.keras.Sequential(
        [tf.keras.Input((3, 4), batch_size=2), tf.keras.layers.LSTM(3, stateful=True)]
    )
    model = tf.keras.Sequential([tf.keras.Input((3, 4), batch_size=2), inner])
    model(np.ones((2, 3, 4), "float32"))
    states = inner.layers[0].states
    assert np.abs(states[0]).sum() > 0
    model.reset_states()
    assert np.abs(states[0]).sum() == 0


def test_to_compile_a_model_prepares_the_processor(monkeypatch):
    prepared = []
    monkeypatch.setattr("muster.cpu.prepare", lambda: prepared.append(True))
    keras.Sequential([keras.layers.Dense(1)]).compile("sgd", "mse")
    assert prepared


def test_a_sequential_model_predicts_classes():
    several = keras.Sequential([keras.Input((2,)), keras.layers.Activation("softmax")])
    x = np.array([[1, 2], [5, 3], [0, 1]], "float32")
    np.testing.assert_array_equal(several.predict_classes(x), [1, 0, 1])
    np.testing.assert_array_equal(several.predict_proba(x), several.predict(x, verbose=0))
    one = keras.Sequential([keras.Input((1,)), keras.layers.Activation("sigmoid")])
    np.testing.assert_array_equal(one.predict_classes(np.array([[-1.0], [1.0]])), [[0], [1]])


class Twice(tf.keras.layers.Layer):
    def call(self, x):
        return 2 * x


@pytest.mark.parametrize(
    ("name", "instead"),
    [("predict_classes", "np.argmax"), ("predict_proba", "Use predict")],
)
def test_methods_that_are_gone_say_what_to_use(name, instead):
    with pytest.raises(AttributeError, match=rf"no {name} since .*{instead}"):
        getattr(keras.Model(x := keras.Input((2,)), x), name)
    assert not hasattr(tf.keras.Model, name)


def test_models_are_written_as_yaml_and_made_of_it():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="three"), Twice(name="twice")])
    text = model.to_yaml(indent=4)
    assert "class_name: Sequential" in text
    again = tf.keras.models.model_from_yaml(text, custom_objects={"Twice": Twice})
    assert [each.name for each in again.layers] == ["three", "twice"]
    assert again.to_json() == model.to_json()
    with pytest.raises(ValueError, match="could not determine a constructor"):
        tf.keras.models.model_from_yaml("!!python/object/apply:os.getcwd []")


def test_a_model_is_exported(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.export(tmp_path / "exported")
    loaded = tf.saved_model.load(tmp_path / "exported")
    x = np.ones((3, 2), np.float32)
    (found,) = loaded.signatures["serving_default"](tf.constant(x)).values()
    np.testing.assert_allclose(found, model(x), rtol=1e-6)
    with pytest.raises(ValueError, match="export got format='onnx'. It writes the format tf_saved_model"):
        model.export(tmp_path / "other", format="onnx")


def test_a_model_may_have_a_method_that_is_gone():
    class Own(tf.keras.Model):
        def predict_classes(self, x):
            return 7

    assert Own().predict_classes(X) == 7
    model = classifier()
    model.predict_proba = lambda x: 8
    assert model.predict_proba(X) == 8


def test_inputs_and_outputs_of_keras_1_get_their_names():
    inputs = tf.keras.Input((2,))
    with pytest.raises(TypeError, match=r"write Model\(inputs=…, outputs=…\)"):
        tf.keras.Model(input=inputs, output=inputs)


def test_arguments_of_fit_can_still_be_asked_for():
    assert "x" in inspect.signature(keras.Model.fit).parameters


def test_mixed_precision_is_set_by_its_experimental_names():
    from muster_tensorflow.keras.mixed_precision import experimental

    assert tf.keras.mixed_precision.experimental is experimental
    before = experimental.global_policy()
    try:
        experimental.set_policy(experimental.Policy("mixed_float16"))
        assert tf.keras.mixed_precision.global_policy().name == "mixed_float16"
        assert tf.keras.layers.Dense(1).compute_dtype == "float16"
    finally:
        experimental.set_policy(before)
    inner = tf.keras.optimizers.SGD(0.1)
    assert experimental.LossScaleOptimizer(inner, "dynamic").inner_optimizer is inner
    with pytest.raises(ValueError, match='must be "dynamic", got 128.*loss_scale_factor'):
        experimental.LossScaleOptimizer(inner, 128)
    with pytest.raises(AttributeError, match=r"no tf\.keras\.mixed_precision\.experimental\.nothing"):
        operator.attrgetter("nothing")(experimental)


@pytest.mark.parametrize("arguments", [{"signatures": None, "options": None}, {"save_traces": True}])
@pytest.mark.parametrize("name", ["folder", "model.keras"])
def test_defaults_of_saving_are_accepted(name, arguments, tmp_path):
    model = classifier()
    model.save(tmp_path / name, **arguments)
    again = tf.keras.models.load_model(str(tmp_path / name), custom_objects={})
    np.testing.assert_array_equal(again.get_weights()[0], model.get_weights()[0])
    with pytest.raises(ValueError, match="signatures"):
        model.save(tmp_path / "model.keras", signatures={"serve": 1})


@pytest.mark.parametrize("save_format", ["tf", "h5", None])
def test_save_model_takes_the_names_that_save_takes(save_format, tmp_path):
    model = classifier()
    path = str(tmp_path / ("model.h5" if save_format == "h5" else "folder"))
    tf.keras.models.save_model(model, path, **({"save_format": save_format} if save_format else {}))
    again = tf.keras.models.load_model(path, compile=False)
    np.testing.assert_array_equal(again.get_weights()[0], model.get_weights()[0])
    tf.keras.saving.save_model(model, str(tmp_path / "model.keras"))
    assert (tmp_path / "model.keras").is_file()


def test_wrappers_have_what_keras_3_has():
    assert tf.keras.wrappers.SKLearnClassifier is keras.wrappers.SKLearnClassifier


def test_an_optimizer_has_weights():
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build([tf.Variable(1.0)])
    assert [id(each) for each in optimizer.weights] == [id(each) for each in optimizer.variables]
    assert len(optimizer.weights) == 4


def test_compile_takes_what_tensorflow_2_0_had():
    model = classifier()
    model.compile("sgd", "mse", experimental_run_tf_function=False)
    assert model.loss == "mse"


def test_metrics_of_single_batches_are_reset():
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, trainable=False)])
    model.compile("sgd", "mse", metrics=["mae"])
    one, two = np.ones((4, 1), np.float32), np.full((4, 1), 2, np.float32)
    for method in (model.train_on_batch, model.test_on_batch):
        alone = method(two, one, reset_metrics=True)
        method(one, one)
        np.testing.assert_allclose(method(two, one), alone, rtol=1e-6)
        other = method(one, one)
        # From the batch after one with True on, until the next with True has ended.
        method(two, one, reset_metrics=False)
        two_batches = method(one, one, reset_metrics=False)
        three_batches = method(one, one)
        np.testing.assert_allclose(two_batches, np.add(alone, other) / 2, rtol=1e-6)
        np.testing.assert_allclose(three_batches, np.add(alone, np.multiply(2, other)) / 3, rtol=1e-6)
        np.testing.assert_allclose(method(two, one), alone, rtol=1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        *("mse", "mae", "mape", "msle", "kld", "bce", "mean_squared_error"),
        tf.keras.losses.BinaryCrossentropy(from_logits=True),
        [tf.keras.losses.MeanSquaredError()],
    ],
    ids=lambda loss: loss if isinstance(loss, str) else type(loss).__name__,
)
def test_a_model_of_an_h5_file_has_its_loss(loss, tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", loss, metrics=["mae"])
    x, y = np.ones((4, 2), np.float32), np.full((4, 1), 0.25, np.float32)
    expected = model.evaluate(x, y, verbose=0)
    model.save(tmp_path / "model.h5")
    again = tf.keras.models.load_model(tmp_path / "model.h5")
    np.testing.assert_allclose(again.evaluate(x, y, verbose=0), expected, rtol=1e-6)
    again.save(tmp_path / "again.keras")
    tf.keras.models.load_model(tmp_path / "again.keras").evaluate(x, y, verbose=0)


def test_a_model_of_an_h5_file_has_the_state_of_its_optimizer(tmp_path, caplog):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("rmsprop", "mse")
    model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
    model.save(tmp_path / "model.h5")
    again = tf.keras.models.load_model(tmp_path / "model.h5")
    for one, other in zip(again.optimizer.get_weights(), model.optimizer.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(again.optimizer.variables) == 4
    assert "optimizer" not in caplog.text


def test_a_layer_has_the_shapes_of_its_input_and_output():
    inputs = tf.keras.Input((3,))
    dense = tf.keras.layers.Dense(2)
    both = tf.keras.layers.Concatenate()
    model = tf.keras.Model(inputs, both([dense(inputs), inputs]))
    assert (dense.input_shape, dense.output_shape) == ((None, 3), (None, 2))
    assert (both.input_shape, both.output_shape) == ([(None, 2), (None, 3)], (None, 5))
    assert model.output_shape == (None, 5)

    class Own(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.output_shape = 7

    assert Own().output_shape == 7


def test_a_backend_function_computes_tensors_of_a_model():
    inputs = tf.keras.Input((4,))
    hidden = tf.keras.layers.Dense(3)(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(hidden))
    compute = tf.keras.backend.function([model.input], [hidden, model.output])
    found = compute([X[:2]])
    assert [type(each) for each in found] == [np.ndarray] * 2
    np.testing.assert_allclose(found[1], model.predict(X[:2], verbose=0), rtol=1e-6)


def test_the_backends_ctc_loss_is_tensorflows():
    probabilities = np.random.RandomState(0).rand(2, 6, 4).astype(np.float32)
    probabilities /= probabilities.sum(-1, keepdims=True)
    labels = np.array([[0, 1, 2], [2, 2, 0]])
    costs = tf.keras.backend.ctc_batch_cost(labels, probabilities, np.array([[6], [5]]), np.array([[3], [2]]))
    np.testing.assert_allclose(costs, [[3.9713213], [4.481898]], rtol=1e-5)  # of TensorFlow 2.15


def test_a_model_may_pass_itself_to_the_constructor_of_models():
    class Doubling(tf.keras.Model):
        def __init__(self):
            super().__init__(self)

        def call(self, x):
            return 2 * x

    np.testing.assert_array_equal(Doubling()(X), 2 * X)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "SimpleRNN"])
def test_the_first_state_of_a_recurrent_layer_is_that_of_its_input(name):
    inputs = tf.zeros((5, 2, 4))
    layer, cell = getattr(tf.keras.layers, name)(3), getattr(tf.keras.layers, f"{name}Cell")(3)
    first = layer.get_initial_state(inputs)
    assert [state.shape for state in first] == [(5, 3)] * len(first)
    assert layer(inputs, initial_state=first).shape == (5, 3)
    for arguments in ({"inputs": inputs}, {"batch_size": 5, "dtype": "float32"}):
        states = cell.get_initial_state(**arguments)
        assert [each.shape for each in tf.nest.flatten(states)] == [(5, 3)] * len(first)
        assert isinstance(states, list) == (name == "LSTM")
    assert layer.get_initial_state(5)[0].shape == (5, 3)  # as in Keras 3


class Scaled(tf.keras.layers.Layer):
    def build(self, input_shape):
        assert input_shape == (None, 4)
        assert input_shape.as_list() == [None, 4]
        self.scale = self.add_weight("scale", shape=[input_shape[-1].value], initializer="ones")
        super().build(input_shape)

    def call(self, inputs):
        return inputs * self.scale

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape.as_list()[1])


def test_layers_are_built_with_tensorflows_shapes(tmp_path):
    inputs = tf.keras.Input((4,))
    model = tf.keras.Model(inputs, Scaled()(inputs))
    assert model.output_shape == (None, 4)
    model.save(tmp_path / "model.keras")
    again = tf.keras.models.load_model(tmp_path / "model.keras", custom_objects={"Scaled": Scaled})
    np.testing.assert_array_equal(again.predict(X, verbose=0), X)


def test_a_layer_of_several_inputs_is_built_with_a_shape_of_each():
    class Sum(tf.keras.layers.Layer):
        def build(self, input_shape):
            self.sizes = [shape.as_list() for shape in input_shape]

        def call(self, inputs):
            return inputs[0] + inputs[1]

    layer = Sum()
    layer([tf.ones((2, 4)), tf.ones((2, 1))])
    assert layer.sizes == [[2, 4], [2, 1]]


def test_the_layers_in_a_layer_are_its_submodules():
    inner = keras.layers.Dense(2)
    model = keras.Sequential([inner, keras.layers.ReLU()])
    assert inner in model.submodules
    assert len(model.submodules) == 2


@two_scopes
def test_data_that_no_input_has_the_name_of_is_left_out(scope):
    with scope():
        inputs = {name: tf.keras.Input((1,), name=name) for name in ("b", "d")}
        model = tf.keras.Model(inputs, inputs["b"] - inputs["d"])
        model.compile("sgd", "mse")
    data = {name: np.full((4, 1), float(value)) for name, value in zip("abcd", (1, 20, 300, 4), strict=True)}
    np.testing.assert_array_equal(model.predict(data, verbose=0), np.full((4, 1), 16.0))
    assert model.evaluate(data, np.full((4, 1), 16.0), verbose=0) == 0
    assert float(model(data)[0, 0]) == 16


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_average_pooling_has_a_size_by_default(axes):
    kind = getattr(tf.keras.layers, f"AveragePooling{axes}D")
    layer = kind.from_config(kind(data_format="channels_last").get_config())
    assert (layer.pool_size, layer.strides) == ((2,) * axes, (2,) * axes)
    assert kind(3, 1).pool_size == kind(pool_size=3).pool_size == (3,) * axes


@pytest.mark.parametrize("kind", ["MaxPool1D", "MaxPool2D", "AveragePooling3D"])
def test_the_padding_of_pooling_layers_may_be_in_capital_letters(kind):
    layer = getattr(tf.keras.layers, kind)(2, padding="SAME")
    assert layer.get_config()["padding"] == "same"
    assert layer(np.zeros((1, *[3] * int(kind[-2]), 1))).shape[1] == 2


def test_schedules_have_their_old_names():
    class Later(tf.keras.experimental.CosineDecay):
        def __init__(self, name=None):
            super().__init__(0.1, 10, alpha=0.1, name=name)

        def __call__(self, step):
            return super().__call__(step - 5)

    assert float(Later()(5)) == pytest.approx(0.1)
    assert isinstance(
        tf.keras.experimental.CosineDecayRestarts(0.1, 5), tf.keras.optimizers.schedules.LearningRateSchedule
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda size: tf.keras.layers.Embedding(size, output_dim=size),
        lambda size: tf.keras.layers.MultiHeadAttention(num_heads=size, key_dim=size),
        lambda size: tf.keras.layers.LSTM(size),
        lambda size: tf.keras.layers.Conv2D(size, size),
        lambda size: tf.keras.layers.RepeatVector(size),
    ],
    ids=["Embedding", "MultiHeadAttention", "LSTM", "Conv2D", "RepeatVector"],
)
@pytest.mark.parametrize(
    "size", [np.int32(3), np.array(3), tf.constant(3)], ids=["scalar", "array", "tensor"]
)
def test_sizes_of_layers_may_be_integers_of_arrays(make, size):
    given, plain = make(size), make(3)
    without_name = operator.methodcaller("pop", "name")
    configs = [each.get_config() for each in (given, plain)]
    for each in configs:
        without_name(each)
    assert configs[0] == configs[1]
    assert isinstance(type(given).from_config(given.get_config()), type(given))


@pytest.mark.parametrize("units", [np.int64(3), np.array(3), 3.0], ids=["scalar", "array", "float"])
def test_that_a_dense_layer_takes_any_number_as_its_size(units):
    layer = tf.keras.layers.Dense(units, activation="relu")
    assert layer(X).shape == (16, 3)
    assert layer.get_config()["units"] == 3
    assert "kernel_initializer" in inspect.signature(tf.keras.layers.Dense).parameters


def test_that_a_tensor_is_the_size_of_a_dense_layer():
    assert tf.keras.layers.Dense(tf.math.reduce_prod((2, 2)).numpy())(X).shape == (16, 4)


def test_that_models_take_an_optimizer_of_tensorflow_1():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(tf.compat.v1.train.GradientDescentOptimizer(0.5), "mse")
    assert model.optimizer.get_config()["learning_rate"] == 0.5
    model.fit(np.ones((2, 4)), np.ones((2, 1)), verbose=0)
    assert model.get_weights()[0].ravel().tolist() == [1.0] * 4


def test_the_input_of_an_input_layer_is_its_tensor():
    inputs = tf.keras.Input((3,), name="rows")
    hidden = tf.keras.layers.Dense(2, name="hidden")(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(hidden))
    part = tf.keras.Model(model.get_layer("rows").input, model.get_layer("hidden").output)
    assert part(np.ones((4, 3), "float32")).shape == (4, 2)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Nadam", "Ftrl"])
def test_an_optimizer_takes_further_variables(kind):
    """As those of TensorFlow 2.0 to 2.10 do, and the legacy ones later."""
    found = []
    for all_at_once in (True, False):
        optimizer = getattr(tf.keras.optimizers, kind)(0.1)
        first, second = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
        if all_at_once:
            optimizer.build([first, second])
        for variable in (first, second, first, second):
            optimizer.apply_gradients([(tf.ones_like(variable), variable)])
        found.append([*first.numpy(), second.numpy()])
    assert found[0] == found[1]
    third = tf.Variable([5.0])

    @tf.function
    def step():
        optimizer.apply_gradients([(tf.ones([1]), third), (tf.ones([]), second)])

    step()
    assert third.numpy()[0] < 5
    assert second.numpy() < found[0][2]


@pytest.mark.parametrize("by_name", [False, True])
def test_metrics_are_the_third_argument_of_compile_and_may_be_one(by_name):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    one = tf.keras.metrics.MeanSquaredError(name="mine")
    if by_name:
        model.compile(metrics=one, weighted_metrics="mae")
    else:
        model.compile("sgd", "mse", [one, "mae"], [2.0])
    names = model.evaluate(np.ones((2, 2)), np.ones((2, 1)), verbose=0, return_dict=True)
    assert names.keys() == {"loss", "mine", "mae"}
    if not by_name:
        assert names["loss"] == pytest.approx(2 * names["mine"])
    model.compile("sgd", "mse", [3.0], ["mae"])  # Keras 3's order
    names = model.evaluate(np.ones((2, 2)), np.ones((2, 1)), verbose=0, return_dict=True)
    assert names.keys() == {"loss", "mae"}


def test_the_rate_of_the_next_step_has_its_older_name():
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    optimizer = tf.keras.optimizers.Adam(schedule)
    optimizer.build([tf.Variable(1.0)])
    optimizer.iterations.assign(1)
    assert float(optimizer._decayed_lr(tf.float32).numpy()) == 0.25
    assert optimizer._decayed_lr("float16").dtype == tf.float16
    assert float(tf.keras.optimizers.SGD(0.1)._decayed_lr(tf.float32)) == pytest.approx(0.1)


@pytest.mark.parametrize("owner", ["keras.optimizers.legacy", "compat.v1.keras.optimizers"])
def test_the_rate_of_an_older_optimizer_is_its_schedule(owner):
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    optimizer = operator.attrgetter(owner)(tf).Adam(schedule)
    assert optimizer.learning_rate is schedule
    variable = tf.Variable(1.0)
    optimizer.apply_gradients([(tf.ones([]), variable)])
    assert float(optimizer.learning_rate(optimizer.iterations)) == 0.25
    assert float(optimizer._decayed_lr(tf.float32)) == 0.25
    assert variable.numpy() == pytest.approx(0.5, abs=1e-5)

    class Own(operator.attrgetter(owner)(tf).Adam):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            return super()._resource_apply_dense(2.0 * grad, var)

    own, other = Own(schedule), tf.Variable(1.0)
    own.apply_gradients([(tf.ones([]), other)])
    assert other.numpy() == pytest.approx(0.5, abs=1e-5)


def test_a_model_with_a_call_of_its_own_has_no_inputs():
    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    model = Own()
    assert (model.inputs, model.outputs) == (None, None)
    model(tf.ones([2, 3]))
    assert model.inputs is None
    functional = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(2)])
    assert [each.shape for each in functional.inputs] == [(None, 3)]


def test_a_layer_without_a_call_returns_its_inputs():
    class Labelled(keras.layers.Layer):
        def __init__(self, labels, **kwargs):
            self.labels = labels
            super().__init__(**kwargs)

    model = keras.Sequential([keras.Input((2,)), Labelled(["a", "b"])])
    assert model.output_shape == (None, 2)
    assert model.predict(np.ones((1, 2)), verbose=0).tolist() == [[1, 1]]
    assert keras.layers.Layer()(np.float32(3)) == 3


def test_noise_of_any_width():
    layer = tf.keras.layers.GaussianNoise(15.0)
    assert layer.get_config()["stddev"] == 15.0
    assert 10 < float(tf.math.reduce_std(layer(tf.zeros((1000,)), training=True))) < 20
    with pytest.raises(ValueError, match="stddev"):
        tf.keras.layers.GaussianNoise(-1.0)


def test_a_model_tells_penalties_of_weights_from_other_losses():
    x = np.ones((2, 3), np.float32)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(2, kernel_regularizer="l2", activity_regularizer="l1", input_shape=(3,)),
            tf.keras.layers.Dense(1, kernel_regularizer="l2"),
        ]
    )
    model(x)
    kernels = [0.01 * float(np.sum(np.square(layer.kernel))) for layer in model.layers]
    np.testing.assert_allclose(model.get_losses_for(None), kernels, rtol=1e-6)
    assert len(model.get_losses_for(x)) == 1
    np.testing.assert_allclose(model.get_losses_for(x) + model.get_losses_for(None), model.losses)
    assert (model.updates, model.get_updates_for(None), model.get_updates_for(x)) == ([], [], [])
    with tf.name_scope("a"):
        assert model.name_scope() == f"a/{model.name}/"


def test_a_keras_optimizer_gets_the_updates_of_a_step():
    def model_fn(features, labels, mode):
        w = tf.Variable(2.0, name="w")
        loss = tf.reduce_sum(w * w * features["x"])
        optimizer = tf.keras.optimizers.SGD(0.1)
        optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
        (gradient,) = optimizer.get_gradients(loss, [w])
        (train_op,) = optimizer.get_updates(loss, [w])
        hook = tf.estimator.LoggingTensorHook({"gradient": gradient}, every_n_iter=1)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=tf.group(train_op, []), training_hooks=[hook]
        )

    estimator = tf.estimator.Estimator(model_fn)
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": np.ones(1, np.float32)}), steps=1)
    np.testing.assert_allclose(estimator.get_variable_value("w"), 1.6)
    assert int(estimator.get_variable_value("global_step")) == 1


def test_numbers_of_steps_may_be_floats():
    data = tf.data.Dataset.from_tensors((np.ones((1, 1), np.float32), np.ones((1, 1), np.float32))).repeat()
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data, steps_per_epoch=np.ceil(3 / 2), validation_data=data, validation_steps=1.5, verbose=0)
    assert int(model.optimizer.iterations) == 2
    assert model.predict(data, steps=np.float32(2.5), verbose=0).shape == (3, 1)
