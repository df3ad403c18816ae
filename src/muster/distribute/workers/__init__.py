"""The workers of a job, and their collectives on the host."""

from muster.distribute.workers._cluster_workers import ClusterWorkers as ClusterWorkers
from muster.distribute.workers._progress import ProgressReporter as ProgressReporter
from muster.distribute.workers._signals import Handler as Handler
from muster.distribute.workers._signals import SignalWatch as SignalWatch
from muster.distribute.workers._signals import Terminated as Terminated
from muster.distribute.workers._workers import START_SECS as START_SECS
from muster.distribute.workers._workers import SingleWorker as SingleWorker
from muster.distribute.workers._workers import Workers as Workers
