"""``tf.contrib.metrics``."""

from muster.compat.ops._segments import confusion_matrix as confusion_matrix
from muster.compat.v1.contrib.f1 import f1_score as f1_score
from muster.compat.v1.contrib.predictions_first import accuracy as accuracy
from muster.compat.v1.contrib.predictions_first import aggregate_metric_map as aggregate_metric_map
from muster.compat.v1.contrib.predictions_first import streaming_accuracy as streaming_accuracy
from muster.compat.v1.contrib.predictions_first import streaming_auc as streaming_auc
from muster.compat.v1.contrib.predictions_first import streaming_false_negatives as streaming_false_negatives
from muster.compat.v1.contrib.predictions_first import streaming_false_positives as streaming_false_positives
from muster.compat.v1.contrib.predictions_first import (
    streaming_mean_absolute_error as streaming_mean_absolute_error,
)
from muster.compat.v1.contrib.predictions_first import streaming_mean_iou as streaming_mean_iou
from muster.compat.v1.contrib.predictions_first import (
    streaming_mean_squared_error as streaming_mean_squared_error,
)
from muster.compat.v1.contrib.predictions_first import streaming_precision as streaming_precision
from muster.compat.v1.contrib.predictions_first import streaming_recall as streaming_recall
from muster.compat.v1.contrib.predictions_first import (
    streaming_root_mean_squared_error as streaming_root_mean_squared_error,
)
from muster.compat.v1.contrib.predictions_first import streaming_true_negatives as streaming_true_negatives
from muster.compat.v1.contrib.predictions_first import streaming_true_positives as streaming_true_positives
from muster.compat.v1.metrics import mean as streaming_mean
