"""The workers of a job, and their collectives on the host."""

from muster.distribute.workers._progress import ProgressReporter as ProgressReporter
