"""Answer requests: route, compute, and report errors."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from muster._errors import RequestError
from muster.serve._batches import Array, InferenceRequest
from muster.serve._examples import check_signature, classify_answer, example_inputs, regress_answer
from muster.serve._metrics import Metrics
from muster.serve._model import Model, Served
from muster.serve._predict import predict_answer, predict_inputs, signature_name
from muster.serve._routes import Route, parse_route
from muster.serve._runner import Outcome, Runner
from muster.serve._status import metadata_answer, status_answer
from muster.serve._tensors import read_json

_log = logging.getLogger(__name__)


class Api:
    """Answers requests for a model; use it in one event loop.

    Args:
        model: The model.
        most_rows: How many rows a batch has at most.
        most_jobs: How many requests may wait to be computed.
        wait_secs: How long a request may wait for others to come.

    Attributes:
        metrics: What was done so far.
    """

    def __init__(self, model: Model, *, most_rows: int, most_jobs: int, wait_secs: float) -> None:
        self._model = model
        self._loop = asyncio.get_running_loop()
        self._runner = Runner(
            lambda outcomes: _hand_over(self._loop, outcomes),
            most_rows=most_rows,
            most_jobs=most_jobs,
            wait_secs=wait_secs,
        )
        self.metrics = Metrics(model.name, lambda: model.serving, lambda: self._runner.waiting)
        self._runner.on_batch = self.metrics.computed

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the JSON that answer a request.

        Args:
            method: Of HTTP.
            path: The path of the URL, as it was sent.
            body: What was sent.
        """
        began, verb = time.perf_counter(), "other"
        try:
            route = parse_route(method, path)
            verb = route.verb
            status, content = 200, _encode(await self._answer(route, body))
        except RequestError as exc:
            status, content = exc.status, error_answer(str(exc))
        except Exception as exc:
            _log.exception("%s %s failed", method, path)
            status, content = 500, error_answer(f"{type(exc).__name__}: {exc}")
        self.metrics.answered(verb, status, time.perf_counter() - began)
        return status, content

    async def _answer(self, route: Route, body: bytes) -> dict[str, Any]:
        if route.verb == "status":
            return status_answer(self._model.statuses(route.model, route.version))
        version = self._model.version(route.model, route.version)
        if route.verb == "metadata":
            return metadata_answer(route.model, version.number, version.signatures)
        request = read_json(body)
        signature = version.signature(signature_name(request))
        if route.verb == "predict":
            inputs, form = predict_inputs(request, signature.inputs)
            return predict_answer(await self._compute(signature, inputs), form)
        check_signature(signature, route.verb)
        outputs = await self._compute(signature, example_inputs(request))
        return classify_answer(outputs) if route.verb == "classify" else regress_answer(outputs)

    async def _compute(self, signature: Served, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        job = InferenceRequest(signature.call, inputs, _rows(signature, inputs), self._loop.create_future())
        self._runner.submit(job)
        try:
            outputs: Mapping[str, Array] = await job.settle
        except ValueError as exc:  # what a signature raises for inputs that it cannot take
            raise RequestError(str(exc)) from exc
        return outputs

    def close(self) -> None:
        """Compute what waits, and end the thread that does."""
        self._runner.close()


def _rows(signature: Served, inputs: Mapping[str, Array]) -> int | None:
    if not signature.rows_are_free:
        return None
    lengths = {name: len(array) for name, array in inputs.items()}
    if len(set(lengths.values())) != 1:
        raise RequestError(f"The inputs differ in their number of rows: {lengths}.")
    rows = next(iter(lengths.values()))
    if not rows:
        raise RequestError("The inputs have no rows: send one or more.")
    return rows


def _hand_over(loop: asyncio.AbstractEventLoop, outcomes: list[Outcome]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
        loop.call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: list[Outcome]) -> None:
    """Hand outcomes to those who wait for them."""
    for job, outcome in outcomes:
        if job.settle.done():
            continue  # nobody waits any more
        if isinstance(outcome, Exception):
            job.settle.set_exception(outcome)
        else:
            job.settle.set_result(outcome)


def _encode(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode()


def error_answer(message: str) -> bytes:
    """Return the JSON of an error."""
    return json.dumps({"error": message}).encode()
