"""``tf.compat.v1.metrics``."""

from muster.compat.v1.metrics import accuracy as accuracy
from muster.compat.v1.metrics import auc as auc
from muster.compat.v1.metrics import false_negatives as false_negatives
from muster.compat.v1.metrics import false_positives as false_positives
from muster.compat.v1.metrics import mean as mean
from muster.compat.v1.metrics import mean_absolute_error as mean_absolute_error
from muster.compat.v1.metrics import mean_squared_error as mean_squared_error
from muster.compat.v1.metrics import precision as precision
from muster.compat.v1.metrics import recall as recall
from muster.compat.v1.metrics import root_mean_squared_error as root_mean_squared_error
from muster.compat.v1.metrics import true_negatives as true_negatives
from muster.compat.v1.metrics import true_positives as true_positives
