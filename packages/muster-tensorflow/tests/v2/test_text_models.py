"""Models whose inputs are text."""

from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import muster_tensorflow as tf

WORDS = ["good", "fine", "bad", "poor"]
TEXTS = np.array([f"{first} {second}" for first in WORDS for second in WORDS] * 4)
LABELS = np.array([float(text.split()[0] in WORDS[:2]) for text in TEXTS], np.float32)


def functional(shape: tuple[int, ...] = (1,), length: int | None = 4) -> Any:
    vectorize = tf.keras.layers.TextVectorization(output_sequence_length=length)
    vectorize.adapt(TEXTS)
    inputs = tf.keras.Input(shape=shape, dtype=tf.string)
    x = vectorize(inputs)
    x = tf.keras.layers.Embedding(vectorize.vocabulary_size(), 4)(x)
    x = tf.keras.layers.Flatten()(x) if length else tf.keras.layers.GlobalAveragePooling1D()(x)
    return compiled(tf.keras.Model(inputs, tf.keras.layers.Dense(1, "sigmoid")(x)))


def compiled(model: Any) -> Any:
    model.compile(tf.keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    return model


def dataset(texts: Any = TEXTS, labels: Any = LABELS) -> Any:
    return tf.data.Dataset.from_tensor_slices((texts, labels)).batch(16)


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("length", [4, None])
def test_a_functional_model_learns_from_text(shape: tuple[int, ...], length: int | None) -> None:
    model = functional(shape, length)
    model.fit(TEXTS, LABELS, epochs=8, verbose=0)
    # An average of words does not know which is the first.
    assert model.evaluate(TEXTS, LABELS, verbose=0)[1] >= (0.75 if length is None else 1)
    found = model.predict(tf.constant(["good fine", "poor bad"]), verbose=0)
    assert found.shape == (2, 1)
    assert found[0] > 0.5 > found[1]
    for texts in (["good fine", "poor bad"], np.array([["good fine"], ["poor bad"]])):
        np.testing.assert_allclose(model(texts), found, rtol=1e-5)
    np.testing.assert_allclose(model.predict_on_batch(np.array(["good fine", "poor bad"])), found, rtol=1e-5)


def test_a_dataset_of_text_trains_as_arrays_do() -> None:
    model, other = functional(), functional()
    other.set_weights(model.get_weights())
    histories = [
        model.fit(TEXTS, LABELS, 16, 2, 0, shuffle=False, validation_data=(TEXTS, LABELS)).history,
        other.fit(dataset(), epochs=2, verbose=0, validation_data=dataset()).history,
    ]
    for name, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][name], rtol=1e-5)


