"""Two heads on one network: a class and a number of each house, with weights; metrics are added afterwards."""

import os
import tempfile

import numpy as np
import pandas as pd

import muster_tensorflow as tf

COLUMNS = ["area", "rooms", "town", "price", "sold", "weight"]


def houses(seed, rows=600):
    rng = np.random.RandomState(seed)
    table = pd.DataFrame(
        {
            "area": rng.uniform(20, 200, rows).astype("float32"),
            "rooms": rng.randint(1, 7, rows),
            "town": rng.choice(["rome", "oslo", "quito"], rows),
        }
    )
    table["price"] = (table.area / 50 + (table.town == "oslo") + rng.normal(0, 0.1, rows)).astype("float32")
    table["sold"] = ((table.rooms > 3) & (table.town != "quito")).astype(int)
    table["weight"] = np.where(rng.rand(rows) < 0.5, 1.0, 2.0).astype("float32")
    return table[COLUMNS]


def input_fn(table, batch_size, training):
    features = dict(table)
    labels = {"price": features.pop("price"), "sold": features.pop("sold")}
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    if training:
        dataset = dataset.shuffle(len(table)).repeat()
    return dataset.batch(batch_size)


def feature_columns():
    area = tf.feature_column.numeric_column("area", normalizer_fn=lambda x: (x - 110.0) / 50.0)
    rooms = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("rooms"), [2, 4, 6])
    town = tf.feature_column.categorical_column_with_vocabulary_list("town", ["rome", "oslo", "quito"])
    return [
        area,
        rooms,
        tf.feature_column.indicator_column(town),
        tf.feature_column.indicator_column(tf.feature_column.crossed_column([rooms, town], 30)),
    ]


class BestLoss(tf.estimator.SessionRunHook):
    """Keeps the least loss, and says when it was."""

    def begin(self):
        self.best, self.at = float("inf"), None
        self.timer = tf.estimator.SecondOrStepTimer(every_steps=10)

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(tf.compat.v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        step = int(run_values.results)
        if self.timer.should_trigger_for_step(step):
            self.timer.update_last_triggered_step(step)
            self.at = step


def main():
    folder = os.environ.get("MODEL_DIR") or tempfile.mkdtemp()
    config = tf.estimator.RunConfig(
        folder, tf_random_seed=3, save_checkpoints_steps=50, keep_checkpoint_max=2, log_step_count_steps=50
    )
    head = tf.estimator.MultiHead(
        [
            tf.estimator.RegressionHead(name="price", weight_column="weight"),
            tf.estimator.BinaryClassHead(name="sold", thresholds=[0.3, 0.7]),
        ],
        head_weights=[1.0, 0.5],
    )
    model = tf.estimator.DNNEstimator(
        head,
        hidden_units=[32, 16],
        feature_columns=feature_columns(),
        optimizer=lambda: tf.keras.optimizers.Adam(
            tf.keras.optimizers.schedules.ExponentialDecay(0.02, 50, 0.9)
        ),
        dropout=0.05,
        batch_norm=True,
        config=config,
    )

    def more_metrics(labels, predictions, features):
        error = tf.keras.metrics.MeanAbsoluteError(name="error")
        error.update_state(labels["price"], predictions[("price", "predictions")][:, 0])
        return {"error": error}

    model = tf.estimator.add_metrics(model, more_metrics)
    train, test = houses(1), houses(2, 200)
    hook = BestLoss()
    stop = tf.estimator.experimental.stop_if_no_decrease_hook(model, "loss", max_steps_without_decrease=10000)
    tf.estimator.train_and_evaluate(
        model,
        tf.estimator.TrainSpec(lambda: input_fn(train, 32, True), max_steps=150, hooks=[hook, stop]),
        tf.estimator.EvalSpec(lambda: input_fn(test, 50, False), steps=None, throttle_secs=0),
    )
    if not config.is_chief or config.task_type == "ps":
        return
    metrics = model.evaluate(lambda: input_fn(test, 50, False))
    assert metrics["accuracy/sold"] > 0.85, metrics
    assert metrics["error"] < 1.0, metrics
    assert {"auc/sold", "accuracy/positive_threshold_0.3/sold", "average_loss/price"} <= set(metrics), metrics
    assert hook.at
    first = next(iter(model.predict(lambda: input_fn(test, 50, False))))
    assert first[("sold", "probabilities")].shape == (2,)
    spec = tf.feature_column.make_parse_example_spec(feature_columns())
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        {**spec, "rooms": tf.io.FixedLenFeature([1], tf.float32)}
    )
    exported = model.export_saved_model(os.path.join(folder, "export"), receiver)
    loaded = tf.saved_model.load(exported if isinstance(exported, str) else exported.decode())
    assert "sold" in str(sorted(loaded.signatures)), sorted(loaded.signatures)
    print("ok")


if __name__ == "__main__":
    main()
