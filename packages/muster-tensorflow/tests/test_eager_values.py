"""What eager code of TensorFlow's programs sees; it fails when what is used of JAX and Keras changes."""

import pickle

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import TraceError
from muster_tensorflow.library.ops._eager_values import HostTensor

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.constant(X),
        lambda: tf.constant(X, tf.float64),
        lambda: tf.convert_to_tensor(X.tolist()),
        lambda: tf.Variable(X),
        lambda: tf.identity(X),
        lambda: tf.math.add(X, 0),
        lambda: tf.reduce_sum([X], axis=0),
        lambda: tf.stack(list(X)),
        lambda: tf.nn.relu(X),
        lambda: tf.linalg.matmul(X, np.eye(2)),
        lambda: tf.cond(True, lambda: X, lambda: X),
        lambda: tf.function(lambda x: x * 1)(X),
        lambda: jnp.asarray(X),
        lambda: next(iter(tf.data.Dataset.from_tensors(X))),
        lambda: next(iter(tf.data.Dataset.from_tensors(X.astype(np.float64)))),
        lambda: next(iter(tf.data.Dataset.from_tensors({"x": X, "a": X}).prefetch(1)))["x"],
        lambda: tf.keras.layers.Identity()(X),
    ],
)
def test_numpy_and_the_methods_of_shapes(make):
    value = make()
    assert type(value.numpy()) is np.ndarray
    np.testing.assert_array_equal(value.numpy(), X)
    assert value.shape.as_list() == value.get_shape().as_list() == [2, 2]
    assert (value.shape.rank, value.shape.ndims, value.shape.num_elements()) == (2, 2, 4)
    assert value.shape[1:].as_list() == [2]
    assert value.shape == (2, 2)
    assert isinstance(value.get_shape(), tf.TensorShape)
    value.set_shape([None, 2])
    with pytest.raises(ValueError, match="incompatible"):
        value.set_shape([3, 2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_programs_may_change_what_numpy_returns(dtype):
    value, variable = tf.zeros((2, 2), dtype), tf.Variable(np.zeros((2, 2), np.float32))
    for each in (value, variable):
        each.numpy()[0] += 1
        assert not each.numpy().any()


def test_single_values_are_numbers_of_numpy():
    for value in (tf.reduce_mean(X), tf.reduce_mean(X.astype(np.float64)), jnp.mean(X)):
        assert type(value.numpy()) in (np.float32, np.float64)
        assert f"{value.numpy():.2f} {float(value):.1f}" == "2.50 2.5"


def test_an_array_with_one_number_is_a_number():
    value = tf.constant([[2.5]])
    assert (float(value), int(value), f"{100 * float(value):.1f}") == (2.5, 2, "250.0")
    assert "%.1f %d" % (value[0], value) == "2.5 2"  # noqa: UP031  # what programs write
    assert float(tf.constant(3)) == int(tf.constant(3.7)) == 3
    with pytest.raises(TypeError):
        float(tf.constant([1.0, 2.0]))


def test_large_whole_numbers_beside_floating_point_numbers_are_such():
    x = tf.ones([2], tf.float32)
    traced = jax.jit(lambda x: (x * (-(2**32) + 1), 2**40 + x, x < 2**40))(x)
    assert [each.tolist()[0] for each in traced] == [-(2.0**32), 2.0**40, True]
    assert (x * (-(2**32) + 1)).numpy().tolist() == [-(2.0**32)] * 2


def test_dtypes_that_jax_does_not_have_are_kept():
    for value in (tf.constant([2**40]), tf.range(3, dtype=tf.int64), tf.cast(X, tf.float64), tf.argmax(X)):
        assert isinstance(value, HostTensor)
        assert (value + 1).numpy().dtype == value.dtype == (value[0] + 1).numpy().dtype
        np.testing.assert_array_equal([each.numpy() for each in value], value.numpy())
    assert isinstance(tf.constant([1]), jax.Array)


def test_text_is_bytes():
    texts = tf.data.Dataset.from_tensor_slices(["a", "ä"])
    assert [text.numpy().decode() for text in texts] == ["a", "ä"]
    [batch] = texts.batch(2)
    assert batch.numpy().tolist() == [b"a", "ä".encode()]
    assert [text.numpy() for text in batch] == batch.numpy().tolist()
    assert tf.strings.upper(batch).numpy()[0] == b"A"
    assert [text.split(",") for text in tf.data.Dataset.from_tensor_slices(["a,b"])] == [["a", "b"]]


def test_datasets_keep_their_structure():
    [element] = tf.data.Dataset.from_tensors({"z": X, "a": (X, X)})
    assert list(element) == ["z", "a"]
    [numpy] = tf.data.Dataset.from_tensors(X).as_numpy_iterator()
    assert type(numpy) is np.ndarray


def test_functions_of_datasets_compute_in_numpy():
    seen = []

    def in_python(text):
        seen.append((type(text), type(tf.constant([1.0])), tf.strings.length(text)))
        return tf.constant([1.0], tf.float64)

    [element] = tf.data.Dataset.from_tensor_slices(["abc"]).map(in_python)
    assert element.numpy().dtype == np.float64
    assert issubclass(seen[0][1], np.ndarray)


def test_lists_beside_arrays_of_datasets_are_of_their_type():
    def in_python(text, pixels, numbers):
        assert pixels.shape.rank == 1
        assert tf.cast(len(text.numpy()), tf.float32).shape.rank == 0
        return pixels * [2, 2], [1, 1] + pixels, numbers * [0.5, 0.5], numbers - [1, 2], pixels / [2, 2]

    parts = (["abc"], np.uint8([[3, 4]]), np.float32([[1, 2]]))
    [element] = tf.data.Dataset.from_tensor_slices(parts).map(in_python)
    assert [str(np.asarray(each).dtype) for each in element[:4]] == ["uint8", "uint8", "float32", "float32"]
    assert np.asarray(element[1]).tolist() == [4, 5]


def test_traced_values_have_shapes_and_no_numbers():
    shapes = []

    @tf.function
    def scaled(x):
        shapes.append((x.shape.as_list(), x.get_shape().as_list(), tf.shape(x)[0]))
        return tf.reshape(x, [x.shape[0] * tf.shape(x)[1], 1])

    assert scaled(X).numpy().shape == (4, 1)
    assert shapes[0] == ([2, 2], [2, 2], 2)
    for function in (tf.function(lambda x: x.numpy()), jax.jit(lambda x: x.numpy())):
        with pytest.raises(TraceError, match=r"float32\[2,2\].*outside"):
            function(X)


def test_symbolic_tensors():
    inputs = tf.keras.Input((3, 4))
    assert inputs.shape.as_list() == inputs.get_shape().as_list() == [None, 3, 4]
    outputs = tf.keras.layers.Dense(inputs.shape[1:].num_elements())(inputs)
    assert outputs.shape == (None, 3, 12)
    with pytest.raises(TraceError, match="symbolic"):
        outputs.numpy()
    with pytest.raises(TraceError, match="no sessions"):
        tf.constant(1.0).eval()


def test_extended_shapes_are_shapes_to_all():
    shape = tf.constant(X).shape
    assert pickle.loads(pickle.dumps(shape)) == shape == (2, 2)
    assert hash(shape) == hash((2, 2))
    assert jnp.zeros(shape).shape == np.zeros(shape).shape == keras.ops.zeros(shape).shape
    assert (*shape, 1) == shape + (1,)
    model = keras.Sequential([keras.Input(shape), keras.layers.Flatten(), keras.layers.Dense(1)])
    assert keras.Sequential.from_config(model.get_config()).output_shape == (None, 1)
    assert jax.vmap(lambda x: x.reshape(x.shape[::-1]))(jnp.ones((2, 3, 4))).shape == (2, 4, 3)


def test_sizes_have_the_value_of_tensorflow_1():
    @tf.function
    def sizes(x):
        taken = x.shape[0], x.get_shape()[-1], x.shape.dims[1], *x.get_shape(), *x.shape[:1]
        return x * x.shape[0].value + sum(size.value for size in taken[:-1])

    assert sizes(tf.ones((3, 2))).numpy().tolist() == [[3 + 3 + 2 + 2 + 3 + 2] * 2] * 3
    size = tf.ones((3, 2), tf.bfloat16).shape[0]
    assert isinstance(size, int)
    assert isinstance(size, tf.compat.v1.Dimension)
    assert type(size.value) is type(size * 2) is int
    assert pickle.loads(pickle.dumps(size)) == size == 3
    assert (tf.ones(2, tf.bfloat16) * size).dtype == (size * jnp.ones(2, jnp.bfloat16)).dtype == tf.bfloat16
    assert jax.jit(lambda x, size: x.reshape(size, -1), static_argnums=1)(jnp.ones(6), size).shape == (3, 2)
    assert keras.Input((3, 4)).shape[0] is None
    assert keras.Input((3, 4)).shape[1].value == tf.Variable(X).shape[0].value + 1 == 3
    assert tf.compat.v1.dimension_value(size) == 3
    assert tf.compat.dimension_value(None) is None
    with pytest.raises(ValueError, match="write None"):
        tf.compat.v1.Dimension(None)


def test_a_tape_watches_constants_and_batches():
    for x in (tf.constant(X), next(iter(tf.data.Dataset.from_tensors(X)))):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.square(x)) * tf.cast(2, tf.float32)
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), 4 * X)


