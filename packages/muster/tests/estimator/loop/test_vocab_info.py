"""Warm starts of embeddings, linear weights and logits whose vocabulary has changed."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster import keras
from muster.checkpoint import MappedArray, _mapped_array, read_checkpoint, write_checkpoint
from muster.data import Dataset
from muster.estimator import DNNClassifier, DNNLinearCombinedClassifier, VocabInfo, WarmStartSettings
from muster.feature_column import categorical_column_with_vocabulary_file, embedding_column
from muster.program.variables import VariableKind, VariableSpec
from tensorflow_checkpoints import recorded

CITIES = ["Oslo", "Lima", "Rome", "Bonn"]
OLD, NEW = ["Oslo", "Lima", "Rome"], ["Rome", "Bonn", "Oslo"]


def vocabulary(path: Path, entries: list[str]) -> Path:
    path.write_text("".join(f"{entry}\n" for entry in entries))
    return path


@pytest.fixture
def change(tmp_path: Path) -> VocabInfo:
    """Return the change of a vocabulary, which had 1 bucket and gets 2."""
    old, new = vocabulary(tmp_path / "old.txt", OLD), vocabulary(tmp_path / "new.txt", NEW)
    return VocabInfo(str(new), len(NEW), 2, str(old))


def spec(*shape: int) -> VariableSpec:
    return VariableSpec(
        path="table",
        shape=shape,
        dtype="float32",
        trainable=True,
        kind=VariableKind.WEIGHT,
        aggregation="none",
    )


ROWS = np.arange(8, dtype=np.float32).reshape(4, 2) + 1


def test_rows_move_with_their_entries(change: VocabInfo) -> None:
    moved = change.start_value(spec(5, 2), ROWS)
    assert moved.tolist() == [[5, 6], [0, 0], [1, 2], [0, 0], [0, 0]]
    assert moved.dtype == np.float32


def test_rows_in_a_file_move_with_their_entries(
    change: VocabInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 0)
    checkpoint = read_checkpoint(write_checkpoint(tmp_path / "files", 1, {"table": ROWS}, {}), mapped=True)
    stored = checkpoint.variables["table"]
    assert isinstance(stored, MappedArray)
    expected = change.start_value(spec(5, 2), ROWS)
    np.testing.assert_array_equal(change.start_value(spec(5, 2), stored), expected)
    turned = dataclasses.replace(change, axis=1, num_oov_buckets=0)
    wide = read_checkpoint(write_checkpoint(tmp_path / "turned", 1, {"table": ROWS.T}, {}), mapped=True)
    assert turned.start_value(spec(2, 3), wide.variables["table"]).tolist() == [[5, 0, 1], [6, 0, 2]]
    checkpoint.close()
    wide.close()


def test_columns_move_with_their_entries(change: VocabInfo) -> None:
    change = dataclasses.replace(change, axis=1, num_oov_buckets=0, backup_initializer="ones")
    assert change.start_value(spec(2, 3), ROWS.T).tolist() == [[5, 1, 1], [6, 1, 2]]


def test_vectors_have_a_vocabulary_too(change: VocabInfo) -> None:
    assert change.start_value(spec(5), ROWS[:, 0]).tolist() == [5, 0, 1, 0, 0]


def test_only_as_many_entries_count_as_are_said(change: VocabInfo) -> None:
    change = dataclasses.replace(change, old_vocab_size=2, new_vocab_size=1, num_oov_buckets=1)
    assert change.start_value(spec(2, 2), ROWS).tolist() == [[0, 0], [0, 0]]  # Rome was the third


def classifier(vocabulary_file: str, model_dir: Path, buckets: int, **more: Any) -> Any:
    column = categorical_column_with_vocabulary_file("city", vocabulary_file, num_oov_buckets=buckets)
    embedded = embedding_column(column, 2, initializer=keras.initializers.RandomNormal(seed=1))
    return DNNLinearCombinedClassifier(
        model_dir,
        linear_feature_columns=[column],
        dnn_feature_columns=[embedded],
        dnn_hidden_units=[3],
        **more,
    )


def input_fn() -> Any:
    return Dataset.from_tensor_slices(({"city": np.array(CITIES)}, np.array([0, 1, 0, 1]))).batch(2)


LINEAR = "linear/linear_model/city/weights"


@pytest.mark.slow
def test_canned_estimator_starts_with_another_vocabulary(tmp_path: Path, change: VocabInfo) -> None:
    before = classifier(str(change.old_vocab), tmp_path / "before", 1)
    before.train(input_fn)
    (embedding,) = [
        name for name in before.get_variable_names() if name.endswith("city_embedding/embedding_weights")
    ]
    linear_rows, rows = (before.get_variable_value(name) for name in (LINEAR, embedding))
    settings = WarmStartSettings(
        str(tmp_path / "before"),
        var_name_to_vocab_info={
            LINEAR: change,
            embedding: dataclasses.replace(
                change, backup_initializer=keras.initializers.RandomUniform(5, 6, seed=2)
            ),
        },
    )
    after = classifier(str(change.new_vocab), tmp_path / "after", 2, warm_start_from=settings)
    after.train(input_fn, steps=1)
    started = read_checkpoint(tmp_path / "after" / "ckpt-0").variables
    weights = started[LINEAR]
    np.testing.assert_array_equal(weights, [linear_rows[2], [0], linear_rows[0], [0], [0]])
    table = started[embedding]
    np.testing.assert_array_equal(table[[0, 2]], rows[[2, 0]])
    assert (5 <= table[[1, 3, 4]]).all()
    assert len(np.unique(table[[1, 3, 4]])) == 6
    kernel = "dnn/hiddenlayer_0/kernel"
    np.testing.assert_array_equal(started[kernel], before.get_variable_value(kernel))


def test_table_that_tensorflow_trained_in_parts(tmp_path: Path) -> None:
    prefix, said = recorded("v1_dnn_partitioned")
    name = "dnn/input_from_feature_columns/input_layer/job_embedding/embedding_weights"
    table = np.float32(said["variables"][name]["value"])
    old = vocabulary(tmp_path / "old.txt", [f"job {number}" for number in range(9)])
    new = vocabulary(tmp_path / "new.txt", ["job 8", "another", "job 0"])
    column = categorical_column_with_vocabulary_file("job", str(new), num_oov_buckets=1)
    settings = WarmStartSettings(
        str(prefix),
        vars_to_warm_start=None,
        var_name_to_vocab_info={name: VocabInfo(str(new), 3, 1, str(old))},
    )
    estimator = DNNClassifier([8], [embedding_column(column, 4)], tmp_path / "new", warm_start_from=settings)
    features = {"job": np.array(["job 8", "job 0"])}
    data = Dataset.from_tensor_slices((features, np.array([0, 1]))).batch(2)
    estimator.train(lambda: data, steps=1)
    started = read_checkpoint(tmp_path / "new" / "ckpt-0").variables[name]
    np.testing.assert_array_equal(started, [table[8], np.zeros(4), table[0], np.zeros(4)])


@pytest.mark.parametrize(
    ("changes", "shape", "message"),
    [
        ({}, (4, 2), "does not have 3 entries and 2 buckets on its axis 0"),
        ({"axis": 1}, (5,), "does not have 3 entries and 2 buckets on its axis 1"),
        ({}, (5, 3), "the checkpoint has it with the shape .4, 2.. Only its axis 0 may differ"),
        ({"new_vocab_size": 4}, (6, 2), "has 3 entries, fewer than 4"),
        ({"old_vocab_size": 7}, (5, 2), "has 3 entries, fewer than 7"),
        ({"new_vocab": "/gone.txt"}, (5, 2), "does not exist"),
    ],
)
def test_what_does_not_fit(
    change: VocabInfo, changes: dict[str, Any], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(Exception, match=message) as raised:
        dataclasses.replace(change, **changes).start_value(spec(*shape), ROWS)
    assert raised.type.__name__ in ("ValueError", "CheckpointMismatchError")


def test_checkpoint_with_fewer_rows_than_its_vocabulary(change: VocabInfo) -> None:
    with pytest.raises(Exception, match="has 2 entries on its axis 0, and the vocabulary .* has 3"):
        change.start_value(spec(5, 2), ROWS[:2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axis": 2}, "only supported values for the axis argument are 0 and 1. Provided axis: 2"),
        ({"new_vocab": ""}, "must be files"),
        ({"new_vocab_size": 0}, "must be >= 1"),
        ({"num_oov_buckets": -1}, "must be >= 1"),
    ],
)
def test_wrong_arguments(change: VocabInfo, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(change, **changes)


def test_vocabulary_of_no_variable_is_refused(tmp_path: Path, change: VocabInfo) -> None:
    classifier(str(change.old_vocab), tmp_path / "before", 1).train(input_fn)
    settings = WarmStartSettings(str(tmp_path / "before"), "dnn", var_name_to_vocab_info={LINEAR: change})
    after = classifier(str(change.old_vocab), tmp_path / "after", 1, warm_start_from=settings)
    with pytest.raises(ValueError, match=f"has {LINEAR}, which are not warm-started"):
        after.train(input_fn)
