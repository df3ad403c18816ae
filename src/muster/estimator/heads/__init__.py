"""Heads: loss, metrics and predictions for one kind of label each."""

from muster.estimator.heads._head import Head as Head
from muster.estimator.heads._regression_head import RegressionHead as RegressionHead
