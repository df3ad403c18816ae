"""A canned wide-and-deep classifier on rows like those of the Adult data, read from a CSV file.

The linear part reads buckets of the age, three vocabularies, 100,000 hash buckets, identities, two crosses;
the dense layers read two numbers, three indicators, and embeddings of the hash buckets and of a cross.
"""

import csv

import numpy as np
from bench.cases._shared import start

BATCH = 256
STEPS = 100
ROWS = 50_000
HIDDEN = (100, 75, 50, 25)
UNITS = 16
CITIES = 100_000
JOBS = ["clerk", "cook", "driver", "farmer", "nurse", "sailor", "teacher", "tailor", "writer", "none"]
SCHOOLS = [f"{i}th" for i in range(1, 13)] + ["Bachelors", "Masters", "Doctorate", "Some-college"]
STATES = ["Private", "Self-emp", "Federal-gov", "Local-gov", "State-gov", "Without-pay"]


def write_rows(path):
    """Write the rows: random, but always the same."""
    rng = np.random.default_rng(0)
    words = {"job": JOBS, "school": [*SCHOOLS, "Preschool"], "state": STATES}
    columns = {"age": rng.integers(17, 90, ROWS)}
    columns |= {name: rng.choice(values, ROWS) for name, values in words.items()}
    columns["city"] = [f"City-{i}" for i in (rng.random(ROWS) ** 3 * CITIES).astype(int)]
    columns["hours"] = rng.integers(0, 110, ROWS)
    columns["gain"] = rng.integers(0, 9999, ROWS) / 4
    score = columns["age"] / 40 + columns["hours"] / 50 + 2 * np.isin(columns["job"], JOBS[:4])
    columns["label"] = (score + rng.standard_normal(ROWS) > 4).astype(int)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def read(tf, path):
    """Return the batches of the file, without end."""
    defaults = [tf.float32, tf.string, tf.string, tf.string, tf.string, tf.int64, tf.float32, tf.int32]
    return tf.data.experimental.make_csv_dataset(
        path, BATCH, column_defaults=defaults, label_name="label", shuffle=False, prefetch_buffer_size=4
    )


def categorical_columns(fc):
    """Return the columns of ids, which the linear part reads beside the buckets of the age."""
    return [
        fc.categorical_column_with_vocabulary_list("job", JOBS),
        fc.categorical_column_with_vocabulary_list("school", SCHOOLS, num_oov_buckets=2),
        fc.categorical_column_with_vocabulary_list("state", STATES),
        fc.categorical_column_with_hash_bucket("city", CITIES),
        fc.categorical_column_with_identity("hours", 100, default_value=99),
        fc.crossed_column(["school", "job"], 10_000),
        fc.crossed_column([age_buckets(fc), "school", "job"], 100_000),
    ]


def age_buckets(fc):
    """Return the intervals of the age."""
    return fc.bucketized_column(fc.numeric_column("age"), [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])


def deep_columns(fc):
    """Return the columns that the dense layers read."""
    job, school, state, city, _, cross, _ = categorical_columns(fc)
    return [
        fc.numeric_column("age", normalizer_fn=lambda age: age / 100),
        fc.numeric_column("gain", normalizer_fn=lambda gain: gain / 1000),
        *map(fc.indicator_column, (job, school, state)),
        fc.embedding_column(city, UNITS, initializer=start(1, 0.1)),
        fc.embedding_column(cross, UNITS, initializer=start(2, 0.1)),
    ]
