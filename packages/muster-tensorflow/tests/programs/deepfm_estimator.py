"""DeepFM for click-through rates: libsvm text, tables by get_variable, batch norm and dropout, four optimizers."""

import json
import os
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.keras.utils.set_random_seed(7)

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_integer("feature_size", 60, "Number of features")
tf.app.flags.DEFINE_integer("field_size", 6, "Number of fields")
tf.app.flags.DEFINE_integer("embedding_size", 4, "Embedding size")
tf.app.flags.DEFINE_integer("batch_size", 50, "Batch size")
tf.app.flags.DEFINE_float("learning_rate", 0.01, "learning rate")
tf.app.flags.DEFINE_float("l2_reg", 0.0001, "L2 regularization")
tf.app.flags.DEFINE_string("optimizer", "Adam", "Adam, Adagrad, Momentum or ftrl")
tf.app.flags.DEFINE_string("deep_layers", "16,8", "deep layers")
tf.app.flags.DEFINE_string("dropout", "0.9,0.9", "dropout rate")
tf.app.flags.DEFINE_boolean("batch_norm", True, "perform batch normalization")


def write_libsvm(path, count, seed):
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(7).normal(size=60)
    with open(path, "w") as file:
        for _ in range(count):
            ids = rng.integers(0, 10, 6) + 10 * np.arange(6)
            values = np.round(rng.random(6) + 0.5, 3)
            label = int((weights[ids] * values).sum() > 0)
            pairs = " ".join(f"{i}:{v}" for i, v in zip(ids, values))
            file.write(f"{label} {pairs}\n")


def input_fn(filenames, batch_size=32, num_epochs=1, perform_shuffle=False):
    def decode_libsvm(line):
        columns = tf.strings.split([line], " ").values
        label = tf.string_to_number(columns[0], out_type=tf.float32)
        splits = tf.strings.split(columns[1:], ":")
        id_vals = tf.reshape(splits.values, splits.dense_shape if hasattr(splits, "dense_shape") else [-1, 2])
        feat_ids, feat_vals = tf.split(id_vals, num_or_size_splits=2, axis=1)
        feat_ids = tf.string_to_number(feat_ids, out_type=tf.int32)
        feat_vals = tf.string_to_number(feat_vals, out_type=tf.float32)
        return {"feat_ids": feat_ids, "feat_vals": feat_vals}, label

    dataset = tf.data.TextLineDataset(filenames).map(decode_libsvm, num_parallel_calls=10).prefetch(500)
    if perform_shuffle:
        dataset = dataset.shuffle(buffer_size=256)
    dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size)
    iterator = tf.data.make_one_shot_iterator(dataset)
    batch_features, batch_labels = iterator.get_next()
    return batch_features, batch_labels


def batch_norm_layer(x, train_phase, scope_bn):
    return tf.contrib.layers.batch_norm(
        x,
        decay=0.9,
        center=True,
        scale=True,
        updates_collections=None,
        is_training=train_phase,
        reuse=None if train_phase else tf.AUTO_REUSE,
        scope=scope_bn,
    )


