"""Train the canned wide-and-deep classifier on a CSV file: muster's, or TensorFlow's if it is installed.

The third argument is a folder with ``rows.csv``. TensorFlow writes its first checkpoint there, and muster
starts from it if it is there, so that both begin with the same weights.
"""

import os
import sys

from bench._peers._hook import turns_hook
from bench._peers._turns import case

try:
    import tensorflow as tf

    packages = ("tensorflow-cpu",)

    def find_loss():
        return tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]

except ImportError:
    import muster_tensorflow as tf

    packages = ("muster-train", "jax", "keras")

    def find_loss():
        return "loss"


folder = sys.argv[3]
first = os.path.join(folder, "tensorflow-cpu", "model.ckpt-0")
fc = tf.feature_column
tf.estimator.DNNLinearCombinedClassifier(
    model_dir=os.path.join(folder, packages[0]),
    linear_feature_columns=[case.age_buckets(fc), *case.categorical_columns(fc)],
    dnn_feature_columns=case.deep_columns(fc),
    dnn_hidden_units=case.HIDDEN,
    config=tf.estimator.RunConfig(save_checkpoints_steps=10**9),
    warm_start_from=first if os.path.exists(first + ".index") else None,
).train(lambda: case.read(tf, os.path.join(folder, "rows.csv")), hooks=[turns_hook(tf, find_loss, packages)])