def test_minimize():
    v = tf.Variable(3.0)
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.minimize(lambda: v * v, [v])
    np.testing.assert_allclose(v.numpy(), 3 - 0.6)
    with tf.GradientTape() as tape:
        loss = v * 2
    optimizer.minimize(loss, lambda: [v], tape=tape)
    np.testing.assert_allclose(v.numpy(), 2.4 - 0.2, rtol=1e-6)
    tf.function(lambda: optimizer.minimize(lambda: v * 1, [v]))()
    np.testing.assert_allclose(v.numpy(), 2.2 - 0.1, rtol=1e-6)
    with pytest.raises(ValueError, match="needs a function"):
        optimizer.minimize(loss, [v])
    with pytest.raises(ValueError, match="var_list"):
        optimizer.minimize(lambda: v * v)


def test_loss_scaling_of_custom_loops():
    v = tf.Variable(3.0)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), initial_scale=8.0)
    optimizer.build([v])
    with tf.GradientTape() as tape:
        scaled = optimizer.get_scaled_loss(v * v)
    gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled, [v]))
    optimizer.apply_gradients(zip(gradients, [v], strict=True))
    np.testing.assert_allclose(v.numpy(), 3 - 0.6)


def test_custom_gradients():
    @tf.custom_gradient
    def clipped(x):
        return x * x, lambda upstream: upstream * tf.ones_like(x)

    @tf.custom_gradient
    def product(x, y):
        return x * y, lambda upstream: [upstream * 10, upstream * 20]

    for run in (lambda f: f, tf.function):
        x, y = tf.constant(3.0), tf.constant(2.0)

        def gradients(x, y):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch([x, y])
                one, two = clipped(x), product(x, y)
            return tape.gradient(one, x), *tape.gradient(two, [x, y])

        assert [float(each) for each in run(gradients)(x, y)] == [1, 10, 20]


