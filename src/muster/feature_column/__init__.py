"""Feature columns, which turn a batch of features into the float32 input of a canned Estimator's model.

What needs the host, such as looking up and hashing text, `transform_features` does in the input pipeline. The
rest, such as embeddings, is computed in steps.
"""

from muster.feature_column._bucketized_column import BucketizedColumn as BucketizedColumn
from muster.feature_column._bucketized_column import bucketized_column as bucketized_column
from muster.feature_column._categorical_column import CategoricalColumn as CategoricalColumn
from muster.feature_column._column_lists import make_parse_example_spec as make_parse_example_spec
from muster.feature_column._column_lists import sorted_columns as sorted_columns
from muster.feature_column._crossed_column import CrossedColumn as CrossedColumn
from muster.feature_column._crossed_column import crossed_column as crossed_column
from muster.feature_column._dense_column import DenseColumn as DenseColumn
from muster.feature_column._dense_features import DenseFeatures as DenseFeatures
from muster.feature_column._dense_features import dense_features as dense_features
from muster.feature_column._dense_features import input_layer as input_layer
from muster.feature_column._embedding_column import EmbeddingColumn as EmbeddingColumn
from muster.feature_column._embedding_column import SharedEmbeddingColumn as SharedEmbeddingColumn
from muster.feature_column._embedding_column import embedding_column as embedding_column
from muster.feature_column._embedding_column import shared_embeddings as shared_embeddings
from muster.feature_column._feature_column import FeatureColumn as FeatureColumn
from muster.feature_column._hashed_column import HashedCategoricalColumn as HashedCategoricalColumn
from muster.feature_column._hashed_column import (
    categorical_column_with_hash_bucket as categorical_column_with_hash_bucket,
)
from muster.feature_column._host_values import Features as Features
from muster.feature_column._identity_column import IdentityCategoricalColumn as IdentityCategoricalColumn
from muster.feature_column._identity_column import (
    categorical_column_with_identity as categorical_column_with_identity,
)
from muster.feature_column._indicator_column import IndicatorColumn as IndicatorColumn
from muster.feature_column._indicator_column import indicator_column as indicator_column
from muster.feature_column._linear_model import linear_model as linear_model
from muster.feature_column._lookup import require_combiner as require_combiner
from muster.feature_column._numeric_column import NumericColumn as NumericColumn
from muster.feature_column._numeric_column import numeric_column as numeric_column
from muster.feature_column._parse_specs import classifier_parse_example_spec as classifier_parse_example_spec
from muster.feature_column._parse_specs import regressor_parse_example_spec as regressor_parse_example_spec
from muster.feature_column._sequence_column import SequenceCategoricalColumn as SequenceCategoricalColumn
from muster.feature_column._sequence_column import SequenceDenseColumn as SequenceDenseColumn
from muster.feature_column._sequence_column import SequenceNumericColumn as SequenceNumericColumn
from muster.feature_column._sequence_column import (
    sequence_categorical_column_with_hash_bucket as sequence_categorical_column_with_hash_bucket,
)
from muster.feature_column._sequence_column import (
    sequence_categorical_column_with_identity as sequence_categorical_column_with_identity,
)
from muster.feature_column._sequence_column import (
    sequence_categorical_column_with_vocabulary_file as sequence_categorical_column_with_vocabulary_file,
)
from muster.feature_column._sequence_column import (
    sequence_categorical_column_with_vocabulary_list as sequence_categorical_column_with_vocabulary_list,
)
from muster.feature_column._sequence_column import sequence_numeric_column as sequence_numeric_column
from muster.feature_column._sequence_features import SequenceFeatures as SequenceFeatures
from muster.feature_column._transform import transform_features as transform_features
from muster.feature_column._vocabulary_column import (
    VocabularyFileCategoricalColumn as VocabularyFileCategoricalColumn,
)
from muster.feature_column._vocabulary_column import (
    VocabularyListCategoricalColumn as VocabularyListCategoricalColumn,
)
from muster.feature_column._vocabulary_column import (
    categorical_column_with_vocabulary_file as categorical_column_with_vocabulary_file,
)
from muster.feature_column._vocabulary_column import (
    categorical_column_with_vocabulary_list as categorical_column_with_vocabulary_list,
)
from muster.feature_column._weighted_column import WeightedCategoricalColumn as WeightedCategoricalColumn
from muster.feature_column._weighted_column import weighted_categorical_column as weighted_categorical_column
