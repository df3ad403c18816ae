"""Feature columns, which turn a batch of features into the float32 input of a canned Estimator's model."""

from muster.feature_column._dense_column import DenseColumn as DenseColumn
from muster.feature_column._dense_column import Features as Features
from muster.feature_column._dense_column import dense_features as dense_features
from muster.feature_column._dense_column import make_parse_example_spec as make_parse_example_spec
from muster.feature_column._dense_column import sorted_columns as sorted_columns
from muster.feature_column._numeric_column import NumericColumn as NumericColumn
from muster.feature_column._numeric_column import numeric_column as numeric_column
