"""A network of one's own for irises: feature columns in params, metrics, predictions and an export."""

import argparse
import tempfile

import numpy as np
from sklearn.datasets import load_iris

import muster_tensorflow.compat.v1 as tf

tf.keras.utils.set_random_seed(7)

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", default=32, type=int, help="batch size")
parser.add_argument("--train_steps", default=300, type=int, help="number of training steps")

NAMES = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth"]
SPECIES = ["Setosa", "Versicolor", "Virginica"]


def load_data():
    iris = load_iris()
    order = np.random.default_rng(0).permutation(150)
    x, y = iris.data[order].astype(np.float32), iris.target[order].astype(np.int32)
    columns = {name: x[:, i] for i, name in enumerate(NAMES)}
    train = {name: values[:120] for name, values in columns.items()}, y[:120]
    test = {name: values[120:] for name, values in columns.items()}, y[120:]
    return train, test


def train_input_fn(features, labels, batch_size):
    dataset = tf.data.Dataset.from_tensor_slices((dict(features), labels))
    return dataset.shuffle(1000).repeat().batch(batch_size)


def eval_input_fn(features, labels, batch_size):
    features = dict(features)
    inputs = features if labels is None else (features, labels)
    return tf.data.Dataset.from_tensor_slices(inputs).batch(batch_size)


def my_model(features, labels, mode, params):
    net = tf.feature_column.input_layer(features, params["feature_columns"])
    for units in params["hidden_units"]:
        net = tf.layers.dense(net, units=units, activation=tf.nn.relu)
    logits = tf.layers.dense(net, params["n_classes"], activation=None)

    predicted_classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {
            "class_ids": predicted_classes[:, tf.newaxis],
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=predicted_classes, name="acc_op")
    metrics = {
        "accuracy": accuracy,
        "per_class": tf.metrics.mean_per_class_accuracy(labels, predicted_classes, params["n_classes"]),
    }
    tf.summary.scalar("accuracy", accuracy[1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    assert mode == tf.estimator.ModeKeys.TRAIN
    optimizer = tf.train.AdagradOptimizer(learning_rate=0.1)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(argv):
    args = parser.parse_args(argv[1:])
    (train_x, train_y), (test_x, test_y) = load_data()
    my_feature_columns = [tf.feature_column.numeric_column(key=key) for key in train_x]
    classifier = tf.estimator.Estimator(
        model_fn=my_model,
        params={"feature_columns": my_feature_columns, "hidden_units": [10, 10], "n_classes": 3},
        config=tf.estimator.RunConfig(tf_random_seed=7),
    )
    classifier.train(
        input_fn=lambda: train_input_fn(train_x, train_y, args.batch_size), steps=args.train_steps
    )
    eval_result = classifier.evaluate(input_fn=lambda: eval_input_fn(test_x, test_y, args.batch_size))
    print("\nTest set accuracy: {accuracy:0.3f}\n".format(**eval_result))

    expected = ["Setosa", "Versicolor", "Virginica"]
    predict_x = {
        "SepalLength": np.float32([5.1, 5.9, 6.9]),
        "SepalWidth": np.float32([3.3, 3.0, 3.1]),
        "PetalLength": np.float32([1.7, 4.2, 5.4]),
        "PetalWidth": np.float32([0.5, 1.5, 2.1]),
    }
    predictions = classifier.predict(
        input_fn=lambda: eval_input_fn(predict_x, labels=None, batch_size=args.batch_size)
    )
    right = 0
    for pred_dict, expec in zip(predictions, expected):
        class_id = pred_dict["class_ids"][0]
        probability = pred_dict["probabilities"][class_id]
        print(f'Prediction is "{SPECIES[class_id]}" ({100 * probability:.1f}%), expected "{expec}"')
        right += SPECIES[class_id] == expec

    spec = tf.feature_column.make_parse_example_spec(my_feature_columns)
    serving_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    exported = classifier.export_savedmodel(tempfile.mkdtemp(), serving_fn)

    assert eval_result["accuracy"] > 0.8
    assert eval_result["per_class"] > 0.7
    assert right >= 2
    assert tf.gfile.IsDirectory(tf.compat.as_str(exported))
    print("ok")


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.app.run(main)
