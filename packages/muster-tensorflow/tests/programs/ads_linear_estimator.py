"""How often ads are clicked, by a linear model: weighted and shared columns, FTRL, hooks, a head of counts."""

import argparse
import json
import os
import tempfile

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import estimator as tf_estimator

v1 = tf.compat.v1


def write_lines(path, seed, rows=800):
    """Write tab-separated lines: clicks, hour, the ad, the ad before it, words and their weights."""
    rng = np.random.RandomState(seed)
    with open(path, "w") as out:
        for _ in range(rows):
            ad, hour = rng.randint(10), rng.randint(24)
            words = rng.choice(8, size=3, replace=False)
            clicks = rng.poisson(np.exp(0.2 * ad - 1 + 0.5 * (words[0] == 3) + 0.3 * (hour > 12)))
            out.write(
                "\t".join(
                    [str(clicks), str(hour), "ad%d" % ad, "ad%d" % rng.randint(10)]
                    + [",".join("w%d" % word for word in words), "1.0,0.5,0.25"]
                )
                + "\n"
            )


def input_fn(path, batch_size, training, input_context=None):
    def parse(lines):
        fields = tf.io.decode_csv(lines, [[0.0], [0.0], [""], [""], [""], [""]], field_delim="\t")
        clicks, hour, ad, before, words, weights = fields
        split = tf.strings.split(words, ",").to_sparse()
        of_words = tf.strings.to_number(tf.strings.split(weights, ",").values)
        features = {
            "hour": hour,
            "ad": ad,
            "before": before,
            "words": split,
            "weights": tf.SparseTensor(split.indices, of_words, split.dense_shape),
        }
        return features, clicks

    dataset = tf.data.TextLineDataset(path)
    if input_context is not None and training:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    if training:
        dataset = dataset.shuffle(1000, seed=1).repeat()
    return dataset.batch(batch_size).map(parse, num_parallel_calls=2).prefetch(1)


def feature_columns():
    column = tf.feature_column
    ads = ["ad%d" % ad for ad in range(10)]
    ad, before = (column.categorical_column_with_vocabulary_list(name, ads) for name in ("ad", "before"))
    words = column.categorical_column_with_hash_bucket("words", 50)
    hour = column.bucketized_column(column.numeric_column("hour"), [6, 12, 18])
    wide = [
        ad,
        hour,
        column.weighted_categorical_column(words, "weights"),
        column.crossed_column([hour, "ad"], 200),
    ]
    return wide, column.shared_embeddings([ad, before], dimension=4)


class Rates(v1.train.SessionRunHook):
    """Asks for the loss and the step at once, and stops on a loss that is no number."""

    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        graph = run_context.session.graph
        assert graph is not None
        return v1.train.SessionRunArgs({"step": v1.train.get_global_step()})

    def after_run(self, run_context, run_values):
        if run_values.results["step"] > 10**6:
            run_context.request_stop()

    def end(self, session):
        self.last = session.run(v1.train.get_global_step())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", default=os.environ.get("MODEL_DIR"))
    parser.add_argument("--steps", type=int, default=150)
    options, _ = parser.parse_known_args()
    folder = options.model_dir or tempfile.mkdtemp()
    data = tempfile.mkdtemp()
    for seed, name in enumerate(("train.tsv", "test.tsv")):
        write_lines(os.path.join(data, name), seed)
    config = tf_estimator.RunConfig(
        model_dir=folder,
        tf_random_seed=11,
        save_summary_steps=50,
        save_checkpoints_secs=None,
        save_checkpoints_steps=75,
        session_config=v1.ConfigProto(allow_soft_placement=True, log_device_placement=False),
    )
    wide, _ = feature_columns()
    model = tf_estimator.LinearEstimator(
        head=tf_estimator.PoissonRegressionHead(),
        feature_columns=wide,
        optimizer=lambda: tf.keras.optimizers.Ftrl(0.3, l1_regularization_strength=0.001),
        sparse_combiner="sum",
        config=config,
    )
    hook = Rates()
    train = tf_estimator.TrainSpec(
        lambda input_context=None: input_fn(os.path.join(data, "train.tsv"), 40, True, input_context),
        max_steps=options.steps,
        hooks=[hook, v1.train.StepCounterHook(every_n_steps=50, output_dir=folder)],
    )
    test = tf_estimator.EvalSpec(
        lambda: input_fn(os.path.join(data, "test.tsv"), 100, False),
        steps=8,
        hooks=[v1.train.StopAtStepHook(num_steps=8)],
        name="held_out",
        exporters=tf_estimator.FinalExporter("final", serving_input_fn),
        throttle_secs=1,
    )
    tf_estimator.train_and_evaluate(model, train, test)
    if not config.is_chief or config.task_type == "ps":
        return
    metrics = model.evaluate(test.input_fn, name="held_out")
    with open(os.path.join(folder, "metrics.json"), "w") as out:
        json.dump({name: float(value) for name, value in metrics.items()}, out)
    assert abs(metrics["prediction/mean"] - metrics["label/mean"]) < 0.3 * metrics["label/mean"], metrics
    rates = {}
    for features, row in zip(
        input_fn(os.path.join(data, "test.tsv"), 1, False), model.predict(test.input_fn)
    ):
        rates.setdefault(features[0]["ad"].numpy()[0], []).append(float(row["predictions"][0]))
    means = {ad: np.mean(values) for ad, values in rates.items()}
    assert means[b"ad9"] > 2 * means[b"ad0"], means
    names = model.get_variable_names()
    assert any("ad" in name and "weights" in name for name in names), names
    if not config.num_ps_replicas:
        assert int(hook.last) == options.steps, hook.last
        (version,) = os.listdir(os.path.join(folder, "export", "final"))
        assert version.isdigit()
    print("ok")


def serving_input_fn():
    text = lambda name: v1.placeholder(tf.string, [None], name=name)
    hour = v1.placeholder(tf.float32, [None], name="hour")
    words, weights = v1.placeholder(tf.string, [None, None]), v1.placeholder(tf.float32, [None, None])
    features = {"hour": hour, "ad": text("ad"), "before": text("before"), "words": words, "weights": weights}
    return tf_estimator.export.ServingInputReceiver(features, features)


if __name__ == "__main__":
    main()
