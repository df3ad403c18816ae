"""The roster: membership, heartbeats and failure detection among the tasks of a job."""

from muster.cluster.roster._last_progress import LAST_PROGRESS as LAST_PROGRESS
from muster.cluster.roster._last_progress import read_last_progress as read_last_progress
from muster.cluster.roster._roster import EXIT_PEER_LOST as EXIT_PEER_LOST
from muster.cluster.roster._roster import Roster as Roster
from muster.cluster.roster._roster_address import query_status as query_status
from muster.cluster.roster._roster_identity import derive_job_id as derive_job_id
from muster.cluster.roster._roster_identity import training_tasks as training_tasks
from muster.cluster.roster._roster_messages import Progress as Progress
from muster.cluster.roster._roster_messages import TaskState as TaskState
from muster.cluster.roster._roster_thread import RunningClock as RunningClock
from muster.cluster.roster._roster_watch import ENDING as ENDING
from muster.cluster.roster._roster_watch import ROSTER_CLASSES as ROSTER_CLASSES
from muster.cluster.roster._termination import EVENTS as EVENTS
from muster.cluster.roster._termination import TERMINATION_LOG as TERMINATION_LOG
from muster.cluster.roster._termination import Termination as Termination
from muster.cluster.roster._termination import read_termination as read_termination
from muster.cluster.roster._termination import write_events as write_events
from muster.cluster.roster._termination import write_termination as write_termination
