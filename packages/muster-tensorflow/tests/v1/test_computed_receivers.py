"""Serving receivers that compute features of placeholders, as programs for TensorFlow 1 write them."""

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster import saved_model

IMAGES = np.random.default_rng(0).integers(0, 255, (4, 8, 8), np.uint8)


def image_model(features, labels, mode):
    image = features["image"] if isinstance(features, dict) else features
    net = tf.layers.flatten(tf.layers.conv2d(image, 2, 3, activation=tf.nn.relu))
    logits = tf.layers.dense(net, 3)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"classes": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)}
        outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
    )


def prepared(images):
    return images[..., None].astype(np.float32) / 255 * 2 - 1


def trained(folder):
    estimator = tf.estimator.Estimator(image_model, str(folder / "model"))
    data = {"image": prepared(IMAGES)}, np.array([0, 1, 2, 0])
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(data).repeat().batch(4), steps=2)
    return estimator


def by_operators(image):
    return -(1 - tf.to_float(image)[..., tf.newaxis] / 255.0 * 2)


def by_functions(image):
    grey = tf.reshape(tf.cast(image, tf.float32), [tf.shape(image)[0], 8, 8, 1])
    return tf.subtract(tf.multiply(tf.divide(grey, 255.0), 2.0), 1.0)


@pytest.mark.parametrize("prepare", [by_operators, by_functions])
@pytest.mark.parametrize("single", [False, True])
def test_the_exported_model_prepares_its_inputs(prepare, single, tmp_path):
    estimator = trained(tmp_path)

    def serving_input_receiver_fn():
        raw = tf.placeholder(tf.uint8, [None, 8, 8], name="raw")
        features = prepare(raw)
        assert features.shape == (None, 8, 8, 1)
        if single:
            return tf.estimator.export.TensorServingInputReceiver(features, {"raw": raw})
        return tf.estimator.export.ServingInputReceiver({"image": features}, {"raw": raw})

    path = estimator.export_saved_model(str(tmp_path / "exported"), serving_input_receiver_fn)
    answer = saved_model.load(path).signatures["serving_default"](raw=IMAGES[:3])
    data = {"image": prepared(IMAGES[:3])}
    expected = list(
        estimator.predict(lambda: tf.data.Dataset.from_tensors(data), yield_single_examples=False)
    )
    np.testing.assert_allclose(answer["probabilities"], expected[0]["probabilities"], rtol=1e-5)
    np.testing.assert_array_equal(answer["classes"], expected[0]["classes"])


def census_receiver():
    inputs = {
        "age": tf.placeholder(tf.float32, [None]),
        "hours": tf.placeholder(tf.float32, [None]),
        "work": tf.placeholder(tf.string, [None]),
    }
    features = {key: tf.expand_dims(tensor, -1) for key, tensor in inputs.items()}
    features["hours"] = features["hours"] / 10
    return tf.estimator.export.ServingInputReceiver(features, inputs)


PEOPLE = {
    "age": np.array([20, 40, 60], np.float32),
    "hours": np.array([4, 3, 1], np.float32),
    "work": np.array(["private", "state", "none"]),
}


def census(hours, folder, people=PEOPLE):
    age = tf.feature_column.numeric_column("age")
    work = tf.feature_column.categorical_column_with_vocabulary_list("work", ["private", "state"])
    columns = [
        hours,
        tf.feature_column.indicator_column(work),
        tf.feature_column.indicator_column(tf.feature_column.bucketized_column(age, [30, 50])),
    ]
    estimator = tf.estimator.DNNClassifier([4], columns, str(folder / "model"))
    data = people, np.array([0, 1, 1])
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(data).repeat().batch(3), steps=2)
    return estimator


def test_columns_read_what_was_made_a_column(tmp_path):
    estimator = census(tf.feature_column.numeric_column("hours"), tmp_path)
    path = estimator.export_saved_model(str(tmp_path / "exported"), census_receiver)
    asked = PEOPLE | {"hours": PEOPLE["hours"] * 10}
    answer = saved_model.load(path).signatures["predict"](**asked)
    data = tf.data.Dataset.from_tensors(PEOPLE)
    expected = next(iter(estimator.predict(lambda: data, yield_single_examples=False)))
    np.testing.assert_allclose(answer["probabilities"], expected["probabilities"], rtol=1e-5)


def test_a_column_of_the_host_reads_what_the_receiver_computes(tmp_path):
    hours = tf.feature_column.categorical_column_with_hash_bucket("hours", 5, tf.int64)
    people = PEOPLE | {"hours": np.array([4, 3, 1])}
    estimator = census(tf.feature_column.indicator_column(hours), tmp_path, people)

    def receiver():
        found = census_receiver()
        features = {**found.features, "hours": tf.cast(found.receiver_tensors["hours"], tf.int32) + 1}
        return tf.estimator.export.ServingInputReceiver(features, found.receiver_tensors)

    path = estimator.export_saved_model(str(tmp_path / "exported"), receiver)
    asked = PEOPLE | {"hours": np.array([3, 2, 0], np.float32)}
    answer = saved_model.load(path).signatures["predict"](**asked)
    data = tf.data.Dataset.from_tensors(people)
    expected = next(iter(estimator.predict(lambda: data, yield_single_examples=False)))
    np.testing.assert_allclose(answer["probabilities"], expected["probabilities"], rtol=1e-5)


