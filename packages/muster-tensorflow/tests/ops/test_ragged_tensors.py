"""``tf.RaggedTensor`` and ``tf.ragged``; values are those of TensorFlow's documentation."""

import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf

DIGITS = tf.ragged.constant([[3, 1, 4, 1], [], [5, 9, 2], [6], []])
DEEP = tf.RaggedTensor.from_nested_row_splits(range(10, 20), ([0, 1, 1, 5], [0, 3, 3, 5, 9, 10]))
ROWS = [[3, 1, 4, 1], [], [5, 9], [2]]
VALUES = [3, 1, 4, 1, 5, 9, 2]


@pytest.mark.parametrize(
    "made",
    [
        lambda: tf.RaggedTensor.from_row_splits(VALUES, [0, 4, 4, 6, 7]),
        lambda: tf.RaggedTensor.from_row_lengths(VALUES, [4, 0, 2, 1]),
        lambda: tf.RaggedTensor.from_value_rowids(VALUES, [0, 0, 0, 0, 2, 2, 3]),
        lambda: tf.RaggedTensor.from_row_starts(VALUES, [0, 4, 4, 6]),
        lambda: tf.RaggedTensor.from_row_limits(VALUES, [4, 4, 6, 7]),
        lambda: tf.RaggedTensor.from_tensor([[3, 1, 4, 1], [0] * 4, [5, 9, 0, 0], [2, 0, 0, 0]], padding=0),
        lambda: tf.RaggedTensor.from_tensor(
            [[3, 1, 4, 1], [0] * 4, [5, 9, 0, 0], [2, 0, 0, 0]], [4, 0, 2, 1]
        ),
        lambda: tf.RaggedTensor.from_sparse(tf.ragged.constant(ROWS).to_sparse()),
        lambda: tf.ragged.constant(ROWS),
        lambda: tf.ragged.stack([tf.constant(row, tf.int32) for row in ROWS]),
    ],
)
def test_rows_are_made_in_many_ways(made) -> None:
    ragged = made()
    assert ragged.to_list() == ROWS
    assert ragged.shape.as_list() == [4, None]
    assert (ragged.dtype, ragged.ragged_rank, ragged.nrows().numpy()) == (tf.int32, 1, 4)
    assert ragged.row_splits.numpy().tolist() == [0, 4, 4, 6, 7]
    assert ragged.value_rowids().numpy().tolist() == [0, 0, 0, 0, 2, 2, 3]
    assert ragged.bounding_shape().numpy().tolist() == [4, 4]
    assert tf.is_tensor(ragged)


def test_text_is_bytes_and_shows_as_such() -> None:
    words = tf.ragged.constant([["Hi"], ["How", "are", "you"]])
    assert words.to_list() == [[b"Hi"], [b"How", b"are", b"you"]]
    assert str(words) == "<tf.RaggedTensor [[b'Hi'], [b'How', b'are', b'you']]>"
    assert (words + "!")[0, 0].numpy() == b"Hi!"
    assert tf.strings.join([words, words], "-")[1, 0].numpy() == b"How-How"
    with pytest.raises(ValueError, match="nested lists"):
        tf.ragged.constant(["A", ["B", "C"]])
    with pytest.raises(ValueError, match="one kind"):
        tf.ragged.constant([["one", "two"], [3, 4]])


