"""Text that the ``call`` or the steps of a model's own class read."""

from typing import Any

import numpy as np

import muster_tensorflow as tf

TEXTS = np.array(["good day", "bad day", "good fine", "bad poor"] * 4)
LABELS = np.array([1.0, 0.0, 1.0, 0.0] * 4, np.float32)


def vectorizer() -> Any:
    layer = tf.keras.layers.TextVectorization(output_sequence_length=2)
    layer.adapt(TEXTS)
    return layer


class Reads(tf.keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.vectorize = vectorizer()
        self.embed = tf.keras.layers.Embedding(10, 2)
        self.out = tf.keras.layers.Dense(1, "sigmoid")

    def call(self, texts: Any) -> Any:
        ids = self.vectorize(tf.strings.regex_replace(texts, "!", ""))
        return self.out(tf.reduce_mean(self.embed(ids), 1))


def test_a_call_reads_text_in_fit_evaluate_and_predict() -> None:
    model = Reads()
    model.compile(tf.keras.optimizers.SGD(1.0), "binary_crossentropy", metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(8)
    model.fit(data, epochs=20, verbose=0, validation_data=(TEXTS[:4], LABELS[:4]))
    assert model.evaluate(data, verbose=0)[1] == 1
    found = model.predict(np.array(["good day!", "bad day"]), verbose=0)
    np.testing.assert_allclose(model(tf.constant(["good day", "bad day"])), found, rtol=1e-5)


class Ranks(tf.keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        lookup = tf.keras.layers.StringLookup(vocabulary=["a", "b"], mask_token=None)
        self.users = tf.keras.Sequential([lookup, tf.keras.layers.Embedding(3, 2)])
        self.rate = tf.keras.layers.Dense(1)

    def call(self, features: Any) -> Any:
        return self.rate(tf.concat([self.users(features["user"]), features["age"][:, None]], 1))

    def train_step(self, features: Any) -> Any:
        labels = features.pop("rating")
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels[:, None] - self(features, training=True)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def test_a_train_step_hands_text_among_numbers_to_models_within() -> None:
    features = {
        "user": np.array(["a", "b"] * 4),
        "age": np.ones(8, np.float32),
        "rating": np.array([1.0, 3.0] * 4, np.float32),
    }
    model = Ranks()
    model.compile(tf.keras.optimizers.SGD(0.1))
    losses = model.fit(
        tf.data.Dataset.from_tensor_slices(features).batch(4), epochs=40, verbose=0, shuffle=False
    ).history["loss"]
    assert losses[-1] < 0.01 < losses[0]
    rated = model({"user": np.array(["a", "b"]), "age": tf.constant([1.0, 1.0])})
    assert np.round(rated[:, 0], 0).tolist() == [1, 3]


class Translates(tf.keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.vectorize = vectorizer()
        self.table = tf.keras.layers.Embedding(10, 10)

    @tf.function
    def _preprocess(self, text: Any, target: Any) -> Any:
        return self.vectorize(text), self.vectorize(target)

    def train_step(self, pair: Any) -> Any:
        text, target = pair
        ids, wanted = self._preprocess(text, target)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.loss(wanted, self.table(ids)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"batch_loss": loss}


def test_a_train_step_reads_labels_that_are_text() -> None:
    model = Translates()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    model.compile(optimizer=tf.keras.optimizers.SGD(1.0), loss=loss)
    pairs = tf.data.Dataset.from_tensor_slices((TEXTS, TEXTS)).batch(8)
    losses = model.fit(pairs, epochs=2, verbose=0).history["batch_loss"]
    assert losses[1] < losses[0] < np.log(10) + 0.1
    assert float(model.train_step([TEXTS[:4], TEXTS[:4]])["batch_loss"]) < losses[1]


def test_a_layer_of_text_says_the_shape_of_its_input() -> None:
    class Digits(tf.keras.layers.Layer):  # type: ignore[misc]  # the class is made while the program runs
        def call(self, texts: Any) -> Any:
            return tf.strings.length(tf.strings.regex_replace(texts, b"[^0-9]", b""))

    model = tf.keras.Sequential([Digits(input_shape=[1], dtype=tf.string), tf.keras.layers.Rescaling(2.0)])
    assert model.inputs[0].dtype == "string"
    assert model.predict(np.array([["a1"], ["b23"]]), verbose=0).tolist() == [[2.0], [4.0]]


def test_keras_makes_tensors_of_text() -> None:
    texts = tf.keras.ops.convert_to_tensor(["a", "b"])
    assert (texts.shape, texts.dtype, texts.numpy().tolist()) == ((2,), tf.string, [b"a", b"b"])
    assert tf.keras.ops.convert_to_tensor([1, 2]).dtype == tf.int32
