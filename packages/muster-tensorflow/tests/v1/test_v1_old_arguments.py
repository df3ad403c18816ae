"""TensorFlow 1's names of arguments, its losses, its files and its flags."""

import logging
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from absl import flags
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf

TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_reductions_take_old_names() -> None:
    assert tf.reduce_sum(TABLE, reduction_indices=[1], keep_dims=True).tolist() == [[3], [7]]
    assert tf.reduce_mean(TABLE, 0, None).tolist() == [2, 3]
    assert tf.math.reduce_max(TABLE, keep_dims=True).tolist() == [[4]]
    assert tf.count_nonzero(input_tensor=[0, 1, 2]) == 2
    with pytest.raises(ValueError, match="either axis or reduction_indices"):
        tf.reduce_sum(TABLE, axis=0, reduction_indices=1)


def test_others_take_old_names() -> None:
    assert tf.argmax(TABLE, 1).tolist() == tf.argmax(TABLE, dimension=1).tolist() == [1, 1]
    assert tf.argmin(TABLE, 0, "name", output_type=tf.int32).dtype == np.int32
    assert tf.expand_dims(TABLE, dim=0).shape == (1, 2, 2)
    assert tf.squeeze(TABLE[None], squeeze_dims=[0]).shape == (2, 2)
    assert tf.zeros_like(tensor=TABLE).tolist() == [[0, 0], [0, 0]]
    assert tf.norm(TABLE[:1], axis=1, keep_dims=True).shape == (1, 1)
    assert tf.transpose(TABLE, [1, 0], "name").tolist() == TABLE.T.tolist()
    assert tf.pad([1], [[1, 0]], "CONSTANT", "name", 9).tolist() == [9, 1]
    assert tf.shape(TABLE, "name").tolist() == [2, 2]
    assert tf.gather_nd(TABLE, [[0, 1]], "name").tolist() == [2]


def test_dtypes_by_functions() -> None:
    assert [tf.to_float([1]).dtype, tf.to_double([1]).dtype] == [tf.float32, tf.float64]
    assert [tf.to_int32([1.5]).tolist(), tf.to_int64(["2"]).tolist()] == [[1], [2]]
    assert tf.to_bfloat16([1]).dtype == tf.bfloat16


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda: tf.losses.huber_loss([1.0, 2.0, 5.0], [1.5, 2.0, 1.0]), 1.2083334),
        (lambda: tf.losses.huber_loss([1.0, 5.0], [1.5, 1.0], [0.0, 1.0], 2.0), 6.0),
        (lambda: tf.losses.log_loss([1.0, 0.0], [0.9, 0.2]), 0.1642519),
        (lambda: tf.losses.hinge_loss([1.0, 0.0], [0.3, 0.2]), 0.95),
        (lambda: tf.losses.cosine_distance([[1.0, 0], [0.6, 0.8]], [[0.6, 0.8], [1.0, 0]], dim=1), 0.4),
        (lambda: tf.losses.cosine_distance([[1.0, 0]], [[0.6, 0.8]], 1, weights=[[2.0]]), 0.8),
    ],
)
def test_losses(loss: Any, expected: float) -> None:
    """Numbers of TensorFlow 2.15, but for those with weights, which follow from them."""
    np.testing.assert_allclose(loss(), expected, rtol=1e-6)


def test_a_distance_needs_an_axis() -> None:
    with pytest.raises(ValueError, match="must specify 'axis'"):
        tf.losses.cosine_distance([[1.0]], [[1.0]])


def test_values_are_printed_and_returned(capfd: pytest.CaptureFixture[str]) -> None:
    assert float(outputs_of(lambda x: {"x": tf.Print(x, [x], "the value is")})["x"]) == 1.0
    assert "the value is 1\n" in capfd.readouterr().err
    with pytest.raises(ValueError, match="takes no first_n, got 3"):
        tf.Print(jnp.ones(1), [], first_n=3)


def test_variables_are_counted_down() -> None:
    def step(x: Any) -> dict[str, Any]:
        return {"rest": tf.assign_sub(tf.get_variable("v", [], initializer=tf.ones_initializer()), 3 * x)}

    assert float(outputs_of(step)["rest"]) == -2.0


