"""Models exported to train and to evaluate answer what `evaluate` says of the batch that they are given."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

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
    Placeholder,
    VarLenFeature,
    parse_example,
)
from muster.estimator import (
    BaselineRegressor,
    BinaryClassHead,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    Estimator,
    EstimatorSpec,
    LinearClassifier,
    ModeKeys,
    MultiHead,
    PredictOutput,
    RegressionHead,
    ServingInputReceiver,
    SupervisedInputReceiver,
    build_raw_serving_input_receiver_fn,
    build_raw_supervised_input_receiver_fn,
    build_supervised_input_receiver_fn_from_input_fn,
    model_to_estimator,
)

ROWS = 6
RANDOM = np.random.default_rng(0)
FEATURES = {
    "x": RANDOM.random((ROWS, 3), np.float32),
    "town": np.array(["Rome", "Paris", "Oslo", "Kyiv", "Rome", "Lima"]),
    "weight": np.linspace(0.5, 2, ROWS, dtype=np.float32),
}
LABELS = np.array(["no", "yes", "no", "no", "yes", "yes"])
ROUNDING = 1e-6


def batches(features, labels) -> Dataset:
    return Dataset.from_tensors((features, labels))


def rows(values, count: int):
    return {key: value[:count] for key, value in values.items()}


def signature(estimator: Estimator, folder, receiver_fn, mode: str):
    path = estimator.export_saved_model(folder / "exports", receiver_fn, experimental_mode=mode)
    return muster.saved_model.load(path).signatures[mode]


def evaluated(estimator: Estimator, features, labels) -> dict[str, np.ndarray]:
    """Return what `evaluate` and `predict` say of a batch, by the names in an export."""
    metrics = estimator.evaluate(lambda: batches(features, labels))
    del metrics["global_step"]
    loss = metrics.pop("loss")
    (predicted,) = estimator.predict(lambda: Dataset.from_tensors(features), yield_single_examples=False)
    return {
        "loss": loss,
        **{f"predictions/{key}": value for key, value in predicted.items()},
        **{f"metrics/{key}/{kind}": each for key, each in metrics.items() for kind in ("value", "update_op")},
    }


def same(got, want) -> None:
    assert sorted(got) == sorted(want)
    for name, value in want.items():
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(got[name], value, 1e-5, ROUNDING, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], value, name)


@pytest.fixture(scope="module")
def wide_and_deep(tmp_path_factory):
    """Return a trained classifier with names for classes, and weights of examples."""
    town = fc.categorical_column_with_hash_bucket("town", 10)
    estimator = DNNLinearCombinedClassifier(
        tmp_path_factory.mktemp("model"),
        linear_feature_columns=[town],
        dnn_feature_columns=[fc.numeric_column("x", 3), fc.embedding_column(town, 2)],
        dnn_hidden_units=[4],
        dnn_dropout=0.5,
        label_vocabulary=["no", "yes"],
        weight_column="weight",
    )
    return estimator.train(lambda: batches(FEATURES, LABELS), steps=3)


@pytest.fixture(scope="module")
def all_modes(wide_and_deep, tmp_path_factory):
    """Return the folder of an export in all modes."""
    supervised = build_raw_supervised_input_receiver_fn(FEATURES, LABELS)
    receivers = {
        ModeKeys.EVAL: supervised,
        ModeKeys.PREDICT: build_raw_serving_input_receiver_fn({k: FEATURES[k] for k in ("x", "town")}),
        ModeKeys.TRAIN: supervised,
    }
    folder = tmp_path_factory.mktemp("exports")
    return os.fsdecode(wide_and_deep.experimental_export_all_saved_models(folder, receivers))


@pytest.mark.samples("1")
@pytest.mark.parametrize("count", [1, 4, ROWS])
def test_an_evaluation_answers_loss_predictions_and_metrics_of_a_batch(wide_and_deep, all_modes, count):
    features, labels = rows(FEATURES, count), LABELS[:count]
    serve = muster.saved_model.load(all_modes).signatures["eval"]
    same(serve(**features, label=labels), evaluated(wide_and_deep, features, labels))


def test_batches_do_not_add_up(all_modes):
    serve = muster.saved_model.load(all_modes).signatures["eval"]
    first = serve(**FEATURES, label=LABELS)
    serve(**rows(FEATURES, 2), label=LABELS[:2])
    same(serve(**FEATURES, label=LABELS), first)


def test_all_modes_are_in_one_folder_with_the_weights_once(all_modes):
    loaded = muster.saved_model.load(all_modes)
    assert {name: each.method_name for name, each in loaded.signatures.items()} == {
        "train": "tensorflow/supervised/training",
        "eval": "tensorflow/supervised/eval",
        "predict": "tensorflow/serving/predict",
    }
    manifest = json.loads(b"{" + Path(all_modes, "saved_model.json").read_bytes().partition(b"\n")[2])
    assert not [name for name in manifest["weights"] if "adagrad" in name.lower() or "accuracy" in name]
    of_modes = [set(each["weights"]) for each in manifest["signatures"].values()]
    assert set.union(*of_modes) == set(manifest["weights"])
    assert "linear/linear_model/town/weights" in set.intersection(*of_modes)


def test_what_is_called_train_answers_the_loss_in_training_and_changes_nothing(all_modes):
    loaded = muster.saved_model.load(all_modes)
    train = loaded.signatures["train"]
    assert set(train.outputs) >= {"loss", "predictions/logits"}
    assert not [name for name in train.outputs if name.startswith("metrics")]
    first = train(**FEATURES, label=LABELS)
    same(train(**FEATURES, label=LABELS), first)
    predicted = loaded.signatures["predict"](x=FEATURES["x"], town=FEATURES["town"])
    assert not np.allclose(first["predictions/logits"], predicted["logits"])  # there is dropout


CHILD = """
import pickle, sys
import muster
path, inputs, answers = sys.argv[1:]
with open(inputs, "rb") as file:
    inputs = pickle.load(file)
