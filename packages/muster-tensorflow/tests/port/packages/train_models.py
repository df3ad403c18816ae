"""Trains an Estimator of TensorFlow's official models. The arguments: which, and a folder.

``mnist`` and ``resnet`` see images of ten patterns, ``wide_deep`` rows of a census that is made up, and
``transformer`` turns sequences round.
"""

import collections
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from absl import flags


def images(shape, rows=256):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 10, rows).astype(np.int32)
    patterns = np.random.default_rng(7).normal(size=(10, *shape))
    values = (rng.normal(size=(rows, *shape)) * 0.5 + patterns[labels]).astype(np.float32)

    def batches(repeat):
        data = tf.data.Dataset.from_tensor_slices((values, labels))
        return (data.shuffle(512, seed=1).repeat() if repeat else data).batch(16)

    return lambda: batches(True), lambda: batches(False)


def mnist(config):
    from official.r1.mnist import mnist as model

    params = {"data_format": "channels_last"}
    return (tf.estimator.Estimator(model.model_fn, params=params, config=config), *images((28 * 28,)))


def resnet(config):
    from official.r1.resnet import cifar10_main

    cifar10_main.define_cifar_flags()
    flags.FLAGS(["resnet"])
    params = {
        **{"resnet_size": 8, "resnet_version": 1, "data_format": "channels_last", "batch_size": 16},
        **{"loss_scale": 1, "dtype": tf.float32, "fine_tune": False},
    }
    model = tf.estimator.Estimator(cifar10_main.cifar10_model_fn, params=params, config=config)
    return (model, *images((32, 32, 3)))


def wide_deep(config):
    from official.r1.wide_deep import census_dataset, census_main

    path = f"{config.model_dir}.{os.getpid()}.csv"
    rng = np.random.default_rng(3)
    with open(path, "w") as out:
        for row in range(1000):
            school = rng.choice(["Bachelors", "HS-grad", "11th", "Masters"])
            age, hours, work = (
                rng.integers(17, 80),
                rng.integers(10, 60),
                rng.choice(["Sales", "Tech-support"]),
            )
            score = (school in ("Bachelors", "Masters")) + (age > 40) + (hours > 40) + rng.normal() * 0.5
            out.write(
                f"{age},Private,{row},{school},{rng.integers(1, 16)},Never-married,{work},Husband,White,Male,"
                f"0,0,{hours},United-States,{'>50K' if score > 1.6 else '<=50K'}\n"
            )
    columns = census_dataset.build_model_columns
    model = census_main.build_estimator(config.model_dir, "wide_deep", columns, 0, 0)
    return (
        model,
        lambda: census_dataset.input_fn(path, None, True, 40),
        lambda: census_dataset.input_fn(path, 1, False, 40),
    )


def transformer(config):
    from official.nlp.transformer import model_params
    from official.r1.transformer import dataset, transformer_main

    data = f"{config.model_dir}.{os.getpid()}.text"
    os.makedirs(data)
    rng = np.random.default_rng(3)
    for part in ("train", "dev"):
        with tf.python_io.TFRecordWriter(os.path.join(data, f"pairs-{part}-0")) as out:
            for _ in range(400):
                ids = [int(each) for each in rng.integers(2, 40, rng.integers(3, 10))]
                feature = {
                    name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
                    for name, value in (("inputs", [*ids, 1]), ("targets", [*ids[::-1], 1]))
                }
                out.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    params = {
        **model_params.TINY_PARAMS,
        **{"vocab_size": 40, "batch_size": 128, "max_length": 16, "num_hidden_layers": 1, "data_dir": data},
        **{"num_parallel_calls": 1, "static_batch": True, "dtype": "fp32", "learning_rate_warmup_steps": 20},
        # A compiled step has fixed shapes, so that it cannot leave out the padding. TPUs set this, too.
        "allow_ffn_pad": False,
    }
    params = collections.defaultdict(lambda: None, params)
    model = tf.estimator.Estimator(transformer_main.model_fn, config=config, params=params)
    return model, dataset.train_input_fn, dataset.eval_input_fn


def main():
    name, folder = sys.argv[1:]
    config = tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1)
    model, train, test = globals()[name](config)
    spec = tf.estimator.EvalSpec(test, steps=None)
    tf.estimator.train_and_evaluate(model, tf.estimator.TrainSpec(train, max_steps=50), spec)
    if config.is_chief and config.task_type != "ps":
        metrics = model.evaluate(test)
        print("metrics", {key: round(float(value), 4) for key, value in metrics.items()})


main()
