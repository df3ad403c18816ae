"""``tf.compat.v1.feature_column.shared_embedding_columns``."""

from typing import Any

import numpy as np
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf

fc = tf.feature_column


def test_columns_share_a_table_of_tensorflow_s_name() -> None:
    columns = fc.shared_embedding_columns(
        [fc.categorical_column_with_identity(key, 3) for key in "pq"], 2, max_norm=9.0
    )
    assert [column.name for column in columns] == ["p_shared_embedding", "q_shared_embedding"]
    assert [column.dimension for column in columns] == [2, 2]

    def build(_: Any) -> Any:
        rows = fc.input_layer({"p": np.int32([[0], [1]]), "q": np.int32([[1], [2]])}, columns)
        again = fc.input_layer({"p": np.int32([[2], [2]])}, columns[:1])
        (table,) = tf.trainable_variables()
        assert table.op.name == "input_layer/p_q_shared_embedding/embedding_weights"
        return {"rows": rows, "again": again, "table": table.value}

    found = outputs_of(build)
    np.testing.assert_allclose(found["rows"], found["table"][np.array([[0, 1], [1, 2]])].reshape(2, 4))
    np.testing.assert_allclose(found["again"], found["table"][np.array([2, 2])])
