"""A warm start of a table that TensorFlow 1 trained in parts, and whose vocabulary has changed."""

from pathlib import Path

import numpy as np

import muster_tensorflow as tf
from tensorflow_checkpoints import recorded


def vocabulary(path: Path, entries: list[str]) -> Path:
    path.write_text("".join(f"{entry}\n" for entry in entries))
    return path


def test_table_that_tensorflow_trained_in_parts(tmp_path: Path) -> None:
    prefix, said = recorded("v1_dnn_partitioned")
    name = "dnn/input_from_feature_columns/input_layer/job_embedding/embedding_weights"
    table = np.float32(said["variables"][name]["value"])
    old = vocabulary(tmp_path / "old.txt", [f"job {number}" for number in range(9)])
    new = vocabulary(tmp_path / "new.txt", ["job 8", "another", "job 0"])
    column = tf.feature_column.categorical_column_with_vocabulary_file("job", str(new), num_oov_buckets=1)
    settings = tf.estimator.WarmStartSettings(
        str(prefix),
        vars_to_warm_start=None,
        var_name_to_vocab_info={name: tf.train.VocabInfo(str(new), 3, 1, str(old))},
    )
    estimator = tf.compat.v1.estimator.DNNClassifier(
        [8], [tf.feature_column.embedding_column(column, 4)], tmp_path / "new", warm_start_from=settings
    )
    features = {"job": np.array(["job 8", "job 0"])}
    data = tf.data.Dataset.from_tensor_slices((features, np.array([0, 1]))).batch(2)
    estimator.train(lambda: data, steps=1)
    started = tf.train.load_variable(tmp_path / "new" / "ckpt-0", name)
    np.testing.assert_array_equal(started, [table[8], np.zeros(4), table[0], np.zeros(4)])
