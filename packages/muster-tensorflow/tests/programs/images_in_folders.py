"""Load images from a folder for each class: with Keras' function, and with a pipeline of one's own."""

import os
import pathlib
import struct
import tempfile
import zlib

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(3)


def write_png(path, pixels):
    """Write uint8 pixels of shape (height, width, 3)."""
    height, width, _ = pixels.shape
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(raw)),
        (b"IEND", b""),
    ]
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in parts:
            file.write(struct.pack(">I", len(data)) + kind + data)
            file.write(struct.pack(">I", zlib.crc32(kind + data)))


data_dir = pathlib.Path(tempfile.mkdtemp()) / "flower_photos"
rng = np.random.default_rng(0)
for channel, flower in enumerate(["roses", "sunflowers", "tulips"]):
    (data_dir / flower).mkdir(parents=True)
    for number in range(40):
        pixels = rng.integers(0, 120, (20 + number % 5, 24, 3), dtype=np.uint8)
        pixels[..., channel] += 100
        write_png(data_dir / flower / f"{number}.png", pixels)

image_count = len(list(data_dir.glob("*/*.png")))
assert image_count == 120

batch_size = 16
img_height = 18
img_width = 18
train_ds = tf.keras.utils.image_dataset_from_directory(
    data_dir,
    validation_split=0.2,
    subset="training",
    seed=123,
    image_size=(img_height, img_width),
    batch_size=batch_size,
)
val_ds = tf.keras.utils.image_dataset_from_directory(
    data_dir,
    validation_split=0.2,
    subset="validation",
    seed=123,
    image_size=(img_height, img_width),
    batch_size=batch_size,
)
class_names = train_ds.class_names
assert class_names == ["roses", "sunflowers", "tulips"]
for image_batch, labels_batch in train_ds:
    assert image_batch.shape == (16, 18, 18, 3)
    assert labels_batch.shape == (16,)
    break

normalization_layer = tf.keras.layers.Rescaling(1.0 / 255)
normalized_ds = train_ds.map(lambda x, y: (normalization_layer(x), y))
image_batch, labels_batch = next(iter(normalized_ds))
assert 0 <= np.min(image_batch) < np.max(image_batch) <= 1

AUTOTUNE = tf.data.AUTOTUNE
train_ds = train_ds.cache().prefetch(buffer_size=AUTOTUNE)
val_ds = val_ds.cache().prefetch(buffer_size=AUTOTUNE)


def make_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Rescaling(1.0 / 255),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(3),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


model = make_model()
history = model.fit(train_ds, validation_data=val_ds, epochs=4, verbose=0)
print(history.history)
assert history.history["val_accuracy"][-1] > 0.9

# With tf.data alone.
list_ds = tf.data.Dataset.list_files(str(data_dir / "*/*"), shuffle=False)
list_ds = list_ds.shuffle(image_count, reshuffle_each_iteration=False)
names = np.array(sorted(item.name for item in data_dir.glob("*")))
val_size = int(image_count * 0.2)
own_train_ds = list_ds.skip(val_size)
own_val_ds = list_ds.take(val_size)
assert tf.data.experimental.cardinality(own_train_ds) == 96


def get_label(file_path):
    parts = tf.strings.split(file_path, os.path.sep)
    one_hot = parts[-2] == names
    return tf.argmax(one_hot)


def process_path(file_path):
    label = get_label(file_path)
    img = tf.io.read_file(file_path)
    img = tf.io.decode_png(img, channels=3)
    return img[:img_height, :img_width], label


own_train_ds = own_train_ds.map(process_path, num_parallel_calls=AUTOTUNE)
own_val_ds = own_val_ds.map(process_path, num_parallel_calls=AUTOTUNE)
for image, label in own_train_ds.take(1):
    assert image.shape == (18, 18, 3)
    assert label in (0, 1, 2)


def configure_for_performance(ds):
    return ds.cache().shuffle(buffer_size=1000).batch(batch_size).prefetch(buffer_size=AUTOTUNE)


own = make_model()
own.fit(
    configure_for_performance(own_train_ds),
    validation_data=configure_for_performance(own_val_ds),
    epochs=4,
    verbose=0,
)
loss, accuracy = own.evaluate(configure_for_performance(own_val_ds), verbose=0)
assert accuracy > 0.9, accuracy
print("ok")
