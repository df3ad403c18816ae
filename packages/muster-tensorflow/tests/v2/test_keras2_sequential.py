"""A Sequential without an Input takes inputs of any shape that its layers take, as in Keras 2.

It fails when what is used of Keras changes.
"""

import numpy as np
import pytest

import muster_tensorflow as tf

IMAGE = np.arange(6 * 5 * 3, dtype="float32").reshape(6, 5, 3)


def resizing():
    return tf.keras.Sequential([tf.keras.layers.Resizing(4, 4), tf.keras.layers.Rescaling(2.0)])


def test_that_an_image_may_come_before_a_batch_of_them():
    model = resizing()
    one = np.asarray(model(IMAGE))
    both = np.asarray(model(np.stack([IMAGE, IMAGE + 1])))
    assert one.shape == (4, 4, 3)
    np.testing.assert_allclose(both[0], one, rtol=1e-6)
    assert model(IMAGE).shape == (4, 4, 3)


def test_that_batches_may_have_other_sizes_later():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dropout(0.5)])
    assert model(np.ones((1, 7, 3), "float32")).shape == (1, 7, 2)
    assert model(np.ones((4, 5, 3), "float32"), training=True).shape == (4, 5, 2)
    assert len(model.weights) == 2


def test_that_such_a_model_begins_another_one():
    first = resizing()
    first(IMAGE)
    model = tf.keras.Sequential([first, tf.keras.layers.Conv2D(2, 3)])
    assert model(IMAGE[None]).shape == (1, 2, 2, 2)


def test_that_such_a_model_takes_symbolic_inputs():
    first = resizing()
    first(IMAGE)
    inputs = tf.keras.Input((8, 8, 3))
    model = tf.keras.Model(inputs, first(inputs))
    assert model.output_shape == (None, 4, 4, 3)
    assert model.predict(np.ones((2, 8, 8, 3)), verbose=0).shape == (2, 4, 4, 3)


def test_that_such_a_model_maps_elements_and_batches():
    model = resizing()
    dataset = tf.data.Dataset.from_tensors(IMAGE).repeat(2).map(model).batch(2).map(model)
    assert next(iter(dataset)).shape == (2, 4, 4, 3)


def test_that_an_input_of_its_own_still_decides():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="shape"):
        model(np.ones((4, 5, 3), "float32"))


def test_that_such_a_model_with_a_table_begins_another_one_for_text():
    texts = np.array(["a b", "b c d", "c"])
    inner = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(9, 4),
            tf.keras.layers.GlobalMaxPooling1D(),
            tf.keras.layers.Dense(2),
        ]
    )
    inner.compile("sgd", "mse")
    inner.fit(np.ones((4, 7), "int32"), np.ones((4, 2), "float32"), verbose=0)
    to_ids = tf.keras.layers.TextVectorization(output_sequence_length=11, vocabulary=["a", "b", "c"])
    model = tf.keras.Sequential([to_ids, inner, tf.keras.layers.Activation("sigmoid")])
    model.compile(loss="mse")
    expected = 1 / (1 + np.exp(-np.asarray(inner(to_ids(texts)))))
    np.testing.assert_allclose(model.predict(texts, verbose=0), expected, rtol=1e-5)


def test_that_a_model_of_its_ends_computes_what_its_layers_do():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2), tf.keras.layers.ReLU()])
    rows = np.arange(6, dtype="float32").reshape(2, 3)
    both = tf.keras.Model(model.input, [model.layers[0].output, model.output])
    hidden, found = both(rows)
    np.testing.assert_array_equal(found, model(rows))
    np.testing.assert_array_equal(found, np.maximum(hidden, 0))


def test_that_a_model_which_is_not_built_has_no_ends():
    with pytest.raises(AttributeError, match="has never been called"):
        _ = tf.keras.Sequential([tf.keras.layers.Dense(2)]).output


ROWS = np.arange(12, dtype="float32").reshape(4, 3)


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ([tf.keras.layers.Dense(1, name="first", input_shape=(3,))], ["first_input", "input_layer"]),
        ([tf.keras.Input((3,)), tf.keras.layers.Dense(1, name="first")], ["input_1", "first_input"]),
        ([tf.keras.Input((3,), name="rows"), tf.keras.layers.Dense(1)], ["rows"]),
    ],
)
def test_that_an_input_may_have_its_name(layers, names):
    model = tf.keras.Sequential(layers)
    model.compile("sgd", "mse")
    expected = np.asarray(model(ROWS))
    for name in {*names, *model.input_names}:
        named = {name: ROWS}
        np.testing.assert_array_equal(model(named), expected)
        np.testing.assert_allclose(model.predict(named, verbose=0), expected, rtol=1e-6)
        data = tf.data.Dataset.from_tensor_slices((named, expected)).batch(2)
        assert model.evaluate(data, verbose=0) == pytest.approx(0, abs=1e-9)
    assert len(model.fit(data, verbose=0).history["loss"]) == 1
    with pytest.raises(ValueError, match=f"has the keys 'other'. Name it {model.layers[0].name}_input, or"):
        model({"other": ROWS})


def test_that_a_model_which_begins_with_one_of_a_dictionary_takes_it_whole():
    inputs = {"a": tf.keras.Input((3,), name="a"), "b": tf.keras.Input((3,), name="b")}
    first = tf.keras.Model(inputs, inputs["a"] + inputs["b"])
    model = tf.keras.Sequential([first, tf.keras.layers.ReLU()])
    np.testing.assert_array_equal(model({"a": ROWS, "b": ROWS}), 2 * ROWS)


def test_that_a_receiver_of_an_export_may_have_the_name(tmp_path):
    def model_fn(features, labels, mode):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, name="first", input_shape=(3,))])
        found = model(features)
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, predictions={"found": found})
        loss = tf.reduce_mean((found - labels) ** 2)
        train_op = tf.compat.v1.train.AdamOptimizer().minimize(loss, tf.compat.v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    data = tf.data.Dataset.from_tensor_slices(({"first_input": ROWS}, ROWS[:, :1])).batch(2)
    estimator.train(lambda: data)
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({"first_input": ROWS[:1]})
    folder = estimator.export_saved_model(str(tmp_path / "exports"), receiver).decode()
    served = tf.saved_model.load(folder).signatures["serving_default"](first_input=tf.constant(ROWS))
    predicted = estimator.predict(lambda: data, yield_single_examples=False)
    found = np.concatenate([each["found"] for each in predicted])
    np.testing.assert_allclose(served["found"], found, rtol=1e-5)
