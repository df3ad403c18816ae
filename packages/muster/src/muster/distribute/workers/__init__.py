"""The workers of a job, and their collectives on the host."""

from muster.distribute.workers._elastic_loops import WorkersChangedError as WorkersChangedError
from muster.distribute.workers._elastic_workers import ElasticWorkers as ElasticWorkers
from muster.distribute.workers._progress import ProgressReporter as ProgressReporter
from muster.distribute.workers._progress import SlidingRate as SlidingRate
from muster.distribute.workers._workers import Exchanged as Exchanged