def test_gradients_that_are_not_connected():
    x, y = tf.constant(3.0), tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x * x
    assert tape.gradient(z, y) is None
    zeros = tape.gradient(z, y, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    np.testing.assert_array_equal(zeros.numpy(), [0, 0])


def test_records_are_bytes_with_numpy(tmp_path):
    record, path = b"ab\x00\x03\x00", tmp_path / "records"
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(record)
    (found,) = tf.data.TFRecordDataset(path)
    assert isinstance(found, bytes)
    assert (found, repr(found)) == (record, repr(record))
    assert type(found.numpy()) is bytes
    assert found.numpy() == record
    assert np.array([found]).dtype.kind == "S"  # as of any bytes


def test_bytes_keep_the_zeros_at_their_end():
    assert tf.reshape(tf.constant(b"ab\x00"), ()).numpy() == b"ab\x00"
    several = tf.constant([[b"ab\x00", b"c"], [b"", b"\x00"]])
    assert several.numpy().tolist() == tf.constant(several.numpy().tolist(), tf.string).numpy().tolist()
    assert several.numpy().tolist() == [[b"ab\x00", b"c"], [b"", b"\x00"]]
    assert tf.strings.length(several).numpy().tolist() == [[3, 1], [0, 1]]
    serialized = tf.io.serialize_tensor(tf.constant([0], tf.int64)).numpy()
    assert tf.io.parse_tensor(tf.constant(serialized), tf.int64).numpy().tolist() == [0]
    numbers = tf.data.Dataset.range(2).map(
        lambda i: tf.reshape(tf.py_function(lambda i: bytes([i, 0]), (i,), tf.string), ())
    )
    assert [each.numpy() for each in numbers] == [b"\x00\x00", b"\x01\x00"]


def test_results_of_a_decorated_numpy_function_are_tensors():
    @tf.numpy_function(Tout=[tf.float32, tf.int64])
    def both(x):
        return np.float32(x), np.array([1, 2])

    number, pair = both(tf.constant(3))
    number.set_shape(())
    assert (number.numpy(), pair.numpy().tolist()) == (3, [1, 2])


def test_bytes_have_numpy(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
        writer.write(b"\xff\x00")
    [record] = tf.data.TFRecordDataset(str(tmp_path / "records"))
    assert record.numpy() == record == b"\xff\x00"
    assert type(record.numpy()) is bytes
    assert record[0] == 255
    assert record[tf.newaxis].numpy().tolist() == [b"\xff\x00"]

    [content] = tf.data.Dataset.from_tensors(str(tmp_path / "records")).map(tf.io.read_file)
    assert content.numpy().endswith(content.numpy()[-4:])


def test_the_result_of_reduce():
    counts = tf.data.Dataset.range(5).reduce(
        {"n": 0, "sum": 0.0},
        lambda state, value: {"n": state["n"] + 1, "sum": state["sum"] + tf.cast(value, tf.float32)},
    )
    assert counts["n"].numpy() == 5
    assert counts["sum"].numpy() == 10
    assert tf.data.Dataset.range(3).reduce(np.int64(0), lambda state, value: state + value).numpy() == 3


def test_functions_of_python_in_a_dataset():
    def rotated(image):
        assert image.shape.as_list() == [2, 3]
        return np.rot90(image.numpy(), 2)

    def augment(image):
        [image] = tf.py_function(rotated, [image], [tf.float32])
        image.set_shape([2, 3])
        return image

    [image] = tf.data.Dataset.from_tensors(np.arange(6, dtype=np.float32).reshape(2, 3)).map(augment)
    assert image.numpy().tolist() == [[5, 4, 3], [2, 1, 0]]
    assert tf.py_function(lambda text: text.numpy().upper(), [tf.constant("a")], tf.string) == b"A"


def test_dtypes_of_variables_and_symbolic_tensors():
    for value in (tf.Variable([1.0]), tf.keras.Input((3,)), tf.keras.layers.Dense(2)(tf.keras.Input((3,)))):
        assert value.dtype == tf.float32 == value.dtype
        assert value.dtype == value.dtype.name == "float32"
        assert type(value.dtype.name) is str
        assert value.dtype.as_numpy_dtype is np.float32
        assert (value.dtype.is_floating, value.dtype.is_integer, value.dtype.size) == (True, False, 4)
    assert tf.Variable([1]).dtype.is_integer


def test_parsed_examples():
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"word"]))
    example = tf.train.Example(features=tf.train.Features(feature={"text": feature}))
    parsed = tf.io.parse_example(
        [example.SerializeToString()], {"text": tf.io.FixedLenFeature([], tf.string)}
    )
    assert parsed["text"][0].numpy() == b"word"
    assert parsed["text"].numpy().tolist() == [b"word"]


