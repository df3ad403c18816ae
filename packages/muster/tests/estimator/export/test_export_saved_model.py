"""Exported Estimators answer what they predict, in processes that have neither Keras nor the program."""

import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax.export
import numpy as np
import pytest

import muster
from muster import feature_column as fc
from muster import keras
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
    parse_example,
)
from muster.estimator import (
    BaselineRegressor,
    ClassificationOutput,
    DNNClassifier,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    Estimator,
    EstimatorSpec,
    LinearClassifier,
    PredictOutput,
    RegressionOutput,
    ServingInputReceiver,
    TensorServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
)
from muster.estimator.session import clock

ROWS = 8
RANDOM = np.random.default_rng(0)
FEATURES = {
    "x": RANDOM.random((ROWS, 3), np.float32),
    "age": RANDOM.integers(18, 90, ROWS),
    "town": np.array(["Rome", "Paris", "Oslo", "Kyiv", "Rome", "Lima", "Bonn", "Oslo"]),
    "day": np.arange(ROWS) % 7,
    "code": np.array([7, 8, 9, 7, -1, 100, 8, 9]),
    "share": RANDOM.random(ROWS, np.float32),
}
LABELS = np.arange(ROWS) % 2


def columns(folder: Path) -> tuple[list[fc.FeatureColumn], list[fc.FeatureColumn]]:
    """Return columns of all kinds: for a linear model, and for a deep one."""
    vocabulary = folder / "towns.txt"
    vocabulary.write_text("Rome\nOslo\nParis\n")
    age = fc.numeric_column("age", normalizer_fn=lambda age: (age - 40.0) / 12.5)
    town = fc.categorical_column_with_vocabulary_file("town", vocabulary, num_oov_buckets=2)
    hashed = fc.categorical_column_with_hash_bucket("town", 10)
    code = fc.categorical_column_with_vocabulary_list("code", [7, 8, 9], default_value=1)
    day = fc.categorical_column_with_identity("day", 7)
    bucketized = fc.bucketized_column(age, [-1.0, 0.0, 1.0])
    wide = [
        hashed,
        bucketized,
        fc.crossed_column(["town", bucketized, day], 50),
        fc.weighted_categorical_column(day, "share"),
    ]
    deep = [
        fc.numeric_column("x", 3),
        age,
        fc.embedding_column(town, 4),
        fc.embedding_column(code, 2, combiner="sqrtn"),
        fc.indicator_column(day),
    ]
    return wide, deep


def input_fn() -> Dataset:
    return Dataset.from_tensor_slices((FEATURES, LABELS)).batch(ROWS)


def raw_fn(keys=tuple(FEATURES)):
    return build_raw_serving_input_receiver_fn({key: FEATURES[key] for key in keys})


def predicted(estimator: Estimator, features=None) -> dict[str, np.ndarray]:
    given = FEATURES if features is None else features
    dataset = Dataset.from_tensors(given)
    (found,) = estimator.predict(lambda: dataset, yield_single_examples=False)
    return found


def same(got, want, rtol=0.0) -> None:
    assert sorted(got) == sorted(want)
    for name in want:
        assert got[name].dtype == want[name].dtype
        if want[name].dtype.kind == "f" and rtol:
            np.testing.assert_allclose(got[name], want[name], rtol, atol=rtol, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], want[name], name)


# Programs for any number of rows are fused in other ways than those for some: the last bits may differ.
ROUNDING = 1e-6


@pytest.fixture(scope="module")
def wide_and_deep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide_and_deep")
    wide, deep = columns(folder)
    estimator = DNNLinearCombinedClassifier(
        folder / "model",
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[8],
        n_classes=2,
        batch_norm=True,
        label_vocabulary=["no", "yes"],
    )
    text = np.array(["no", "yes"])[LABELS]
    return estimator.train(lambda: Dataset.from_tensor_slices((FEATURES, text)).batch(ROWS).repeat(2)), [
        *wide,
        *deep,
    ]


