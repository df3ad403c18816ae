from ._as_data import column_as_data as column_as_data
from ._as_data import column_from_data as column_from_data
from ._as_data import host_columns as host_columns
from ._as_data import host_specs as host_specs
from ._categorical_column import CategoricalColumn as CategoricalColumn
from ._column_lists import make_parse_example_spec as make_parse_example_spec
from ._column_lists import sorted_columns as sorted_columns
from ._derived_columns import CrossedColumn as CrossedColumn
from ._derived_columns import WeightedCategoricalColumn as WeightedCategoricalColumn
from ._derived_columns import crossed_column as crossed_column
from ._derived_columns import weighted_categorical_column as weighted_categorical_column
from ._embedding_column import EmbeddingColumn as EmbeddingColumn
from ._embedding_column import IndicatorColumn as IndicatorColumn
from ._embedding_column import SharedEmbeddingColumn as SharedEmbeddingColumn
from ._embedding_column import embedding_column as embedding_column
from ._embedding_column import indicator_column as indicator_column
from ._embedding_column import shared_embeddings as shared_embeddings
from ._feature_column import DenseColumn as DenseColumn
from ._feature_column import FeatureColumn as FeatureColumn
from ._feature_column import Table as Table
from ._feature_column import column_scopes as column_scopes
from ._feature_column import leaf_keys as leaf_keys
from ._hashed_table_column import HashedTableColumn as HashedTableColumn
from ._hashed_table_column import (
    categorical_column_with_hashed_table as categorical_column_with_hashed_table,
)
from ._host_values import Features as Features
from ._host_values import IdsAndWeights as IdsAndWeights
from ._id_columns import HashedCategoricalColumn as HashedCategoricalColumn
from ._id_columns import IdentityCategoricalColumn as IdentityCategoricalColumn
from ._id_columns import buckets as buckets
from ._id_columns import (
    categorical_column_with_hash_bucket as categorical_column_with_hash_bucket,
)
from ._id_columns import (
    categorical_column_with_identity as categorical_column_with_identity,
)
from ._input_layers import ColumnLayer as ColumnLayer
from ._input_layers import DenseFeatures as DenseFeatures
from ._input_layers import SequenceFeatures as SequenceFeatures
from ._input_layers import dense_features as dense_features
from ._input_layers import input_layer as input_layer
from ._input_layers import linear_model as linear_model
from ._input_layers import sequence_input_layer as sequence_input_layer
from ._lookup import require_combiner as require_combiner
from ._numeric_column import BucketizedColumn as BucketizedColumn
from ._numeric_column import NumericColumn as NumericColumn
from ._numeric_column import bucketized_column as bucketized_column
from ._numeric_column import numeric_column as numeric_column
from ._parse_specs import classifier_parse_example_spec as classifier_parse_example_spec
from ._parse_specs import regressor_parse_example_spec as regressor_parse_example_spec
from ._sequence_column import SequenceCategoricalColumn as SequenceCategoricalColumn
from ._sequence_column import SequenceDenseColumn as SequenceDenseColumn
from ._sequence_column import SequenceNumericColumn as SequenceNumericColumn
from ._sequence_column import (
    sequence_categorical_column_with_hash_bucket as sequence_categorical_column_with_hash_bucket,
)
from ._sequence_column import (
    sequence_categorical_column_with_hashed_table as sequence_categorical_column_with_hashed_table,
)
from ._sequence_column import (
    sequence_categorical_column_with_identity as sequence_categorical_column_with_identity,
)
from ._sequence_column import (
    sequence_categorical_column_with_vocabulary_file as sequence_categorical_column_with_vocabulary_file,
)
from ._sequence_column import (
    sequence_categorical_column_with_vocabulary_list as sequence_categorical_column_with_vocabulary_list,
)
from ._sequence_column import sequence_numeric_column as sequence_numeric_column
from ._sequence_column import step_mask as step_mask
from ._transform import ColumnPlaceholder as ColumnPlaceholder
from ._transform import HostNeeded as HostNeeded
from ._transform import asking_for_host as asking_for_host
from ._transform import host_arrays as host_arrays
from ._transform import transform_features as transform_features
from ._vocabulary_column import (
    VocabularyFileCategoricalColumn as VocabularyFileCategoricalColumn,
)
from ._vocabulary_column import (
    VocabularyListCategoricalColumn as VocabularyListCategoricalColumn,
)
from ._vocabulary_column import (
    categorical_column_with_vocabulary_file as categorical_column_with_vocabulary_file,
)
from ._vocabulary_column import (
    categorical_column_with_vocabulary_list as categorical_column_with_vocabulary_list,
)
from ._vocabulary_column import vocabulary_lines as vocabulary_lines
