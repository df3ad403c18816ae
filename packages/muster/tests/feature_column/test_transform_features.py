"""The host's part of columns: what comes out of the input pipeline, and what is refused."""

import threading

import jax
import numpy as np
import pytest

from muster.data import Dataset, RaggedTensor, SparseTensor, make_csv_dataset
from muster.feature_column import (
    bucketized_column,
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
    crossed_column,
    dense_features,
    embedding_column,
    indicator_column,
    linear_model,
    numeric_column,
    sequence_numeric_column,
    transform_features,
    weighted_categorical_column,
)

COLOR = categorical_column_with_vocabulary_list("color", ["red", "green"], num_oov_buckets=2)


def test_what_comes_out():
    columns = [
        indicator_column(COLOR),
        numeric_column("size"),
        bucketized_column(numeric_column("age"), [30]),
        categorical_column_with_identity("shop", 10),
    ]
    features = {
        "color": np.array(["green", "", "red"]),
        "size": np.array([1.0, 2.0, 3.0], np.float32),
        "age": np.array([20, 30, 40]),
        "shop": np.array([7, -1, 0]),
        "comment": np.array(["of no column", "", ""]),
        "weight": np.array([1.0, 1.0, 2.0]),
    }
    found = transform_features(features, columns)
    assert list(found) == [
        "size", "age", "weight",
        "color.VocabularyListCategoricalColumn.4", "shop.IdentityCategoricalColumn.10",
    ]  # fmt: skip
    np.testing.assert_array_equal(found["color.VocabularyListCategoricalColumn.4"], [[1], [-1], [0]])
    np.testing.assert_array_equal(found["shop.IdentityCategoricalColumn.10"], [[7], [-1], [0]])
    assert found["shop.IdentityCategoricalColumn.10"].dtype == np.int32
    again = transform_features(found, columns)
    assert again.keys() == found.keys()


def test_an_integer_that_a_step_reads_stays():
    columns = [numeric_column("n"), categorical_column_with_identity("n", 3)]
    found = transform_features({"n": np.array([1, 2])}, columns)
    assert set(found) == {"n", "n.IdentityCategoricalColumn.3"}


@pytest.mark.parametrize(("most", "width"), [(0, 1), (1, 1), (3, 3), (4, 4), (5, 8), (9, 16)])
def test_few_widths_are_compiled(most, width):
    column = categorical_column_with_hash_bucket("words", 100)
    words = SparseTensor([[0, i] for i in range(most)], np.array(["x"] * most, object), (2, most))
    (ids,) = transform_features({"words": words}, column).values()
    assert ids.shape == (2, width)
    assert (ids[0] >= 0).sum() == most


def test_text_as_bytes_as_objects_and_as_lists_is_the_same():
    column = categorical_column_with_hash_bucket("word", 1000)
    words = ["a", "bcd", "", "é"]
    encoded = [word.encode() for word in words]
    given = [np.array(words), np.array(words, object), np.array(encoded, object), words, encoded]
    found = [
        transform_features({"word": word}, column)["word.HashedCategoricalColumn.1000"] for word in given
    ]
    for ids in found:
        np.testing.assert_array_equal(ids, found[0])
    with_vocabulary = categorical_column_with_vocabulary_list("word", ["é", "a"])
    for word in given:
        (ids,) = transform_features({"word": word}, with_vocabulary).values()
        np.testing.assert_array_equal(ids, [[1], [-1], [-1], [0]])


def test_ragged_and_sparse_and_padded_features_are_the_same():
    rows = [["a", "b", "c"], [], ["b"]]
    ragged = RaggedTensor.from_rows(rows)
    column = categorical_column_with_hash_bucket("words", 100)
    wanted = transform_features({"words": ragged}, column)["words.HashedCategoricalColumn.100"]
    for given in (ragged.to_sparse(), ragged.to_tensor()):
        (ids,) = transform_features({"words": given}, column).values()
        np.testing.assert_array_equal(ids, wanted)
    for batch in (Dataset.padded_batch, lambda dataset, size: dataset.map(SparseTensor.to_dense).batch(size)):
        source = ragged if batch is Dataset.padded_batch else ragged.to_sparse()
        (words,) = batch(Dataset.from_tensor_slices(source), 3)
        (ids,) = transform_features({"words": words}, column).values()
        np.testing.assert_array_equal(ids, wanted)