def test_a_generator_and_a_pydataset_of_text_train() -> None:
    class Batches(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return TEXTS[index::4], LABELS[index::4]

    model = functional()
    model.fit(((TEXTS[i::4], LABELS[i::4]) for i in range(4)), verbose=0)
    first = model.evaluate(TEXTS, LABELS, verbose=0)[0]
    model.fit(Batches(), epochs=8, verbose=0)
    assert model.evaluate(Batches(), verbose=0)[0] < first


def test_batches_may_be_lists_and_come_from_any_iterator() -> None:
    model, other = functional(), functional()
    other.set_weights(model.get_weights())
    losses = [
        each.fit(batches, verbose=0, steps_per_epoch=2).history["loss"]
        for each, batches in (
            (model, ([TEXTS[i::2], LABELS[i::2]] for i in range(2))),
            (other, iter([(TEXTS[i::2], LABELS[i::2]) for i in range(2)])),
        )
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_data_that_is_distributed_already_is_refused() -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        model = functional()
    with pytest.raises(TypeError, match="is no data of a DistributedDataset: give a Dataset"):
        model.fit(strategy.experimental_distribute_dataset(dataset()))
    creator = tf.keras.utils.experimental.DatasetCreator(lambda context: dataset().repeat())
    with pytest.raises(TypeError, match="no data of a DatasetCreator"):
        model.fit(creator, steps_per_epoch=2)


def test_a_sequential_model_is_built_by_its_first_texts() -> None:
    vectorize = tf.keras.layers.TextVectorization(output_mode="multi_hot")
    vectorize.adapt(TEXTS)
    model = compiled(tf.keras.Sequential([vectorize, tf.keras.layers.Dense(1, "sigmoid")]))
    model.fit(dataset(), epochs=8, verbose=0)
    found = model.predict(["good fine", "poor bad"], verbose=0)[:, 0]
    assert found[0] > 0.5 > found[1]
    other = tf.keras.Sequential([vectorize, tf.keras.layers.Dense(2)])
    assert other(tf.constant(["good", "bad", "poor"])).shape == (3, 2)


def test_a_trained_model_gets_its_text_later() -> None:
    vectorize = tf.keras.layers.TextVectorization(output_sequence_length=4)
    vectorize.adapt(TEXTS)
    model = compiled(
        tf.keras.Sequential(
            [tf.keras.layers.Embedding(8, 4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1, "sigmoid")]
        )
    )
    numbers = dataset().map(lambda text, label: (vectorize(text), label))
    model.fit(numbers, epochs=8, verbose=0)
    whole = tf.keras.Sequential([tf.keras.Input(shape=(1,), dtype="string"), vectorize, model])
    whole.compile(loss="binary_crossentropy", metrics=["accuracy"])
    assert whole.evaluate(dataset(), verbose=0) == pytest.approx(model.evaluate(numbers, verbose=0), rel=1e-5)
    assert len(model.trainable_variables) == len(whole.trainable_variables) == 3


CITIES = ["Lima", "Oslo", "Rome"]
FEATURES: dict[str, Any] = {
    "age": np.linspace(0, 1, 64, dtype=np.float32),
    "city": np.array(["Rome", "Oslo", "Lima", "Cairo"] * 16),
    "year": np.array([1990, 1991, 1992, 1993] * 16),
    "unused": np.array(["x"] * 64),
}
IN_ROME = (FEATURES["city"] == "Rome").astype(np.float32)


def of_columns(*, nested: bool) -> Any:
    """Return a model of columns of text and numbers, which a model within it encodes."""
    inputs = {
        "age": tf.keras.Input((1,), name="age"),
        "city": tf.keras.Input((1,), name="city", dtype="string"),
        "year": tf.keras.Input((1,), name="year", dtype="int64"),
    }
    encoded = [
        tf.keras.layers.Normalization(mean=0.5, variance=1.0)(inputs["age"]),
        tf.keras.layers.StringLookup(vocabulary=CITIES, output_mode="one_hot")(inputs["city"]),
        tf.keras.layers.IntegerLookup(vocabulary=[1990, 1991], output_mode="multi_hot")(inputs["year"]),
    ]
    features: Any = tf.keras.layers.concatenate(encoded)
    if nested:
        preprocessing = tf.keras.Model(inputs, features)
        assert preprocessing({key: value[:3] for key, value in FEATURES.items()}).shape == (3, 8)
        features = preprocessing(inputs)
    return compiled(tf.keras.Model(inputs, tf.keras.layers.Dense(1, "sigmoid")(features)))


@pytest.mark.parametrize("nested", [False, True])
def test_columns_of_text_are_encoded_in_the_model(nested: bool) -> None:
    model = of_columns(nested=nested)
    data = tf.data.Dataset.from_tensor_slices((FEATURES, IN_ROME)).batch(16)
    model.fit(data, epochs=20, verbose=0)
    given = {key: value for key, value in FEATURES.items() if key != "unused"}
    assert model.evaluate(given, IN_ROME, verbose=0)[1] == 1
    one = {"age": tf.constant([[0.5]]), "city": tf.constant([["Rome"]]), "year": tf.constant([[1990]])}
    assert model.predict(one, verbose=0)[0, 0] > 0.5
    with pytest.raises(ValueError, match=r"has an input 'year', and the data has age, city"):
        model.predict({"age": FEATURES["age"], "city": FEATURES["city"]}, verbose=0)


def test_a_table_of_columns_is_data() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(FEATURES)
    model = of_columns(nested=False)
    model.fit(table, IN_ROME, epochs=20, verbose=0)
    assert model.evaluate(table, IN_ROME, verbose=0)[1] == 1


def test_a_model_that_takes_text_is_a_part_of_another_and_learns() -> None:
    embed = tf.keras.Sequential(
        [
            tf.keras.Input(shape=(), dtype=tf.string),
            tf.keras.layers.StringLookup(vocabulary=CITIES),
            tf.keras.layers.Embedding(4, 3),
        ]
    )
    before = embed(np.array(["Rome"]))
    inputs = tf.keras.Input(shape=(), dtype=tf.string)
    model = compiled(tf.keras.Model(inputs, tf.keras.layers.Dense(1, "sigmoid")(embed(inputs))))
    model.fit(FEATURES["city"], IN_ROME, epochs=20, verbose=0)
    assert model.evaluate(FEATURES["city"], IN_ROME, verbose=0)[1] == 1
    assert not np.allclose(embed(np.array(["Rome"])), before)


def test_text_is_changed_before_it_is_looked_up() -> None:
    inputs = tf.keras.Input(shape=(), dtype=tf.string)
    x = tf.keras.layers.Lambda(lambda text: tf.strings.lower(text))(inputs)
    x = tf.strings.regex_replace(x, "!", "")
    x = keras.ops.expand_dims(x, -1)
    lookup = tf.keras.layers.StringLookup(vocabulary=["lima", "rome"], output_mode="multi_hot")
    model = tf.keras.Model(inputs, lookup(x))
    assert model(tf.constant(["Rome!", "LIMA", "Oslo"])).numpy().tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("devices", [1, 2])
def test_every_strategy_trains_on_text_alike(devices: int) -> None:
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{number}" for number in range(devices)])
    alone = functional()
    with strategy.scope():
        model = functional()
    model.set_weights(alone.get_weights())
    expected = alone.fit(TEXTS, LABELS, 16, 2, 0, shuffle=False).history
    found = model.fit(dataset(), epochs=2, verbose=0).history
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-4)


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_it_is_saved_with_its_vocabulary(tmp_path: Path, name: str) -> None:
    model = functional()
    model.fit(TEXTS, LABELS, verbose=0)
    model.save(tmp_path / name)
    loaded = tf.keras.models.load_model(tmp_path / name)
    np.testing.assert_allclose(loaded(TEXTS[:3]), model(TEXTS[:3]), rtol=1e-6)
    loaded.fit(TEXTS, LABELS, verbose=0)


def test_text_is_no_input_of_what_is_exported(tmp_path: Path) -> None:
    model = functional()
    with pytest.raises(ValueError, match="is text, and what is exported computes numbers"):
        tf.saved_model.save(model, tmp_path / "whole")
    numbers = tf.keras.Model(model.layers[1].output, model.outputs)
    tf.saved_model.save(numbers, tmp_path / "part")
    served = tf.saved_model.load(tmp_path / "part").signatures["serving_default"]
    read = model.layers[1](TEXTS[:3])
    (found,) = served(tf.cast(read, tf.int32)).values()
    np.testing.assert_allclose(found, model(TEXTS[:3]), rtol=1e-6)


def test_a_model_with_a_call_of_its_own_reads_text_in_eager_code() -> None:
    class Classifier(tf.keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lookup = tf.keras.layers.StringLookup(vocabulary=CITIES)
            self.embedding = tf.keras.layers.Embedding(4, 3)

        def call(self, inputs: Any) -> Any:
            return self.embedding(self.lookup(inputs["city"]))

    model = Classifier()
    found = model({"city": np.array(["Rome", "Oslo", "Rome"])})
    assert found.shape == (3, 3)
    np.testing.assert_array_equal(found[0], found[2])
    assert len(model.trainable_variables) == 1


def test_a_tape_differentiates_what_text_becomes() -> None:
    model = functional()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(TEXTS[:4]) - LABELS[:4, None]) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(np.any(np.asarray(each)) for each in gradients)


def test_weights_before_text_and_text_that_is_returned_are_refused() -> None:
    number = tf.keras.Input((2,))
    found = tf.keras.layers.IntegerLookup(vocabulary=[1])(
        tf.keras.layers.Lambda(lambda x: keras.ops.cast(x, "int32"))(tf.keras.layers.Dense(1)(number))
    )
    model = compiled(tf.keras.Model(number, tf.keras.layers.Embedding(3, 1)(found)))
    with pytest.raises(ValueError, match="'dense.*' has weights, and text comes after it"):
        model.fit(np.zeros((4, 2), np.float32), np.zeros(4), verbose=0)
    index = tf.keras.Input((), dtype="int64")
    back = tf.keras.layers.StringLookup(vocabulary=["a"], invert=True)
    with pytest.raises(ValueError, match="returns text, and no array of JAX holds text"):
        tf.keras.Model(index, back(index))(np.array([0]))
    with pytest.raises(ValueError, match="needs its vocabulary before it is a part of a model"):
        tf.keras.layers.StringLookup(output_mode="one_hot")(tf.keras.Input((1,), dtype=tf.string))
    with pytest.raises(TypeError, match="takes no values of compiled functions"):
        jax.jit(tf.keras.layers.IntegerLookup(vocabulary=[1]))(np.array([1]))


def test_inputs_may_be_nested():
    first, second = (tf.keras.Input((1,), dtype="string", name=name) for name in ("first", "second"))
    numbers = tf.keras.Input((2,), name="numbers")
    ids = [
        tf.keras.layers.StringLookup(vocabulary=["x", "y"], output_mode="one_hot")(each)
        for each in (first, second)
    ]
    joined = tf.keras.layers.Concatenate()([*ids, numbers])
    model = tf.keras.Model({"texts": {"b": first, "a": second}, "rest": [numbers]}, joined)
    data = {
        "texts": {"a": np.array([["x"], ["?"]]), "b": np.array([["y"], ["y"]])},
        "rest": [np.ones((2, 2), "float32")],
    }
    expected = [[0, 0, 1, 0, 1, 0, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1]]
    np.testing.assert_array_equal(model(data), expected)
    np.testing.assert_array_equal(model.predict(data, verbose=0), expected)
    with pytest.raises(ValueError, match="takes a dict of texts, rest"):
        model.predict({"texts": data["texts"]}, verbose=0)


def test_text_that_no_layer_reads_is_left_out() -> None:
    name = tf.keras.Input((1,), dtype=tf.string, name="name")
    number = tf.keras.Input((2,), name="number")
    model = compiled(tf.keras.Model({"name": name, "number": number}, tf.keras.layers.Dense(1)(number)))
    rows = {"name": np.array([["a"]] * 4), "number": np.ones((4, 2), np.float32)}
    model.fit(rows, np.ones((4, 1), np.float32), verbose=0)
    assert model.predict(rows, verbose=0).shape == (4, 1)


def test_a_layer_of_the_program_that_looks_up_what_is_in_a_vocabulary():
    class Kind(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.lookup = tf.keras.layers.StringLookup(
                vocabulary=["x", "y", "z"], mask_token=None, num_oov_indices=0
            )

        def call(self, text):
            return tf.math.floormod(self.lookup(text), 2)

    text = tf.keras.Input((), dtype="string")
    model = tf.keras.Model(text, tf.one_hot(Kind()(text), 2))
    found = model.predict(tf.constant(["z", "y"]), verbose=0)
    np.testing.assert_array_equal(found, [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="'q' is not in the vocabulary of 3 tokens"):
        model.predict(tf.constant(["q"]), verbose=0)


@pytest.mark.parametrize("known", [True, False])
def test_fit_validates_on_all_batches_of_a_dataset(known: bool) -> None:
    words, labels = np.array(["a", "b", "c", "a"]), np.array([1.0, 2.0, 30.0, 60.0], np.float32)
    data = tf.data.Dataset.from_tensor_slices((words, labels)).batch(2)
    held_out = data if known else data.filter(lambda words, labels: True)
    model = keras.Sequential(
        [keras.layers.StringLookup(vocabulary=["a", "b", "c"]), keras.layers.Embedding(4, 1)]
    )
    model.compile("sgd", "mse")
    history = model.fit(data, validation_data=held_out, epochs=2, verbose=0)
    assert history.history["val_loss"][-1] == pytest.approx(model.evaluate(data, verbose=0))
