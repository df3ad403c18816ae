"""`muster.function`: traces a Python function once, and then calls it compiled."""

from muster.distribute.functions._compiled_function import check_labels as check_labels
from muster.distribute.functions._concrete_function import ConcreteFunction as ConcreteFunction
from muster.distribute.functions._concrete_function import as_spec as as_spec
from muster.distribute.functions._concrete_function import fitted as fitted
from muster.distribute.functions._function import Function as Function
from muster.distribute.functions._function import as_traced as as_traced
from muster.distribute.input._distributed_dataset import CapturedDatasetError as CapturedDatasetError