def test_functions_of_numpy_return_its_values():
    score = tf.constant([[0.5, 2.0, 1.0]])
    assert {1: "one"}[np.argmax(score)] == "one"
    assert type(np.argmax(score)) is np.int64
    for found in (np.max(score), np.mean(score), np.sum(score, axis=1)[0], np.clip(score, 0, 1)[0, 0]):
        assert type(found) is np.float32
    for dtype in (tf.float32, tf.float64):
        assert hash(np.max(tf.cast(score, dtype))) == hash(2.0)
    for found in (np.reshape(score, [3]), np.stack([score, score]), np.squeeze(a=score)):
        assert type(found) is np.ndarray
    assert np.shape(score) == (1, 3)
    assert np.result_type(score, np.float64) == np.float64


def test_functions_of_numpy_on_constants_of_a_step_return_numbers():
    table, seen = tf.constant([1.0, 3.0]), []

    @tf.function
    def scaled(x):
        seen.append(np.max(table))
        return x * np.max(table) + np.sum(x)

    assert scaled(tf.constant([1.0, 2.0])).numpy().tolist() == [6, 9]
    assert type(seen[0]) is np.float32


def test_functions_of_numpy_leave_arrays_of_other_libraries_to_them():
    class Other:
        def __array_function__(self, function, types, args, kwargs):
            return "other"

    assert np.concatenate([tf.constant([1.0]), Other()]) == "other"


