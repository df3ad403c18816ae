"""Trains an Estimator of TF-Ranking on lists of examples. The arguments: dnn or gam, and a folder.

``dnn`` reads SequenceExamples, and ``gam`` Examples in Examples.
"""

import os
import sys

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr

NUMBERS = 4
LIST = 8


def floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value) for value in values]))


def texts(values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_lists(kind, path, seed):
    rng, weights = np.random.default_rng(seed), np.random.default_rng(5).normal(size=NUMBERS)
    with tf.io.TFRecordWriter(path) as out:
        for _ in range(256):
            size = int(rng.integers(3, LIST + 1))
            numbers, query = rng.normal(size=(size, NUMBERS)), rng.normal(size=2)
            labels = np.clip(np.round(numbers @ weights + query[0] + rng.normal(size=size) * 0.3), 0, 4)
            columns = {"utility": labels, **{f"x{i}": numbers[:, i] for i in range(NUMBERS)}}
            if kind == "dnn":
                lists = {
                    name: tf.train.FeatureList(feature=[floats([value]) for value in values])
                    for name, values in columns.items()
                }
                record = tf.train.SequenceExample(
                    context=tf.train.Features(feature={"query": floats(query)}),
                    feature_lists=tf.train.FeatureLists(feature_list=lists),
                ).SerializeToString()
            else:
                rows = [
                    example({name: floats([values[row]]) for name, values in columns.items()})
                    for row in range(size)
                ]
                context = example({"query": floats(query)})
                record = example({"serialized_context": texts([context]), "serialized_examples": texts(rows)})
            out.write(record)


def main():
    kind, folder = sys.argv[1:]
    context = {"query": tf.feature_column.numeric_column("query", shape=(2,))}
    numbers = {f"x{i}": tf.feature_column.numeric_column(f"x{i}", default_value=0.0) for i in range(NUMBERS)}
    paths = []
    for seed, part in enumerate(("train", "test")):
        paths.append(f"{folder}.{part}.{os.getpid()}")
        write_lists(kind, paths[-1], seed)

    def input_fn(path, epochs):
        spec = tf.feature_column.make_parse_example_spec(list(numbers.values()))
        spec["utility"] = tf.io.FixedLenFeature([1], tf.float32, default_value=[-1.0])
        lists = tfr.data.build_ranking_dataset(
            path,
            tfr.data.SEQ if kind == "dnn" else tfr.data.EIE,
            32,
            context_feature_spec=tf.feature_column.make_parse_example_spec(list(context.values())),
            example_feature_spec=spec,
            list_size=LIST,
            num_epochs=epochs,
            shuffle=False,
            reader=tf.data.TFRecordDataset,
        )

        def parts(features):
            return features, tf.squeeze(features.pop("utility"), axis=2)

        return lists.map(parts)

    options = {
        "example_feature_columns": numbers,
        "context_feature_columns": context,
        "optimizer": tf.compat.v1.train.AdagradOptimizer(0.3),
        "model_dir": folder,
    }
    if kind == "dnn":
        model = tfr.estimator.make_dnn_ranking_estimator(hidden_units=[16, 8], **options)
    else:
        model = tfr.estimator.make_gam_ranking_estimator(
            example_hidden_units=[8], context_hidden_units=[4], loss="pairwise_logistic_loss", **options
        )
    train = tf.estimator.TrainSpec(lambda: input_fn(paths[0], None), max_steps=50)
    test = tf.estimator.EvalSpec(lambda: input_fn(paths[1], 1), steps=None)
    tf.estimator.train_and_evaluate(model, train, test)
    if model.config.is_chief and model.config.task_type != "ps":
        metrics = model.evaluate(test.input_fn)
        print("metrics", {key: round(float(value), 4) for key, value in metrics.items()})


main()
