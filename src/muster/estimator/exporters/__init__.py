"""Exporters, which write a model after an evaluation."""

from muster.estimator.exporters._exporter import Exporter as Exporter
