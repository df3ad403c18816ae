"""A census estimator in a cluster: columns, metrics of one's own, exporters, and a configuration from TF_CONFIG."""

import argparse
import json
import os

import numpy as np

import muster_tensorflow as tf

CSV_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "gender",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income_bracket",
]
CSV_COLUMN_DEFAULTS = [
    [0],
    [""],
    [0],
    [""],
    [0],
    [""],
    [""],
    [""],
    [""],
    [""],
    [0],
    [0],
    [0],
    [""],
    [""],
]
LABEL_COLUMN = "income_bracket"
LABELS = [" <=50K", " >50K"]
UNUSED_COLUMNS = set(CSV_COLUMNS) - {LABEL_COLUMN}
WORKCLASS = [" Self-emp-not-inc", " Private", " State-gov", " Federal-gov", " Local-gov", " ?"]
EDUCATION = [" Bachelors", " HS-grad", " 11th", " Masters", " Some-college", " Doctorate"]
OCCUPATION = [" Sales", " Tech-support", " Craft-repair", " Other-service"]
GENDER = [" Female", " Male"]

INPUT_COLUMNS = [
    tf.feature_column.categorical_column_with_vocabulary_list("gender", GENDER),
    tf.feature_column.categorical_column_with_vocabulary_list("education", EDUCATION),
    tf.feature_column.categorical_column_with_vocabulary_list("workclass", WORKCLASS),
    tf.feature_column.categorical_column_with_hash_bucket("occupation", hash_bucket_size=20, dtype=tf.string),
    tf.feature_column.numeric_column("age"),
    tf.feature_column.numeric_column("education_num"),
    tf.feature_column.numeric_column("capital_gain"),
    tf.feature_column.numeric_column("hours_per_week"),
]


def write_csv(path, count, seed):
    rng = np.random.default_rng(seed)
    with open(path, "w") as file:
        for _ in range(count):
            years = rng.integers(6, 17)
            age, hours, male = rng.integers(18, 80), rng.integers(10, 60), rng.integers(0, 2)
            rich = years + 3 * male + hours / 10 + rng.normal() > 16
            row = [
                age,
                rng.choice(WORKCLASS),
                rng.integers(10000, 99999),
                EDUCATION[(years - 6) // 2],
                years,
                " Never-married",
                rng.choice(OCCUPATION),
                " Husband",
                " White",
                GENDER[male],
                rng.integers(0, 2) * 1000,
                0,
                hours,
                " United-States",
                LABELS[int(rich)],
            ]
            file.write(",".join(map(str, row)) + "\n")


def build_estimator(config, embedding_size=8, hidden_units=None):
    (gender, education, workclass, occupation, age, education_num, capital_gain, hours) = INPUT_COLUMNS
    age_buckets = tf.feature_column.bucketized_column(
        age, boundaries=[18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
    )
    wide_columns = [
        tf.feature_column.crossed_column(["education", "occupation"], hash_bucket_size=int(1e3)),
        tf.feature_column.crossed_column([age_buckets, "gender"], hash_bucket_size=int(1e3)),
        gender,
        education,
        workclass,
        occupation,
        age_buckets,
    ]
    deep_columns = [
        tf.feature_column.indicator_column(workclass),
        tf.feature_column.indicator_column(education),
        tf.feature_column.indicator_column(gender),
        tf.feature_column.embedding_column(occupation, dimension=embedding_size),
        age,
        education_num,
        capital_gain,
        hours,
    ]
    return tf.estimator.DNNLinearCombinedClassifier(
        config=config,
        linear_feature_columns=wide_columns,
        dnn_feature_columns=deep_columns,
        dnn_hidden_units=hidden_units or [16, 8],
        n_classes=2,
    )


def parse_label_column(label_string_tensor):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys=tf.constant(LABELS), values=tf.range(2)), default_value=-1
    )
    return table.lookup(label_string_tensor)


def parse_csv(rows_string_tensor):
    columns = tf.io.decode_csv(rows_string_tensor, record_defaults=CSV_COLUMN_DEFAULTS)
    features = dict(zip(CSV_COLUMNS, columns))
    for col in UNUSED_COLUMNS - {c.name for c in INPUT_COLUMNS}:
        features.pop(col)
    return features


def input_fn(filenames, num_epochs=None, shuffle=True, skip_header_lines=0, batch_size=40):
    dataset = tf.data.TextLineDataset(filenames).skip(skip_header_lines)
    if shuffle:
        dataset = dataset.shuffle(buffer_size=batch_size * 10)
    dataset = dataset.repeat(num_epochs).batch(batch_size).map(parse_csv, num_parallel_calls=2)

    def split(features):
        return features, parse_label_column(features.pop(LABEL_COLUMN))

    return dataset.map(split).prefetch(1)


