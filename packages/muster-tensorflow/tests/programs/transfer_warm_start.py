"""Transfer learning: a model pretrained on one task warm starts those of others, all or some of its variables."""

import re
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.WARN)
SIZE, CLASSES = 8, 5


def images(count, classes, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    x = rng.normal(size=(count, SIZE, SIZE, 1)).astype("float32") * 0.3
    for i, label in enumerate(labels):
        x[i, :, label + 1] += 1.0
    return x, labels.astype("int32")


def backbone(inputs, is_training, reuse=None):
    with tf.variable_scope("backbone", reuse=reuse):
        net = tf.layers.conv2d(inputs, 6, 3, padding="same", activation=tf.nn.relu, name="conv1")
        net = tf.layers.max_pooling2d(net, 2, 2)
        net = tf.layers.batch_normalization(net, training=is_training, name="bn1")
        net = tf.layers.conv2d(net, 8, 3, padding="same", activation=tf.nn.relu, name="conv2")
        return tf.layers.flatten(net)


def get_assignment_map(checkpoint, prefix="backbone/"):
    """The variables of the checkpoint that the model has as well, as a map for init_from_checkpoint."""
    found, initialized = {}, set()
    name_to_variable = {}
    for var in tf.trainable_variables():
        m = re.match("^(.*):\\d+$", var.name)
        name_to_variable[m.group(1) if m else var.name] = var
    for name, _ in tf.train.list_variables(checkpoint):
        if name in name_to_variable and name.startswith(prefix):
            found[name] = name
            initialized.add(name)
    return found, initialized


def model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = backbone(features["image"], is_training and not params.get("freeze"))
    with tf.variable_scope("head_" + params["task"]):
        logits = tf.layers.dense(net, params["classes"], name="logits")
    initialized = set()
    if params.get("init_checkpoint"):
        mapping, initialized = get_assignment_map(params["init_checkpoint"])
        tf.train.init_from_checkpoint(params["init_checkpoint"], mapping)
        tf.logging.info("**** Trainable Variables ****")
        for var in tf.trainable_variables():
            tf.logging.info(
                "  name = %s, shape = %s%s",
                var.name,
                var.shape,
                ", *INIT_FROM_CKPT*" if var.name.split(":")[0] in initialized else "",
            )
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"class": tf.argmax(logits, -1), "net": net})
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    variables = tf.trainable_variables()
    if params.get("freeze"):
        variables = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="head_")
        assert [v.name for v in variables] == [
            "head_%s/logits/kernel:0" % params["task"],
            "head_%s/logits/bias:0" % params["task"],
        ], variables
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update_ops):
        train_op = tf.train.MomentumOptimizer(params["rate"], 0.9).minimize(
            loss, global_step=tf.train.get_global_step(), var_list=variables
        )
    accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, -1))
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


def input_fn(count, classes, seed, repeat=True):
    def make():
        x, y = images(count, classes, seed)
        ds = tf.data.Dataset.from_tensor_slices(({"image": x}, y))
        return (
            ds.apply(tf.data.experimental.shuffle_and_repeat(100, seed=1)).batch(20)
            if repeat
            else ds.batch(20)
        )

    return make


def shown(results):
    return {k: round(float(v), 2) for k, v in sorted(results.items())}


source_dir = tempfile.mkdtemp()
source = tf.estimator.Estimator(
    model_fn,
    source_dir,
    tf.estimator.RunConfig(tf_random_seed=1),
    {"task": "a", "classes": CLASSES, "rate": 0.05},
)
source.train(input_fn(200, CLASSES, 0), max_steps=100)
print("source", shown(source.evaluate(input_fn(100, CLASSES, 1, False))))
kernel = source.get_variable_value("backbone/conv1/kernel")

# 1. All of the backbone, by settings with a regular expression.
settings = tf.estimator.WarmStartSettings(source_dir, vars_to_warm_start="backbone/.*")
target = tf.estimator.Estimator(
    model_fn, tempfile.mkdtemp(), params={"task": "b", "classes": 3, "rate": 0.0}, warm_start_from=settings
)
target.train(input_fn(20, 3, 2), steps=1)
print("regular expression", np.allclose(target.get_variable_value("backbone/conv1/kernel"), kernel))

# 2. Other names, and a part that is not there.
settings = tf.estimator.WarmStartSettings(
    source.latest_checkpoint(),
    vars_to_warm_start=["backbone/conv1/kernel[^/]", "head_b/logits/bias[^/]"],
    var_name_to_prev_var_name={"head_b/logits/bias": "head_a/logits/bias"},
)
target = tf.estimator.Estimator(
    model_fn,
    tempfile.mkdtemp(),
    params={"task": "b", "classes": CLASSES, "rate": 0.0},
    warm_start_from=settings,
)
target.train(input_fn(20, 3, 2), steps=1)
print(
    "other names",
    np.allclose(
        target.get_variable_value("head_b/logits/bias"), source.get_variable_value("head_a/logits/bias")
    ),
)

# 3. init_from_checkpoint, and a backbone that does not train.
frozen = tf.estimator.Estimator(
    model_fn,
    tempfile.mkdtemp(),
    params={
        "task": "c",
        "classes": 3,
        "rate": 0.05,
        "freeze": True,
        "init_checkpoint": source.latest_checkpoint(),
    },
)
frozen.train(input_fn(60, 3, 3), steps=60)
results = frozen.evaluate(input_fn(60, 3, 4, False))
print("frozen", shown(results))
assert np.array_equal(frozen.get_variable_value("backbone/conv1/kernel"), kernel)
assert results["accuracy"] > 0.85
try:
    frozen.get_variable_value("backbone/conv1/kernel/Momentum")
    print("there is a slot of what is frozen")
except Exception:
    print("no slot")

# 4. Canned models: from 10 units of one to another with more columns.
columns = [tf.feature_column.numeric_column("x", shape=(3,))]
more = columns + [
    tf.feature_column.indicator_column(
        tf.feature_column.categorical_column_with_vocabulary_list("k", ["a", "b"])
    )
]
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 3)).astype("float32")
k = rng.choice(["a", "b"], 60)


def canned_input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": x, "k": k}, x.sum(1, keepdims=True))).batch(20).repeat()


first = tf.estimator.LinearRegressor(columns, tempfile.mkdtemp())
first.train(canned_input_fn, steps=50)
second = tf.estimator.LinearRegressor(
    more,
    tempfile.mkdtemp(),
    optimizer=tf.train.GradientDescentOptimizer(0.0),
    warm_start_from=tf.estimator.WarmStartSettings(first.model_dir, vars_to_warm_start=".*/x/.*"),
)
second.train(canned_input_fn, steps=1)
name = "linear/linear_model/x/weights"
print("canned", np.allclose(first.get_variable_value(name), second.get_variable_value(name)))
print("ok")
