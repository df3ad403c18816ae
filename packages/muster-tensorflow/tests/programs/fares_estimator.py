"""A program of taxi fares: features that input functions and the serving function compute, buckets and crosses of them."""

import os
import shutil
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

COLUMNS = ["fare", "pickuplon", "pickuplat", "dropofflon", "dropofflat", "hour", "passengers", "key"]
DEFAULTS = [[0.0], [-74.0], [40.0], [-74.0], [40.7], [0], [1.0], ["nokey"]]
BUCKETS = 6


def write_rides(path, rides, seed):
    rng = np.random.RandomState(seed)
    with open(path, "w") as out:
        for number in range(rides):
            lon, lat = rng.uniform(-75, -73, 2), rng.uniform(38, 42, 2)
            hour, people = rng.randint(0, 24), rng.randint(1, 5)
            away = abs(lon[0] - lon[1]) + abs(lat[0] - lat[1])
            fare = 3 + 4 * away + (2 if hour >= 18 else 0)
            row = [fare, lon[0], lat[0], lon[1], lat[1], hour, people]
            out.write(",".join("%g" % value for value in row) + ",%d\n" % number)


def with_engineered(features):
    north = features["dropofflat"] - features["pickuplat"]
    east = features["dropofflon"] - features["pickuplon"]
    features["north"] = north
    features["east"] = east
    features["distance"] = tf.sqrt(north * north + east * east)
    features["evening"] = tf.cast(features["hour"] >= 18, tf.int64)
    return features


def read_rides(pattern, mode, batch_size=64):
    def _input_fn():
        def decode(line):
            columns = tf.decode_csv(line, record_defaults=DEFAULTS)
            features = dict(zip(COLUMNS, columns))
            features.pop("key")
            label = features.pop("fare")
            return with_engineered(features), label

        files = tf.gfile.Glob(pattern)
        dataset = tf.data.TextLineDataset(files).map(decode)
        if mode == tf.estimator.ModeKeys.TRAIN:
            dataset = dataset.shuffle(10 * batch_size).repeat()
        return dataset.batch(batch_size).make_one_shot_iterator().get_next()

    return _input_fn


def serving_input_fn():
    placeholders = {
        name: tf.placeholder(tf.int32 if name == "hour" else tf.float32, [None])
        for name in COLUMNS
        if name not in ("fare", "key")
    }
    return tf.estimator.export.ServingInputReceiver(with_engineered(dict(placeholders)), placeholders)


def wide_and_deep_columns():
    numeric = tf.feature_column.numeric_column
    edges = {
        "lat": np.linspace(38.0, 42.0, BUCKETS).tolist(),
        "lon": np.linspace(-75.0, -73.0, BUCKETS).tolist(),
    }
    buckets = {
        end + axis: tf.feature_column.bucketized_column(numeric(end + axis), edges[axis])
        for end in ("pickup", "dropoff")
        for axis in ("lat", "lon")
    }
    pickup = tf.feature_column.crossed_column([buckets["pickuplat"], buckets["pickuplon"]], BUCKETS * BUCKETS)
    dropoff = tf.feature_column.crossed_column(
        [buckets["dropofflat"], buckets["dropofflon"]], BUCKETS * BUCKETS
    )
    evening = tf.feature_column.categorical_column_with_identity("evening", 2)
    far = tf.feature_column.bucketized_column(numeric("distance"), [0.5, 1.0, 2.0, 3.0])
    wide = [pickup, dropoff, far, evening, tf.feature_column.crossed_column([far, evening], 20)]
    deep = [
        tf.feature_column.embedding_column(pickup, 4),
        tf.feature_column.embedding_column(dropoff, 4),
        tf.feature_column.indicator_column(evening),
        numeric("north"),
        numeric("east"),
        numeric("distance"),
        numeric("passengers"),
    ]
    return wide, deep


def rmse(labels, predictions):
    return {
        "rmse": tf.metrics.root_mean_squared_error(labels, tf.squeeze(predictions["predictions"], axis=-1))
    }


def main():
    tf.logging.set_verbosity(tf.logging.WARN)
    folder, out = tempfile.mkdtemp(), tempfile.mkdtemp()
    shutil.rmtree(out, ignore_errors=True)
    write_rides(os.path.join(folder, "taxi-train-0.csv"), 800, 1)
    write_rides(os.path.join(folder, "taxi-valid-0.csv"), 200, 2)
    wide, deep = wide_and_deep_columns()
    estimator = tf.estimator.DNNLinearCombinedRegressor(
        model_dir=out,
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[32, 8],
        dnn_optimizer=tf.train.AdamOptimizer(0.01),
        config=tf.estimator.RunConfig(save_checkpoints_steps=150, tf_random_seed=1),
    )
    estimator = tf.contrib.estimator.add_metrics(estimator, rmse)
    exporter = tf.estimator.LatestExporter("exporter", serving_input_fn)
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(read_rides(os.path.join(folder, "taxi-train*"), "train"), max_steps=300),
        tf.estimator.EvalSpec(
            read_rides(os.path.join(folder, "taxi-valid*"), "eval"),
            steps=None,
            start_delay_secs=1,
            throttle_secs=1,
            exporters=exporter,
        ),
    )
    metrics = estimator.evaluate(read_rides(os.path.join(folder, "taxi-valid*"), "eval"))
    print({name: round(float(value), 2) for name, value in sorted(metrics.items())})
    (exported,) = tf.gfile.ListDirectory(os.path.join(out, "export", "exporter"))[-1:]
    path = os.path.join(out, "export", "exporter", exported)
    fare = tf.contrib.predictor.from_saved_model(path, signature_def_key="predict")
    rides = {
        **{"pickuplon": [-73.5, -74.0], "pickuplat": [40.0, 40.0], "dropofflon": [-73.6, -74.5]},
        **{"dropofflat": [40.1, 41.8], "hour": [12, 20], "passengers": [1.0, 2.0]},
    }
    near, far = fare(rides)["predictions"][:, 0].tolist()
    print("near", round(near, 1), "far", round(far, 1))
    assert metrics["rmse"] < 2.5, metrics
    assert far > near + 3
    print("ok")


if __name__ == "__main__":
    main()
