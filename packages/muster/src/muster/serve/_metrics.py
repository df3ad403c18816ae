"""What a server tells Prometheus: requests, batches, and the version that is served."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from muster.serve._batches import InferenceRequest

# TensorFlow Serving's path, where its users scrape, and Prometheus' own.
PATHS = "/metrics", "/monitoring/prometheus/metrics"
_SECS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = tuple(float(1 << power) for power in range(13))


class Metrics:
    """Counts what a server does.

    Args:
        model: The model's name, a label of all.
        serving: Returns the number of the version that is served; None for none.
        waiting: Returns how many requests wait to be computed.
    """

    def __init__(self, model: str, serving: Callable[[], int | None], waiting: Callable[[], int]) -> None:
        self._model = model
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "muster_serve_requests", "Requests by status.", ["model", "verb", "code"], registry=self._registry
        )
        self._secs = Histogram(
            "muster_serve_request_seconds",
            "From the last byte of a request to its answer.",
            ["model", "verb"],
            buckets=_SECS,
            registry=self._registry,
        )
        self._computing = self._histogram("compute_seconds", "Computing a batch.", _SECS)
        self._rows = self._histogram("batch_rows", "Rows that are computed together.", _SIZES)
        self._jobs = self._histogram("batch_requests", "Requests that are computed together.", _SIZES)
        self._gauge("waiting", "Requests that wait.", waiting)
        self._gauge("version", "The version that is served; 0 for none.", lambda: serving() or 0)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        named = f"muster_serve_{name}"
        return Histogram(named, text, ["model"], buckets=buckets, registry=self._registry).labels(self._model)

    def _gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        made = Gauge(f"muster_serve_{name}", text, ["model"], registry=self._registry)
        made.labels(self._model).set_function(value)

    def answered(self, verb: str, status: int, secs: float) -> None:
        """Count a request that was answered.

        Args:
            verb: What it asked for; ``"other"`` for what there is not.
            status: The status of HTTP.
            secs: How long it took, in seconds.
        """
        self._requests.labels(self._model, verb, status).inc()
        self._secs.labels(self._model, verb).observe(secs)

    def computed(self, jobs: Sequence[InferenceRequest], secs: float) -> None:
        """Count a batch that was computed, in so many seconds."""
        self._computing.observe(secs)
        self._rows.observe(sum(job.rows or 1 for job in jobs))
        self._jobs.observe(len(jobs))

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the form that a client accepts, OpenMetrics or Prometheus', and its type."""
        encode, kind = choose_encoder(accept)
        data: bytes = encode(self._registry)
        return data, kind
