"""`train_and_evaluate`: the part of each task of a job, by its role."""

from muster.estimator.roles._continuous_eval import ContinuousEvalListener as ContinuousEvalListener
from muster.estimator.roles._continuous_eval import EvalResult as EvalResult
from muster.estimator.roles._train_and_evaluate import TrainingExecutor as TrainingExecutor
