"""Columns in layers, steps and Estimators: variables, gradients, strategies."""

import jax
import jax.numpy as jnp
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
    Int64List,
    SparseTensor,
    parse_example,
)
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, LinearRegressor, ModeKeys, RunConfig
from muster.feature_column import (
    DenseFeatures,
    SequenceFeatures,
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_list,
    crossed_column,
    dense_features,
    embedding_column,
    indicator_column,
    input_layer,
    make_parse_example_spec,
    numeric_column,
    sequence_categorical_column_with_identity,
    sequence_input_layer,
    shared_embeddings,
    transform_features,
)
from muster.feature_column._categorical_column import PaddedIds
from muster.feature_column._lookup import combined_rows
from muster.program import get_or_create_global_step, minimize
from tensorflow_checkpoints import recorded

CITY = categorical_column_with_vocabulary_list("city", ["Rome", "Oslo", "Bern"], num_oov_buckets=1)


@pytest.mark.parametrize("combiner", ["mean", "sqrtn", "sum"])
def test_only_rows_that_are_looked_up_have_gradients(combiner):
    found = PaddedIds(jnp.array([[3, -1], [3, 1], [-1, -1]]), None)
    gradient = jax.grad(lambda table: combined_rows(table, found, combiner, 2.0).sum())(jnp.ones((5, 2)))
    assert np.isfinite(gradient).all()
    assert np.flatnonzero(np.any(gradient != 0, axis=1)).tolist() == [1, 3]


def test_rows_of_zeros_have_finite_gradients_with_max_norm():
    found = PaddedIds(jnp.array([[0]]), None)
    gradient = jax.grad(lambda table: combined_rows(table, found, "mean", 1.0).sum())(jnp.zeros((1, 2)))
    np.testing.assert_array_equal(gradient, [[1, 1]])


def test_the_layer_has_its_tables_once():
    shared = shared_embeddings([categorical_column_with_identity(key, 3) for key in "pq"], 2)
    layer = DenseFeatures([embedding_column(CITY, 4), *shared, numeric_column("x")], name="columns")
    features = {
        "city": np.array(["Rome", "Oslo"]),
        "p": np.array([0, 1]),
        "q": np.array([1, 1]),
        "x": np.array([1.0, 2.0]),
    }
    values = layer(features)
    assert values.shape == (2, 4 + 2 + 2 + 1)
    assert [variable.path for variable in layer.trainable_variables] == [
        "columns/city_embedding/embedding_weights",
        "columns/p_q_shared_embedding",
    ]
    np.testing.assert_array_equal(values[1, 4:6], values[1, 6:8])
    np.testing.assert_array_equal(layer(features), values)
    assert len(layer.weights) == 2
    tables = {path: variable.value for path, variable in layer.tables.items()}
    np.testing.assert_array_equal(dense_features(features, layer._columns, tables), values)
    fixed = DenseFeatures(embedding_column(CITY, 4, trainable=False))
    fixed(features)
    assert fixed.trainable_variables == []
    with pytest.raises(ValueError, match="We expected a dictionary here"):
        layer(np.ones(3))


def test_initial_embeddings_are_those_of_tensorflow():
    layer = DenseFeatures(embedding_column(categorical_column_with_identity("c", 4000), 16))
    layer.build()
    values = np.asarray(layer.weights[0].value)
    assert abs(values).max() <= 2 * 0.25 + 1e-6
    assert values.std() == pytest.approx(0.25 * 0.8796, rel=0.02)  # of a distribution cut off at twice 0.25


def test_fit_on_a_dataset_of_text():
    columns = [indicator_column(CITY), numeric_column("x")]
    model = keras.Sequential([DenseFeatures(columns), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = {
        "city": np.array(["Rome", "Oslo", "Bern", "Paris"] * 4),
        "x": np.arange(16, dtype=np.float32) / 16,
    }
    dataset = Dataset.from_tensor_slices((data, np.arange(16, dtype=np.float32))).batch(4)
    ready = dataset.map(lambda features, labels: (transform_features(features, columns), labels))
    batches = list(ready)
    for features, labels in batches:
        loss = model.train_on_batch(features, labels)
    assert np.isfinite(loss)
    assert model.layers[1].kernel.shape == (5, 1)


def test_a_functional_model():
    identity = categorical_column_with_identity("c", 3)
    columns = [numeric_column("x", 2), embedding_column(identity, 4), indicator_column(CITY)]
    ready = transform_features(
        {"x": np.ones((3, 2), np.float32), "c": np.array([0, 2, 1]), "city": ["Rome"] * 3}, columns
    )
    inputs = {
        key: keras.Input(value.shape[1:], dtype=value.dtype.name, name=key) for key, value in ready.items()
    }
    model = keras.Model(inputs, keras.layers.Dense(1)(DenseFeatures(columns)(inputs)))
    assert model.output_shape == (None, 1)
    assert model(ready).shape == (3, 1)
    plain = {"x": keras.Input((2,), name="x"), "c": keras.Input((1,), dtype="int32", name="c")}
    layer = DenseFeatures(columns[:2])
    model = keras.Model(plain, layer(plain))
    given = {"x": np.ones((3, 2), np.float32), "c": np.array([[0], [2], [1]], np.int32)}
    np.testing.assert_allclose(model(given), layer(given))


def test_sequences_in_a_step():
    columns = [embedding_column(sequence_categorical_column_with_identity("s", 5), 2)]
    layer = SequenceFeatures(columns)
    features = {"s": SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 2, 3], (2, 3))}
    values, lengths = layer(features)
    ready = transform_features(features, columns)
    in_step, same = jax.jit(lambda given: layer(given))(ready)
    np.testing.assert_allclose(in_step, values)
    np.testing.assert_array_equal(same, lengths)
    assert values.shape == (2, 3, 2)
    assert lengths.tolist() == [2, 1]


