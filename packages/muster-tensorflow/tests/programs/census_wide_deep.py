"""Wide and deep models of census data in CSV files; text that no column uses is left out."""

import os
import shutil
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.keras.utils.set_random_seed(7)

_CSV_COLUMNS = [
    "age",
    "workclass",
    "education",
    "education_num",
    "hours_per_week",
    "comment",
    "income_bracket",
]
_CSV_COLUMN_DEFAULTS = [[0], [""], [""], [0], [0], [""], [""]]
flags = tf.app.flags
flags.DEFINE_string("model_dir", "", "Where checkpoints are.")
flags.DEFINE_integer("train_epochs", 4, "How often to read the data.")
flags.DEFINE_integer("epochs_between_evals", 2, "How often to evaluate.")
flags.DEFINE_integer("batch_size", 40, "Examples in a batch.")
FLAGS = flags.FLAGS


def write_data(path, count, seed):
    rng = np.random.default_rng(seed)
    with open(path, "w") as file:
        for _ in range(count):
            work = rng.choice(["Private", "Local-gov", "Never-worked"])
            level = int(rng.integers(1, 16))
            school = "Doctorate" if level > 13 else "Bachelors" if level > 9 else "HS-grad"
            age, hours = int(rng.integers(17, 80)), int(rng.integers(10, 60))
            rich = level + 0.1 * hours + (work == "Private") * 2 + rng.normal() > 12
            bracket = ">50K" if rich else "<=50K"
            file.write(f"{age},{work},{school},{level},{hours},note {age},{bracket}\n")


def build_model_columns():
    age = tf.feature_column.numeric_column("age", normalizer_fn=lambda value: (value - 48) / 18)
    education_num = tf.feature_column.numeric_column("education_num", normalizer_fn=lambda x: (x - 8) / 4)
    hours_per_week = tf.feature_column.numeric_column("hours_per_week", normalizer_fn=lambda x: (x - 35) / 14)
    education = tf.feature_column.categorical_column_with_vocabulary_list(
        "education", ["Bachelors", "HS-grad", "Doctorate"]
    )
    workclass = tf.feature_column.categorical_column_with_hash_bucket("workclass", hash_bucket_size=100)
    age_buckets = tf.feature_column.bucketized_column(
        age, boundaries=[18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
    )
    base_columns = [education, workclass, age_buckets]
    crossed_columns = [
        tf.feature_column.crossed_column(["education", "workclass"], hash_bucket_size=100),
        tf.feature_column.crossed_column([age_buckets, "education"], hash_bucket_size=100),
    ]
    deep_columns = [
        age,
        education_num,
        hours_per_week,
        tf.feature_column.indicator_column(education),
        tf.feature_column.embedding_column(workclass, dimension=4),
    ]
    return base_columns + crossed_columns, deep_columns


def input_fn(data_file, num_epochs, shuffle, batch_size):
    assert tf.gfile.Exists(data_file), f"{data_file} not found."

    def parse_csv(value):
        columns = tf.decode_csv(value, record_defaults=_CSV_COLUMN_DEFAULTS)
        features = dict(zip(_CSV_COLUMNS, columns))
        labels = features.pop("income_bracket")
        classes = tf.equal(labels, ">50K")
        return features, classes

    dataset = tf.data.TextLineDataset(data_file)
    if shuffle:
        dataset = dataset.shuffle(buffer_size=1000)
    dataset = dataset.map(parse_csv, num_parallel_calls=5)
    dataset = dataset.repeat(num_epochs).batch(batch_size)
    iterator = dataset.make_one_shot_iterator()
    features, labels = iterator.get_next()
    return features, labels


def build_estimator(model_dir, model_type):
    wide_columns, deep_columns = build_model_columns()
    hidden_units = [32, 16]
    run_config = tf.estimator.RunConfig(tf_random_seed=7).replace(
        session_config=tf.ConfigProto(device_count={"GPU": 0}), save_summary_steps=50
    )
    if model_type == "wide":
        return tf.estimator.LinearClassifier(
            model_dir=model_dir, feature_columns=wide_columns, config=run_config
        )
    if model_type == "deep":
        return tf.estimator.DNNClassifier(
            model_dir=model_dir, feature_columns=deep_columns, hidden_units=hidden_units, config=run_config
        )
    return tf.estimator.DNNLinearCombinedClassifier(
        model_dir=model_dir,
        linear_feature_columns=wide_columns,
        dnn_feature_columns=deep_columns,
        dnn_hidden_units=hidden_units,
        dnn_optimizer=tf.train.AdagradOptimizer(0.05),
        config=run_config,
    )


def custom_model_fn(features, labels, mode, params):
    """A wide part by linear_model, a deep part by input_layer; the columns are found by their use."""
    wide, deep = build_model_columns()
    logits = tf.feature_column.linear_model(features, wide)
    net = tf.feature_column.input_layer(features, deep)
    net = tf.layers.batch_normalization(net, training=mode == tf.estimator.ModeKeys.TRAIN)
    net = tf.layers.dense(net, 16, activation=tf.nn.relu)
    logits += tf.layers.dense(net, 1)
    head = tf.contrib.estimator.binary_classification_head()
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)

    def train_op_fn(loss):
        with tf.control_dependencies(update_ops):
            return tf.train.AdamOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())

    return head.create_estimator_spec(
        features=features,
        mode=mode,
        labels=tf.cast(labels, tf.float32),
        logits=logits,
        train_op_fn=train_op_fn,
    )


def main(_):
    folder = tempfile.mkdtemp()
    train_file, test_file = os.path.join(folder, "adult.data"), os.path.join(folder, "adult.test")
    write_data(train_file, 800, 0)
    write_data(test_file, 200, 1)
    model_dir = FLAGS.model_dir or os.path.join(folder, "model")
    shutil.rmtree(model_dir, ignore_errors=True)

    accuracies = {}
    for model_type in ("wide", "wide_deep"):
        model = build_estimator(os.path.join(model_dir, model_type), model_type)

        def metric_fn(labels, predictions):
            return {"auc_pr": tf.metrics.auc(labels, predictions["logistic"], curve="PR")}

        model = tf.estimator.add_metrics(model, metric_fn)
        for _ in range(FLAGS.train_epochs // FLAGS.epochs_between_evals):
            model.train(
                input_fn=lambda: input_fn(train_file, FLAGS.epochs_between_evals, True, FLAGS.batch_size)
            )
            results = model.evaluate(input_fn=lambda: input_fn(test_file, 1, False, FLAGS.batch_size))
        accuracies[model_type] = results["accuracy"]
        assert 0 < results["auc_pr"] <= 1
        print(model_type, sorted(results.items()))

    custom = tf.estimator.Estimator(
        custom_model_fn,
        os.path.join(model_dir, "custom"),
        params={"rate": 0.01},
        config=tf.estimator.RunConfig(tf_random_seed=7),
    )
    train_spec = tf.estimator.TrainSpec(lambda: input_fn(train_file, None, True, 40), max_steps=100)
    eval_spec = tf.estimator.EvalSpec(lambda: input_fn(test_file, 1, False, 40), steps=None, throttle_secs=0)
    tf.estimator.train_and_evaluate(custom, train_spec, eval_spec)
    accuracies["custom"] = custom.evaluate(lambda: input_fn(test_file, 1, False, 40))["accuracy"]
    print(accuracies)
    assert accuracies["wide"] > 0.7
    assert min(accuracies.values()) > 0.6
    print("ok")


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.WARN)
    tf.app.run(main=main)
