"""The roster: which tasks of the job are up, and how they are."""

from muster.cluster.roster._roster import EXIT_PEER_LOST as EXIT_PEER_LOST
from muster.cluster.roster._roster import Roster as Roster
from muster.cluster.roster._roster import exit_because_lost as exit_because_lost
from muster.cluster.roster._roster_address import query_status as query_status
from muster.cluster.roster._roster_address import split_address as split_address
from muster.cluster.roster._roster_identity import derive_job_id as derive_job_id
from muster.cluster.roster._roster_identity import installed_versions as installed_versions
from muster.cluster.roster._roster_identity import training_tasks as training_tasks
from muster.cluster.roster._roster_messages import Progress as Progress
from muster.cluster.roster._roster_messages import Status as Status
from muster.cluster.roster._roster_messages import TaskState as TaskState
