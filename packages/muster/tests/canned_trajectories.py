"""The recorded trainings of canned Estimators: how they are run, and compared with TensorFlow's."""

import re

import numpy as np

import canned
import columns
import recorded
from muster import optimizers
from muster.checkpoint import write_checkpoint
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import MultiLabelHead, RunConfig
from noted_losses import Losses

# After ten steps rounding has added up: Adam divides by the difference of two numbers that are almost equal.
_RELATIVE, _ABSOLUTE = 5e-5, 5e-6


def optimizer_of(text, v1):
    """The optimizer that a case describes: a name, or such as ``legacy.SGD(0.05)``."""
    found = re.fullmatch(r"(legacy|v1)\.(\w+)\(([\d.]+)(?:, l1=([\d.]+))?\)", text)
    if found is None:
        return text
    where, kind, rate, l1 = found.groups()
    if where == "legacy":
        return getattr(optimizers, kind)(float(rate))
    extra = {"l1_regularization_strength": float(l1)} if l1 else {}
    return getattr(v1, f"{kind}Optimizer")(float(rate), **extra)


def argument_of(name, value, v1):
    """An argument of an Estimator as a case describes it."""
    if name.endswith("optimizer"):
        return optimizer_of(value, v1)
    if name.endswith("feature_columns"):
        return columns.made(value)
    if name == "head":
        return MultiLabelHead(value["n_classes"])
    return value.lower() if name == "loss_reduction" else value


def estimator_of(case, folder, estimators, v1=None, config=None):
    """The Estimator of a case, which starts from the case's weights."""
    described = case["input"]["estimator"]
    arguments = {name: argument_of(name, value, v1) for name, value in described["args"].items()}
    initial = case["input"].get("initial_weights")
    if initial is not None:
        values = {name: np.array(value, np.float32) for name, value in initial.items()}
        write_checkpoint(folder / "initial", 0, values, {})
        arguments["warm_start_from"] = str(folder / "initial")
    return getattr(estimators, described["class"])(
        model_dir=str(folder / "model"), config=config or RunConfig(tf_random_seed=1), **arguments
    )


def input_of(case, batch_size, repeated=False):
    given = case["input"]
    labels = np.array(given["labels"], None if given["label_dtype"] == "string" else given["label_dtype"])
    dataset = Dataset.from_tensor_slices((canned.arrays(given["features"]), labels))
    return lambda: (dataset.repeat() if repeated else dataset).batch(batch_size)


def batch_size_of(described):
    return int(described.rpartition(" ")[2])


def as_json(example):
    return {
        name: np.vectorize(bytes.decode)(value).tolist() if value.dtype == object else value.tolist()
        for name, value in example.items()
    }


def check_trained(est, expected):
    for name, value in expected["final_weights"].items():
        if not name.endswith("replica_1"):
            found = est.get_variable_value(name)
            np.testing.assert_allclose(found, value, rtol=_RELATIVE, atol=_ABSOLUTE, err_msg=name)


def check_results(est, case):
    expected = case["expect"]
    once = input_of(case, batch_size_of(case["input"]["eval_input"]))
    evaluated = {name: value.item() for name, value in est.evaluate(once).items()}
    recorded.check_same(evaluated, expected["evaluate"], rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    predicted = [as_json(each) for each in est.predict(once)]
    recorded.check_same(predicted, expected["predict"], rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def check(case, folder, estimators, v1=None):
    """Train, evaluate and predict as a case describes, and check what it expects.

    Args:
        case: The case.
        folder: An empty folder.
        estimators: What has the classes of Estimators.
        v1: What has the optimizers of TensorFlow 1; None where cases name none.
    """
    expected, given = case["expect"], case["input"]
    if "error" in expected:
        with canned.error_of(expected["error"]):
            estimator_of(case, folder, estimators, v1)
        return
    replicas = "train_distribute" in given
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"]) if replicas else None
    config = RunConfig(train_distribute=strategy)
    est, seen = estimator_of(case, folder, estimators, v1, config), Losses()
    size = batch_size_of(given["train_input"])
    est.train(input_of(case, size, repeated=True), hooks=[seen], steps=given["steps"])
    if expected.get("trains"):
        assert np.mean(seen.losses[5:]) < np.mean(seen.losses[:5])  # five steps read all examples twice
        return
    if replicas:
        losses = np.array(expected["reported_loss_per_step"]) / 2  # reported as the replicas' sum
    else:
        losses = expected["loss_per_step"]
    np.testing.assert_allclose(seen.losses, losses, rtol=_RELATIVE)
    check_trained(est, expected)
    check_results(est, case)
