"""The runs of train, evaluate and predict: input, tracing, state, the loop of steps, saving."""

from muster.estimator.loop._evaluation import Evaluation as Evaluation
from muster.estimator.loop._evaluation import write_metrics as write_metrics
from muster.estimator.loop._prediction import Prediction as Prediction
from muster.estimator.loop._setup import ModelSetup as ModelSetup
from muster.estimator.loop._setup import strategy_for as strategy_for
from muster.estimator.loop._training import Training as Training
from muster.estimator.loop._warm_start import WarmStartSettings as WarmStartSettings
from muster.estimator.loop._warm_start import warm_start_settings as warm_start_settings