def test_texts_have_a_dtype_and_a_shape():
    lines = tf.data.Dataset.from_tensor_slices(["a b", "c d"])
    for text in (
        *lines,
        tf.constant("a"),
        tf.constant(["a"])[0],
        tf.constant(b"\xff"),
        tf.strings.upper("a"),
    ):
        assert text.dtype == tf.string
        assert text.shape.as_list() == text.get_shape().as_list() == []
    for batch in (*lines.batch(2), tf.constant(["a", "b"]), tf.constant([b"a", b"b"])):
        assert batch.dtype == tf.string
        assert batch.shape.as_list() == [2]
        assert type(batch[0].numpy()) is bytes


def test_texts_are_compared_with_those_of_lists():
    def label(path):
        folder = tf.strings.split(path, "/")[-2]
        return folder == ["cat", "dog"], ("cat", "dog") == folder, folder != ["cat", "dog"], folder == "dog"

    [found] = tf.data.Dataset.from_tensor_slices(["data/dog/1.png"]).map(label)
    assert [np.asarray(each).tolist() for each in found] == [
        [False, True],
        [False, True],
        [True, False],
        True,
    ]


def test_texts_in_functions_of_datasets_have_a_dtype_and_a_shape():
    seen = []

    def parts(text):
        seen.append((text.dtype == tf.string, text.shape.as_list(), text.numpy()))
        words = tf.strings.split(text)
        assert words.dtype == tf.string
        assert words.shape.as_list() == [2]
        upper = tf.strings.upper(words[0])
        assert upper.dtype == tf.string
        assert upper.numpy() == b"A"
        assert {"A": 1}[upper] == 1
        return words

    def same(text):
        seen.append((text.dtype == tf.string, text.shape.as_list()))
        return text

    [words] = tf.data.Dataset.from_tensor_slices(["a b"]).map(parts)
    assert words.numpy().tolist() == [b"a", b"b"]
    assert seen[-1] == (True, [], b"a b")
    [batch] = tf.data.Dataset.from_tensor_slices(["a b", "c"]).batch(2).map(same).as_numpy_iterator()
    assert batch.tolist() == [b"a b", b"c"]
    assert seen[-1] == (True, [2])
    named = tf.data.Dataset.from_tensors({"text": "a", "record": b"a\x00"})
    [element] = named.map(lambda each: {name: same(text) for name, text in each.items()}).as_numpy_iterator()
    assert [(type(text), text) for text in element.values()] == [(bytes, b"a"), (bytes, b"a\x00")]