def test_files(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    tf.gfile.MakeDirs(str(folder))
    tf.gfile.MkDir(str(folder))
    with tf.gfile.GFile(str(folder / "x.txt"), "w") as file:
        file.write("text")
    tf.gfile.Copy(folder / "x.txt", folder / "y.txt")
    tf.gfile.Rename(folder / "y.txt", folder / "z.txt")
    assert tf.gfile.Glob(str(folder / "*")) == [str(folder / "x.txt"), str(folder / "z.txt")]
    assert sorted(tf.gfile.ListDirectory(folder)) == ["x.txt", "z.txt"]
    assert [each[0] for each in tf.gfile.Walk(tmp_path, in_order=False)][-1] == str(tmp_path)
    assert tf.read_file(str(folder / "x.txt")) == b"text"
    tf.write_file(str(folder / "x.txt"), "other")
    with tf.gfile.Open(folder / "x.txt") as file:
        assert file.read() == "other"
    found = tf.gfile.Stat(folder / "x.txt")
    assert found.st_size == found.length == 5
    assert (found.is_directory, tf.io.gfile.stat(folder).is_directory) == (False, True)
    assert found.mtime_nsec > 10**18
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.Remove(folder / "none")
    tf.gfile.DeleteRecursively(tmp_path / "a")
    assert not tf.gfile.Exists(folder)
    assert tf.gfile.IsDirectory(tmp_path)


def test_records(tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    with tf.python_io.TFRecordWriter(path) as writer:
        writer.write(b"one")
    assert list(tf.python_io.tf_record_iterator(path)) == [b"one"]
    options = tf.python_io.TFRecordOptions("GZIP")
    with tf.python_io.TFRecordWriter(path, options) as writer:
        writer.write(b"two")
    assert list(tf.io.tf_record_iterator(path, options)) == [b"two"]


def test_flags_are_parsed_and_the_rest_is_given_to_main() -> None:
    tf.flags.DEFINE_string(flag_name="muster_name", default_value="none", docstring="A name.")
    tf.app.flags.DEFINE_integer("muster_count", 1, "A number.")
    given = []

    def main(argv: list[str]) -> None:
        given.append((argv, tf.flags.FLAGS.muster_name, tf.app.flags.FLAGS.muster_count))

    try:
        with pytest.raises(SystemExit):
            tf.app.run(main, ["program", "--muster_name=x", "rest", "--muster_count", "3", "--unknown"])
        assert given == [(["program", "rest", "--unknown"], "x", 3)]
    finally:
        for name in ("muster_name", "muster_count"):
            delattr(flags.FLAGS, name)


def test_wrong_flags_end_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    tf.flags.DEFINE_integer("muster_number", 1, "A number.")
    try:
        with pytest.raises(SystemExit) as ended:
            tf.app.run(print, ["program", "--muster_number=many"])
        assert ended.value.code == 1
        assert "muster_number" in capsys.readouterr().err
    finally:
        delattr(flags.FLAGS, "muster_number")


def test_without_absl_there_are_no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("absl", "absl.flags", "absl.app"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(AttributeError, match="needs absl: pip install absl-py"):
        _ = tf.flags.FLAGS
    with pytest.raises(SystemExit) as ended:
        tf.app.run(lambda argv: argv[1], ["program", "--x=1"])
    assert ended.value.code == "--x=1"


def test_some_messages_are_logged_at_times(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tensorflow"):
        for number in range(5):
            tf.logging.log_every_n(tf.logging.INFO, "every %d", 2, number)
            tf.logging.log_first_n(tf.logging.INFO, "first %d", 2, number)
            tf.logging.log_if(tf.logging.INFO, "odd %d", number % 2, number)
        tf.logging.warn("warned")
    wanted = ["every 0", "first 0", "first 1", "odd 1", "every 2", "odd 3", "every 4", "warned"]
    assert caplog.messages == wanted


def test_calls_without_effect() -> None:
    tf.enable_eager_execution()
    tf.reset_default_graph()
    tf.enable_v2_behavior()
    assert tf.global_variables_initializer().name == "init"
    assert (tf.VERSION, tf.__version__, tf.version.VERSION) == ("2.15.1",) * 3
    assert tf.test.is_gpu_available() is bool(tf.test.gpu_device_name())


def test_names_of_tensorflow_2_under_those_of_1() -> None:
    assert tf.div_no_nan([1.0, 2.0], [0.0, 4.0]).numpy().tolist() == [0.0, 0.5]
    assert tf.where_v2([True, False], [[1], [2]], 0).numpy().tolist() == [[1, 0], [2, 0]]


@pytest.mark.parametrize(
    ("texts", "options", "indices", "values", "shape"),
    [
        (["a b", "c  d"], {}, [[0, 0], [0, 1], [1, 0], [1, 1]], ["a", "b", "c", "d"], [2, 2]),
        ([b"a,b,,c"], {"delimiter": ","}, [[0, 0], [0, 1], [0, 2]], ["a", "b", "c"], [1, 3]),
        (["a,,b"], {"delimiter": ",", "skip_empty": False}, [[0, 0], [0, 1], [0, 2]], ["a", "", "b"], [1, 3]),
        (["a,b;c"], {"sep": ",;"}, [[0, 0], [0, 1], [0, 2]], ["a", "b", "c"], [1, 3]),
        (["abc", ""], {"delimiter": ""}, [[0, 0], [0, 1], [0, 2]], ["a", "b", "c"], [2, 3]),
        ([" a\tb "], {}, [[0, 0]], ["a\tb"], [1, 1]),
        ([""], {}, [], [], [1, 0]),
    ],
)
def test_texts_are_split_at_characters(texts, options, indices, values, shape) -> None:
    parts = tf.string_split(tf.constant(texts), **options)
    assert np.asarray(parts.indices).tolist() == indices
    assert np.asarray(parts.values).tolist() == values
    assert list(parts.dense_shape) == shape


def test_sparse_tensors_have_the_old_names():
    matrix = tf.SparseTensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
    assert tf.sparse_tensor_dense_matmul(matrix, [[1.0], [2.0]]).tolist() == [[4.0], [3.0]]
    assert tf.sparse_tensor_to_dense(tf.sparse_add(matrix, matrix)).tolist() == [[0.0, 4.0], [6.0, 0.0]]
    assert tf.sparse_reshape(matrix, [4]).indices.tolist() == [[1], [2]]


def test_where_with_a_vector_chooses_rows() -> None:
    condition, x = np.array([True, False, False]), np.arange(9.0).reshape(3, 3)
    rows = [[0, 1, 2], [-1, -1, -1], [-1, -1, -1]]
    assert np.asarray(tf.where(condition, x, -np.ones((3, 3)))).tolist() == rows
    found = tf.where(condition, np.ones((3, 4)), np.zeros((3, 4)))
    assert np.asarray(found).tolist() == [[1] * 4, [0] * 4, [0] * 4]
    assert np.asarray(tf.where(condition, np.ones(3), np.zeros(3))).tolist() == [1, 0, 0]
    assert np.asarray(tf.where(condition)).tolist() == [[0]]
    columns = [[0, -1, -1], [3, -1, -1], [6, -1, -1]]
    assert np.asarray(tf.where_v2(condition, x, -np.ones((3, 3)))).tolist() == columns
