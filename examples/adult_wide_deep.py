"""Predict who earns more than 50,000 dollars a year, by a wide and deep model of the census data "Adult".

The data is downloaded at the first run, or read from the folder that --data names. In a cluster, workers
train on parameter servers, and the evaluator exports:

    python examples/adult_wide_deep.py
    python examples/adult_wide_deep.py --data DIR
    muster run --chief --workers 1 --ps 1 --evaluator examples/adult_wide_deep.py

The model that does best on people who were held out is exported; the program says how to serve it and ask it.
"""

import argparse
import csv
import hashlib
import http.client
import json
import os
import urllib.request
from pathlib import Path

import numpy as np

import muster_tensorflow as tf

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
TRAINING, TEST = "adult.data", "adult.test"
CHECKSUMS = {TRAINING: "5d7c39d7b8804f071cdd1f2a7c460872", TEST: "35238206dfdf7f1fe215bbb874adecdc"}
TIMEOUT_SECS = 60
FIELDS = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race gender "
    "capital_gain capital_loss hours_per_week native_country income"
).split()
NUMBERS = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
UNUSED = ("fnlwgt", "income")
CLASSES = ["<=50K", ">50K"]
BATCH_SIZE = 256

MARITAL_STATUS = [
    "Married-civ-spouse",
    "Divorced",
    "Married-spouse-absent",
    "Never-married",
    "Separated",
    "Married-AF-spouse",
    "Widowed",
]
RELATIONSHIP = ["Husband", "Not-in-family", "Wife", "Own-child", "Unmarried", "Other-relative"]
WORKCLASS = [
    "Self-emp-not-inc",
    "Private",
    "State-gov",
    "Federal-gov",
    "Local-gov",
    "?",
    "Self-emp-inc",
    "Without-pay",
    "Never-worked",
]


def find_data(folder):
    """Return the folder with the data: the one that was named, or the cache, into which it is downloaded."""
    if folder is not None:
        if not Path(folder, TRAINING).exists():
            raise SystemExit(f"There is no {TRAINING} in {folder}: --data names the folder that has it.")
        return Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("MUSTER_DATA_DIR") or Path(cache, "muster"), "adult")
    for name in CHECKSUMS:
        if not (folder / name).exists():
            download(name, folder)
    return folder