@pytest.fixture(scope="module")
def exported(wide_and_deep, tmp_path_factory):
    """Return the export of `wide_and_deep` that takes features as they are."""
    estimator, _ = wide_and_deep
    return os.fsdecode(estimator.export_saved_model(tmp_path_factory.mktemp("exports"), raw_fn()))


@pytest.mark.samples("1")
@pytest.mark.parametrize("rows", [1, 3, ROWS])
def test_answers_are_predictions(wide_and_deep, exported, rows):
    features = {key: value[-rows:] for key, value in FEATURES.items()}
    got = muster.saved_model.load(exported).signatures["predict"](**features)
    same(got, predicted(wide_and_deep[0], features), ROUNDING)
    assert got["classes"].dtype == object
    assert isinstance(got["classes"][0, 0], bytes)


CHILD = """
import pickle, sys, time
from collections import Counter
import jax
with_jax = set(sys.modules)
import muster
load = muster.saved_model.load  # imported; what follows is timed
path, features, answers = sys.argv[1:]
with open(features, "rb") as file:
    features = pickle.load(file)
compiled = Counter()
jax.monitoring.register_event_listener(lambda event, **_: compiled.update([event.rpartition("/")[2]]))
began = time.process_time()
got = load(path).signatures["predict"](**features)
took = time.process_time() - began
with open(answers, "wb") as file:
    pickle.dump((took, compiled, set(sys.modules) - with_jax, got), file)
"""


def ask_elsewhere(exported, folder, **environment):
    """Let another process load an export and predict: its time, events of compiling, modules and answer."""
    (folder / "features").write_bytes(pickle.dumps(FEATURES))
    command = [sys.executable, "-c", CHILD, exported, folder / "features", folder / "answers"]
    environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **environment}
    subprocess.run(list(map(str, command)), check=True, timeout=120, env=environ)
    return pickle.loads((folder / "answers").read_bytes())


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.alone
@pytest.mark.optimized
def test_a_process_without_keras_answers_the_same_soon(exported, tmp_path):
    moved = shutil.copytree(exported, tmp_path / "elsewhere")
    took, _, imported, got = ask_elsewhere(moved, tmp_path)
    packages = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    rooms = {name.split(".")[1] for name in imported if name.startswith("muster.")}
    packages = {name for name in packages if not name.startswith("_cython_")}  # of compiled modules of others
    # SciPy and what it needs is imported by JAX, when it first compiles an exported module; NumPy's f2py
    # takes charset_normalizer where it is installed.
    with_modules = {"jax", "jaxlib", "numpy", "scipy", "_cyutility", "charset_normalizer"}
    assert packages <= {"muster", "google", "google_crc32c", "lazy_loader", "msgspec"} | with_modules
    assert {room for room in rooms if room[0] != "_"} <= {
        "checkpoint",
        "cpu",
        "data",
        "feature_column",
        "keras_hooks",  # the table alone, which names what lowerings set in JAX
        "lifecycle",  # chooses Keras' backend
        "saved_model",
    }
    same(got, muster.saved_model.load(exported).signatures["predict"](**FEATURES))  # bit for bit
    assert took < 1.5  # of processor time, of which a wall clock on a busy machine says nothing


@pytest.mark.processes
def test_the_next_process_compiles_nothing(exported, tmp_path):
    runs = [ask_elsewhere(exported, tmp_path, JAX_ENABLE_COMPILATION_CACHE="1") for _ in range(2)]
    (_, first, _, got), (_, second, _, again) = runs
    assert first["cache_misses"] == first["compile_requests_use_cache"] > 0
    assert second["cache_hits"] == second["compile_requests_use_cache"] == first["cache_misses"]
    same(again, got)


def example(row: int) -> bytes:
    def feature(value):
        if value.dtype.kind == "U":
            return Feature(bytes_list=BytesList(value=[text.encode() for text in value.tolist() if text]))
        if value.dtype.kind == "i":
            return Feature(int64_list=Int64List(value=[each for each in value.tolist() if each != -1]))
        return Feature(float_list=FloatList(value=value.tolist()))

    found = {key: feature(np.atleast_1d(value[row])) for key, value in FEATURES.items() if key != "age"}
    found["age"] = Feature(float_list=FloatList(value=[float(FEATURES["age"][row])]))
    return Example(features=Features(feature=found)).SerializeToString()


