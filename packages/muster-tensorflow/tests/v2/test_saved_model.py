"""TensorFlow's tutorial "Save and load a model using a distribution strategy", step by step."""

import numpy as np
import pytest

import muster
import muster_tensorflow as tf

# Keras' variables have the __array__ of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")

IMAGES = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
LABELS = np.arange(12) % 3


def datasets():
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(4)
    return data, data.map(lambda image, label: image)


def built():
    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        model = tf.keras.Sequential(
            [tf.keras.Input((4,)), tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(3)]
        )
        model.compile(tf.keras.optimizers.Adam(), tf.keras.losses.SparseCategoricalCrossentropy(True))
    return model


@pytest.fixture(scope="module")
def trained():
    tf.keras.utils.set_random_seed(0)
    model = built()
    model.fit(datasets()[0], epochs=1, verbose=0)
    return model, model.predict(IMAGES, verbose=0)


def test_keras_models_go_on_under_another_strategy(trained, tmp_path):
    model, expected = trained
    model.save(tmp_path / "model.keras")
    for strategy in (tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy("/cpu:0")):
        with strategy.scope():
            restored = tf.keras.models.load_model(tmp_path / "model.keras")
            np.testing.assert_allclose(restored.predict(IMAGES, verbose=0), expected, rtol=1e-5)
            restored.fit(datasets()[0], epochs=1, verbose=0)
        assert int(restored.optimizer.iterations) == 6


def test_a_loaded_function_predicts(trained, tmp_path):
    model, expected = trained
    policy = tf.saved_model.experimental.VariablePolicy.EXPAND_DISTRIBUTED_VARIABLES
    options = tf.saved_model.SaveOptions(
        experimental_io_device="/job:localhost", experimental_variable_policy=policy
    )
    tf.saved_model.save(model, tmp_path / "saved", options=options)
    loaded = tf.saved_model.load(tmp_path / "saved", options=tf.saved_model.LoadOptions())
    inference_func = loaded.signatures["serving_default"]
    batches = [inference_func(batch) for batch in datasets()[1]]
    name = model.layers[-1].name
    np.testing.assert_allclose(np.concatenate([batch[name] for batch in batches]), expected, rtol=1e-5)
    np.testing.assert_allclose(loaded(IMAGES), expected, rtol=1e-5)
    assert len(loaded.variables) == len(loaded.trainable_variables) == 4


@pytest.mark.parametrize("name", ["model.keras", "model"])
def test_a_loaded_function_predicts_on_all_replicas(trained, tmp_path, name):
    model, expected = trained
    model.save(tmp_path / name)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        inference_func = tf.saved_model.load(tmp_path / name).signatures["serving_default"]
        found = []
        for batch in strategy.experimental_distribute_dataset(datasets()[1]):
            outputs = strategy.run(inference_func, args=(batch,))
            found += [each[model.layers[-1].name] for each in strategy.experimental_local_results(outputs)]
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5)


@tf.keras.saving.register_keras_serializable("tests")
class Subclassed(tf.keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = tf.keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)


def test_a_folder_that_keras_has_written_is_replaced_unless_it_has_other_files(tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    for name in ("mine", "others"):
        model.save(tmp_path / name)
    (tmp_path / "others" / "notes.txt").write_text("keep")

    tf.saved_model.save(model, tmp_path / "mine")
    with pytest.raises(muster.SavedModelError, match="something that is no saved model"):
        tf.saved_model.save(model, tmp_path / "others")

    assert "serving_default" in tf.saved_model.load(tmp_path / "mine").signatures
    assert (tmp_path / "others" / "notes.txt").read_text() == "keep"


def test_subclassed_and_functional_models(tmp_path, caplog):
    model = Subclassed()
    assert model.save_spec() is None
    tf.saved_model.save(model, tmp_path / "unbuilt")
    assert "is saved without its call, since it has not been built" in caplog.text
    assert tf.saved_model.load(tmp_path / "unbuilt").signatures == {}
    expected = model(IMAGES)
    (spec,), named = model.save_spec()
    assert (spec, named) == (tf.TensorSpec((None, *IMAGES.shape[1:]), tf.float32), {})
    tf.saved_model.save(model, tmp_path / "subclassed")
    serve = tf.saved_model.load(tmp_path / "subclassed").signatures["serving_default"]
    np.testing.assert_allclose(serve(IMAGES)["output_1"], expected, rtol=1e-5)

    left, right = tf.keras.Input((4,), name="left"), tf.keras.Input((4,), name="right")
    both = tf.keras.Model(
        {"left": left, "right": right},
        [tf.keras.layers.Dense(1, name="one")(left), tf.keras.layers.Dense(1, name="two")(right)],
    )
    tf.saved_model.save(both, tmp_path / "functional")
    serve = tf.saved_model.load(tmp_path / "functional").signatures["serving_default"]
    outputs = serve(left=IMAGES, right=2 * IMAGES)
    one, two = both({"left": IMAGES, "right": 2 * IMAGES})
    assert sorted(outputs) == ["one", "two"]
    np.testing.assert_allclose(outputs["one"], one, rtol=1e-5)
    np.testing.assert_allclose(outputs["two"], two, rtol=1e-5)


def test_what_cannot_be_saved_or_loaded_is_said(tmp_path):
    with pytest.raises(TypeError, match="takes a Keras model or a tf.Module, got"):
        tf.saved_model.save(tf.Variable(1.0), tmp_path)
    with pytest.raises(TypeError, match="signature 'serve' must be a tf.function .* got None"):
        tf.saved_model.save(built(), tmp_path, signatures={"serve": None})
    with pytest.raises(ValueError, match="'serving_default' does not say what it takes"):
        tf.saved_model.save(built(), tmp_path, signatures=tf.function(lambda x: x))
    with pytest.raises(ValueError, match="'s' takes 5, where a tf.TensorSpec is wanted"):
        tf.saved_model.save(
            built(), tmp_path, signatures={"s": tf.function(lambda x: x, input_signature=[5])}
        )
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="no saved model in"):
        tf.saved_model.load(tmp_path)