def download(name, folder):
    """Download one file; it is there when its checksum is right."""
    print(f"Downloading {URL}{name} to {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{name}.{os.getpid()}"
    try:
        with urllib.request.urlopen(URL + name, timeout=TIMEOUT_SECS) as response:
            content = response.read()
        checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if checksum != CHECKSUMS[name]:
            raise OSError(f"its MD5 is {checksum}, and should be {CHECKSUMS[name]}")
        unfinished.write_bytes(content)
        unfinished.replace(folder / name)
    except (OSError, http.client.HTTPException) as error:
        raise SystemExit(
            f"Cannot download {URL}{name}: {error}. Without a network, put the files {TRAINING} and {TEST} "
            f"into {folder}, or name their folder by --data."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def read_people(path):
    """Return the features and the labels of the people in a file."""
    with open(path, newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if row]
    if rows and rows[0][0].startswith("|"):  # the first line of adult.test
        del rows[0]
    if not rows or any(len(row) != len(FIELDS) for row in rows):
        raise SystemExit(f"{path} is damaged: each line has {len(FIELDS)} fields. Remove it, and try again.")
    people = dict(zip(FIELDS, map(np.array, zip(*rows, strict=True)), strict=True))
    features = {
        name: values.astype(np.float32) if name in NUMBERS else values
        for name, values in people.items()
        if name not in UNUSED
    }
    return features, np.strings.rstrip(people["income"], ".")  # adult.test has a full stop there


def load_data(folder):
    """Return features and labels to train, and to evaluate: adult.test, or else a fifth of adult.data."""
    features, labels = read_people(folder / TRAINING)
    if (folder / TEST).exists():
        return (features, labels), read_people(folder / TEST)
    order = np.random.default_rng(0).permutation(len(labels))
    parts = np.split(order, [len(order) * 4 // 5])
    return [({name: v[part] for name, v in features.items()}, labels[part]) for part in parts]


def make_columns():
    """Return what the linear model reads, and what the dense layers read."""
    fc = tf.feature_column
    age = fc.numeric_column("age", normalizer_fn=lambda x: (x - 39) / 14)
    education_num = fc.numeric_column("education_num", normalizer_fn=lambda x: (x - 10) / 2.5)
    gain = fc.numeric_column("capital_gain", normalizer_fn=tf.math.log1p)
    loss = fc.numeric_column("capital_loss", normalizer_fn=tf.math.log1p)
    hours = fc.numeric_column("hours_per_week", normalizer_fn=lambda x: (x - 40) / 12)

    education = fc.categorical_column_with_hash_bucket("education", 100)
    marital_status = fc.categorical_column_with_vocabulary_list("marital_status", MARITAL_STATUS)
    relationship = fc.categorical_column_with_vocabulary_list("relationship", RELATIONSHIP)
    workclass = fc.categorical_column_with_vocabulary_list("workclass", WORKCLASS)
    gender = fc.categorical_column_with_vocabulary_list("gender", ["Female", "Male"])
    race = fc.categorical_column_with_hash_bucket("race", 20)
    occupation = fc.categorical_column_with_hash_bucket("occupation", 1000)
    native_country = fc.categorical_column_with_hash_bucket("native_country", 1000)

    age_buckets = fc.bucketized_column(fc.numeric_column("age"), [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    gain_buckets = fc.bucketized_column(
        fc.numeric_column("capital_gain"), [1, 3000, 5000, 5200, 6800, 7100, 10000, 15000]
    )
    loss_buckets = fc.bucketized_column(
        fc.numeric_column("capital_loss"), [1, 1400, 1800, 1850, 1980, 2200, 2400]
    )
    hours_buckets = fc.bucketized_column(fc.numeric_column("hours_per_week"), [20, 30, 38, 41, 46, 51, 60])

    wide = [
        *(education, marital_status, relationship, workclass, gender, race, occupation, native_country),
        *(age_buckets, gain_buckets, loss_buckets, hours_buckets),
        fc.crossed_column(["education", "occupation"], 1000),
        fc.crossed_column([age_buckets, "education", "occupation"], 10_000),
        fc.crossed_column(["marital_status", "occupation"], 1000),
    ]
    deep = [
        *(age, education_num, gain, loss, hours),
        *map(fc.indicator_column, (marital_status, relationship, workclass, gender)),
        *map(fc.indicator_column, (gain_buckets, loss_buckets)),
        fc.embedding_column(occupation, 8),
        fc.embedding_column(native_country, 8),
    ]
    return wide, deep


def main():
    parser = argparse.ArgumentParser(
        description="Train a wide and deep model of the census data, and export it."
    )
    parser.add_argument(
        "--data", metavar="DIR", help="the folder with adult.data and adult.test (default: download them)"
    )
    parser.add_argument("--model-dir", default="runs/adult", help="(default: %(default)s)")
    parser.add_argument("--max-steps", type=int, default=1200, help="(default: %(default)s)")
    args = parser.parse_args()

    training, held_out = load_data(find_data(args.data))
    wide, deep = make_columns()

    def train_input_fn(config):
        # Each worker reads all people, in an order of its own.
        seed = 1 + config.global_id_in_cluster
        return tf.data.Dataset.from_tensor_slices(training).shuffle(40_000, seed).repeat().batch(BATCH_SIZE)

    def eval_input_fn():
        return tf.data.Dataset.from_tensor_slices(held_out).batch(1024)

    classifier = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=args.model_dir,
        linear_feature_columns=wide,
        linear_optimizer=tf.keras.optimizers.legacy.Ftrl(0.05, l1_regularization_strength=0.001),
        dnn_feature_columns=deep,
        dnn_optimizer=tf.keras.optimizers.legacy.Adagrad(0.05),
        dnn_hidden_units=[100, 75, 50, 25],
        dnn_dropout=0.2,
        label_vocabulary=CLASSES,
        config=tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=300),
    )
    # Served models read serialized examples with the features of all columns.
    spec = tf.feature_column.make_parse_example_spec(wide + deep)
    exporter = tf.estimator.BestExporter(
        "best", tf.estimator.export.build_parsing_serving_input_receiver_fn(spec), exports_to_keep=1
    )
    metrics, _ = tf.estimator.train_and_evaluate(
        classifier,
        tf.estimator.TrainSpec(train_input_fn, max_steps=args.max_steps),
        tf.estimator.EvalSpec(
            eval_input_fn, steps=None, exporters=exporter, start_delay_secs=0, throttle_secs=0
        ),
    )
    if metrics is None and classifier.config.task_type == "evaluator":
        metrics = classifier.evaluate(eval_input_fn)
    elif metrics is None and classifier.config.cluster_spec:
        return  # in a cluster, the evaluator says the rest
    if metrics is None:
        raise SystemExit(f"Nothing was left to train in {args.model_dir}: give another --model-dir.")
    print(f"Accuracy on {len(held_out[1])} people who were held out: {metrics['accuracy']:.4f}")

    best = Path(args.model_dir, "export", "best")
    print(f"The best model is in {best}. To serve it, and to ask it:\n")
    print(f"    muster serve {best} --name adult --port 8501")
    print(f"    curl http://localhost:8501/v1/models/adult:classify -d '{request(held_out[0])}'")


def request(features):
    """Return a request to classify the first of some people, as JSON."""
    return json.dumps({"examples": [{name: values[:1].tolist()[0] for name, values in features.items()}]})


if __name__ == "__main__":
    main()
