"""The workers of a job, and their collectives on the host."""

from muster.distribute.workers._progress import ProgressReporter as ProgressReporter
from muster.distribute.workers._signals import SignalWatch as SignalWatch
from muster.distribute.workers._signals import Terminated as Terminated
