"""``tf.compat.v1.metrics``."""

from muster_tensorflow.programs.v1._metrics_at import average_precision_at_k as average_precision_at_k
from muster_tensorflow.programs.v1._metrics_at import (
    false_negatives_at_thresholds as false_negatives_at_thresholds,
)
from muster_tensorflow.programs.v1._metrics_at import (
    false_positives_at_thresholds as false_positives_at_thresholds,
)
from muster_tensorflow.programs.v1._metrics_at import mean_cosine_distance as mean_cosine_distance
from muster_tensorflow.programs.v1._metrics_at import mean_iou as mean_iou
from muster_tensorflow.programs.v1._metrics_at import mean_per_class_accuracy as mean_per_class_accuracy
from muster_tensorflow.programs.v1._metrics_at import mean_relative_error as mean_relative_error
from muster_tensorflow.programs.v1._metrics_at import mean_tensor as mean_tensor
from muster_tensorflow.programs.v1._metrics_at import percentage_below as percentage_below
from muster_tensorflow.programs.v1._metrics_at import precision_at_k as precision_at_k
from muster_tensorflow.programs.v1._metrics_at import precision_at_thresholds as precision_at_thresholds
from muster_tensorflow.programs.v1._metrics_at import precision_at_top_k as precision_at_top_k
from muster_tensorflow.programs.v1._metrics_at import recall_at_k as recall_at_k
from muster_tensorflow.programs.v1._metrics_at import recall_at_thresholds as recall_at_thresholds
from muster_tensorflow.programs.v1._metrics_at import recall_at_top_k as recall_at_top_k
from muster_tensorflow.programs.v1._metrics_at import sensitivity_at_specificity as sensitivity_at_specificity
from muster_tensorflow.programs.v1._metrics_at import (
    sparse_average_precision_at_k as sparse_average_precision_at_k,
)
from muster_tensorflow.programs.v1._metrics_at import sparse_precision_at_k as sparse_precision_at_k
from muster_tensorflow.programs.v1._metrics_at import specificity_at_sensitivity as specificity_at_sensitivity
from muster_tensorflow.programs.v1._metrics_at import (
    true_negatives_at_thresholds as true_negatives_at_thresholds,
)
from muster_tensorflow.programs.v1._metrics_at import (
    true_positives_at_thresholds as true_positives_at_thresholds,
)
from muster_tensorflow.programs.v1.metrics import accuracy as accuracy
from muster_tensorflow.programs.v1.metrics import auc as auc
from muster_tensorflow.programs.v1.metrics import false_negatives as false_negatives
from muster_tensorflow.programs.v1.metrics import false_positives as false_positives
from muster_tensorflow.programs.v1.metrics import mean as mean
from muster_tensorflow.programs.v1.metrics import mean_absolute_error as mean_absolute_error
from muster_tensorflow.programs.v1.metrics import mean_squared_error as mean_squared_error
from muster_tensorflow.programs.v1.metrics import precision as precision
from muster_tensorflow.programs.v1.metrics import recall as recall
from muster_tensorflow.programs.v1.metrics import root_mean_squared_error as root_mean_squared_error
from muster_tensorflow.programs.v1.metrics import true_negatives as true_negatives
from muster_tensorflow.programs.v1.metrics import true_positives as true_positives
