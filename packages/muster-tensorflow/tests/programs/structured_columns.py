"""Classify the rows of a table: text and numbers are encoded by preprocessing layers in the model."""

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
ROWS = 400
table = {
    "age": rng.uniform(1, 15, ROWS).astype(np.float32),
    "fee": rng.uniform(0, 300, ROWS).astype(np.float32),
    "photos": rng.integers(0, 6, ROWS),
    "kind": rng.choice(["cat", "dog"], ROWS),
    "breed": rng.choice(["tabby", "beagle", "siamese", "mixed"], ROWS),
}
target = ((table["kind"] == "cat") & (table["age"] < 9)).astype(np.int64)


def to_dataset(first, last, shuffle=True, batch_size=32):
    part = {key: value[first:last, None] for key, value in table.items()}
    ds = tf.data.Dataset.from_tensor_slices((part, target[first:last]))
    if shuffle:
        ds = ds.shuffle(buffer_size=last - first)
    return ds.batch(batch_size).prefetch(batch_size)


def get_normalization_layer(name, dataset):
    normalizer = tf.keras.layers.Normalization(axis=None)
    normalizer.adapt(dataset.map(lambda x, y: x[name]))
    return normalizer


def get_category_encoding_layer(name, dataset, dtype, max_tokens=None):
    if dtype == "string":
        index = tf.keras.layers.StringLookup(max_tokens=max_tokens)
    else:
        index = tf.keras.layers.IntegerLookup(max_tokens=max_tokens)
    index.adapt(dataset.map(lambda x, y: x[name]))
    encoder = tf.keras.layers.CategoryEncoding(num_tokens=index.vocabulary_size())
    return lambda feature: encoder(index(feature))


train_ds, val_ds, test_ds = to_dataset(0, 256), to_dataset(256, 320, False), to_dataset(320, 400, False)
all_inputs, encoded_features = {}, []
for header in ["age", "fee"]:
    numeric_col = tf.keras.Input(shape=(1,), name=header)
    all_inputs[header] = numeric_col
    encoded_features.append(get_normalization_layer(header, train_ds)(numeric_col))
photos = tf.keras.Input(shape=(1,), name="photos", dtype="int64")
all_inputs["photos"] = photos
encoded_features.append(get_category_encoding_layer("photos", train_ds, "int64", max_tokens=5)(photos))
for header in ["kind", "breed"]:
    categorical_col = tf.keras.Input(shape=(1,), name=header, dtype="string")
    all_inputs[header] = categorical_col
    encoded_features.append(get_category_encoding_layer(header, train_ds, "string")(categorical_col))
crossed = tf.keras.layers.HashedCrossing(num_bins=8, output_mode="one_hot")
encoded_features.append(crossed([all_inputs["kind"], all_inputs["breed"]]))

all_features = tf.keras.layers.concatenate(encoded_features)
x = tf.keras.layers.Dense(32, activation="relu")(all_features)
x = tf.keras.layers.Dropout(0.1)(x)
model = tf.keras.Model(all_inputs, tf.keras.layers.Dense(1)(x))
model.compile(
    optimizer=tf.keras.optimizers.Adam(0.01),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train_ds, epochs=12, validation_data=val_ds, verbose=0)
result = model.evaluate(test_ds, return_dict=True, verbose=0)
print("accuracy", result["accuracy"])
assert result["accuracy"] > 0.85

sample = {"age": 3.0, "fee": 100.0, "photos": 2, "kind": "cat", "breed": "tabby"}
input_dict = {name: tf.convert_to_tensor([value]) for name, value in sample.items()}
young = tf.nn.sigmoid(model.predict(input_dict, verbose=0))
old = tf.nn.sigmoid(model.predict({**input_dict, "age": tf.convert_to_tensor([14.0])}, verbose=0))
print("probability", young.numpy(), old.numpy())
assert young[0, 0] > 0.5 > old[0, 0]
print("ok")