def test_buckets_and_numbers_are_of_what_the_receiver_computes(tmp_path):
    hours = tf.feature_column.numeric_column("hours")
    estimator = census(tf.feature_column.bucketized_column(hours, [1.5, 3.5]), tmp_path)
    path = estimator.export_saved_model(str(tmp_path / "exported"), census_receiver)
    asked = PEOPLE | {"hours": PEOPLE["hours"] * 10}
    answer = saved_model.load(path).signatures["predict"](**asked)
    data = tf.data.Dataset.from_tensors(PEOPLE)
    expected = next(iter(estimator.predict(lambda: data, yield_single_examples=False)))
    np.testing.assert_allclose(answer["probabilities"], expected["probabilities"], rtol=1e-5)


def test_unknown_ranks_and_what_fails_are_told():
    with pytest.raises(ValueError, match="has an unknown rank: give it a shape"):
        tf.cast(tf.placeholder(tf.int32), tf.float32)
    with pytest.raises(ValueError, match="to_number cannot be computed of .*, for which words, numbers and"):
        tf.strings.to_number(tf.strings.join([tf.placeholder(tf.string, [None]), "x"]))
    with pytest.raises(TypeError, match="not iterable"):
        list(tf.placeholder(tf.float32, [None]))


WORDS = [" no", " yes"]


def town_model(features, labels, mode):
    towns = tf.feature_column.categorical_column_with_vocabulary_list("town", ["ulm", "bonn"])
    columns = [tf.feature_column.numeric_column("age"), tf.feature_column.indicator_column(towns)]
    logits = tf.layers.dense(tf.feature_column.input_layer(features, columns), 2)
    words = tf.constant(WORDS)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"class": tf.gather(words, tf.argmax(logits, 1)), "logits": logits}
        return tf.estimator.EstimatorSpec(mode, predictions)
    numbers = tf.squeeze(tf.contrib.lookup.index_table_from_tensor(words).lookup(labels), axis=[1])
    loss = tf.losses.sparse_softmax_cross_entropy(numbers, logits)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
    )


def parsed(lines):
    names, defaults = ["id", "age", "town", "label"], [[0], [1.0], [""], [""]]
    features = dict(zip(names, tf.decode_csv(lines, defaults), strict=True))
    features.pop("id")
    return {name: tf.expand_dims(value, -1) for name, value in features.items()}


@pytest.mark.parametrize("as_rows", [False, True])
def test_the_exported_model_reads_lines(as_rows, tmp_path):
    def input_fn():
        lines = tf.data.Dataset.from_tensor_slices(["1,2.0,ulm, yes", "2,3.0,bonn, no"])
        features = lines.map(parsed).batch(2)
        return features.map(lambda each: ({"age": each["age"], "town": each["town"]}, each["label"]))

    def serving_input_receiver_fn():
        lines = tf.placeholder(tf.string, [None])
        if not as_rows:
            features = parsed(lines)
        else:
            names = ["id", "age", "town", "label"]
            columns = tf.decode_csv(tf.expand_dims(lines, -1), [[0], [1.0], [""], [""]])
            features = dict(zip(names, columns, strict=True))
        features.pop("label")
        return tf.estimator.export.ServingInputReceiver(features, {"line": lines})

    estimator = tf.estimator.Estimator(town_model, str(tmp_path / "model"))
    estimator.train(input_fn, steps=1)
    estimator.evaluate(input_fn)
    path = estimator.export_saved_model(str(tmp_path / "exported"), serving_input_receiver_fn)
    signature = saved_model.load(path).signatures["serving_default"]
    answer = signature(line=["1,2.0,ulm, yes", b'7,,"bonn",', "8,1,bonn,"])
    predicted = list(estimator.predict(input_fn))
    assert predicted[0]["class"] in (b" no", b" yes")
    assert answer["class"][0] == predicted[0]["class"]
    np.testing.assert_allclose(answer["logits"][0], predicted[0]["logits"], rtol=1e-5)
    np.testing.assert_array_equal(answer["logits"][1], answer["logits"][2])
    with pytest.raises(ValueError, match="Expect 4 fields but have 2"):
        signature(line=["1,2"])
    with pytest.raises(ValueError, match="Field 1 cannot be read as float32"):
        signature(line=["1,old,ulm,"])


def test_lines_are_placeholders_of_a_vector():
    features = tf.placeholder(tf.float32, [None])
    with pytest.raises(ValueError, match="2 record_defaults for 1 columns"):
        tf.decode_csv(features, [[0], [0]], select_cols=[1])
    with pytest.raises(TypeError, match="CSV of a vector of lines"):
        tf.decode_csv(tf.placeholder(tf.string, [None, 2]), [[0]])


def test_known_text_is_an_answer(tmp_path):
    def model_fn(features, labels, mode):
        logits = tf.layers.dense(features["x"], 2)
        output = tf.estimator.export.ClassificationOutput(logits, tf.constant([["no", "yes"]]))
        loss = tf.reduce_mean(logits)
        train_op = tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
        outputs = {"serving_default": output}
        return tf.estimator.EstimatorSpec(mode, logits, loss, train_op, export_outputs=outputs)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [[1.0]]}), steps=1)
    spec = {"x": tf.FixedLenFeature([1], tf.float32)}
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    path = estimator.export_saved_model(str(tmp_path / "exported"), receiver_fn)
    feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))}
    example = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    answer = saved_model.load(path).signatures["serving_default"](inputs=[example])
    assert answer["classes"].tolist() == [[b"no", b"yes"]]
