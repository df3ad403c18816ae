"""A migration of canned models: linear, deep, and wide and deep ones, and Keras' beside them."""

import numpy as np

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

tf.keras.utils.set_random_seed(7)

rng = np.random.default_rng(3)
COUNT = 400
x = {
    "age": rng.uniform(1, 70, COUNT).astype(np.float32),
    "fare": rng.uniform(5, 100, COUNT).astype(np.float32),
    "class": rng.choice(["First", "Second", "Third"], COUNT),
    "alone": rng.choice(["y", "n"], COUNT),
}
y = ((x["class"] == "First") | (x["age"] < 20)).astype(np.int64)

age = tf1.feature_column.numeric_column("age", normalizer_fn=lambda x: (x - 35) / 20)
fare = tf1.feature_column.numeric_column("fare", normalizer_fn=lambda x: (x - 50) / 30)
categories = [
    tf1.feature_column.categorical_column_with_vocabulary_list("class", ["First", "Second", "Third"]),
    tf1.feature_column.categorical_column_with_vocabulary_list("alone", ["y", "n"]),
]
indicators = [tf1.feature_column.indicator_column(each) for each in categories]
deep = [age, fare, *indicators]


def _input_fn():
    return tf1.data.Dataset.from_tensor_slices((x, y)).shuffle(COUNT, seed=1).batch(32).repeat()


def _eval_input_fn():
    return tf1.data.Dataset.from_tensor_slices((x, y)).batch(32)


config = tf1.estimator.RunConfig(tf_random_seed=7)
linear = tf1.estimator.LinearClassifier(
    feature_columns=[age, fare, *categories],
    n_classes=2,
    optimizer=tf1.train.FtrlOptimizer(learning_rate=0.2),
    config=config,
)
deep_model = tf1.estimator.DNNClassifier(
    feature_columns=deep,
    hidden_units=[32, 16],
    n_classes=2,
    dropout=0.1,
    optimizer=tf1.train.AdamOptimizer(learning_rate=0.01),
    config=config,
)
combined = tf1.estimator.DNNLinearCombinedClassifier(
    linear_feature_columns=categories,
    linear_optimizer=tf1.train.AdagradOptimizer(learning_rate=0.2),
    dnn_feature_columns=deep,
    dnn_hidden_units=[16],
    dnn_optimizer=tf1.train.AdagradOptimizer(learning_rate=0.1),
    config=config,
    n_classes=2,
)
for name, model in {"linear": linear, "deep": deep_model, "combined": combined}.items():
    model.train(input_fn=_input_fn, steps=100)
    result = model.evaluate(input_fn=_eval_input_fn)
    print(name, {key: round(float(value), 3) for key, value in result.items()})
    assert result["accuracy"] > (0.75 if name == "linear" else 0.9), (name, result)
    assert {"auc", "precision", "recall", "average_loss", "loss"} <= result.keys()
predictions = list(deep_model.predict(_eval_input_fn))
assert len(predictions) == COUNT
assert predictions[0]["probabilities"].shape == (2,)

# The same with Keras.
onehot = {"class": ["First", "Second", "Third"], "alone": ["y", "n"]}
inputs = np.stack(
    [(x["age"] - 35) / 20, (x["fare"] - 50) / 30]
    + [(x[key] == value).astype(np.float32) for key, values in onehot.items() for value in values],
    axis=1,
)
keras_model = tf.keras.models.Sequential(
    [
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ]
)
keras_model.compile(
    optimizer=tf.keras.optimizers.Adam(0.01),
    loss="binary_crossentropy",
    metrics=["accuracy", tf.keras.metrics.AUC(name="auc"), tf.keras.metrics.Precision(name="precision")],
)
keras_model.fit(inputs, y, epochs=10, batch_size=32, verbose=0)
result = keras_model.evaluate(inputs, y, return_dict=True, verbose=0)
assert result["accuracy"] > 0.9, result
print("ok")
