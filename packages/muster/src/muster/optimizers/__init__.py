"""TensorFlow's optimizers as Keras classes: they update only the table rows that were looked up."""

from muster.optimizers import _update_rules as rules
from muster.optimizers._legacy import SGD as SGD
from muster.optimizers._legacy import Adadelta as Adadelta
from muster.optimizers._legacy import Adagrad as Adagrad
from muster.optimizers._legacy import Adam as Adam
from muster.optimizers._legacy import Adamax as Adamax
from muster.optimizers._legacy import Ftrl as Ftrl
from muster.optimizers._legacy import Nadam as Nadam
from muster.optimizers._legacy import RMSprop as RMSprop
from muster.optimizers._legacy_optimizer import Optimizer as Optimizer
from muster.optimizers._row_optimizer import RowOptimizer as RowOptimizer

__all__ = ["rules"]
