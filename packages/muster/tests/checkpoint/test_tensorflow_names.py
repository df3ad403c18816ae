"""TensorFlow's names of variables and slots are matched to those of Keras 3."""

import re

import numpy as np
import pytest

from muster.checkpoint.tensorflow import TensorFlowCheckpoint, join_parts, match_names
from tensorflow_checkpoints import recorded


@pytest.mark.parametrize(
    ("stored", "others", "found"),
    [
        (["w/Adam", "w/Adam_1"], ["Adam/w_momentum", "Adam/w_velocity"], ["w/Adam", "w/Adam_1"]),
        (["w/Adagrad"], ["adagrad_1/w_accumulator"], ["w/Adagrad"]),
        (
            ["w/RMSProp", "w/RMSProp_1"],
            ["rmsprop/w_velocity", "rmsprop/w_momentum"],
            ["w/RMSProp", "w/RMSProp_1"],
        ),
        (
            ["w/RMSProp", "w/RMSProp_1", "w/RMSProp_2"],
            ["RMSProp/w_velocity", "RMSProp/w_average_gradient", "RMSProp/w_momentum"],
            ["w/RMSProp", "w/RMSProp_1", "w/RMSProp_2"],
        ),
        (
            ["w/Adadelta", "w/Adadelta_1"],
            ["Adadelta/w_accumulated_grad", "Adadelta/w_accumulated_delta_var"],
            ["w/Adadelta", "w/Adadelta_1"],
        ),
        (["w/Ftrl", "w/Ftrl_1"], ["Ftrl/w_accumulator", "Ftrl/w_linear"], ["w/Ftrl", "w/Ftrl_1"]),
        (["w/Momentum"], ["Momentum/w_momentum"], ["w/Momentum"]),
        (
            ["training/Adam/w/m", "training/Adam/w/v", "training/Adam/learning_rate"],
            ["adam/w_momentum", "adam/w_velocity", "adam/learning_rate"],
            ["training/Adam/w/m", "training/Adam/w/v", "training/Adam/learning_rate"],
        ),
        (["training/Ftrl/iter"], ["ftrl/iteration"], ["training/Ftrl/iter"]),
        (["SGD/w/momentum"], ["sgd/w_momentum"], ["SGD/w/momentum"]),
        (["w/Adagrad"], ["adam/iteration"], ["global_step"]),
    ],
)
def test_slots_are_found_by_optimizer_and_kind(
    stored: list[str], others: list[str], found: list[str]
) -> None:
    expected = {"w": "w", **dict(zip(others, found, strict=True))}
    assert match_names(["w", "global_step", *stored], ["w"], others) == expected


def test_slots_of_another_optimizer_are_not_taken() -> None:
    stored = ["w", "w/Momentum", "w/Adam_7", "training/Adagrad/w/accumulator"]
    others = ["Adam/w_momentum", "Ftrl/w_accumulator", "Adam/iteration"]
    assert match_names(stored, ["w"], others) == {"w": "w"}


def test_models_names_may_be_missing_unless_two_variables_then_agree() -> None:
    assert match_names(["dense/kernel"], ["net/block/dense/kernel"], []) == {
        "net/block/dense/kernel": "dense/kernel"
    }
    assert match_names(["dense/kernel"], ["a/dense/kernel", "b/dense/kernel"], []) == {}
    assert match_names(["dense/kernel"], ["dense/kernel", "b/dense/kernel"], []) == {
        "dense/kernel": "dense/kernel"
    }
    assert match_names(
        ["dense/kernel", "dense/kernel/Adagrad"],
        ["net/dense/kernel"],
        ["Adagrad/net_dense_kernel_accumulator"],
    ) == {
        "net/dense/kernel": "dense/kernel",
        "Adagrad/net_dense_kernel_accumulator": "dense/kernel/Adagrad",
    }


@pytest.mark.parametrize(
    ("name", "optimizers"),
    [
        ("dnn_classifier", {"adagrad": ["accumulator"]}),
        ("dnn_classifier_batch_norm", {"adam": ["momentum", "velocity"]}),
        ("linear_classifier", {"ftrl": ["accumulator", "linear"]}),
        ("wide_and_deep", {"adagrad": ["accumulator"], "ftrl": ["accumulator", "linear"]}),
        ("v1_dnn_partitioned", {"Adagrad": ["accumulator"]}),
        ("v1_linear", {"Ftrl": ["accumulator", "linear"]}),
        ("custom_model_fn", {"Adam": ["momentum", "velocity"]}),
    ],
)
def test_all_that_tensorflow_stored_is_found(name: str, optimizers: dict[str, list[str]]) -> None:
    entries = join_parts(TensorFlowCheckpoint(recorded(name)[0]).entries)
    slots = re.compile(r"training/.*|.*/(Adam|Adagrad|Ftrl)(_1)?|beta[12]_power|global_step")
    weights = [each for each in entries if not slots.fullmatch(each)]
    trained = [each for each in weights if "moving_" not in each]
    others = [f"{kind}/iteration" for kind in optimizers]
    for kind, roles in optimizers.items():
        of = [
            each for each in trained if len(optimizers) == 1 or each.startswith("dnn/") == (kind == "adagrad")
        ]
        others += [f"{kind}/{each.replace('/', '_')}_{role}" for each in of for role in roles]
    found = match_names(entries, weights, others)
    assert found.keys() == {*weights, *others}
    settings = re.compile(r"training/\w+/(decay|beta\w*|learning_rate\w*|l[12]_\w+)|beta[12]_power")
    assert not [each for each in entries.keys() - {*found.values()} if not settings.fullmatch(each)]


def test_the_slots_of_parts_are_joined() -> None:
    prefix, said = recorded("v1_dnn_partitioned")
    checkpoint = TensorFlowCheckpoint(prefix)
    joined = join_parts(checkpoint.entries)
    assert not [name for name in joined if "/t_" in name]
    arrays = checkpoint.read_all()
    assert list(arrays) == list(joined)
    for name, each in said["variables"].items():
        if "/t_" in name and "value" in each:
            plain = name.replace("/t_0", "")
            np.testing.assert_array_equal(arrays[plain], np.float32(each["value"]))
    table = "dnn/input_from_feature_columns/input_layer/job_embedding/embedding_weights"
    assert arrays[f"{table}/Adagrad"].shape == arrays[table].shape == (9, 4)
    assert (arrays[f"{table}/Adagrad"] >= np.float32(0.1)).all()  # where the slots of all rows start