def test_rows_of_rows() -> None:
    assert DEEP.to_list() == [[[10, 11, 12]], [], [[], [13, 14], [15, 16, 17, 18], [19]]]
    assert (DEEP.shape.as_list(), DEEP.ragged_rank) == ([3, None, None], 2)
    assert DEEP.merge_dims(0, 1).to_list() == [[10, 11, 12], [], [13, 14], [15, 16, 17, 18], [19]]
    assert DEEP.merge_dims(1, 2).to_list() == [[10, 11, 12], [], list(range(13, 20))]
    assert DEEP.to_tensor().shape == (3, 4, 4)
    inner = tf.RaggedTensor.from_row_splits(range(10, 20), [0, 3, 5, 9, 10])
    uniform = tf.RaggedTensor.from_uniform_row_length(inner, 2)
    assert uniform.to_list() == [[[10, 11, 12], [13, 14]], [[15, 16, 17, 18], [19]]]
    assert uniform.shape.as_list() == [2, 2, None]
    vectors = tf.RaggedTensor.from_row_splits([[1, 3], [0, 0], [1, 3]], [0, 2, 3])
    assert (vectors.shape.as_list(), vectors.flat_values.shape) == ([2, None, 2], (3, 2))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (lambda x: x[2], [5, 9, 2]),
        (lambda x: x[2, -1], 2),
        (lambda x: x[1:3], [[], [5, 9, 2]]),
        (lambda x: x[:, :2], [[3, 1], [], [5, 9], [6], []]),
        (lambda x: x[:, -2:], [[4, 1], [], [9, 2], [6], []]),
        (lambda x: x[..., ::-1], [[1, 4, 1, 3], [], [2, 9, 5], [6], []]),
        (lambda x: x[:2, tf.newaxis], [[[3, 1, 4, 1]], [[]]]),
        (lambda x: tf.gather(x, [3, 0]), [[6], [3, 1, 4, 1]]),
        (lambda x: tf.gather(x[2:4], [[1, 0], [0, 0]], batch_dims=1), [[9, 5], [6, 6]]),
        (lambda x: tf.gather_nd(x, [[0, 2], [3, 0]]), [4, 6]),
        (lambda x: tf.reverse(x, [0]), [[], [6], [5, 9, 2], [], [3, 1, 4, 1]]),
        (lambda x: tf.where(x > 4), [[2, 0], [2, 1], [3, 0]]),
        (lambda x: tf.ragged.boolean_mask(x, x > 1), [[3, 4], [], [5, 9, 2], [6], []]),
        (lambda x: tf.ragged.boolean_mask(x, [True, False, False, True, False]), [[3, 1, 4, 1], [6]]),
        (lambda x: x.to_tensor(-1, shape=[None, 2]), [[3, 1], [-1, -1], [5, 9], [6, -1], [-1, -1]]),
    ],
)
def test_parts(part, expected) -> None:
    found = part(DIGITS)
    assert (found.to_list() if isinstance(found, tf.RaggedTensor) else found.numpy().tolist()) == expected


def test_a_place_that_rows_may_lack_is_no_part() -> None:
    with pytest.raises(ValueError, match="inner ragged dimension"):
        DIGITS[:, 0]
    with pytest.raises(IndexError, match="no row 5"):
        DIGITS[5]


