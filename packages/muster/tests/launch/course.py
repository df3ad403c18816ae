"""The course of a job without processes, for its tests."""

from muster.cluster import Task
from muster.launch._events import Say, Start
from muster.launch._job import Job
from muster.launch._restarts import LimitedRestarts

CHIEF, W0, W1, W2, EV = (
    Task("chief", 0),
    Task("worker", 0),
    Task("worker", 1),
    Task("worker", 2),
    Task("evaluator", 0),
)
PS0, PS1 = Task("ps", 0), Task("ps", 1)
GRACE = 4.0


class Course:
    """A job, and what it asked for, without what it said."""

    def __init__(self, *tasks, restarts=0, elastic=False, hosts_return=False):
        policy = LimitedRestarts(restarts)
        self.job = Job(tasks, policy=policy, grace_secs=GRACE, elastic=elastic, hosts_return=hosts_return)
        assert self.job.start() == [Start(tasks, 1)]
        self.said = []

    def at(self, now, *events):
        actions = self.job.handle(events, now)
        self.said += [action.text for action in actions if isinstance(action, Say)]
        return [action for action in actions if not isinstance(action, Say)]