def model_fn(features, labels, mode, params):
    field_size = params["field_size"]
    feature_size = params["feature_size"]
    embedding_size = params["embedding_size"]
    l2_reg = params["l2_reg"]
    layers = list(map(int, params["deep_layers"].split(",")))
    dropout = list(map(float, params["dropout"].split(",")))
    train_phase = mode == tf.estimator.ModeKeys.TRAIN

    FM_B = tf.get_variable(name="fm_bias", shape=[1], initializer=tf.constant_initializer(0.0))
    FM_W = tf.get_variable(name="fm_w", shape=[feature_size], initializer=tf.glorot_normal_initializer())
    FM_V = tf.get_variable(
        name="fm_v", shape=[feature_size, embedding_size], initializer=tf.glorot_normal_initializer()
    )

    feat_ids = tf.reshape(features["feat_ids"], shape=[-1, field_size])
    feat_vals = tf.reshape(features["feat_vals"], shape=[-1, field_size])

    with tf.variable_scope("First-order"):
        feat_wgts = tf.nn.embedding_lookup(FM_W, feat_ids)
        y_w = tf.reduce_sum(tf.multiply(feat_wgts, feat_vals), 1)

    with tf.variable_scope("Second-order"):
        embeddings = tf.nn.embedding_lookup(FM_V, feat_ids)
        vals = tf.reshape(feat_vals, shape=[-1, field_size, 1])
        embeddings = tf.multiply(embeddings, vals)
        sum_square = tf.square(tf.reduce_sum(embeddings, 1))
        square_sum = tf.reduce_sum(tf.square(embeddings), 1)
        y_v = 0.5 * tf.reduce_sum(tf.subtract(sum_square, square_sum), 1)

    with tf.variable_scope("Deep-part"):
        deep_inputs = tf.reshape(embeddings, shape=[-1, field_size * embedding_size])
        for i in range(len(layers)):
            deep_inputs = tf.contrib.layers.fully_connected(
                inputs=deep_inputs,
                num_outputs=layers[i],
                weights_regularizer=tf.contrib.layers.l2_regularizer(l2_reg),
                scope="mlp%d" % i,
            )
            if FLAGS.batch_norm:
                deep_inputs = batch_norm_layer(deep_inputs, train_phase=train_phase, scope_bn="bn_%d" % i)
            if train_phase:
                deep_inputs = tf.nn.dropout(deep_inputs, keep_prob=dropout[i])
        y_deep = tf.contrib.layers.fully_connected(
            inputs=deep_inputs,
            num_outputs=1,
            activation_fn=tf.identity,
            weights_regularizer=tf.contrib.layers.l2_regularizer(l2_reg),
            scope="deep_out",
        )
        y_d = tf.reshape(y_deep, shape=[-1])

    with tf.variable_scope("DeepFM-out"):
        y_bias = FM_B * tf.ones_like(y_d, dtype=tf.float32)
        y = y_bias + y_w + y_v + y_d
        pred = tf.sigmoid(y)

    predictions = {"prob": pred}
    export_outputs = {
        tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: tf.estimator.export.PredictOutput(
            predictions
        )
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions, export_outputs=export_outputs)

    loss = (
        tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=y, labels=labels))
        + l2_reg * tf.nn.l2_loss(FM_W)
        + l2_reg * tf.nn.l2_loss(FM_V)
    )
    eval_metric_ops = {"auc": tf.metrics.auc(labels, pred)}
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(
            mode=mode, predictions=predictions, loss=loss, eval_metric_ops=eval_metric_ops
        )

    rate = params["learning_rate"]
    if FLAGS.optimizer == "Adam":
        optimizer = tf.train.AdamOptimizer(learning_rate=rate, beta1=0.9, beta2=0.999, epsilon=1e-8)
    elif FLAGS.optimizer == "Adagrad":
        optimizer = tf.train.AdagradOptimizer(learning_rate=rate, initial_accumulator_value=1e-8)
    elif FLAGS.optimizer == "Momentum":
        optimizer = tf.train.MomentumOptimizer(learning_rate=rate, momentum=0.95)
    else:
        optimizer = tf.train.FtrlOptimizer(rate)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions, loss=loss, train_op=train_op)


def main(_):
    folder = tempfile.mkdtemp()
    train, valid = os.path.join(folder, "tr.libsvm"), os.path.join(folder, "va.libsvm")
    write_libsvm(train, 1000, 0)
    write_libsvm(valid, 300, 1)
    os.environ.pop("TF_CONFIG", None)
    model_params = {
        "field_size": FLAGS.field_size,
        "feature_size": FLAGS.feature_size,
        "embedding_size": FLAGS.embedding_size,
        "learning_rate": FLAGS.learning_rate,
        "l2_reg": FLAGS.l2_reg,
        "deep_layers": FLAGS.deep_layers,
        "dropout": FLAGS.dropout,
    }
    config = tf.estimator.RunConfig(tf_random_seed=7).replace(
        session_config=tf.ConfigProto(device_count={"GPU": 0, "CPU": 2}),
        log_step_count_steps=100,
        save_summary_steps=100,
    )
    DeepFM = tf.estimator.Estimator(
        model_fn=model_fn, model_dir=os.path.join(folder, "model"), params=model_params, config=config
    )
    train_spec = tf.estimator.TrainSpec(
        input_fn=lambda: input_fn(train, num_epochs=10, batch_size=FLAGS.batch_size, perform_shuffle=True)
    )
    eval_spec = tf.estimator.EvalSpec(
        input_fn=lambda: input_fn(valid, num_epochs=1, batch_size=FLAGS.batch_size),
        steps=None,
        start_delay_secs=0,
        throttle_secs=0,
    )
    tf.estimator.train_and_evaluate(DeepFM, train_spec, eval_spec)
    results = DeepFM.evaluate(lambda: input_fn(valid, num_epochs=1, batch_size=FLAGS.batch_size))
    print(json.dumps({key: float(value) for key, value in results.items()}))

    preds = DeepFM.predict(
        input_fn=lambda: input_fn(valid, num_epochs=1, batch_size=FLAGS.batch_size), predict_keys="prob"
    )
    with open(os.path.join(folder, "pred.txt"), "w") as fo:
        for prob in preds:
            fo.write("%f\n" % (prob["prob"]))

    feature_spec = {
        "feat_ids": tf.placeholder(dtype=tf.int32, shape=[None, FLAGS.field_size], name="feat_ids"),
        "feat_vals": tf.placeholder(dtype=tf.float32, shape=[None, FLAGS.field_size], name="feat_vals"),
    }
    serving_input_receiver_fn = tf.estimator.export.build_raw_serving_input_receiver_fn(feature_spec)
    exported = DeepFM.export_savedmodel(os.path.join(folder, "serving"), serving_input_receiver_fn)

    assert results["auc"] > 0.85
    assert len(open(os.path.join(folder, "pred.txt")).readlines()) == 300
    assert os.path.isdir(exported)
    print("ok")


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.app.run()
