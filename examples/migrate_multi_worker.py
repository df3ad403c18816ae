"""The program of TensorFlow's guide "Migrate multi-worker CPU/GPU training", with the import lines changed.

It trains a line through three points in three ways: by an Estimator of TensorFlow 1; by `Model.fit` of
TensorFlow 2 with three workers and two parameter servers, which are threads of this process; and by
MultiWorkerMirroredStrategy:

    python examples/migrate_multi_worker.py

In a cluster, each task does its part of the Estimator's training:

    muster run --chief --workers 1 --ps 1 examples/migrate_multi_worker.py
"""

import json
import os

import portpicker

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

NUM_WORKERS, NUM_PS = 3, 2

features = [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5]]
labels = [[0.3], [0.5], [0.7]]
eval_features = [[4.0, 4.5], [5.0, 5.5], [6.0, 6.5]]
eval_labels = [[0.8], [0.9], [1.0]]


def train_estimator():
    """TensorFlow 1: the task that TF_CONFIG names does its part; without TF_CONFIG, this process does all."""

    def input_fn():
        return tf1.data.Dataset.from_tensor_slices((features, labels)).batch(1)

    def eval_input_fn():
        return tf1.data.Dataset.from_tensor_slices((eval_features, eval_labels)).batch(1)

    def model_fn(features, labels, mode):
        logits = tf1.layers.Dense(1)(features)
        loss = tf1.losses.mean_squared_error(labels=labels, predictions=logits)
        optimizer = tf1.train.AdagradOptimizer(0.05)
        train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
        return tf1.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf1.estimator.Estimator(model_fn=model_fn)
    train_spec = tf1.estimator.TrainSpec(input_fn=input_fn)
    eval_spec = tf1.estimator.EvalSpec(input_fn=eval_input_fn)
    return tf1.estimator.train_and_evaluate(estimator, train_spec, eval_spec)


def start_cluster():
    """Start workers and parameter servers in threads; TF_CONFIG says that this process is their chief."""
    chief_port = portpicker.pick_unused_port()
    worker_ports = [portpicker.pick_unused_port() for _ in range(NUM_WORKERS)]
    ps_ports = [portpicker.pick_unused_port() for _ in range(NUM_PS)]
    cluster = {
        "chief": [f"localhost:{chief_port}"],
        "worker": [f"localhost:{port}" for port in worker_ports],
        "ps": [f"localhost:{port}" for port in ps_ports],
    }
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
    cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()

    worker_config = tf.compat.v1.ConfigProto()
    worker_config.inter_op_parallelism_threads = 4
    for i in range(NUM_WORKERS):
        tf.distribute.Server(
            cluster_resolver.cluster_spec(), job_name="worker", task_index=i, config=worker_config
        )
    for i in range(NUM_PS):
        tf.distribute.Server(cluster_resolver.cluster_spec(), job_name="ps", task_index=i)
    return cluster_resolver


def train_keras(strategy):
    """TensorFlow 2: the same program whatever the strategy."""
    dataset = tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(10).repeat().batch(64)
    eval_dataset = tf.data.Dataset.from_tensor_slices((eval_features, eval_labels)).repeat().batch(1)

    with strategy.scope():
        model = tf.keras.models.Sequential([tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.legacy.Adagrad(learning_rate=0.05)
        model.compile(optimizer, "mse")

    model.fit(dataset, epochs=5, steps_per_epoch=10, verbose=2)
    return model.evaluate(eval_dataset, steps=10, return_dict=True, verbose=0)


def main():
    tf1.logging.set_verbosity(tf1.logging.INFO)
    if "TF_CONFIG" in os.environ:
        train_estimator()
        return
    metrics, _ = train_estimator()
    print(f"Estimator: loss {metrics['loss']:.4f} after {metrics['global_step']} steps")

    strategy = tf.distribute.experimental.ParameterServerStrategy(start_cluster())
    print(f"ParameterServerStrategy: loss {train_keras(strategy)['loss']:.4f}")

    del os.environ["TF_CONFIG"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    print(f"MultiWorkerMirroredStrategy: loss {train_keras(strategy)['loss']:.4f}")


if __name__ == "__main__":
    main()