got = muster.saved_model.load(path).signatures["eval"](**inputs)
with open(answers, "wb") as file:
    pickle.dump(("keras" in sys.modules, got), file)
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.optimized
def test_a_process_without_keras_evaluates(all_modes, tmp_path):
    inputs = {**FEATURES, "label": LABELS}
    (tmp_path / "inputs").write_bytes(pickle.dumps(inputs))
    command = [sys.executable, "-c", CHILD, all_modes, tmp_path / "inputs", tmp_path / "answers"]
    subprocess.run(list(map(str, command)), check=True, timeout=120)
    has_keras, got = pickle.loads((tmp_path / "answers").read_bytes())
    assert not has_keras
    want = muster.saved_model.load(all_modes).signatures["eval"](**inputs)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], name)  # bit for bit


def test_labels_out_of_the_vocabulary_are_refused(all_modes):
    serve = muster.saved_model.load(all_modes).signatures["eval"]
    with pytest.raises(ValueError, match="labels has 'maybe', which is none of the words .*: 'no', 'yes'"):
        serve(**rows(FEATURES, 1), label=["maybe"])
    with pytest.raises(ValueError, match="lacks 'label'"):
        serve(**FEATURES)


@pytest.mark.slow
def test_labels_may_be_parsed_of_examples(wide_and_deep, tmp_path):
    def receiver_fn():
        examples = Placeholder(str, [None])
        parsed = parse_example(
            examples,
            {
                "x": FixedLenFeature(3, np.float32),
                "town": VarLenFeature(str),
                "weight": FixedLenFeature(1, np.float32),
                "rented": FixedLenFeature((), str),
            },
        )
        return SupervisedInputReceiver(parsed, parsed.pop("rented"), {"examples": examples})

    def example(row: int) -> bytes:
        features = {
            "x": Feature(float_list=FloatList(FEATURES["x"][row].tolist())),
            "town": Feature(bytes_list=BytesList([FEATURES["town"][row].encode()])),
            "weight": Feature(float_list=FloatList([float(FEATURES["weight"][row])])),
            "rented": Feature(bytes_list=BytesList([LABELS[row].encode()])),
        }
        return Example(features=Features(feature=features)).SerializeToString()

    serve = signature(wide_and_deep, tmp_path, receiver_fn, ModeKeys.EVAL)
    got = serve(examples=[example(row) for row in range(ROWS)])
    same(got, evaluated(wide_and_deep, FEATURES, LABELS))


