"""``tf.contrib.metrics``."""

from muster_tensorflow.library.contrib.f1 import f1_score as f1_score
from muster_tensorflow.library.contrib.predictions_first import accuracy as accuracy
from muster_tensorflow.library.contrib.predictions_first import aggregate_metric_map as aggregate_metric_map
from muster_tensorflow.library.contrib.predictions_first import streaming_accuracy as streaming_accuracy
from muster_tensorflow.library.contrib.predictions_first import streaming_auc as streaming_auc
from muster_tensorflow.library.contrib.predictions_first import (
    streaming_false_negatives as streaming_false_negatives,
)
from muster_tensorflow.library.contrib.predictions_first import (
    streaming_false_positives as streaming_false_positives,
)
from muster_tensorflow.library.contrib.predictions_first import (
    streaming_mean_absolute_error as streaming_mean_absolute_error,
)
from muster_tensorflow.library.contrib.predictions_first import streaming_mean_iou as streaming_mean_iou
from muster_tensorflow.library.contrib.predictions_first import (
    streaming_mean_squared_error as streaming_mean_squared_error,
)
from muster_tensorflow.library.contrib.predictions_first import streaming_precision as streaming_precision
from muster_tensorflow.library.contrib.predictions_first import streaming_recall as streaming_recall
from muster_tensorflow.library.contrib.predictions_first import (
    streaming_root_mean_squared_error as streaming_root_mean_squared_error,
)
from muster_tensorflow.library.contrib.predictions_first import (
    streaming_true_negatives as streaming_true_negatives,
)
from muster_tensorflow.library.contrib.predictions_first import (
    streaming_true_positives as streaming_true_positives,
)
from muster_tensorflow.library.ops.arrays._segments import confusion_matrix as confusion_matrix
from muster_tensorflow.programs.v1.metrics import mean as streaming_mean
