"""The Estimator of TensorFlow's guide "Distributed training", as written there."""

import tempfile

import numpy as np
import pytest

import muster_tensorflow as tf


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_the_program_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where there is no model_dir
    mirrored_strategy = tf.distribute.MirroredStrategy()
    config = tf.estimator.RunConfig(train_distribute=mirrored_strategy, eval_distribute=mirrored_strategy)
    regressor = tf.estimator.LinearRegressor(
        feature_columns=[tf.feature_column.numeric_column("feats")], optimizer="SGD", config=config
    )

    def input_fn():
        dataset = tf.data.Dataset.from_tensors(({"feats": [1.0]}, [1.0]))
        return dataset.repeat(1000).batch(10)

    regressor.train(input_fn=input_fn, steps=10)
    metrics = regressor.evaluate(input_fn=input_fn, steps=10)
    # Each step leaves 1 - 2 * 0.2 * 2 of the error: the rate is 0.2, for the weight and for the bias.
    assert metrics["loss"] == pytest.approx(0.2**20, abs=1e-9)
    assert metrics["average_loss"] == metrics["loss"]
    assert metrics["prediction/mean"] == pytest.approx(1.0)
    assert metrics["global_step"] == 10


def test_columns_take_tensorflow_s_types_and_functions():
    column = tf.feature_column.numeric_column(
        "x", shape=[2], dtype=tf.dtypes.float64, normalizer_fn=lambda x: tf.cast(x, tf.float32) / 10.0
    )
    spec = tf.feature_column.make_parse_example_spec([tf.feature_column.numeric_column("x", dtype=tf.int64)])
    assert spec == {"x": tf.io.FixedLenFeature((1,), tf.int64)}
    np.testing.assert_allclose(column.dense_values({"x": np.array([[10, 20]])}), [[1, 2]])


def test_the_columns_of_the_guide_s_classifier():
    """From "Estimators": vocabularies, hash buckets, indicators, and what is read for them."""
    fc = tf.feature_column
    sex = fc.categorical_column_with_vocabulary_list("sex", ["female", "male"])
    occupation = fc.categorical_column_with_hash_bucket("occupation", hash_bucket_size=1000)
    columns = [fc.indicator_column(sex), fc.embedding_column(occupation, dimension=8)]
    spec = tf.estimator.classifier_parse_example_spec(columns, label_key="label")
    assert spec["sex"] == tf.io.VarLenFeature(tf.string)
    assert spec["label"] == tf.io.FixedLenFeature((1,), tf.int64)
    features = {
        "sex": tf.sparse.SparseTensor([[0, 0], [1, 0]], ["male", "other"], [2, 1]),
        "occupation": tf.SparseTensor(indices=[[0, 0]], values=[b"clerk"], dense_shape=[2, 1]),
    }
    values = tf.keras.layers.DenseFeatures(columns)(features)
    assert values.shape == (2, 10)
    np.testing.assert_array_equal(values[1], np.zeros(10))


def test_functions_of_tensorflow_1():
    fc = tf.compat.v1.feature_column
    column = fc.categorical_column_with_identity("c", 3)
    features = {"c": np.array([0, 2])}
    np.testing.assert_array_equal(fc.linear_model(features, column, units=2), np.zeros((2, 2)))
    np.testing.assert_array_equal(
        fc.input_layer(features, fc.indicator_column(column)), [[1, 0, 0], [0, 0, 1]]
    )
    sequence = tf.feature_column.sequence_numeric_column("s")
    values, lengths = tf.keras.experimental.SequenceFeatures(sequence)({"s": np.array([[1.0, 2.0, 0.0]])})
    assert (values.shape, lengths.tolist()) == ((1, 3, 1), [2])


def test_columns_of_a_data_frame_are_features():
    pandas = pytest.importorskip(
        "pandas", reason="the features are a data frame of pandas, which is not installed"
    )
    frame = pandas.DataFrame({"class": ["First", "Third"], "age": [3, 40]})
    classes = tf.feature_column.categorical_column_with_vocabulary_list("class", ["First", "Second", "Third"])
    columns = [tf.feature_column.indicator_column(classes), tf.feature_column.numeric_column("age")]
    outputs = tf.keras.layers.DenseFeatures(columns)(dict(frame))
    np.testing.assert_array_equal(outputs, [[3, 1, 0, 0], [40, 0, 0, 1]])