def test_columns_of_a_csv_file(tmp_path):
    (tmp_path / "rows.csv").write_text("color,shop,y\nred,3,1\n,0,0\ngreen,9,1\n")
    dataset = make_csv_dataset(tmp_path / "rows.csv", 3, label_name="y", num_epochs=1, shuffle=False)
    columns = [COLOR, categorical_column_with_identity("shop", 10)]
    ((features, labels),) = dataset.map(lambda given, y: (transform_features(given, columns), y))
    assert [ids[:, 0].tolist() for ids in features.values()] == [[0, -1, 1], [3, 0, 9]]
    assert labels.tolist() == [1, 0, 1]


def test_in_the_thread_of_the_input_pipeline():
    threads = set()

    def host_part(features, labels):
        threads.add(threading.current_thread())
        return transform_features(features, [COLOR]), labels

    dataset = Dataset.from_tensor_slices(({"color": ["red", "blue", "green"]}, [1, 2, 3])).batch(2)
    batches = list(dataset.prefetch(2).map(host_part))
    assert threading.current_thread() not in threads
    key = "color.VocabularyListCategoricalColumn.4"
    assert [features[key].shape for features, _ in batches] == [(2, 1), (1, 1)]
    assert batches[0][0][key][0, 0] == 0
    assert batches[0][0][key][1, 0] in (2, 3)


def test_a_step_says_where_the_host_s_part_belongs():
    column = embedding_column(categorical_column_with_hash_bucket("n", 10, np.int64), 2)
    with pytest.raises(ValueError, match="Feature n is a value of a step.* transform_features"):
        jax.jit(lambda n: dense_features({"n": n}, column))(np.array([1, 2]))


def test_a_step_computes_identities_and_buckets_itself():
    columns = [
        bucketized_column(numeric_column("x"), [0.5]),
        indicator_column(categorical_column_with_identity("c", 3, default_value=2)),
    ]
    features = {"x": np.array([0.0, 0.5, 1.0]), "c": np.array([1, -1, 7])}
    in_step = jax.jit(lambda given: dense_features(given, columns))(features)
    np.testing.assert_array_equal(in_step, dense_features(features, columns))
    np.testing.assert_array_equal(in_step, [[0, 1, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 1]])


def test_ids_out_of_range_are_nan_in_a_step():
    column = categorical_column_with_identity("c", 3)
    found = jax.jit(lambda c: linear_model({"c": c}, column))(np.array([0, -1, 3, -2]))
    np.testing.assert_array_equal(np.isnan(found), [[False], [False], [True], [True]])


def test_columns_of_one_name_that_differ():
    same_size = categorical_column_with_vocabulary_list("color", ["blue", "white"], num_oov_buckets=2)
    with pytest.raises(ValueError, match="Two columns of one name and kind differ"):
        transform_features({"color": ["red"]}, [COLOR, same_size])
    other = categorical_column_with_hash_bucket("color", 4)
    assert len(transform_features({"color": ["red"]}, [COLOR, other])) == 2


