"""What tf. functions make of keys among the features, in predictions and exports, as in TensorFlow 2.15.1."""

import numpy as np
import pytest

import muster_tensorflow as tf

v1 = tf.compat.v1
X = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")
KEYS = {"text": np.array([f"id-{i}" for i in range(6)]), "int64": np.arange(6, dtype="int64") + 2**40}
# Of the fifth example, as TensorFlow predicts it.
PREDICTED = {
    "text": {"key": b"id-4", "id": b"id-4", "column": [b"id-4"], "text": b"ID-4", "count": 7},
    "int64": {
        "key": 1099511627780,
        "id": 1099511627780,
        "column": [1099511627780],
        "text": b"1099511627780",
        "count": 7,
    },
}


def model_fn(features, labels, mode, params):
    out = v1.layers.dense(features["x"], 1)
    key = features["key"]
    if mode == "infer":
        text = tf.strings.upper(key) if params["kind"] == "text" else tf.strings.as_string(key)
        passed = {"key": key, "id": tf.identity(key), "column": tf.expand_dims(key, -1), "text": text}
        count = tf.fill([tf.shape(key)[0]], 7)
        return tf.estimator.EstimatorSpec(mode, predictions=passed | {"out": out, "count": count})
    loss = tf.reduce_mean((out - labels) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize("kind", KEYS)
def test_functions_of_keys(tmp_path, kind):
    def input_fn():
        return tf.data.Dataset.from_tensor_slices(({"x": X, "key": KEYS[kind]}, X[:, :1])).batch(3)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"), params={"kind": kind})
    estimator.train(lambda: input_fn().repeat(), steps=2)
    found = list(estimator.predict(lambda: input_fn().map(lambda features, labels: features)))[4]
    for name, value in PREDICTED[kind].items():
        assert np.asarray(found[name]).tolist() == value, name
    dtype = {"text": tf.string, "int64": tf.int64}[kind]
    spec = {"x": tf.io.FixedLenFeature((2,), tf.float32), "key": tf.io.FixedLenFeature((), dtype)}
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    exported = tf.saved_model.load(estimator.export_saved_model(str(tmp_path / "export"), receiver).decode())
    train = tf.train
    feature = {
        "x": train.Feature(float_list=train.FloatList(value=[0.1, 0.2])),
        "key": train.Feature(bytes_list=train.BytesList(value=[b"abc"]))
        if kind == "text"
        else train.Feature(int64_list=train.Int64List(value=[2**41])),
    }
    example = train.Example(features=train.Features(feature=feature)).SerializeToString()
    answer = exported.signatures["serving_default"](examples=[example])
    found = {name: np.asarray(value).tolist() for name, value in answer.items() if name != "out"}
    key, text = (b"abc", b"ABC") if kind == "text" else (2**41, b"2199023255552")
    assert found == {"key": [key], "id": [key], "column": [[key]], "text": [text], "count": [7]}
