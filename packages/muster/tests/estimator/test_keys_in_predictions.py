"""Keys pass through a model_fn unchanged: text and 64-bit integers, in predictions and in exports.

What TensorFlow 2.15.1 returned for the same model_fns is in `TENSORFLOW`.
"""

import numpy as np
import pytest

import muster
from muster._errors import DatasetError
from muster._keras import keras
from muster.data import (
    BytesList,
    Dataset,
    Example,
    Feature,
    Features,
    FixedLenFeature,
    FloatList,
    Int64List,
    Placeholder,
)
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    LinearRegressor,
    PredictOutput,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
    forward_features,
)
from muster.feature_column import numeric_column
from muster.saved_model import load

pytestmark = pytest.mark.usefixtures("compiled_once")

X = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")
KEYS = {
    "text": np.array([f"id-ä{i}" for i in range(6)]),
    "int64": np.arange(6, dtype="int64") + 2**40,
    "later": np.arange(6, dtype="int64") + 2**31 - 4,  # fits into 32 bits in the first batch
    "small": np.arange(6, dtype="int64"),
    "uint64": np.arange(6, dtype="uint64") + 2**63,
    "float64": np.arange(6) + 0.123456789012,
    "rows": np.arange(12, dtype="int64").reshape(6, 2) - 2**45,
}
TENSORFLOW = {
    "text": "id-ä4".encode(),
    "int64": np.int64(1099511627780),
    "later": np.int64(2147483648),
    "small": np.int64(4),
    "uint64": np.uint64(9223372036854775812),
    "float64": np.float64(4.123456789012),
    "rows": np.array([-35184372088824, -35184372088823]),
}


def model_fn(features, labels, mode):
    out = keras.layers.Dense(1)(features["x"])
    passed = {"key": features["key"], "out": out}
    if mode == "infer":
        return EstimatorSpec(
            mode, predictions=passed, export_outputs={"serving_default": PredictOutput(passed)}
        )
    loss = keras.ops.mean((out - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op, predictions=passed)


def input_fn(keys):
    return lambda: Dataset.from_tensor_slices(({"x": X, "key": keys}, X[:, :1])).batch(3)


@pytest.mark.parametrize("kind", KEYS)
def test_predictions_have_keys_as_in_tensorflow(tmp_path, kind):
    est = Estimator(model_fn, str(tmp_path))
    est.train(lambda: input_fn(KEYS[kind])().repeat(), steps=3)
    assert est.evaluate(input_fn(KEYS[kind]))["global_step"] == 3
    found = [each["key"] for each in est.predict(input_fn(KEYS[kind]))]
    assert len(found) == 6
    np.testing.assert_array_equal(found[4], TENSORFLOW[kind])
    assert type(found[4]) is type(TENSORFLOW[kind])
    assert getattr(found[4], "dtype", None) == getattr(TENSORFLOW[kind], "dtype", None)
    (batch, _) = est.predict(input_fn(KEYS[kind]), yield_single_examples=False)
    assert batch["key"].shape == (3, *KEYS[kind].shape[1:])


@pytest.mark.parametrize("kind", ["text", "int64", "later", "uint64"])
def test_a_key_beside_columns(tmp_path, kind):
    """A canned Estimator, whose model gets the features of its columns alone."""
    est = forward_features(LinearRegressor([numeric_column("x", (2,))], model_dir=str(tmp_path)), "key")
    est.train(lambda: input_fn(KEYS[kind])().repeat(), steps=3)
    found = [each for each in est.predict(input_fn(KEYS[kind]))]
    assert sorted(found[4]) == ["key", "predictions"]
    assert found[4]["key"] == TENSORFLOW[kind]


def test_all_features_are_forwarded_as_they_were(tmp_path):
    est = forward_features(LinearRegressor([numeric_column("x", (2,))], model_dir=str(tmp_path)))
    keys = KEYS["int64"][:, None]
    found = list(est.predict(input_fn(keys)))
    assert sorted(found[0]) == ["key", "predictions", "x"]
    np.testing.assert_array_equal(found[4]["x"], X[4])
    np.testing.assert_array_equal(found[4]["key"], keys[4])


def test_a_key_that_is_not_there(tmp_path):
    est = forward_features(LinearRegressor([numeric_column("x", (2,))], model_dir=str(tmp_path)), ["id"])
    with pytest.raises(ValueError, match=r"Key 'id' is not in \['key', 'x'\]"):
        next(iter(est.predict(input_fn(KEYS["text"]))))


def test_integers_that_a_step_computes_with_have_to_fit(tmp_path):
    def doubling(features, labels, mode):
        return EstimatorSpec(mode, predictions={"key": features["key"], "twice": features["key"] * 2})

    est = Estimator(doubling, str(tmp_path))
    with pytest.raises(DatasetError, match=r"'key'.* do not fit into 32 bits.* in the input pipeline"):
        list(est.predict(input_fn(KEYS["int64"])))
    with pytest.raises(DatasetError, match="2147483648 in 'key'"):
        list(est.predict(input_fn(KEYS["later"])))
    found = list(est.predict(input_fn(KEYS["small"])))
    assert (found[4]["key"], found[4]["twice"]) == (4, 8)


@pytest.mark.parametrize("kind", ["text", "int64", "float64"])
@pytest.mark.parametrize("canned", [False, True])
@pytest.mark.parametrize("parsed", [False, True])
def test_exports_answer_keys(tmp_path, kind, canned, parsed):
    if canned:
        est = LinearRegressor([numeric_column("x", (2,))], model_dir=str(tmp_path / "model"))
        est = forward_features(est, ["key"])
    else:
        est = Estimator(model_fn, str(tmp_path / "model"))
    est.train(lambda: input_fn(KEYS[kind])().repeat(), steps=1)
    dtype = {"text": np.dtype(str), "float64": np.dtype("float32")}.get(kind, np.dtype("int64"))
    if parsed:
        spec = {"x": FixedLenFeature((2,), np.float32), "key": FixedLenFeature((), dtype)}
        receiver = build_parsing_serving_input_receiver_fn(spec)
    else:
        given = {"x": Placeholder(np.float32, (None, 2), "x"), "key": Placeholder(dtype, (None,), "key")}
        receiver = build_raw_serving_input_receiver_fn(given)
    path = est.export_saved_model(tmp_path / "export", receiver).decode()
    signature = load(path).signatures["predict" if canned else "serving_default"]
    keys = KEYS[kind][:2] if kind != "float64" else KEYS[kind][:2].astype("float32")
    wanted = [each.encode() for each in keys] if kind == "text" else keys.tolist()
    if parsed:
        asked = {"examples": [example(x, key) for x, key in zip(X, wanted, strict=False)]}
    else:
        asked = {"x": X[:2], "key": keys}
    answer = signature(**asked)
    assert answer["key"].tolist() == wanted
    assert answer["key"].dtype == (object if kind == "text" else dtype)
    assert signature.outputs["key"].shape == (None,)
    assert {len(each) for each in answer.values()} == {2}


def example(x, key):
    kinds = {bytes: "bytes_list", int: "int64_list", float: "float_list"}
    lists = {bytes: BytesList, int: Int64List, float: FloatList}
    feature = Feature(**{kinds[type(key)]: lists[type(key)](value=[key])})
    return Example(
        Features({"x": Feature(float_list=FloatList(x.tolist())), "key": feature})
    ).SerializeToString()