@pytest.mark.slow
def test_each_head_has_labels_of_its_own(tmp_path):
    heads = MultiHead(
        [BinaryClassHead(label_vocabulary=["a", "b"], name="kind"), RegressionHead(2, name="size")]
    )
    estimator = DNNEstimator(heads, [2], [fc.numeric_column("x", 3)], tmp_path / "model")
    features = {"x": FEATURES["x"]}
    labels = {"kind": np.array(["a", "b"] * 3), "size": FEATURES["x"][:, :2]}
    estimator.train(lambda: batches(features, labels), steps=1)
    receiver_fn = build_raw_supervised_input_receiver_fn(features, labels)
    serve = signature(estimator, tmp_path, receiver_fn, ModeKeys.EVAL)
    got = serve(**features, **labels)
    metrics = estimator.evaluate(lambda: batches(features, labels))
    np.testing.assert_allclose(got["loss"], metrics["loss"], 1e-5)
    np.testing.assert_allclose(got["metrics/loss/size/value"], metrics["loss/size"], 1e-5)
    assert got["predictions/kind/classes"].shape == (ROWS, 1)


def test_a_baseline_model_reads_weights_to_evaluate(tmp_path):
    estimator = BaselineRegressor(tmp_path / "model", weight_column="weight")
    labels = FEATURES["x"][:, 0]
    estimator.train(lambda: batches(FEATURES, labels), steps=2)
    receiver_fn = build_raw_supervised_input_receiver_fn(FEATURES, labels)
    serve = signature(estimator, tmp_path, receiver_fn, ModeKeys.EVAL)
    want = evaluated(estimator, FEATURES, labels)
    want["predictions"] = want.pop("predictions/predictions")  # as TensorFlow calls it
    same(serve(**FEATURES, label=labels), want)


def test_weights_of_examples_are_needed_to_evaluate(wide_and_deep, tmp_path):
    features = {key: FEATURES[key] for key in ("x", "town")}
    receiver_fn = build_raw_supervised_input_receiver_fn(features, LABELS)
    with pytest.raises(ValueError, match="weight"):
        wide_and_deep.export_saved_model(tmp_path, receiver_fn, experimental_mode=ModeKeys.EVAL)
    assert os.listdir(tmp_path) == []


def model_fn(features, labels, mode):
    x = features["x"] if isinstance(features, dict) else features
    logits = keras.layers.Dense(1, name="dense")(x)
    if mode == ModeKeys.PREDICT:
        outputs = {"serving_default": PredictOutput(logits), "eval": PredictOutput(logits)}
        return EstimatorSpec(mode, predictions=logits, export_outputs=outputs)
    target = 0.0 if labels is None else labels
    loss = keras.ops.mean(keras.ops.square(logits[:, 0] - target)) * (2.0 if mode == ModeKeys.TRAIN else 1.0)
    train_op = muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
    mean = keras.metrics.Mean(name="mean_of_logits")
    mean.update_state(logits)
    error = keras.metrics.MeanAbsoluteError(name="error")
    error.update_state(x[:, 0], logits[:, 0])
    metrics = {"mean": mean, "error": (error, error.result())}
    return EstimatorSpec(mode, predictions=logits, loss=loss, train_op=train_op, eval_metric_ops=metrics)


