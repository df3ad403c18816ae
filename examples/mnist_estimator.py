"""The program of TensorFlow's guide "Multi-worker training with Estimator", with the import lines changed.

MNIST is downloaded at the first run, or read from the folder that MUSTER_DATA_DIR or --data-dir names:

    python examples/mnist_estimator.py --max-steps 1000
    muster run --workers 2 examples/mnist_estimator.py --max-steps 500
    muster run --chief --workers 1 --ps 1 --evaluator examples/mnist_estimator.py --max-steps 1000
"""

import argparse

import muster_tensorflow as tf
import muster_tensorflow.datasets as tfds

BUFFER_SIZE = 10000


def make_input_fn(batch_size, data_dir, seed):
    def input_fn(mode, input_context=None):
        datasets, info = tfds.load(name="mnist", with_info=True, as_supervised=True, data_dir=data_dir)
        training = mode == tf.estimator.ModeKeys.TRAIN
        mnist = datasets["train"] if training else datasets["test"]

        def scale(image, label):
            image = tf.cast(image, tf.float32)
            image /= 255
            return image, label

        # Each of n workers reads every n-th example.
        if input_context:
            mnist = mnist.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return mnist.map(scale).cache().shuffle(BUFFER_SIZE, seed).batch(batch_size)

    return input_fn


def model_fn(features, labels, mode, params):
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    logits = model(features, training=mode == tf.estimator.ModeKeys.TRAIN)

    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})

    loss = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )(labels, logits)
    loss = tf.reduce_sum(loss) * (1.0 / params["batch_size"])

    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    optimizer = tf.compat.v1.train.GradientDescentOptimizer(params["learning_rate"])
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    parser = argparse.ArgumentParser(description="Train on MNIST as TensorFlow's guide does.")
    parser.add_argument("--model-dir", default="runs/mnist", help="(default: %(default)s)")
    parser.add_argument("--max-steps", type=int, help="where to stop (default: after one pass over the data)")
    parser.add_argument("--batch-size", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.5, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, help="for the same numbers at every run (default: none)")
    parser.add_argument("--data-dir", help="where MNIST's files are (default: MUSTER_DATA_DIR, or a cache)")
    args = parser.parse_args()

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    # The parameter servers of TF_CONFIG; else its workers, or this process alone.
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    strategy = None if "ps" in cluster.jobs else tf.distribute.MultiWorkerMirroredStrategy()
    classifier = tf.estimator.Estimator(
        model_fn=model_fn,
        model_dir=args.model_dir,
        config=tf.estimator.RunConfig(tf_random_seed=args.seed, train_distribute=strategy),
        params={"batch_size": args.batch_size, "learning_rate": args.learning_rate},
    )
    input_fn = make_input_fn(args.batch_size, args.data_dir, args.seed)
    metrics, _ = tf.estimator.train_and_evaluate(
        classifier,
        train_spec=tf.estimator.TrainSpec(input_fn=input_fn, max_steps=args.max_steps),
        eval_spec=tf.estimator.EvalSpec(input_fn=input_fn, steps=None),
    )
    if metrics is not None:
        print(f"Test accuracy after {metrics['global_step']} steps: {metrics['accuracy']:.4f}")
    elif not classifier.config.cluster_spec and classifier.config.task_type != "evaluator":
        # In a cluster, the chief or the evaluator has logged the metrics.
        print(f"Nothing was left to train in {args.model_dir}: give more --max-steps or another --model-dir.")


if __name__ == "__main__":
    main()
