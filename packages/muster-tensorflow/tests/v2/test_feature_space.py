"""``tf.keras.utils.FeatureSpace``; it fails when what is used of Keras changes.

Numbers are those of TensorFlow 2.15.
"""

import keras
import numpy as np

import muster_tensorflow as tf

FeatureSpace = tf.keras.utils.FeatureSpace
DATA = {
    "size": [1.0, 2.0, 3.0, 6.0],
    "kind": ["a", "b", "a", "c"],
    "count": [1, 2, 2, 7],
    "age": [10.0, 20.0, 30.0, 40.0],
    "text": ["good day", "bad day", "good", "night"],
}
ARRAYS = {name: np.array(values) for name, values in DATA.items()}
DATASET = tf.data.Dataset.from_tensor_slices(DATA)
ENCODED = [
    [1, 0, 0, 0, 1, 0, 1, 0, 0, -1.0690, 0, 1, 1, 0, 0, 0, 1, 0, 0],
    [0, 1, 1, 0, 0, 0, 0, 0, 1, -0.5345, 0, 0, 1, 0, 1, 1, 0, 0, 0],
    [0, 1, 1, 0, 0, 0, 1, 0, 0, 0.0000, 0, 1, 0, 0, 0, 0, 1, 0, 0],
    [0, 1, 0, 1, 0, 0, 0, 1, 0, 1.6036, 0, 0, 0, 1, 0, 1, 0, 0, 0],
]


def adapted():
    space = FeatureSpace(
        features={
            "size": "float_normalized",
            "kind": "string_categorical",
            "count": FeatureSpace.integer_categorical(num_oov_indices=0),
            "age": FeatureSpace.float_discretized(num_bins=2),
            "text": FeatureSpace.feature(
                dtype="string",
                preprocessor=tf.keras.layers.TextVectorization(output_mode="multi_hot"),
                output_mode="float",
            ),
        },
        crosses=[FeatureSpace.cross(("kind", "age"), crossing_dim=4)],
        output_mode="concat",
    )
    space.adapt(DATASET.batch(2))
    return space


def test_features_are_encoded():
    space = adapted()
    np.testing.assert_allclose(space(ARRAYS).numpy(), ENCODED, atol=1e-4)
    np.testing.assert_allclose(space({name: each[1] for name, each in DATA.items()}), ENCODED[1], atol=1e-4)
    batches = [np.asarray(batch) for batch in DATASET.batch(2).map(space)]
    np.testing.assert_allclose(np.concatenate(batches), ENCODED, atol=1e-4)
    single = [np.asarray(each) for each in DATASET.map(space)]
    np.testing.assert_allclose(single, ENCODED, atol=1e-4)


def test_hashes_in_a_dict():
    space = FeatureSpace(
        features={
            "kind": FeatureSpace.string_hashed(num_bins=5, output_mode="int"),
            "count": FeatureSpace.integer_hashed(num_bins=3),
        },
        output_mode="dict",
    )
    found = space({name: ARRAYS[name] for name in ("kind", "count")})
    assert found["kind"].numpy().tolist() == [[4], [2], [4], [2]]
    assert found["count"].numpy().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]]


def test_models_of_encoded_and_of_raw_features(tmp_path):
    space, labels = adapted(), np.array([[0.0], [1], [1], [0]])
    encoded = space.get_encoded_features()
    outputs = tf.keras.layers.Dense(1)(encoded)
    training = tf.keras.Model(encoded, outputs)
    training.compile("sgd", "mse")
    pairs = tf.data.Dataset.from_tensor_slices((DATA, labels)).batch(2)
    training.fit(pairs.map(lambda x, y: (space(x), y)), epochs=2, verbose=0)
    whole = tf.keras.Model(space.get_inputs(), outputs)
    expected = training.predict(space(ARRAYS), verbose=0)
    np.testing.assert_allclose(whole.predict(ARRAYS, verbose=0), expected, atol=1e-5)

    space.save(tmp_path / "space.keras")
    loaded = keras.saving.load_model(tmp_path / "space.keras")
    np.testing.assert_allclose(loaded(ARRAYS), ENCODED, atol=1e-4)
    again = tf.keras.Model(loaded.get_inputs(), training(loaded.get_encoded_features()))
    np.testing.assert_allclose(again.predict(ARRAYS, verbose=0), expected, atol=1e-5)