def test_examples_are_parsed(wide_and_deep, tmp_path):
    estimator, all_columns = wide_and_deep
    receiver_fn = build_parsing_serving_input_receiver_fn(fc.make_parse_example_spec(all_columns))
    loaded = muster.saved_model.load(estimator.export_saved_model(tmp_path, receiver_fn))
    assert {name: each.method_name for name, each in loaded.signatures.items()} == {
        "serving_default": "tensorflow/serving/classify",
        "classification": "tensorflow/serving/classify",
        "regression": "tensorflow/serving/regress",
        "predict": "tensorflow/serving/predict",
    }
    serialized = [example(row) for row in range(ROWS)]
    want = predicted(estimator)
    same(loaded.signatures["predict"](examples=serialized), want, ROUNDING)
    classified = loaded.signatures["serving_default"](inputs=serialized)
    same(classified, {"classes": want["all_classes"], "scores": want["probabilities"]}, ROUNDING)
    assert classified["classes"][0].tolist() == [b"no", b"yes"]
    same(loaded.signatures["regression"](inputs=serialized), {"outputs": want["logistic"]}, ROUNDING)
    with pytest.raises(ValueError, match="required but could not be found"):
        loaded.signatures["predict"](examples=[Example(features=Features(feature={})).SerializeToString()])
    with pytest.raises(ValueError, match="Example"):
        loaded.signatures["predict"](examples=[b"\xff\xff"])


