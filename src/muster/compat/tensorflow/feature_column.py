"""``tf.feature_column``."""

from muster.feature_column import make_parse_example_spec as make_parse_example_spec
from muster.feature_column import numeric_column as numeric_column