@pytest.fixture(scope="module")
def custom(tmp_path_factory):
    labels = FEATURES["x"][:, 0]
    return Estimator(model_fn, tmp_path_factory.mktemp("custom")).train(
        lambda: batches({"x": FEATURES["x"]}, labels), steps=2
    )


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_a_model_fn_of_ones_own(custom, tmp_path, mode):
    x, labels = FEATURES["x"], FEATURES["x"][:, 1]
    receiver_fn = build_raw_supervised_input_receiver_fn({"x": x}, {"y": labels})
    serve = signature(Estimator(with_named_labels, custom.model_dir), tmp_path, receiver_fn, mode)
    got = serve(x=x, y=labels)
    want = custom.evaluate(lambda: batches({"x": x}, labels))
    if mode == ModeKeys.TRAIN:
        assert sorted(got) == ["loss", "predictions"]
        np.testing.assert_allclose(got["loss"], 2 * want["loss"], 1e-5)
        return
    kinds = ("update_op", "value")
    assert sorted(got) == [
        "loss",
        *(f"metrics/{m}/{k}" for m in ("error", "mean") for k in kinds),
        "predictions",
    ]
    np.testing.assert_allclose(got["loss"], want["loss"], 1e-5)
    for name in ("mean", "error"):
        for kind in kinds:
            np.testing.assert_allclose(got[f"metrics/{name}/{kind}"], want[name], 1e-5, err_msg=name)


def with_named_labels(features, labels, mode):
    return model_fn(features, labels["y"], mode)


def test_single_arrays_stay_single(custom, tmp_path):
    x, labels = FEATURES["x"], FEATURES["x"][:, 1]
    receiver_fn = build_raw_supervised_input_receiver_fn(x, labels, default_batch_size=ROWS)
    serve = signature(custom, tmp_path, receiver_fn, ModeKeys.EVAL)
    assert {name: spec.shape for name, spec in serve.inputs.items()} == {"input": (ROWS, 3), "label": (ROWS,)}
    want = custom.evaluate(lambda: batches({"x": x}, labels))
    np.testing.assert_allclose(serve(input=x, label=labels)["loss"], want["loss"], 1e-5)


def test_there_may_be_no_labels(custom, tmp_path):
    x = FEATURES["x"]
    serve = signature(custom, tmp_path, build_raw_serving_input_receiver_fn({"x": x}), ModeKeys.EVAL)
    assert list(serve.inputs) == ["x"]
    got = serve(x=x)
    np.testing.assert_allclose(got["loss"], np.mean(got["predictions"] ** 2), 1e-5)


def test_a_keras_model_is_exported_to_evaluate(tmp_path):
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(1, name="y")])
    model.compile("sgd", "mse", metrics=["mae"])
    estimator = model_to_estimator(model, model_dir=tmp_path / "model")
    x, y = FEATURES["x"], FEATURES["x"][:, :1]
    estimator.train(lambda: batches({"x": x}, y), steps=1)
    receiver_fn = build_supervised_input_receiver_fn_from_input_fn(lambda: batches({"x": x}, y))
    got = signature(estimator, tmp_path, receiver_fn, ModeKeys.EVAL)(x=x, label=y)
    want = estimator.evaluate(lambda: batches({"x": x}, y))
    np.testing.assert_allclose(got["loss"], want["loss"], 1e-5)
    np.testing.assert_allclose(got["metrics/mae/value"], want["mae"], 1e-5)


def of_slices(scale):
    return Dataset.from_tensor_slices(({"x": FEATURES["x"] * scale}, LABELS)).batch(2)


def of_python(scale):
    def as_text(features, labels):
        return {"x": np.array(features["x"])}, np.array([str(label) for label in labels])

    return of_slices(scale).map(as_text)


@pytest.mark.parametrize(
    "input_fn",
    [of_slices, of_python, lambda scale: ({"x": FEATURES["x"]}, LABELS)],
    ids=["specs", "python", "arrays"],
)
def test_receivers_are_made_of_what_an_input_fn_returns(input_fn):
    receiver = build_supervised_input_receiver_fn_from_input_fn(input_fn, scale=2)()
    assert receiver.features["x"].shape == (None, 3)
    assert receiver.labels.shape == (None,)
    assert receiver.labels.dtype.kind == "U"
    assert receiver.receiver_tensors == {"x": receiver.features["x"], "label": receiver.labels}


def test_input_fns_without_labels_make_no_receivers():
    with pytest.raises(ValueError, match=r"must return \(features, labels\)"):
        build_supervised_input_receiver_fn_from_input_fn(lambda: Dataset.from_tensors(FEATURES))


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ({"x": LABELS}, {"x": LABELS}, r"distinct keys. Found overlapping keys: \['x'\]"),
        ({"label": LABELS}, LABELS, r"overlapping keys: \['label'\]"),
        (np.float32(1), LABELS, "input must have an axis of examples"),
    ],
)
def test_wrong_features_and_labels_make_no_receivers(features, labels, message):
    with pytest.raises(ValueError, match=message):
        build_raw_supervised_input_receiver_fn(features, labels)