def test_features_as_they_are_make_no_signature_of_one_string(wide_and_deep, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    loaded = muster.saved_model.load(wide_and_deep[0].export_saved_model(tmp_path, raw_fn()))
    assert list(loaded.signatures) == ["predict"]
    assert "'classification' is left out of the export: Classification input must be" in caplog.text


def test_inputs_and_outputs_are_described(exported):
    predict = muster.saved_model.load(exported).signatures["predict"]
    assert {name: (spec.shape, spec.dtype) for name, spec in predict.inputs.items()} == {
        "x": ((None, 3), np.dtype(np.float32)),
        "age": ((None,), np.dtype(np.int64)),
        "town": ((None,), np.dtype(object)),
        "day": ((None,), np.dtype(np.int64)),
        "code": ((None,), np.dtype(np.int64)),
        "share": ((None,), np.dtype(np.float32)),
    }
    assert predict.outputs["probabilities"].shape == (None, 2)
    assert predict.outputs["classes"].dtype == object


def test_modules_are_for_cpu_and_cuda_without_custom_calls(exported):
    modules = [
        jax.export.deserialize(bytearray(file.read_bytes())) for file in Path(exported).glob("*.stablehlo")
    ]
    assert len(modules) == 2  # the predictions, and a normalizer
    for module in modules:
        assert module.platforms == ("cpu", "cuda")
        calls = set(re.findall(r"custom_call @(\w+)", module.mlir_module()))
        assert calls <= {"shape_assertion"}  # JAX's own, which is gone once sizes are known


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "lacks 'x'"),
        ({"y": [1]}, "has 'y', which is none of them"),
        ({"x": [[1.0, 2.0]]}, r"'x' has the shape \[1, 2\], and the signature wants \[any, 3\]"),
        ({"x": [["a", "b", "c"]]}, "'x' has the dtype <U1, and the signature wants float32"),
        ({"x": [[1.0], [1.0, 2.0]]}, "lists differ in length"),
        ({"day": [0.5]}, "'day' has the dtype float64, and the signature wants int64"),
        ({"town": [5]}, "'town' is text, and has 5 of type int"),
        ({"day": [9]}, r"the id 9 of example 0 is not in \[0, 7\)"),
        ({"day": [0, 1]}, "differ in their number of examples"),
        ({"age": [1 << 40]}, "Feature age has numbers that int32 does not hold"),
    ],
)
def test_wrong_inputs_are_refused(exported, changes, message):
    features = {key: value[:1] for key, value in FEATURES.items()} | changes
    features = {key: value for key, value in features.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        muster.saved_model.load(exported).signatures["predict"](**features)


def test_no_examples_are_refused(exported):
    with pytest.raises(ValueError, match="have no examples"):
        muster.saved_model.load(exported).signatures["predict"](
            **{key: value[:0] for key, value in FEATURES.items()}
        )


def test_lists_and_text_will_do(exported):
    features = {key: value.tolist() for key, value in FEATURES.items()}
    predict = muster.saved_model.load(exported).signatures["predict"]
    same(predict(**features), predict(**FEATURES))


@pytest.mark.slow
def test_other_canned_estimators(tmp_path):
    x = fc.numeric_column("x", 3)
    regressor = DNNLinearCombinedRegressor(
        tmp_path / "regressor", linear_feature_columns=[x], dnn_feature_columns=[x], dnn_hidden_units=[4]
    )
    classifier = LinearClassifier([x], tmp_path / "classifier", n_classes=3)
    baseline = BaselineRegressor(tmp_path / "baseline")
    expected = {
        regressor: {"serving_default", "regression", "predict"},
        classifier: {"serving_default", "classification", "predict"},
        baseline: {"serving_default", "regression", "predict"},
    }
    receiver_fn = build_parsing_serving_input_receiver_fn({"x": FixedLenFeature(3, np.float32)})
    lists = [Feature(float_list=FloatList(value=row)) for row in FEATURES["x"]]
    serialized = [Example(features=Features(feature={"x": row})).SerializeToString() for row in lists]
    for estimator, names in expected.items():
        estimator.train(input_fn, steps=1)
        loaded = muster.saved_model.load(estimator.export_saved_model(tmp_path / "exports", receiver_fn))
        assert set(loaded.signatures) == names
        want = predicted(estimator, {"x": FEATURES["x"]})
        same(loaded.signatures["predict"](examples=serialized), want, ROUNDING)
        if "regression" in names:
            regressed = loaded.signatures["regression"](inputs=serialized)
            same(regressed, {"outputs": want["predictions"]}, ROUNDING)


def model_fn(features, labels, mode):
    x = features["x"] if isinstance(features, dict) else features
    logits = keras.layers.Dense(2, name="dense")(x)
    scores = keras.ops.softmax(logits)
    if mode == muster.estimator.ModeKeys.PREDICT:
        outputs = {
            "serving_default": PredictOutput({"logits": logits, "scores": scores}),
            "scores": PredictOutput(scores),
            "class": ClassificationOutput(scores=scores),
            "value": RegressionOutput(logits[:, :1]),
            "wrong": RegressionOutput(keras.ops.argmax(logits, -1)),
        }
        return EstimatorSpec(mode, predictions={"logits": logits}, export_outputs=outputs)
    loss = keras.ops.mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture(scope="module")
def custom(tmp_path_factory):
    return Estimator(model_fn, tmp_path_factory.mktemp("custom")).train(
        lambda: Dataset.from_tensors(({"x": FEATURES["x"]}, LABELS)), steps=1
    )


def test_outputs_of_a_model_fn(custom, tmp_path):
    loaded = muster.saved_model.load(custom.export_saved_model(tmp_path, raw_fn(["x"])))
    assert {name: set(each.outputs) for name, each in loaded.signatures.items()} == {
        "serving_default": {"logits", "scores"},
        "scores": {"output"},
    }
    want = predicted(custom, {"x": FEATURES["x"]})["logits"]
    got = loaded.signatures["serving_default"](x=FEATURES["x"])
    np.testing.assert_allclose(got["logits"], want, rtol=ROUNDING)
    np.testing.assert_array_equal(loaded.signatures["scores"](x=FEATURES["x"])["output"], got["scores"])


def test_a_model_whose_outputs_fit_no_receiver_is_exported_without_signatures(tmp_path, caplog):
    def only_value(features, labels, mode):
        spec = model_fn(features, labels, mode)
        if mode != muster.estimator.ModeKeys.PREDICT:
            return spec
        return EstimatorSpec(mode, spec.predictions, export_outputs={"value": spec.export_outputs["value"]})

    estimator = Estimator(only_value, tmp_path / "model").train(
        lambda: Dataset.from_tensors(({"x": FEATURES["x"]}, LABELS)), steps=1
    )
    path = estimator.export_saved_model(tmp_path / "exports", raw_fn(["x"]))
    assert "no signature, so that it cannot answer: Regression input must be a single string" in caplog.text
    assert not muster.saved_model.load(path).signatures


def test_receivers_may_have_alternatives(custom, tmp_path):
    def receiver_fn():
        examples = Placeholder(str, [None])
        features = parse_example(examples, {"x": FixedLenFeature(3, np.float32)})
        return ServingInputReceiver(features, {"examples": examples}, {"raw": {"numbers": features["x"]}})

    loaded = muster.saved_model.load(custom.export_saved_model(tmp_path, receiver_fn))
    assert sorted(loaded.signatures) == sorted(
        ["serving_default", "scores", "class", "value", "raw:serving_default", "raw:scores"]
    )
    want = predicted(custom, {"x": FEATURES["x"]})["logits"]
    got = loaded.signatures["raw:serving_default"](numbers=FEATURES["x"])
    np.testing.assert_allclose(got["logits"], want, rtol=ROUNDING)


def test_a_model_fn_may_take_one_array(custom, tmp_path):
    def receiver_fn():
        x = Placeholder(np.float32, [None, 3])
        return TensorServingInputReceiver(x, x)

    loaded = muster.saved_model.load(custom.export_saved_model(tmp_path, receiver_fn))
    want = predicted(custom, {"x": FEATURES["x"]})["logits"]
    got = loaded.signatures["serving_default"](input=FEATURES["x"])
    np.testing.assert_allclose(got["logits"], want, rtol=ROUNDING)


def test_a_model_fn_may_read_columns(tmp_path):
    town = fc.categorical_column_with_vocabulary_list("town", ["Rome", "Oslo"], num_oov_buckets=1)
    columns = [
        fc.indicator_column(town),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("town", 5), 2),
        fc.numeric_column("x", 3),
    ]

    def with_columns(features, labels, mode):
        return model_fn({"x": fc.input_layer(features, columns)}, labels, mode)

    def transformed(features, labels):
        return fc.transform_features(features, columns), labels

    def receiver_fn():
        raw = raw_fn(["x", "town"])()
        return ServingInputReceiver(fc.transform_features(raw.features, columns), raw.receiver_tensors)

    estimator = Estimator(with_columns, tmp_path / "model").train(
        lambda: input_fn().map(transformed), steps=1
    )
    serve = muster.saved_model.load(estimator.export_saved_model(tmp_path, receiver_fn)).signatures["scores"]
    assert set(serve.inputs) == {"x", "town"}
    want = predicted(estimator, fc.transform_features(FEATURES, columns))["logits"]
    found = serve(x=FEATURES["x"], town=FEATURES["town"])["output"]
    np.testing.assert_allclose(found, keras.ops.softmax(want), rtol=1e-6)


