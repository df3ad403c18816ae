"""What a job tells Prometheus, made from its record whenever it is asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from muster.launch._job_record import JobRecord
from muster.launch._job_state import TaskRecord

# Of each task: the name, what it is, and the field of `Progress`.
_GAUGES = (
    ("step", "The global step.", "step"),
    ("max_steps", "The global step that training stops at.", "max_steps"),
    ("steps_per_second", "Training steps in a second.", "steps_per_sec"),
    ("loss", "The last known loss.", "loss"),
    ("epoch", "The epoch of fit, from 1.", "epoch"),
    ("closures_per_second", "Closures of a coordinator that end in a second.", "closures_per_sec"),
    ("queue", "Requests that a parameter server defers; closures that wait at a coordinator.", "queue"),
    ("staleness", "Changes between a worker's values and its push, on average of late.", "staleness"),
    ("checkpoint_step", "The step of the newest checkpoint that the task has written.", "checkpoint"),
)
_COUNTERS = (
    ("closures", "Closures that have ended.", "closures"),
    ("pulls", "How often a parameter server has sent its values.", "pulls"),
    ("pushes", "Pushes that a parameter server has applied.", "pushes"),
)


class JobMetrics(Collector):
    """Makes the metrics of a job.

    Args:
        read: Returns the job's record; None once there is none.
    """

    def __init__(self, read: Callable[[], JobRecord | None]) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the form that a client accepts, OpenMetrics or Prometheus', and its type."""
        encode, kind = choose_encoder(accept)
        data: bytes = encode(self._registry)
        return data, kind

    def describe(self) -> Iterable[Metric]:
        """Describe nothing before there is a record."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the job as it is now."""
        record = self._read()
        if record is not None:
            yield from _of_job(record)
            yield from _of_tasks(record)


def _of_job(record: JobRecord) -> Iterator[Metric]:
    info = InfoMetricFamily("muster_job", "The job, its program and its machine.", labels=["job"])
    info.add_metric([record.name], {"program": " ".join(record.program), "host": record.host})
    yield info
    yield _gauge("muster_job_running", "1 while the job runs, else 0.", record, float(record.runs))
    yield _gauge(
        "muster_job_start_time_seconds", "When the job began, since the epoch.", record, record.began
    )
    yield _gauge("muster_job_written_time_seconds", "When this was found out.", record, record.written)
    if record.code is not None:
        yield _gauge("muster_job_exit_code", "The exit code of a job that has ended.", record, record.code)


def _gauge(name: str, text: str, record: JobRecord, value: float) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["job"])
    family.add_metric([record.name], value)
    return family


def _of_tasks(record: JobRecord) -> Iterator[Metric]:
    def family(
        kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        text: str,
        values: Callable[[TaskRecord], Mapping[str, float | None]],
        label: str = "",
    ) -> Metric:
        """Return the values of all tasks that have some, by a label if there may be several."""
        made = kind(f"muster_task_{name}", text, labels=["job", "task", *([label] if label else [])])
        for task in record.tasks:
            for key, value in values(task).items():
                if value is not None:
                    made.add_metric([record.name, str(task.task), *([key] if label else [])], value)
        return made

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    yield family(gauge, "up", "1 if the task reports how far it is, else 0.", lambda task: {"": task.answers})
    yield family(counter, "starts", "How often the task was started.", lambda task: {"": task.starts})
    yield family(
        gauge,
        "state",
        "1 for what the task does.",
        lambda task: {task.progress.state if task.answers and task.progress else task.state: 1.0},
        "state",
    )
    for kind, fields in ((gauge, _GAUGES), (counter, _COUNTERS)):
        for name, text, field in fields:
            yield family(kind, name, text, _field(field))
    yield family(
        gauge,
        "metric",
        "The last known metrics, beside the loss.",
        lambda task: task.progress.metrics if task.progress else {},
        "metric",
    )
    yield family(
        gauge,
        "time_ratio",
        "The shares of the task's time of late, by kind.",
        lambda task: task.waits,
        "kind",
    )
    yield family(
        counter, "seconds", "The seconds since the first step, by what they were spent on.", _seconds, "kind"
    )
    yield family(
        counter, "timed_steps", "The steps, closures or pushes of these seconds.", _total_of("steps")
    )
    yield family(
        counter, "exchanged_bytes", "The bytes that these steps have exchanged.", _total_of("nbytes")
    )


def _field(name: str) -> Callable[[TaskRecord], Mapping[str, float | None]]:
    return lambda task: {"": getattr(task.progress, name, None)}


def _seconds(task: TaskRecord) -> Mapping[str, float]:
    totals = task.progress.totals if task.progress else None
    if totals is None:
        return {}
    return {kind: getattr(totals, kind) for kind in ("compute", "input", "communication", "idle")}


def _total_of(name: str) -> Callable[[TaskRecord], Mapping[str, float | None]]:
    return lambda task: {"": getattr(task.progress.totals, name, None) if task.progress else None}