def test_columns_from_examples():
    column = indicator_column(crossed_column([CITY, "word"], 7))

    def serialized(cities, words):
        feature = {
            "city": Feature(bytes_list=BytesList([city.encode() for city in cities])),
            "word": Feature(bytes_list=BytesList([word.encode() for word in words])),
            "unread": Feature(int64_list=Int64List([1])),
        }
        return Example(features=Features(feature=feature)).SerializeToString()

    spec = make_parse_example_spec([column])
    examples = [serialized(["Rome"], ["a", "b"]), serialized([], ["a"])]
    values = np.asarray(dense_features(parse_example(examples, spec), column))
    assert values.sum(1).tolist() == [2, 0]
    dense = {"city": np.array([["Rome"]]), "word": np.array([["a", "b"]])}
    np.testing.assert_array_equal(values[:1], dense_features(dense, column))


def regression(count=64):
    rng = np.random.default_rng(0)
    city = rng.choice(["Rome", "Oslo", "Bern", "Kyiv"], count)
    size = rng.normal(size=count).astype("float32")
    worth = {"Rome": 1.0, "Oslo": -1.0, "Bern": 2.0, "Kyiv": 0.0}
    return {"city": city, "size": size}, np.array([worth[name] for name in city], "float32") + size


def test_a_linear_model_of_text(tmp_path):
    features, labels = regression()
    columns = [CITY, numeric_column("size"), crossed_column(["city", "city"], 11)]
    regressor = LinearRegressor(columns, tmp_path / "model", optimizer="Adagrad")
    regressor.train(lambda: Dataset.from_tensor_slices((features, labels)).repeat().batch(16), steps=300)
    metrics = regressor.evaluate(lambda: Dataset.from_tensor_slices((features, labels)).batch(16))
    assert metrics["average_loss"] < 0.01
    assert regressor.get_variable_value("linear/linear_model/city/weights").shape == (4, 1)
    predictions = list(
        regressor.predict(lambda: ({name: value[:3] for name, value in features.items()}, None))
    )
    assert [float(each["predictions"][0]) for each in predictions] == pytest.approx(labels[:3], abs=0.3)


def test_the_same_on_two_devices(tmp_path):
    features, labels = regression(32)
    columns = [CITY, numeric_column("size")]

    def trained(name, batch, **config):
        regressor = LinearRegressor(columns, tmp_path / name, config=RunConfig(**config))
        regressor.train(lambda: Dataset.from_tensor_slices((features, labels)).batch(batch))
        return {each: regressor.get_variable_value(each) for each in regressor.get_variable_names()}

    one = trained("one", 8)
    two = trained("two", 4, train_distribute=MirroredStrategy(["/cpu:0", "/cpu:1"]))
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_embeddings_in_a_model_fn(tmp_path):
    columns = [
        embedding_column(CITY, 3),
        embedding_column(categorical_column_with_hash_bucket("city", 20), 2),
    ]
    with pytest.raises(ValueError, match="Duplicate feature column name"):
        DenseFeatures(columns)
    column = columns[0]

    def model_fn(features, labels, mode):
        logits = keras.layers.Dense(1)(input_layer(features, column))[:, 0]
        loss = jnp.mean((logits - labels) ** 2)
        train_op = minimize(keras.optimizers.SGD(0.1), loss) if mode == ModeKeys.TRAIN else None
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    features, labels = regression(32)
    del features["size"]

    def input_fn():
        dataset = Dataset.from_tensor_slices((features, labels)).batch(8)
        return dataset.map(lambda given, wanted: (transform_features(given, column), wanted))

    estimator = Estimator(model_fn, tmp_path)
    estimator.train(input_fn)
    name = "input_layer/city_embedding/embedding_weights"
    assert estimator.get_variable_value(name).shape == (4, 3)
    stored = estimator.latest_checkpoint()
    started = embedding_column(CITY, 3, ckpt_to_load_from=stored, tensor_name_in_ckpt=name)
    layer = DenseFeatures(started)
    layer.build()
    np.testing.assert_array_equal(np.asarray(layer.weights[0].value), estimator.get_variable_value(name))
    other = DenseFeatures(embedding_column(CITY, 2, ckpt_to_load_from=stored, tensor_name_in_ckpt=name))
    with pytest.raises(ValueError, match=r"must have the shape \(4, 2\).* there is shape \(4, 3\)"):
        other.build()


