"""Load CSV files and tables of mixed columns, preprocess them in input functions and layers, and train."""

import csv
import pathlib
import tempfile

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow.keras import layers

tf.keras.utils.set_random_seed(1)
folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(7)

# A table of pets: the age and the kind say how quickly one is adopted.
KINDS = ["Cat", "Dog", "Rabbit"]
count = 600
ages = rng.integers(0, 30, count)
kinds = rng.choice(KINDS, count)
fees = np.round(rng.random(count) * 100, 2)
adopted = ((ages < 12) ^ (kinds == "Rabbit")).astype(int)
path = folder / "pets.csv"
with open(path, "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["Age", "Type", "Fee", "target"])
    writer.writerows(zip(ages.tolist(), kinds.tolist(), fees.tolist(), adopted.tolist(), strict=True))

table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
columns = {name: table[name] for name in table.dtype.names}
target = columns.pop("target")
train, val = slice(0, 480), slice(480, None)


def df_to_dataset(part, shuffle=True, batch_size=32):
    features = {key: value[part][:, np.newaxis] for key, value in columns.items()}
    ds = tf.data.Dataset.from_tensor_slices((features, target[part]))
    if shuffle:
        ds = ds.shuffle(buffer_size=count)
    return ds.batch(batch_size).prefetch(batch_size)


train_ds = df_to_dataset(train)
[(features, label_batch)] = train_ds.take(1)
assert features["Age"].shape == (32, 1)
assert label_batch.shape == (32,)


def get_normalization_layer(name, dataset):
    normalizer = layers.Normalization(axis=None)
    normalizer.adapt(np.concatenate([x[name] for x, y in dataset]).astype(np.float32))
    return normalizer


def get_category_encoding(name, dataset):
    index = layers.StringLookup()
    index.adapt(dataset.map(lambda x, y: x[name]))
    return index


type_index = get_category_encoding("Type", train_ds)
assert set(type_index.get_vocabulary()) == {"[UNK]", *KINDS}


def to_numbers(x, y):
    return {
        "Age": tf.cast(x["Age"], tf.float32),
        "Fee": tf.cast(x["Fee"], tf.float32),
        "Type": type_index(x["Type"]),
    }, y


all_inputs = {name: tf.keras.Input(shape=(1,), name=name) for name in ("Age", "Fee")}
all_inputs["Type"] = tf.keras.Input(shape=(1,), name="Type", dtype="int32")
encoded = [get_normalization_layer(name, train_ds)(all_inputs[name]) for name in ("Age", "Fee")]
encoding = layers.CategoryEncoding(num_tokens=type_index.vocabulary_size(), output_mode="one_hot")
encoded.append(encoding(all_inputs["Type"]))
x = layers.concatenate(encoded)
x = layers.Dense(32, activation="relu")(x)
x = layers.Dropout(0.1)(x)
output = layers.Dense(1)(x)
model = tf.keras.Model(all_inputs, output)
model.compile(
    optimizer=tf.keras.optimizers.Adam(0.02),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
)
model.fit(
    train_ds.map(to_numbers), epochs=12, verbose=0, validation_data=df_to_dataset(val, False).map(to_numbers)
)
loss, accuracy = model.evaluate(df_to_dataset(val, False).map(to_numbers), verbose=0)
print("accuracy", accuracy)
assert accuracy > 0.85

# The same file as a dataset of batches, whose types are found in it.
batches = tf.data.experimental.make_csv_dataset(
    str(path), batch_size=60, label_name="target", num_epochs=1, shuffle=False
)
first, labels = next(iter(batches))
assert first["Type"].tolist() == kinds[:60].tolist()
assert labels.tolist() == adopted[:60].tolist()
cached = batches.cache(str(folder / "pets.cache")).shuffle(10)
assert sum(len(labels) for _, labels in cached) == sum(len(labels) for _, labels in cached) == count

# Line by line.
text = path.read_text()
lines = text.split("\n")[1:-1]
decoded = tf.io.decode_csv(lines, record_defaults=[0, "", 0.0, 0])
assert [column.shape for column in decoded] == [(count,)] * 4
assert decoded[0].tolist() == ages.tolist()

# All rows as one array, with its mean and variance in the model.
numeric = np.stack([columns["Age"], columns["Fee"]], axis=1).astype(np.float32)
normalizer = layers.Normalization()
normalizer.adapt(numeric)
scaled = np.asarray(normalizer(numeric))
assert abs(scaled.mean()) < 1e-3
assert abs(scaled.std() - 1) < 1e-3
print("ok")
