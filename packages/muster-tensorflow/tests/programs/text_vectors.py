"""Classify texts from folders: one folder for each class, vectorised in the pipeline, embedded in a model."""

import pathlib
import tempfile

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow.keras import layers, losses

tf.keras.utils.set_random_seed(4)
folder = pathlib.Path(tempfile.mkdtemp()) / "aclImdb"
rng = np.random.default_rng(0)
GOOD = ["great", "lovely", "moving", "funny", "brilliant"]
BAD = ["dull", "awful", "slow", "boring", "poor"]
OTHER = ["the", "film", "was", "<br />", "a", "story,", "actors", "scene!"]
for part, count in (("train", 100), ("test", 40)):
    for name, words in (("neg", BAD), ("pos", GOOD)):
        (folder / part / name).mkdir(parents=True)
        for number in range(count):
            text = rng.permutation([*rng.choice(OTHER, 12), *rng.choice(words, 3)])
            (folder / part / name / f"{number}.txt").write_text(" ".join(text))

batch_size = 20
raw_train_ds = tf.keras.utils.text_dataset_from_directory(
    folder / "train", batch_size=batch_size, validation_split=0.2, subset="training", seed=42
)
raw_val_ds = tf.keras.utils.text_dataset_from_directory(
    folder / "train", batch_size=batch_size, validation_split=0.2, subset="validation", seed=42
)
raw_test_ds = tf.keras.utils.text_dataset_from_directory(folder / "test", batch_size=batch_size)
assert raw_train_ds.class_names == ["neg", "pos"]


def custom_standardization(input_data):
    lowercase = tf.strings.lower(input_data)
    stripped_html = tf.strings.regex_replace(lowercase, "<br />", " ")
    return tf.strings.regex_replace(stripped_html, "[!,.]", "")


sequence_length = 20
vectorize_layer = layers.TextVectorization(
    standardize=custom_standardization,
    max_tokens=1000,
    output_mode="int",
    output_sequence_length=sequence_length,
)
train_text = raw_train_ds.map(lambda x, y: x)
vectorize_layer.adapt(train_text)
vocabulary = vectorize_layer.get_vocabulary()
assert vocabulary[:2] == ["", "[UNK]"]
assert "story" in vocabulary
assert "br" not in vocabulary


def vectorize_text(text, label):
    return vectorize_layer(text), label


train_ds = raw_train_ds.map(vectorize_text).cache().prefetch(buffer_size=tf.data.AUTOTUNE)
val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(buffer_size=tf.data.AUTOTUNE)
test_ds = raw_test_ds.map(vectorize_text).cache().prefetch(buffer_size=tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        layers.Embedding(len(vocabulary), 8),
        layers.Dropout(0.2),
        layers.GlobalAveragePooling1D(),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    loss=losses.BinaryCrossentropy(),
    optimizer=tf.keras.optimizers.Adam(0.05),
    metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.5)],
)
history = model.fit(train_ds, validation_data=val_ds, epochs=6, verbose=0)
loss, accuracy = model.evaluate(test_ds, verbose=0)
print("accuracy", accuracy)
assert accuracy > 0.9
scores = model.predict(vectorize_layer(["a great and lovely film", "an awful, dull story"]), verbose=0)
assert scores[0, 0] > scores[1, 0]
print("ok")