def test_tensors_in_records(tmp_path):
    def example(image, label):
        feature = {
            "image": tf.train.Feature(
                bytes_list=tf.train.BytesList(value=[tf.io.serialize_tensor(image).numpy()])
            ),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    with tf.io.TFRecordWriter(str(tmp_path / "images")) as writer:
        writer.write(example(tf.constant(X), 3))

    def parsed(record):
        spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        found = tf.io.parse_single_example(record, spec)
        return tf.ensure_shape(tf.io.parse_tensor(found["image"], tf.float32), [2, 2]), found["label"]

    [(image, label)] = tf.data.TFRecordDataset(str(tmp_path / "images")).map(parsed)
    np.testing.assert_array_equal(image.numpy(), X)
    assert label.numpy() == 3
    [serialized] = tf.data.Dataset.from_tensors(X).map(tf.io.serialize_tensor)
    assert serialized.numpy() == tf.io.serialize_tensor(X).numpy()


def test_what_is_decoded_in_a_dataset_has_the_methods_of_tensors():
    image = tf.io.encode_png(np.zeros((2, 3, 1), np.uint8))
    example = tf.train.Example(
        features=tf.train.Features(
            feature={
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"\1\2"])),
                "box": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])),
            }
        )
    )

    def parse(record):
        text = tf.io.FixedLenFeature([], tf.string)
        spec = {"image": text, "raw": text, "box": tf.io.FixedLenFeature([1], tf.float32)}
        parsed = tf.io.parse_single_example(record, spec)
        image = tf.image.decode_jpeg(parsed["image"], channels=1)
        raw = tf.compat.v1.decode_raw(parsed["raw"], tf.uint8)
        [column, _] = tf.compat.v1.decode_csv("1,2", [[0], [0]])
        for value, shape in ((image, [2, None, 1]), (raw, [2]), (parsed["box"], [1]), (column, [])):
            value.set_shape(shape)
        scaled = tf.cast(raw, tf.float32) * (1.0 / 2) - 0.5
        scaled.set_shape([2])
        with pytest.raises(ValueError, match="are incompatible"):
            image.set_shape([5, 5, 1])
        return image, scaled, column

    dataset = tf.data.Dataset.from_tensors(example.SerializeToString()).repeat(2).map(parse).batch(2)
    [(images, scaled, columns)] = dataset
    assert (images.shape, images.dtype) == ((2, 2, 3, 1), tf.uint8)
    assert scaled.numpy().tolist() == [[0, 0.5], [0, 0.5]]
    assert columns.numpy().tolist() == [1, 1]
    assert tf.io.decode_png(image).numpy().shape == (2, 3, 1)


def test_lists_beside_arrays_are_arrays() -> None:
    x = tf.constant([1.0, 2.0])
    for found in ([1, 2] + x, x + [1, 2], x * (2, 2), (2, 2) * x):
        assert (found.numpy().tolist(), found.dtype) == ([2.0, 4.0], tf.float32)
    assert ([[1.0, 2.0]] @ tf.ones((2, 1))).numpy().tolist() == [[3.0]]
    assert (x < [2, 1]).numpy().tolist() == [True, False]
    assert tf.function(lambda y: [1, 1] - y)(x).numpy().tolist() == [0.0, -1.0]


def test_numpy_of_a_traced_value_is_an_attribute_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no numbers yet"):
        tf.function(lambda x: x.numpy())(tf.constant(1.0))


def test_specs_of_sparse_and_ragged_elements() -> None:
    sparse = tf.SparseTensor([[0, 0], [1, 2]], [1, 2], [3, 4])
    dataset = tf.data.Dataset.from_tensors(sparse)
    assert isinstance(dataset.element_spec, tf.SparseTensorSpec)
    assert dataset.element_spec.value_type is tf.SparseTensor
    assert next(iter(dataset.batch(2))).shape == (1, 3, 4)
    assert tf.constant([[1]]).shape.dims[0].is_compatible_with(None)


def test_py_function_decorates() -> None:
    @tf.py_function(Tout=tf.float32)
    def double(x):
        return x.numpy() * 2

    assert [each.numpy() for each in tf.data.Dataset.range(2).map(double)] == [0.0, 2.0]


def test_what_is_shown_of_elements_is_saved_as_arrays(tmp_path):
    data = tf.data.Dataset.from_tensor_slices((np.float32([1.5, 2.5]), ["a", "b"]))
    data.save(str(tmp_path / "saved"))
    loaded = tf.data.Dataset.load(str(tmp_path / "saved"))
    assert [(float(number), text.numpy()) for number, text in loaded] == [(1.5, b"a"), (2.5, b"b")]


def test_devices_have_tensorflows_names():
    device = tf.ones([2]).device
    assert device.endswith("CPU:0")
    assert not device.endswith("GPU:0")
    assert "CPU" in device
    assert device.split(":")[-2:] == ["CPU", "0"]
    assert device.startswith("/job:localhost")


def test_an_array_of_64_bits_with_one_number_converts_to_it():
    drawn = tf.squeeze(tf.random.categorical([[0.0, 9.0]], 1), axis=-1)
    assert drawn.dtype == tf.int64
    assert int(drawn) in (0, 1)
    assert float(tf.constant([[2]], tf.int64)) == 2.0


