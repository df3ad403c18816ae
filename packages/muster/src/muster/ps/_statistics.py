"""What a parameter server counts, and says of the workers that it knows."""

import msgspec


class WorkerStats(msgspec.Struct, frozen=True):
    """The state of one worker: its last push, when the server last heard of it, and whether it is connected.

    Args:
        sequence: The number of its last push.
        idle_secs: How long ago that was, or another request, in seconds.
        connected: Whether its connection is open.
    """

    sequence: int
    idle_secs: float
    connected: bool


class TableStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a hashed table.

    Args:
        name: Its name.
        rows: How many rows there are.
        candidates: How many ids wait for more occurrences.
        admitted: How many ids have got rows in this process.
        evicted: How many rows went.
        nbytes: The memory that it takes, in bytes.
    """

    name: str
    rows: int
    candidates: int
    admitted: int
    evicted: int
    nbytes: int


class Statistics(msgspec.Struct, tag="statistics", frozen=True, kw_only=True):
    """Answers `Stats`.

    Args:
        version: How many times the values were changed.
        variables: How many arrays there are.
        nbytes: Their size in bytes.
        functions: How many functions there are.
        tables: What is counted for hashed tables.
        step: The global step; on servers that do not keep it, how many steps came with tickets.
        pushes: How many were applied.
        pulls: How many times the values were sent.
        lookups: How many times rows of tables were sent to those who train by a plan.
        staleness: How many changes came between a worker's values and its push, summed over all pushes that
            were applied.
        received_bytes: The size of the buffers that were received.
        sent_bytes: The size of the buffers that were sent.
        duplicates: How many requests came again, and changed nothing again.
        late: How many pushes were not applied because their ticket had gone to another worker, or their
            round had ended.
        refused: How many requests were refused.
        waiting: How many requests are deferred.
        remembered: How many closures are remembered one by one.
        lost_updates: How many changes of the values were lost, since the server was killed.
        lost_secs: How long training had gone on after the snapshot that it has restored, in seconds.
        ended: Whether the job has ended.
        workers: The workers that have joined to train by a plan, by task.
    """

    version: int = 0
    variables: int = 0
    nbytes: int = 0
    functions: int = 0
    tables: tuple[TableStatistics, ...] = ()
    step: int = 0
    pushes: int = 0
    pulls: int = 0
    lookups: int = 0
    staleness: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    duplicates: int = 0
    late: int = 0
    refused: int = 0
    waiting: int = 0
    remembered: int = 0
    lost_updates: int = 0
    lost_secs: float = 0.0
    ended: bool = False
    workers: dict[str, WorkerStats] = {}
