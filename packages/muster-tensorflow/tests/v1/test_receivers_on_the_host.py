"""Serving receivers that decode images and compute with text, as programs for TensorFlow write them."""

import base64
import io

import numpy as np
import pytest

import muster_tensorflow as tf2
import muster_tensorflow.compat.v1 as tf
from muster import saved_model

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(0).integers(0, 255, (3, 5, 6, 3), np.uint8)


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def mean_model(features, labels, mode):
    """Answer the mean of each example's numbers, of which it has a variable."""
    values = features["x"] if isinstance(features, dict) else features
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    means = tf.reduce_mean(tf.cast(values, tf.float32), axis=list(range(1, len(values.shape)))) * weight
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"means": means})
    loss = tf.reduce_mean(means) * 0.0
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture(scope="module")
def estimator(tmp_path_factory):
    made = tf.estimator.Estimator(mean_model, str(tmp_path_factory.mktemp("model")))
    made.train(lambda: tf.data.Dataset.from_tensors({"x": np.zeros((2, 3), np.float32)}), steps=1)
    return made


def exported(estimator, receiver_fn, folder):
    path = estimator.export_saved_model(str(folder), receiver_fn)
    return saved_model.load(path).signatures["serving_default"]


def test_a_placeholder_with_a_default_is_given_by_requests(estimator, tmp_path):
    def receiver():
        x = tf.placeholder_with_default(tf.constant([[1.0, 2.0, 3.0]]), [None, 3])
        key = tf.placeholder_with_default(tf.constant(["nokey"]), [None])
        assert (key.shape, key.dtype) == ((None,), tf.string)
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x, "key": key})

    found = exported(estimator, receiver, tmp_path)(x=np.ones((2, 3), np.float32), key=["a", "b"])
    assert found["means"].tolist() == [1, 1]


def test_a_batch_of_images_is_decoded_and_scaled(estimator, tmp_path):
    def decoded(image):
        image = tf.image.decode_jpeg(image, channels=3)
        image = tf.image.convert_image_dtype(image, tf.float32)
        return tf.image.resize_images(image, [4, 4])

    def receiver():
        files = tf.placeholder(tf.string, [None], name="files")
        images = tf.map_fn(decoded, files, dtype=tf.float32)
        images.set_shape([None, 4, 4, 3])
        assert images.shape == (None, 4, 4, 3)
        return tf.estimator.export.ServingInputReceiver({"x": (images - 0.5) * 2.0}, {"files": files})

    ask = exported(estimator, receiver, tmp_path)
    answer = ask(files=[png(each) for each in PIXELS])["means"]
    wanted = [(decoded(png(each)) - 0.5) * 2.0 for each in PIXELS]
    np.testing.assert_allclose(answer, np.mean(wanted, axis=(1, 2, 3)), rtol=1e-4)
    with pytest.raises(ValueError, match="features cannot be made of the inputs: These 3 bytes are no image"):
        ask(files=[b"abc"])


def test_one_image_in_base64_becomes_a_batch(estimator, tmp_path):
    def receiver():
        file = tf.placeholder(tf.string, [], name="file")
        image = tf.io.decode_png(tf.io.decode_base64(file), channels=1)
        batch = tf.expand_dims(tf2.image.resize(tf.cast(image, tf.float32) / 255.0, (2, 2)), 0)
        return tf.estimator.export.TensorServingInputReceiver(batch, {"file": file})

    ask = exported(estimator, receiver, tmp_path)
    file = base64.urlsafe_b64encode(png(PIXELS[0])).rstrip(b"=")
    image = tf2.image.resize(tf2.io.decode_png(png(PIXELS[0]), channels=1) / 255, (2, 2))
    np.testing.assert_allclose(ask(file=file)["means"], [np.mean(image)], rtol=1e-4)


def test_words_are_looked_up_and_padded(estimator, tmp_path):
    table = tf2.lookup.StaticHashTable(tf2.lookup.KeyValueTensorInitializer(["no", "yes"], [3, 5]), 0)

    def receiver():
        serialized = tf.placeholder(tf.string, [None], name="examples")
        spec = {"text": tf.io.FixedLenFeature([1], tf.string), "more": tf.io.VarLenFeature(tf.int64)}
        parsed = tf.io.parse_example(serialized, spec)
        words = tf2.strings.split(tf.strings.lower(tf.squeeze(parsed["text"], axis=1)))
        numbers = table.lookup(words).to_tensor()
        more = tf.sparse.to_dense(parsed["more"])[:, :1]
        return tf.estimator.export.ServingInputReceiver(
            {"x": tf.concat([tf.cast(numbers, tf.int64), more], axis=1)}, {"examples": serialized}
        )

    ask = exported(estimator, receiver, tmp_path)

    def example(text, more):
        feature = {
            "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])),
            "more": tf.train.Feature(int64_list=tf.train.Int64List(value=[more])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    answer = ask(examples=[example(b"Yes no", 1), example(b"NO", 7)])["means"]
    np.testing.assert_allclose(answer, [(5 + 3 + 1) / 3, (3 + 0 + 7) / 3], rtol=1e-6)


def test_columns_read_text_that_the_receiver_makes(tmp_path):
    town = tf.feature_column.categorical_column_with_vocabulary_list("town", ["ulm", "bonn"])
    year = tf.feature_column.categorical_column_with_vocabulary_list("year", ["1", "2"])
    columns = [tf.feature_column.indicator_column(each) for each in (town, year)]
    estimator = tf.estimator.LinearClassifier(columns, str(tmp_path / "model"))
    data = {"town": [["ulm"], ["bonn"]], "year": [["2"], ["1"]]}, [[0], [1]]
    estimator.train(lambda: tf.data.Dataset.from_tensors(data).repeat(), steps=2)

    def receiver():
        given = {"town": tf.placeholder(tf.string, [None]), "year": tf.placeholder(tf.int32, [None])}
        features = {
            "town": tf.expand_dims(tf.strings.lower(tf.strings.strip(given["town"])), -1),
            "year": tf.as_string(tf.expand_dims(given["year"], -1)),
        }
        return tf.estimator.export.ServingInputReceiver(features, given)

    path = estimator.export_saved_model(str(tmp_path / "exported"), receiver)
    answer = saved_model.load(path).signatures["predict"](town=[" ULM", "Bonn "], year=[2, 1])
    wanted = list(estimator.predict(lambda: tf.data.Dataset.from_tensors(data[0])))
    np.testing.assert_allclose(answer["logits"], [each["logits"] for each in wanted], rtol=1e-5)
