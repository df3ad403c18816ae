"""Canned Estimators, which bring their model."""

from muster.estimator.canned._linear_regressor import LinearRegressor as LinearRegressor