@pytest.mark.parametrize(
    ("column", "features", "message"),
    [
        (
            numeric_column("x"),
            {"x": SparseTensor([[0, 0]], [1.0], (1, 1))},
            "SparseTensor is not supported. key: x",
        ),
        (numeric_column("x"), {"x": np.array(["1"])}, "Feature x has dtype <U1, and a column needs numbers"),
        (COLOR, {}, "Feature color is not in features dictionary. There are: none"),
        (COLOR, {"color": np.array([1, 2])}, "column dtype: string, tensor dtype: int64"),
        (COLOR, {"color": np.array([1.5])}, "must be string or integer. dtype: float64"),
        (COLOR, {"color": "red"}, "cannot have rank 0"),
        (COLOR, {"color": np.array([3, "x"], object)}, "Text or bytes are wanted, got 3"),
        (
            categorical_column_with_identity("c", 3),
            {"c": np.array([[0, 1], [2, 3]])},
            r"Column c: the id 3 of example 1 is not in \[0, 3\)",
        ),
        (categorical_column_with_identity("c", 3), {"c": np.array([-5])}, r"the id -5 of example 0"),
        (
            categorical_column_with_identity("c", 3),
            {"c": np.array(["x"])},
            "not integer. key: c dtype: string",
        ),
        (
            categorical_column_with_vocabulary_list("c", ["a"], default_value=9),
            {"c": np.array(["b"])},
            "the id 9 of example 0",
        ),
        (
            crossed_column(["a", "b"], 10),
            {"a": np.array(["x", "y"]), "b": np.array(["z"])},
            r"features of a_X_b differ in their number of examples: \[2, 1\]",
        ),
        (
            crossed_column(["a", "b"], 10),
            {"a": np.zeros((2, 1, 1)), "b": np.array(["z", "z"])},
            r"Feature a has the shape \(2, 1, 1\)",
        ),
        (
            weighted_categorical_column(COLOR, "w"),
            {"color": np.array(["red"]), "w": np.array(["1"])},
            "dtype of w is not convertible to float",
        ),
        (
            weighted_categorical_column(COLOR, "w"),
            {"color": np.array([["red", "red"]]), "w": SparseTensor([[0, 0]], [1.0], (1, 2))},
            r"w has no weight at \[0 1\]",
        ),
        (
            sequence_numeric_column("s"),
            {"s": np.array(["x"])},
            "Feature s has dtype string, and needs numbers",
        ),
        (
            sequence_numeric_column("s", 2),
            {"s": SparseTensor([[0, 2]], [1.0], (1, 3))},
            r"no whole number of steps of the shape \(2,\)",
        ),
    ],
)
def test_what_is_refused(column, features, message):
    with pytest.raises(ValueError, match=message):
        transform_features(features, [column])


def test_text_where_numbers_belong():
    with pytest.raises(ValueError, match="Feature x has dtype <U1.* Use a categorical column for text"):
        numeric_column("x").dense_values({"x": np.array(["a"])})


def vocabulary(tmp_path, content, **arguments):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    return categorical_column_with_vocabulary_file("word", path, **arguments)


def test_a_vocabulary_file_is_read_once_when_it_is_needed(tmp_path):
    column = vocabulary(tmp_path, b"one\ntwo\n\xc3\xa9", vocabulary_size=3, num_oov_buckets=1)
    (tmp_path / "words.txt").rename(tmp_path / "late.txt")
    (tmp_path / "late.txt").rename(tmp_path / "words.txt")
    (ids,) = transform_features({"word": ["é", "one", "three"]}, column).values()
    (tmp_path / "words.txt").unlink()
    np.testing.assert_array_equal(ids, [[2], [0], [3]])
    (again,) = transform_features({"word": ["two"]}, column).values()
    np.testing.assert_array_equal(again, [[1]])


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"a\n\xff\n", {}, "words.txt in word is not UTF-8"),
        (b"a\nb\n", {"vocabulary_size": 3}, "expected 3 but got 2"),
        (b"a\nb\na\n", {}, "words.txt in word has 'a' twice"),
        (b"1\nb\n", {"dtype": np.int64}, "must have an integer in each line: .*'b'"),
        (b"", {}, "Invalid vocabulary_size in word"),
    ],
)
def test_vocabulary_files_that_are_refused(tmp_path, content, arguments, message):
    words = np.array(["1"]).astype(arguments.get("dtype", str))
    with pytest.raises(ValueError, match=message):
        transform_features({"word": words}, vocabulary(tmp_path, content, **arguments))


def test_vocabulary_files_that_are_missing(tmp_path):
    with pytest.raises(ValueError, match=r"vocabulary_file in word does not exist.*nowhere.txt"):
        categorical_column_with_vocabulary_file("word", tmp_path / "nowhere.txt")
    late = categorical_column_with_vocabulary_file("word", tmp_path / "nowhere.txt", vocabulary_size=2)
    with pytest.raises(ValueError, match="vocabulary_file in word does not exist"):
        transform_features({"word": ["a"]}, late)