def test_functions_are_signatures(trained, tmp_path):
    model, expected = trained
    spec = tf.TensorSpec([None, 4], tf.float32, name="images")

    @tf.function(input_signature=[spec])
    def classify(images):
        probabilities = tf.nn.softmax(model(images))
        return {"probabilities": probabilities, "classes": tf.argmax(probabilities, 1)}

    @tf.function
    def scale(images, factor):
        return model(images) * factor

    scaled = scale.get_concrete_function(spec, factor=tf.TensorSpec([], tf.float32))
    signatures = {"serving_default": classify, "scaled": scaled}
    tf.saved_model.save(model, tmp_path / "saved", signatures=signatures)
    assert tf.saved_model.contains_saved_model(tmp_path / "saved")
    assert not tf.saved_model.contains_saved_model(tmp_path)

    loaded = tf.saved_model.load(tmp_path / "saved")
    found = loaded.signatures["serving_default"](IMAGES)
    np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(expected), rtol=1e-5)
    np.testing.assert_array_equal(found["classes"], np.argmax(expected, 1))
    twice = loaded.signatures["scaled"](images=IMAGES, factor=2.0)["output_0"]
    np.testing.assert_allclose(twice, 2 * expected, rtol=1e-5)
    np.testing.assert_allclose(loaded(IMAGES), expected, rtol=1e-5)
    assert found["classes"].numpy().dtype.kind == "i"
    np.testing.assert_allclose(
        tf.keras.models.load_model(tmp_path / "saved").predict(IMAGES), expected, rtol=1e-5
    )

    model.save(str(tmp_path / "by_keras"), save_format="tf", signatures=classify)
    again = tf.saved_model.load(tmp_path / "by_keras").signatures["serving_default"](images=IMAGES)
    np.testing.assert_array_equal(again["classes"], found["classes"])
    alone = muster.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    np.testing.assert_array_equal(alone(images=IMAGES)["classes"], found["classes"])
    inside = tf.function(loaded.signatures["scaled"])(IMAGES, np.float32(2))["output_0"]
    np.testing.assert_allclose(inside, 2 * expected, rtol=1e-5)


def test_a_saved_call_predicts_on_all_replicas(trained, tmp_path):
    model, expected = trained
    tf.saved_model.save(model, tmp_path / "saved")
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        serve = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
        found = []
        for batch in strategy.experimental_distribute_dataset(datasets()[1]):
            outputs = strategy.run(serve, args=(batch,))
            found += [each[model.layers[-1].name] for each in strategy.experimental_local_results(outputs)]
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5)


def test_a_model_of_unknown_classes_still_has_its_signatures(tmp_path):
    class Unregistered(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(2)

        def call(self, inputs):
            return self.dense(inputs)

    model = Unregistered()
    expected = model(IMAGES)
    tf.saved_model.save(model, tmp_path / "saved")
    loaded = tf.saved_model.load(tmp_path / "saved")
    np.testing.assert_allclose(loaded.signatures["serving_default"](IMAGES)["output_1"], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="no Keras model that this program can load"):
        loaded(IMAGES)


def test_a_subclassed_model_of_several_inputs_has_a_signature(tmp_path):
    class Sum(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, inputs, training=False):
            first, second = inputs
            return self.dense(first) - self.dense(second)

    model = Sum()
    model([np.ones((4, 3)), np.ones((4, 3))])
    tf.saved_model.save(model, tmp_path / "sum")
    serve = tf.saved_model.load(tmp_path / "sum").signatures["serving_default"]
    found = serve(input_1=tf.constant([[1.0, 2.0, 3.0]]), input_2=tf.constant([[0.5, 0.5, 0.5]]))
    np.testing.assert_allclose(found["output_1"], [[4.5]])
