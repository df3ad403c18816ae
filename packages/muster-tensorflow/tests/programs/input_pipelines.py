"""Build input pipelines of arrays, generators, CSV files, text and windows, as a guide to tf.data does."""

import pathlib
import tempfile

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)

np.set_printoptions(precision=4)
folder = pathlib.Path(tempfile.mkdtemp())

# Basic mechanics.
dataset = tf.data.Dataset.from_tensor_slices([8, 3, 0, 8, 2, 1])
for elem in dataset:
    print(int(elem))
it = iter(dataset)
assert next(it) == 8
assert dataset.reduce(0, lambda state, value: state + value) == 22

# The structure of elements.
dataset1 = tf.data.Dataset.from_tensor_slices(tf.random.uniform([4, 10]))
assert dataset1.element_spec.shape == (10,)
dataset2 = tf.data.Dataset.from_tensor_slices(
    (tf.random.uniform([4]), tf.random.uniform([4, 100], maxval=100, dtype=tf.int32))
)
dataset3 = tf.data.Dataset.zip((dataset1, dataset2))
for a, (b, c) in dataset3:
    print(f"shapes: {a.shape}, {b.shape}, {c.shape}")
    assert (a.shape, b.shape, c.shape) == ((10,), (), (100,))

# NumPy arrays.
rng = np.random.default_rng(0)
images = rng.integers(0, 256, (64, 8, 8)).astype(np.float32) / 255
labels = rng.integers(0, 10, 64).astype(np.int32)
pictures = tf.data.Dataset.from_tensor_slices((images, labels))
assert tf.data.experimental.cardinality(pictures) == 64


# Python generators.
def count(stop):
    i = 0
    while i < stop:
        yield i
        i += 1


ds_counter = tf.data.Dataset.from_generator(count, args=[25], output_types=tf.int32, output_shapes=())
batches = [batch.tolist() for batch in ds_counter.repeat().batch(10).take(3)]
assert batches[2] == [20, 21, 22, 23, 24, 0, 1, 2, 3, 4]


def gen_series():
    i = 0
    while True:
        size = rng.integers(0, 10)
        yield i, rng.normal(size=(size,))
        i += 1


ds_series = tf.data.Dataset.from_generator(
    gen_series, output_types=(tf.int32, tf.float32), output_shapes=((), (None,))
)
ids, sequence_batch = next(iter(ds_series.shuffle(20).padded_batch(10)))
assert sequence_batch.shape[0] == ids.shape[0] == 10

# CSV.
titanic = folder / "titanic.csv"
rows = ["survived,sex,age,fare,class"]
for i in range(50):
    sex = "female" if i % 3 else "male"
    rows.append(f"{i % 2},{sex},{20 + i % 40},{7.25 + i},{('First', 'Second', 'Third')[i % 3]}")
titanic.write_text("\n".join(rows) + "\n")
titanic_batches = tf.data.experimental.make_csv_dataset(
    str(titanic), batch_size=4, label_name="survived", select_columns=["class", "fare", "survived"]
)
for feature_batch, label_batch in titanic_batches.take(1):
    assert sorted(feature_batch) == ["class", "fare"]
    assert label_batch.shape == (4,)
titanic_types = [tf.int32, tf.string, tf.float32, tf.float32, tf.string]
lines = tf.data.experimental.CsvDataset(str(titanic), titanic_types, header=True)
for line in lines.take(2):
    print([np.asarray(item).tolist() for item in line])

# Text.
for name in ("cowper", "derby"):
    (folder / f"{name}.txt").write_text("".join(f"{name} line {i}\n" for i in range(5)))
files_ds = tf.data.Dataset.from_tensor_slices([str(folder / "cowper.txt"), str(folder / "derby.txt")])
lines_ds = files_ds.interleave(tf.data.TextLineDataset, cycle_length=2)
first = [str(line) for line in lines_ds.take(4)]
assert first == ["cowper line 0", "derby line 0", "cowper line 1", "derby line 1"]
survivors = (
    tf.data.TextLineDataset(str(titanic))
    .skip(1)
    .filter(lambda line: tf.not_equal(tf.strings.substr(line, 0, 1), "0"))
)
assert len(list(survivors)) == 25

# Batching, with padding too.
inc_dataset = tf.data.Dataset.range(100)
dec_dataset = tf.data.Dataset.range(0, -100, -1)
batched_dataset = tf.data.Dataset.zip((inc_dataset, dec_dataset)).batch(7, drop_remainder=True)
assert batched_dataset.element_spec[0].shape == (7,)
padded = tf.data.Dataset.range(100).map(lambda x: tf.fill([int(x)], x)).padded_batch(4, padded_shapes=(None,))
assert [batch.shape for batch in padded.take(2)] == [(4, 3), (4, 7)]

# Shuffles and epochs.
shuffled = tf.data.Dataset.range(100).shuffle(buffer_size=100).batch(10).repeat(2)
seen = np.concatenate(list(shuffled.as_numpy_iterator()))
assert sorted(seen[:100]) == sorted(seen[100:]) == list(range(100))

# Windows.
range_ds = tf.data.Dataset.range(100000)


def dense_1_step(batch):
    return batch[:-1], batch[1:]


for features, label in range_ds.batch(10, drop_remainder=True).map(dense_1_step).take(3):
    assert (features + 1 == label).all()


def make_window_dataset(ds, window_size=5, shift=1, stride=1):
    windows = ds.window(window_size, shift=shift, stride=stride)

    def sub_to_batch(sub):
        return sub.batch(window_size, drop_remainder=True)

    return windows.flat_map(sub_to_batch)


ds = make_window_dataset(range_ds, window_size=10, shift=5, stride=3)
assert next(iter(ds.skip(1))).tolist() == list(range(5, 35, 3))

# Resampling.
imbalanced = tf.data.Dataset.from_tensor_slices(
    (rng.normal(size=(2000, 2)).astype(np.float32), (rng.random(2000) < 0.1).astype(np.int32))
)
negative = imbalanced.filter(lambda features, label: label == 0).repeat()
positive = imbalanced.filter(lambda features, label: label == 1).repeat()
balanced_ds = tf.data.Dataset.sample_from_datasets([negative, positive], [0.5, 0.5]).batch(200)
share = next(iter(balanced_ds))[1].mean()
assert 0.35 < share < 0.65, share
resample_ds = imbalanced.rejection_resample(
    class_func=lambda features, label: label, target_dist=[0.5, 0.5], initial_dist=[0.9, 0.1]
)
resampled = [int(label) for _, (_, label) in resample_ds]
assert 0.35 < np.mean(resampled) < 0.65


# Python code in a map.
def reverse(array):
    return array[::-1]


def tf_reverse(image, label):
    shape = image.shape
    [image] = tf.py_function(reverse, [image], [tf.float32])
    return tf.reshape(image, shape), label


turned, _ = next(iter(pictures.map(tf_reverse)))
assert (np.asarray(turned) == images[0][::-1]).all()

# Training.
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(pictures.shuffle(64).batch(32).repeat(), epochs=2, steps_per_epoch=20, verbose=0)
assert history.history["loss"][1] < history.history["loss"][0]
loss, accuracy = model.evaluate(pictures.batch(32), verbose=0)
result = model.predict(pictures.map(lambda image, label: image).batch(32), steps=2, verbose=0)
assert result.shape == (64, 10)
print("ok")
