"""Write and read TFRecord files of tf.train.Example, and train on what they hold."""

import os
import tempfile

import numpy as np

import muster_tensorflow as tf

tf.random.set_seed(5)


def _bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _float_feature(value):
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


def _int64_feature(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


print(_bytes_feature(b"test_string"))
print(_float_feature(np.exp(1)))
feature = _float_feature(np.exp(1))
assert isinstance(feature.SerializeToString(), bytes)

n_observations = 2000
rng = np.random.default_rng(0)
feature0 = rng.choice([False, True], n_observations)
feature1 = rng.integers(0, 5, n_observations)
strings = np.array([b"cat", b"dog", b"chicken", b"horse", b"goat"])
feature2 = strings[feature1]
feature3 = rng.normal(0, 1, n_observations)


def serialize_example(feature0, feature1, feature2, feature3):
    feature = {
        "feature0": _int64_feature(int(feature0)),
        "feature1": _int64_feature(feature1),
        "feature2": _bytes_feature(bytes(feature2)),
        "feature3": _float_feature(feature3),
    }
    example_proto = tf.train.Example(features=tf.train.Features(feature=feature))
    return example_proto.SerializeToString()


serialized_example = serialize_example(False, 4, b"goat", 0.9876)
example_proto = tf.train.Example.FromString(serialized_example)
assert example_proto.features.feature["feature2"].bytes_list.value[0] == b"goat"
assert abs(example_proto.features.feature["feature3"].float_list.value[0] - 0.9876) < 1e-6

features_dataset = tf.data.Dataset.from_tensor_slices((feature0, feature1, list(feature2), feature3))
filename = os.path.join(tempfile.mkdtemp(), "test.tfrecord")


def generator():
    for features in features_dataset:
        yield serialize_example(*features)


serialized_features_dataset = tf.data.Dataset.from_generator(
    generator, output_types=tf.string, output_shapes=()
)
with tf.io.TFRecordWriter(filename) as writer:
    for record in serialized_features_dataset:
        writer.write(record)

raw_dataset = tf.data.TFRecordDataset([filename])
for raw_record in raw_dataset.take(2):
    example = tf.train.Example()
    example.ParseFromString(raw_record)
    result = {}
    for key, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        result[key] = np.array(getattr(feature, kind).value)
    assert set(result) == {"feature0", "feature1", "feature2", "feature3"}

feature_description = {
    "feature0": tf.io.FixedLenFeature([], tf.int64, default_value=0),
    "feature1": tf.io.FixedLenFeature([], tf.int64, default_value=0),
    "feature2": tf.io.FixedLenFeature([], tf.string, default_value=""),
    "feature3": tf.io.FixedLenFeature([], tf.float32, default_value=0.0),
}


def _parse_function(example_proto):
    return tf.io.parse_single_example(example_proto, feature_description)


parsed_dataset = raw_dataset.map(_parse_function)
for number, parsed_record in enumerate(parsed_dataset.take(10)):
    assert parsed_record["feature1"] == feature1[number]
    assert abs(parsed_record["feature3"] - feature3[number]) < 1e-6

# Images of digits in compressed records of several files.
labels = rng.integers(0, 2, 300)
images = rng.integers(0, 200, (300, 6, 6, 1)).astype(np.uint8)
images[labels == 1, :3] += 50
options = tf.io.TFRecordOptions(compression_type="GZIP")
folder = tempfile.mkdtemp()
for shard in range(3):
    with tf.io.TFRecordWriter(os.path.join(folder, f"digits-{shard}-of-3.tfrecord"), options) as writer:
        for image, label in zip(images[shard::3], labels[shard::3], strict=True):
            example = tf.train.Example(
                features=tf.train.Features(
                    feature={
                        "image_raw": _bytes_feature(image.tobytes()),
                        "shape": tf.train.Feature(int64_list=tf.train.Int64List(value=image.shape)),
                        "label": _int64_feature(label),
                    }
                )
            )
            writer.write(example.SerializeToString())


def parse(example_proto):
    parsed = tf.io.parse_single_example(
        example_proto,
        {
            "image_raw": tf.io.FixedLenFeature([], tf.string),
            "shape": tf.io.FixedLenFeature([3], tf.int64),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.io.decode_raw(parsed["image_raw"], tf.uint8)
    image = tf.reshape(image, parsed["shape"])
    return tf.cast(image, tf.float32) / 255.0, parsed["label"]


files = tf.data.Dataset.list_files(os.path.join(folder, "digits-*.tfrecord"))
records = files.interleave(
    lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP"),
    cycle_length=3,
    num_parallel_calls=tf.data.AUTOTUNE,
)
train = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(300).batch(30)
assert sum(len(batch) for batch, _ in train) == 300
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])
model.compile(
    optimizer=tf.keras.optimizers.Adam(0.02),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, epochs=10, verbose=0)
loss, accuracy = model.evaluate(train, verbose=0)
assert accuracy > 0.9, accuracy

# Features of any length.
words = [[b"a"], [b"b", b"c"], []]
serialized = [
    tf.train.Example(
        features=tf.train.Features(
            feature={"words": tf.train.Feature(bytes_list=tf.train.BytesList(value=each))}
        )
    ).SerializeToString()
    for each in words
]
parsed = tf.io.parse_example(serialized, {"words": tf.io.VarLenFeature(tf.string)})
dense = tf.sparse.to_dense(parsed["words"], default_value="")
assert dense.shape == (3, 2)
print("ok")