def csv_serving_input_fn():
    csv_row = tf.compat.v1.placeholder(shape=[None], dtype=tf.string)
    features = parse_csv(csv_row)
    features.pop(LABEL_COLUMN)
    return tf.estimator.export.ServingInputReceiver(features, {"csv_row": csv_row})


def example_serving_input_fn():
    example_bytestring = tf.compat.v1.placeholder(shape=[None], dtype=tf.string)
    features = tf.io.parse_example(
        example_bytestring, tf.feature_column.make_parse_example_spec(INPUT_COLUMNS)
    )
    return tf.estimator.export.ServingInputReceiver(features, {"example_proto": example_bytestring})


def json_serving_input_fn():
    inputs = {}
    for feat in INPUT_COLUMNS:
        inputs[feat.name] = tf.compat.v1.placeholder(shape=[None], dtype=feat.dtype)
    return tf.estimator.export.ServingInputReceiver(inputs, inputs)


SERVING_FUNCTIONS = {
    "JSON": json_serving_input_fn,
    "EXAMPLE": example_serving_input_fn,
    "CSV": csv_serving_input_fn,
}


def _get_session_config_from_env_var():
    """Returns a session config whose device filters depend on the task, as in a distributed job."""
    tf_config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    if tf_config and "task" in tf_config and "type" in tf_config["task"] and "index" in tf_config["task"]:
        if tf_config["task"]["type"] in ("chief", "master"):
            return tf.compat.v1.ConfigProto(device_filters=["/job:ps", "/job:%s" % tf_config["task"]["type"]])
        if tf_config["task"]["type"] == "worker":
            return tf.compat.v1.ConfigProto(
                device_filters=["/job:ps", "/job:worker/task:%d" % tf_config["task"]["index"]]
            )
    return None


def recall_at_labels(labels, predictions):
    recall = tf.keras.metrics.Recall(name="recall")
    recall.update_state(labels, predictions["class_ids"])
    return {"recall": recall}


def compare_accuracy(best_eval_result, current_eval_result):
    return best_eval_result["accuracy"] <= current_eval_result["accuracy"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default=os.path.join(os.environ.get("WORK", "."), "job"))
    parser.add_argument("--train-steps", type=int, default=60)
    parser.add_argument("--eval-steps", type=int, default=5)
    parser.add_argument("--export-format", choices=["JSON", "CSV", "EXAMPLE"], default="JSON")
    parser.add_argument("--verbosity", choices=["DEBUG", "ERROR", "FATAL", "INFO", "WARN"], default="INFO")
    args = parser.parse_args()
    tf.compat.v1.logging.set_verbosity(args.verbosity)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = str(tf.compat.v1.logging.__dict__[args.verbosity] / 10)
    for name, count, seed in (("train.csv", 400, 1), ("eval.csv", 200, 2)):
        name = os.path.join(os.path.dirname(args.job_dir), name)
        mine = f"{name}.{os.getpid()}"
        write_csv(mine, count, seed)
        os.replace(mine, name)

    run_config = tf.estimator.RunConfig(session_config=_get_session_config_from_env_var())
    run_config = run_config.replace(model_dir=args.job_dir, save_checkpoints_steps=30, tf_random_seed=5)
    print("model dir {}".format(run_config.model_dir))
    train_spec = tf.estimator.TrainSpec(
        lambda: input_fn(os.path.join(os.path.dirname(args.job_dir), "train.csv")), max_steps=args.train_steps
    )
    exporters = [
        tf.estimator.FinalExporter("census", SERVING_FUNCTIONS[args.export_format]),
        tf.estimator.BestExporter(
            "best", SERVING_FUNCTIONS["EXAMPLE"], compare_fn=compare_accuracy, exports_to_keep=1
        ),
    ]
    eval_spec = tf.estimator.EvalSpec(
        lambda: input_fn(
            os.path.join(os.path.dirname(args.job_dir), "eval.csv"), num_epochs=1, shuffle=False
        ),
        steps=args.eval_steps,
        exporters=exporters,
        name="census-eval",
        start_delay_secs=0,
        throttle_secs=0,
    )
    estimator = build_estimator(run_config)
    estimator = tf.estimator.add_metrics(estimator, recall_at_labels)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    if run_config.task_type in (None, "evaluator") or not run_config.cluster_spec.as_dict():
        latest = tf.train.latest_checkpoint(args.job_dir)
        assert latest.endswith("-%d" % args.train_steps) or run_config.num_ps_replicas, latest
        for name in ("census", "best"):
            exported = sorted(os.listdir(os.path.join(args.job_dir, "export", name)))
            print("exported", name, len(exported))
            assert exported
    print("ok")


if __name__ == "__main__":
    main()