def test_the_number_of_elements_is_a_tensor():
    numbers = tf.data.Dataset.range(7)
    assert tf.data.experimental.cardinality(numbers).numpy() == 7
    assert len(list(numbers.take(numbers.cardinality() // 2))) == 3
    assert (numbers.repeat().cardinality() == tf.data.INFINITE_CARDINALITY).numpy()


def test_a_text_gets_new_axes():
    def characters(line):
        assert line[..., tf.newaxis, tf.newaxis].shape == [1, 1]
        assert line[1:3] in ("? ", "! ")
        assert line[...] == line
        return tf.reduce_any(tf.equal(tf.compat.v1.string_split(line[tf.newaxis], "").values, "?"))

    lines = tf.data.Dataset.from_tensor_slices(["a? b", "a! b"])
    assert [bool(each) for each in lines.map(characters)] == [True, False]


def test_operations_of_tensorflow_1_return_tensors():
    text = "Thanks 😊".encode()
    v1 = tf.compat.v1
    assert v1.substr(text, 7, 4).numpy() == "😊".encode()
    assert v1.strings.substr(text, pos=7, len=1, unit="UTF8_CHAR").numpy() == "😊".encode()
    assert v1.to_int64(np.array([1.5])).numpy().dtype == np.int64
    assert v1.gather(["a", "b"], 1).numpy() == b"b"


def test_tensors_do_not_change_in_place():
    before = after = tf.constant([1, 2], tf.int64)
    after += 1
    after *= 2
    assert (before.numpy().tolist(), after.numpy().tolist()) == ([1, 2], [4, 6])

    def noisy(x):
        first = x
        if x[0, 0] > 0:  # so that it runs in Python
            x += tf.constant([[0.5, 0.5]], tf.float64)
        return first, x

    rows = tf.data.Dataset.from_tensor_slices(np.ones((2, 2))).batch(2).map(noisy)
    for first, second in rows.concatenate(rows):
        assert (first.numpy().tolist(), second.numpy().tolist()) == ([[1, 1]] * 2, [[1.5, 1.5]] * 2)


def test_a_tape_sees_the_kernel_of_a_transposed_convolution():
    kernel, x = tf.Variable(np.arange(8, dtype=np.float32).reshape(2, 2, 1, 2)), tf.ones((1, 2, 2, 2))

    def gradient():
        with tf.GradientTape() as tape:
            y = keras.ops.conv_transpose(x, kernel, strides=2) * tf.reshape(tf.range(16.0), (1, 4, 4, 1))
        return tape.gradient(y, kernel)

    np.testing.assert_allclose(gradient(), tf.function(gradient)())


@pytest.mark.parametrize("devices", [1, 2])
def test_batches_of_distributed_datasets(devices):
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{index}" for index in range(devices)])
    numbers = np.arange(4, dtype=np.int64)
    columns = {"x": numbers.astype(np.float32), "y": numbers, "name": ["a", "b", "c", "d"]}
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(columns).batch(4))
    read = strategy.experimental_local_results

    @tf.function
    def total(x):
        return strategy.run(tf.reduce_sum, args=(x,))

    for batch in dataset:
        parts = {name: [each.numpy() for each in read(values)] for name, values in batch.items()}
        assert [len(each) for each in parts.values()] == [devices] * 3
        assert np.concatenate(parts["x"]).tolist() == numbers.tolist()
        assert np.concatenate(parts["y"]).dtype == np.int64
        assert np.concatenate(parts["name"]).tolist() == [b"a", b"b", b"c", b"d"]
        assert sum(float(each) for each in read(total(batch["x"]))) == 6
        assert read(batch["x"])[0].shape.as_list() == [4 // devices]


def test_elements_of_shapes_that_come_often_are_the_same_arrays_as_others(monkeypatch):
    calls = []
    put = jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda *args: calls.append(args) or put(*args))
    rows, numbers = np.arange(50, dtype=np.float32).reshape(25, 2), np.arange(25, dtype=np.int32)
    batches = list(tf.data.Dataset.from_tensor_slices({"x": rows, "n": numbers}).batch(2))
    assert len(calls) < len(batches)  # the others are returned by a compiled function
    for name, expected in (("x", rows), ("n", numbers)):
        np.testing.assert_array_equal(np.concatenate([batch[name].numpy() for batch in batches]), expected)
    assert {(batch["x"]._committed, batch["x"].weak_type) for batch in batches} == {(False, False)}
