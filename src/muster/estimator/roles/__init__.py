"""`train_and_evaluate`: the part of each task of a job, by its role."""

from muster.estimator.roles._train_and_evaluate import train_and_evaluate as train_and_evaluate
