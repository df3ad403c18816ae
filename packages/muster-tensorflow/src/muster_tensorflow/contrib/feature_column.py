"""``tf.contrib.feature_column``."""

from muster.feature_column import (
    sequence_categorical_column_with_hash_bucket as sequence_categorical_column_with_hash_bucket,
)
from muster.feature_column import (
    sequence_categorical_column_with_identity as sequence_categorical_column_with_identity,
)
from muster.feature_column import (
    sequence_categorical_column_with_vocabulary_file as sequence_categorical_column_with_vocabulary_file,
)
from muster.feature_column import (
    sequence_categorical_column_with_vocabulary_list as sequence_categorical_column_with_vocabulary_list,
)
from muster.feature_column import sequence_input_layer as sequence_input_layer
from muster.feature_column import sequence_numeric_column as sequence_numeric_column