def test_a_batch_may_have_a_fixed_size(custom, tmp_path):
    receiver_fn = build_raw_serving_input_receiver_fn({"x": FEATURES["x"]}, default_batch_size=2)
    serve = muster.saved_model.load(custom.export_saved_model(tmp_path, receiver_fn)).signatures["scores"]
    assert serve.inputs["x"].shape == (2, 3)
    assert serve(x=FEATURES["x"][:2])["output"].shape == (2, 2)
    with pytest.raises(ValueError, match=r"has the shape \[3, 3\], and the signature wants \[2, 3\]"):
        serve(x=FEATURES["x"][:3])


def test_a_model_that_needs_the_number_of_rows_is_refused(custom, tmp_path):
    def counting(features, labels, mode):
        rows = features["x"].shape[0]
        logits = keras.layers.Dense(1)(features["x"]) * (2.0 if rows > 4 else 1.0)
        return EstimatorSpec(mode, predictions=logits)

    estimator = Estimator(counting, custom.model_dir)
    with pytest.raises(muster.SavedModelError, match="(?s)for any number of rows: .*default_batch_size"):
        estimator.export_saved_model(tmp_path, raw_fn(["x"]))
    assert os.listdir(tmp_path) == []


def test_folders_are_named_by_the_second(custom, tmp_path, monkeypatch):
    now = iter([1700000001.9, 1700000001.9, 1700000002.1])
    monkeypatch.setattr(clock, "date", lambda: next(now))
    slept = []
    monkeypatch.setattr(clock, "sleep", slept.append)
    first = custom.export_saved_model(tmp_path, raw_fn(["x"]))
    second = custom.export_saved_model(tmp_path, raw_fn(["x"]))
    assert first == os.fsencode(tmp_path / "1700000001")
    assert second == os.fsencode(tmp_path / "1700000002")
    assert slept == [1]
    assert sorted(os.listdir(tmp_path)) == ["1700000001", "1700000002"]


