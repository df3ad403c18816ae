"""The state of a parameter server: the plan of an Estimator's workers, or a coordinator's variables."""

import functools
import os
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from muster.net import Handler
from muster.ps import (
    PURPOSE,
    SAVE_PURPOSE,
    Change,
    Endpoint,
    Keeper,
    Machine,
    PartWriter,
    Saved,
    Service,
    Statistics,
    no_snapshot,
)
from muster.ps.contents.updates import JaxDevice, versions
from muster.ps.store import PURPOSE as STORE_PURPOSE
from muster.ps.store import SAVE_PURPOSE as STORE_SAVE_PURPOSE
from muster.ps.store import Change as StoreChange
from muster.ps.store import SavedStore, StoreMachine, StoreStatistics

# How long to wait for the next coordinator when one is gone, with its workers, in seconds.
_NEXT_SECS = 600.0


class SnapshotConfig(NamedTuple):
    """The snapshot settings of a parameter server: see `Server`."""

    folder: str | os.PathLike[str]
    secs: float | None
    updates: int | None


class Held(NamedTuple):
    """The services for other tasks' connections, by purpose.

    Attributes:
        service: Holds the values.
        part_writers: Write them into checkpoints.
        handlers: By purpose, what takes over a connection.
    """

    service: Service
    part_writers: tuple[PartWriter, ...]
    handlers: dict[str, Handler]


def build_server(
    name: str,
    *,
    keeps_step: bool,
    workers: int,
    keeping: SnapshotConfig | None,
    report: Callable[[Statistics], None],
    report_store: Callable[[StoreStatistics], None],
) -> Held:
    """Make what a parameter server needs.

    Args:
        name: Its task.
        keeps_step: Whether it keeps the global step of an Estimator's workers.
        workers: How many workers the job has.
        keeping: Where it keeps what it goes on from; None for nowhere.
        report: Called with what is counted for a plan about once a second, on another thread.
        report_store: Called likewise for variables of a coordinator.
    """
    run = uuid.uuid4().hex
    of_plan: Keeper[Saved] | None = None
    of_store: Keeper[SavedStore] | None = None
    if keeping is not None:
        folder, often = keeping.folder, (keeping.secs, keeping.updates)
        of_plan = Keeper(folder, Saved, Change, *often)
        of_store = Keeper(os.path.join(folder, "store"), SavedStore, StoreChange, *often)
    machine = Machine(
        JaxDevice(copies=False),
        name=name,
        run=run,
        keeps_step=keeps_step,
        versions=versions(),
        find=no_snapshot if of_plan is None else of_plan.find,
        record=None if of_plan is None else of_plan.record,
        workers=workers,
    )
    store = StoreMachine(
        JaxDevice(),
        name=name,
        run=run,
        versions=versions(),
        find=no_snapshot if of_store is None else of_store.find,
        record=None if of_store is None else of_store.record,
    )
    plans = Endpoint(machine, of_plan, lambda: report(machine.statistics(time.monotonic())))
    variables = Endpoint(store, of_store, lambda: report_store(store.statistics()), _NEXT_SECS)
    service = Service(name, [plans, variables])
    saves = PartWriter(
        service,
        lambda save, whole: machine.begin_part(save, whole, time.monotonic()),
        name,
        has_tables=lambda: machine.has_tables,
    )
    store_saves = PartWriter(
        service,
        lambda save, whole: store.begin_part(save, whole, time.monotonic()),
        name,
        has_tables=lambda: True,
    )
    handlers: dict[str, Handler] = {
        PURPOSE: functools.partial(service.serve, plans),
        SAVE_PURPOSE: saves.serve,
        STORE_PURPOSE: functools.partial(service.serve, variables),
        STORE_SAVE_PURPOSE: store_saves.serve,
    }
    return Held(service, (saves, store_saves), handlers)