def test_layers_of_sequences_and_of_what_is_not_trained_in_a_model_fn():
    words = sequence_categorical_column_with_identity("words", 4)
    kept = categorical_column_with_identity("kept", 2)

    def model_fn(features, labels, mode):
        values, lengths = sequence_input_layer(
            features, [embedding_column(words, 2, initializer=keras.initializers.Ones())]
        )
        still = input_layer(
            features, embedding_column(kept, 1, initializer=keras.initializers.Ones()), trainable=False
        )
        loss = jnp.sum(values) + jnp.sum(still)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions={"values": values, "lengths": lengths})
        train_op = minimize(keras.optimizers.SGD(0.5), loss, get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    indices = np.array([[0, 0], [0, 1], [1, 0]])
    batch = {"words": SparseTensor(indices, np.array([1, 3, 3]), (2, 2)), "kept": np.array([[0], [1]])}
    estimator = Estimator(model_fn)
    (first, second) = estimator.predict(lambda: Dataset.from_tensors(batch))
    np.testing.assert_array_equal(first["values"], [[1, 1], [1, 1]])
    np.testing.assert_array_equal(second["values"], [[1, 1], [0, 0]])
    assert (first["lengths"], second["lengths"]) == (2, 1)
    estimator.train(lambda: Dataset.from_tensors(batch))
    table = estimator.get_variable_value("sequence_input_layer/words_embedding/embedding_weights")
    np.testing.assert_allclose(table[:, 0], [1, 0.5, 1, 0])
    assert estimator.get_variable_value("input_layer/kept_embedding/embedding_weights").tolist() == [[1], [1]]


def test_layers_of_a_model_fn_share_embeddings(tmp_path):
    """Two towers read different columns of one table, which both of them train."""
    ids = {key: np.array([number, number], "int32") for number, key in enumerate("pq")}
    columns = shared_embeddings([categorical_column_with_identity(key, 3) for key in "pq"], 2)

    def model_fn(features, labels, mode):
        towers = [DenseFeatures(column, name=f"tower_{column.name}")(features) for column in columns]
        loss = jnp.sum(towers[0] - 2 * towers[1])
        train_op = minimize(keras.optimizers.SGD(1.0), loss, get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def trained(steps):
        estimator = Estimator(model_fn, tmp_path / str(steps), RunConfig(tf_random_seed=1))
        batch = transform_features(ids, columns)
        estimator.train(lambda: Dataset.from_tensors(batch).repeat(), steps=steps)
        (name,) = [each for each in estimator.get_variable_names() if "embedding" in each]
        assert name == "tower_p_shared_embedding/p_q_shared_embedding"
        return estimator.get_variable_value(name)

    moved = trained(2) - trained(1)
    np.testing.assert_allclose(moved, [[-2, -2], [4, 4], [0, 0]], rtol=1e-5)


def test_embeddings_start_from_a_checkpoint_of_tensorflow():
    prefix, said = recorded("v1_dnn_partitioned")
    name = "dnn/input_from_feature_columns/input_layer/tags_embedding/embedding_weights"
    tags = categorical_column_with_identity("tags", 7)
    expected = np.float32(said["variables"][name]["value"])
    for path in (prefix, prefix.parent):
        layer = DenseFeatures(embedding_column(tags, 3, ckpt_to_load_from=path, tensor_name_in_ckpt=name))
        layer.build()
        np.testing.assert_array_equal(np.asarray(layer.weights[0].value), expected)


def test_tables_of_one_name_are_refused():
    columns = [embedding_column(categorical_column_with_identity(key, 5), 2) for key in ("a b", "a_b")]
    features = {"a b": np.array([[4], [1]]), "a_b": np.array([[1], [1]])}
    with pytest.raises(ValueError, match="would have the name 'a_b_embedding/embedding_weights'"):
        DenseFeatures(columns)(features)


def test_sequences_of_other_lengths_are_refused_in_training(tmp_path):
    def sequences(*ids):
        return SparseTensor(list(ids), np.ones(len(ids), np.int64), (2, 3))

    def model_fn(features, labels, mode):
        names = [sequence_categorical_column_with_identity(key, 3) for key in ("a", "b")]
        values, _ = SequenceFeatures([embedding_column(each, 2) for each in names])(features)
        loss = keras.ops.mean(values**2)
        train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    one, other = sequences((0, 0), (0, 1), (0, 2), (1, 0)), sequences((0, 0), (1, 0), (1, 1), (1, 2))
    Estimator(model_fn, str(tmp_path / "same")).train(
        lambda: Dataset.from_tensors(({"a": one, "b": one}, np.zeros(2)))
    )
    with pytest.raises(DatasetError, match="did not hold: sequences of a_embedding have the lengths"):
        Estimator(model_fn, str(tmp_path / "other")).train(
            lambda: Dataset.from_tensors(({"a": one, "b": other}, np.zeros(2)))
        )