def test_extra_assets_are_copied(custom, tmp_path):
    (tmp_path / "notes.txt").write_text("notes")
    path = custom.export_saved_model(
        tmp_path / "exports", raw_fn(["x"]), {"more/renamed.txt": tmp_path / "notes.txt"}
    )
    assert Path(os.fsdecode(path), "assets.extra", "more", "renamed.txt").read_text() == "notes"
    with pytest.raises(ValueError, match=r"within the folder, got 'assets.extra/../x'"):
        custom.export_saved_model(tmp_path / "exports", raw_fn(["x"]), {"../x": tmp_path / "notes.txt"})


@pytest.mark.parametrize(
    ("receiver_fn", "kind", "message"),
    [
        (None, TypeError, "must be a function, got None"),
        (lambda: {"x": 1}, TypeError, "must return a ServingInputReceiver"),
        (raw_fn(["day"]), KeyError, "gives the features: day. "),
        (raw_fn(["town"]), KeyError, "gives the features: town. "),
        (
            lambda: ServingInputReceiver(
                {"x": Placeholder(np.float32, [None, 3])}, {"y": Placeholder(np.float32, [None, 3])}
            ),
            ValueError,
            r"feature x is neither one of the receiver's tensors, \['y'\], nor parsed",
        ),
    ],
)
def test_wrong_receivers_are_refused(custom, tmp_path, receiver_fn, kind, message):
    with pytest.raises(kind, match=message):
        custom.export_saved_model(tmp_path, receiver_fn)
    assert os.listdir(tmp_path) == []


def test_missing_features_are_named(wide_and_deep, tmp_path):
    with pytest.raises(ValueError, match=r"reads the features \['age', 'town'\], which .* does not give"):
        wide_and_deep[0].export_saved_model(tmp_path, raw_fn(["x", "day", "code", "share"]))


def test_only_what_was_trained_is_exported(tmp_path):
    estimator = DNNClassifier([2], [fc.numeric_column("x", 3)], tmp_path / "model")
    with pytest.raises(ValueError, match="Couldn't find trained model at"):
        estimator.export_saved_model(tmp_path, raw_fn(["x"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 1), "features must be defined."),
        (({"x": Placeholder(str, [None])}, None), "receiver_tensors must be defined."),
        (({1: Placeholder(str, [None])}, {}), "feature keys must be strings: 1."),
        (({"x": 1}, {}), "feature x must be a Tensor"),
        (({"x": Placeholder(str, [None])}, {"y": 2}), "receiver_tensor y must be a Tensor"),
        (({}, {}, [1]), "receiver_tensors_alternatives must be a dict"),
    ],
)
def test_receivers_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        ServingInputReceiver(*arguments)


def test_placeholders_have_no_values():
    with pytest.raises(TypeError, match="has no values before .* Write a graph that a Session would run as"):
        np.asarray(Placeholder(np.float32, [None]))
