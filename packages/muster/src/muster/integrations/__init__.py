"""Other people's tools: trackers of experiments, and searches for hyperparameters.

Each tool is a package of its own, and imported when it is first used.
"""

from muster.integrations._keras_tuner import shared_tuner as shared_tuner
from muster.integrations._optuna import SharedTrial as SharedTrial
from muster.integrations._optuna import optimize as optimize
from muster.integrations._tracker import Tracker as Tracker
from muster.integrations._trackers import MLflow as MLflow
from muster.integrations._trackers import WandB as WandB