X, TEXT = Placeholder(np.float32, [None, 3]), Placeholder(str, [None])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, X, X), "features must be defined"),
        ((X, None, X), "labels must be defined"),
        ((X, X, None), "receiver_tensors must be defined"),
        (({"x": X}, {"y": 1}, X), "label y must be a Tensor"),
        (({"x": X}, {1: X}, X), "label keys must be strings: 1"),
    ],
)
def test_receivers_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        SupervisedInputReceiver(*arguments)


@pytest.mark.parametrize(
    ("receivers", "kind", "message"),
    [
        ({}, ValueError, r"No valid modes for exporting found. Got \[\]. There are 'train', 'eval', 'infer'"),
        ({"serve": lambda: None}, ValueError, r"No valid modes for exporting found. Got \['serve'\]"),
        ({"eval": None}, TypeError, "must be a function, got None"),
        (
            {"eval": lambda: 1},
            TypeError,
            "must return a SupervisedInputReceiver or ServingInputReceiver in the",
        ),
        (
            {"infer": lambda: SupervisedInputReceiver({"x": X}, X, {"x": X})},
            TypeError,
            "must return a ServingInputReceiver in the mode 'infer'",
        ),
        (
            {"eval": lambda: SupervisedInputReceiver({"x": X}, TEXT, {"x": X, "label": TEXT})},
            ValueError,
            "What labels names is text, and a model_fn computes with .* head.numeric_labels",
        ),
        (
            {"eval": lambda: SupervisedInputReceiver({"labels": X, "x": X}, X, {"labels": X, "x": X})},
            ValueError,
            "A feature is called 'labels'",
        ),
        (
            {
                "eval": lambda: ServingInputReceiver({"x": X}, {"x": X}),
                "infer": lambda: ServingInputReceiver({"x": X}, {"x": X}),
            },
            ValueError,
            r"export_outputs are called \['eval'\], as the signatures to train and to evaluate",
        ),
    ],
)
def test_what_cannot_be_exported_is_refused(custom, tmp_path, receivers, kind, message):
    with pytest.raises(kind, match=message):
        custom.experimental_export_all_saved_models(tmp_path, receivers)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_heads_number_the_labels_of_a_model_fn(tmp_path):
    head = BinaryClassHead(label_vocabulary=["no", "yes"])

    def with_head(features, labels, mode):
        logits = keras.layers.Dense(1, name="dense")(features["x"])
        return head.create_estimator_spec(features, mode, logits, labels, keras.optimizers.SGD(0.1))

    def receiver_fn():
        x, answer = Placeholder(np.float32, [None, 3]), Placeholder(str, [None])
        return SupervisedInputReceiver({"x": x}, head.numeric_labels(answer), {"x": x, "answer": answer})

    x = {"x": FEATURES["x"]}
    estimator = Estimator(with_head, tmp_path / "model")
    estimator.train(lambda: batches(x, head.numeric_labels(LABELS)), steps=1)
    serve = signature(estimator, tmp_path, receiver_fn, ModeKeys.EVAL)
    same(serve(**x, answer=LABELS), evaluated(estimator, x, head.numeric_labels(LABELS)))


def test_text_that_no_vocabulary_names_is_refused(tmp_path):
    estimator = LinearClassifier([fc.numeric_column("x", 3)], tmp_path / "model")
    estimator.train(lambda: batches({"x": FEATURES["x"]}, np.arange(ROWS) % 2), steps=1)
    receiver_fn = build_raw_supervised_input_receiver_fn({"x": FEATURES["x"]}, LABELS)
    with pytest.raises(ValueError, match="Labels dtype should be integer. Instead got <U0"):
        estimator.export_saved_model(tmp_path, receiver_fn, experimental_mode=ModeKeys.TRAIN)
