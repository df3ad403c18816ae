"""The state of a parameter server: the variables of a coordinator, or the plan of an Estimator's workers."""

import os
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from muster.net import Handler
from muster.ps import PURPOSE, SAVE_PURPOSE, Keeper, Machine, PartWriter, Service, Statistics, no_snapshot
from muster.ps.contents.updates import JaxDevice, versions

# How long to wait for the next coordinator when one is gone, with its workers, in seconds.
_NEXT_SECS = 600.0


class SnapshotConfig(NamedTuple):
    """The snapshot settings of a parameter server: see `Server`."""

    folder: str | os.PathLike[str]
    secs: float | None
    updates: int | None


class ServerServices(NamedTuple):
    """The services for other tasks' connections, by purpose.

    Attributes:
        service: Holds the values.
        part_writer: Writes them into checkpoints.
        handlers: By purpose, what takes over a connection.
    """

    service: Service
    part_writer: PartWriter
    handlers: dict[str, Handler]


def build_server(
    name: str,
    *,
    keeps_step: bool,
    workers: int,
    keeping: SnapshotConfig | None,
    report: Callable[[Statistics], None],
) -> ServerServices:
    """Make what a parameter server needs.

    Args:
        name: Its task.
        keeps_step: Whether it keeps the global step of an Estimator's workers.
        workers: How many workers the job has.
        keeping: Where it keeps what it goes on from; None for nowhere.
        report: Called with what is counted about once a second, on another thread.
    """
    keeper = None if keeping is None else Keeper(*keeping)
    machine = Machine(
        JaxDevice(),
        name=name,
        run=uuid.uuid4().hex,
        versions=versions(),
        keeps_step=keeps_step,
        find=no_snapshot if keeper is None else keeper.find,
        record=None if keeper is None else keeper.record,
        workers=workers,
    )
    service = Service(machine, keeper, lambda: report(machine.statistics(time.monotonic())), _NEXT_SECS)
    writer = PartWriter(service, machine)
    return ServerServices(service, writer, {PURPOSE: service.serve, SAVE_PURPOSE: writer.serve})