def test_values_of_one_shape_and_of_shapes_that_broadcast() -> None:
    assert (DIGITS + 3).to_list() == tf.add(DIGITS, 3).to_list() == [[6, 4, 7, 4], [], [8, 12, 5], [9], []]
    assert (2 * DIGITS - DIGITS).to_list() == (np.int32(1) * DIGITS).to_list() == DIGITS.to_list()
    assert (DIGITS + [[1], [2], [3], [4], [5]]).to_list() == [[4, 2, 5, 2], [], [8, 12, 5], [10], []]
    assert (jnp.ones((), jnp.int32) + DIGITS).to_list() == (DIGITS + 1).to_list()
    assert tf.cast(DIGITS, tf.float32).dtype == tf.float32
    assert (DIGITS == 1).to_list() == [[False, True, False, True], [], [False] * 3, [False], []]
    assert (-DIGITS[:1] // 2).to_list() == [[-2, -1, -2, -1]]
    assert tf.where(DIGITS[:1] > 2, DIGITS[:1], 0).to_list() == [[3, 0, 4, 0]]
    pairs = tf.ragged.constant([[[1, 2], [3, 4], [5, 6]], [[7, 8]]], ragged_rank=1)
    wanted = [[[11, 22], [13, 24], [15, 26]], [[37, 48]]]
    assert (pairs + tf.constant([[[10, 20]], [[30, 40]]])).to_list() == wanted
    with pytest.raises(ValueError, match="Unable to broadcast"):
        tf.ragged.constant([[1, 2], [3]]) + tf.ragged.constant([[10, 20], [30, 40]])


def test_values_become_one_along_an_axis() -> None:
    rows = tf.ragged.constant([[3, 1, 4], [1, 5], [9], [2, 6]])
    assert tf.reduce_sum(rows, 0).numpy().tolist() == [15, 12, 4]
    assert tf.reduce_sum(rows, 1).numpy().tolist() == [8, 6, 9, 8]
    assert tf.reduce_prod(rows, 0).numpy().tolist() == [54, 30, 4]
    assert tf.reduce_min(rows, 1).numpy().tolist() == [1, 1, 9, 2]
    assert tf.reduce_max(rows, 0).numpy().tolist() == [9, 6, 4]
    assert tf.reduce_mean(rows, 0).numpy().tolist() == [3.75, 4.0, 4.0]
    assert tf.reduce_any(rows > 8, 1).numpy().tolist() == [False, False, True, False]
    assert tf.reduce_all(rows > 0, 1).numpy().all()
    assert tf.reduce_sum(rows).numpy() == 31
    assert tf.reduce_sum(rows, 1, keepdims=True).numpy().tolist() == [[8], [6], [9], [8]]
    np.testing.assert_array_equal(tf.reduce_mean(DIGITS, 1), [2.25, np.nan, 16 / 3, 6, np.nan])
    assert tf.reduce_sum(DEEP, 2).to_list() == [[33], [], [0, 27, 66, 19]]
    assert tf.reduce_sum(DEEP, 1).to_list() == [[10, 11, 12], [], [13 + 15 + 19, 14 + 16, 17, 18]]
    assert tf.reduce_sum(DEEP, 0).to_list() == [[10, 11, 12], [13, 14], [15, 16, 17, 18], [19]]
    assert tf.reduce_sum(DEEP, [1, 2]).numpy().tolist() == [33, 0, 112]


def test_rows_are_joined() -> None:
    x, y = tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d", "e"], []], tf.string)
    assert tf.concat([x, y], 0).to_list() == [[b"a"], [b"b", b"c"], [b"d", b"e"], []]
    assert tf.concat([x, y], axis=1).to_list() == [[b"a", b"d", b"e"], [b"b", b"c"]]
    assert tf.concat([tf.fill([2, 1], "#"), x], 1).to_list() == [[b"#", b"a"], [b"#", b"b", b"c"]]
    assert tf.stack([x, y]).to_list() == [[[b"a"], [b"b", b"c"]], [[b"d", b"e"], []]]
    assert tf.stack([x, y], axis=1).to_list() == [[[b"a"], [b"d", b"e"]], [[b"b", b"c"], []]]
    assert tf.tile(x, [2, 2]).to_list() == [[b"a"] * 2, [b"b", b"c"] * 2] * 2
    assert tf.expand_dims(x, 0).shape.as_list() == [1, 2, None]
    assert tf.expand_dims(x, 1).shape.as_list() == [2, 1, None]
    assert tf.expand_dims(x, 2).to_list() == [[[b"a"]], [[b"b"], [b"c"]]]
    assert tf.squeeze(tf.expand_dims(x, 1), 1).to_list() == x.to_list()


def test_functions_for_ragged_tensors_alone() -> None:
    assert tf.ragged.map_flat_values(lambda x: 2 * x + 1, DIGITS)[0].numpy().tolist() == [7, 3, 9, 3]
    assert tf.ragged.range([3, 5, 2]).to_list() == [[0, 1, 2], [0, 1, 2, 3, 4], [0, 1]]
    assert tf.ragged.range([0, 5, 8], [3, 3, 12], 2).to_list() == [[0, 2], [], [8, 10]]
    assert tf.ragged.row_splits_to_segment_ids([0, 3, 3, 5]).numpy().tolist() == [0, 0, 0, 2, 2]
    assert tf.ragged.segment_ids_to_row_splits([0, 0, 0, 2, 2]).numpy().tolist() == [0, 3, 3, 5]
    parts = tf.ragged.stack_dynamic_partitions(["a", "b", "c", "d"], [3, 0, 2, 3], 4)
    assert parts.to_list() == [[b"b"], [], [b"c"], [b"a", b"d"]]
    assert tf.map_fn(tf.math.square, DIGITS[:1]).to_list() == [[9, 1, 16, 1]]
    assert tf.map_fn(tf.reduce_sum, DIGITS).numpy().tolist() == [9, 0, 16, 6, 0]
    with pytest.raises(ValueError, match="same row_splits"):
        tf.ragged.map_flat_values(tf.add, DIGITS, DIGITS[:2])


def test_shapes_name_the_lengths_of_rows() -> None:
    shape = tf.shape(tf.ragged.constant([[1], [2, 3, 4], [5, 6]]))
    assert repr(shape) == "<DynamicRaggedShape lengths=[3, (1, 3, 2)] num_row_partitions=1>"
    assert (shape[0], shape.rank, shape.static_lengths()) == (3, 2, [3, (1, 3, 2)])
    spread = tf.broadcast_to(tf.constant([[1], [2], [3]]), shape)
    assert spread.to_list() == [[1], [2, 2, 2], [3, 3]]
    assert (tf.size(DIGITS), tf.rank(DIGITS)) == (8, 2)


def test_functions_are_compiled_and_differentiated() -> None:
    @tf.function
    def palindrome(x, axis):
        return tf.concat([x, tf.reverse(x, [axis])], axis)

    assert palindrome(tf.ragged.constant([[1, 2], [3], [4, 5, 6]]), axis=1).to_list() == [
        [1, 2, 2, 1],
        [3, 3],
        [4, 5, 6, 6, 5, 4],
    ]
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        rows = tf.nn.embedding_lookup(table, tf.ragged.constant([[0], [1, 0]]))
        loss = tf.reduce_sum(tf.reduce_mean(rows, axis=1))
    np.testing.assert_allclose(tape.gradient(loss, table), [[1.5, 1.5], [0.5, 0.5]])


def test_other_operations_ask_for_an_array() -> None:
    with pytest.raises(TypeError, match="takes no ragged tensor. Make it an array by to_tensor"):
        tf.transpose(DIGITS)


def test_a_column_of_lists_is_ragged() -> None:
    column = np.empty(3, object)
    column[:] = [["a", "b"], ["c"], []]
    assert tf.ragged.constant(column).to_list() == [[b"a", b"b"], [b"c"], []]


def test_rows_are_crossed_as_in_tensorflow():
    made = tf.ragged.constant
    three = [made([["a"], ["b", "c"]]), made([["d"], ["e"]]), made([["f"], ["g"]])]
    assert tf.ragged.cross(three).to_list() == [[b"a_X_d_X_f"], [b"b_X_e_X_g", b"c_X_e_X_g"]]
    numbers = [tf.constant([[1, 2], [3, 4]]), made([["d"], []])]
    assert tf.ragged.cross(numbers).to_list() == [[b"1_X_d", b"2_X_d"], []]
    sparse = tf.sparse.from_dense([["p", ""], ["q", "s"]])
    assert tf.ragged.cross([sparse, [["d"], ["e"]]]).to_list() == [[b"p_X_d"], [b"q_X_e", b"s_X_e"]]
    with pytest.raises(ValueError, match=r"inputs\[1\] must be rows of text or integers"):
        tf.ragged.cross([sparse, tf.constant([[1.5]])])
    with pytest.raises(ValueError, match="same number of rows"):
        tf.ragged.cross([sparse, [["d"]]])
