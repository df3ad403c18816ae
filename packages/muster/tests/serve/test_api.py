"""Answers to requests, without sockets."""

import asyncio
import contextlib
import json
import threading

import numpy as np
import pytest
from artefacts import save_model
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from muster import RequestError
from muster.data import TensorSpec
from muster.saved_model import (
    EVAL,
    Feature,
    Output,
    Signature,
    SignatureToSave,
    save,
    symbolic_arguments,
    trace,
)
from muster.serve._api import Api
from muster.serve._batches import InferenceRequest
from muster.serve._model import Model
from muster.serve._runner import Runner

LIMITS = {"most_rows": 8, "most_jobs": 100, "wait_secs": 0.0}


def ask(folder, *requests, **limits):
    """Send requests together; returns statuses and answers."""
    model = Model(folder, "m", 8, print)
    model.look()

    async def send():
        with contextlib.closing(Api(model, **LIMITS | limits)) as api:
            asked = [
                api.answer("POST", f"/v1/models/m{path}", json.dumps(body).encode())
                for path, body in requests
            ]
            return await asyncio.gather(*asked)

    return [(status, json.loads(answer)) for status, answer in asyncio.run(send())]


def test_requests_that_come_together_are_computed_together(tmp_path, monkeypatch):
    save_model(tmp_path / "1", 1.0)
    sizes = []
    call = Signature.__call__

    def noted(signature, **inputs):
        sizes.append(len(next(iter(inputs.values()))))
        return call(signature, **inputs)

    monkeypatch.setattr(Signature, "__call__", noted)
    rows = [[[i, j] for j in range(1 + i % 3)] for i in range(4)]
    # They wait for ever unless they make up a full batch.
    answers = ask(
        tmp_path, *((":predict", {"instances": each}) for each in rows), wait_secs=3600.0, most_rows=7
    )
    assert answers == [(200, {"predictions": [float(sum(row)) for row in each]}) for each in rows]
    assert sizes[-1] == 7


def test_a_loss_is_that_of_one_request(tmp_path):
    inputs = {"x": TensorSpec((None, 2), np.float32)}
    signature = SignatureToSave(
        method_name=EVAL,
        inputs=inputs,
        outputs={"loss": Output("mean")},
        computation=trace(
            lambda _, given: {"mean": given["x"].mean()}, {}, symbolic_arguments(inputs, (), None)
        ),
        features={"x": Feature("x")},
    )
    save(tmp_path / "1", {"eval": signature})
    bodies = [{"signature_name": "eval", "inputs": [[1.0, 2.0], [3.0, 4.0]]}]
    bodies += [
        {"signature_name": "eval", "inputs": [[5.0, 6.0]]},
        {"signature_name": "eval", "instances": [[1.0, 2.0]]},
    ]
    first, second, of_rows = ask(tmp_path, *((":predict", body) for body in bodies))
    assert (first, second) == ((200, {"outputs": 2.5}), (200, {"outputs": 5.5}))
    assert of_rows[0] == 400
    assert 'Send "inputs" instead of "instances"' in of_rows[1]["error"]


def test_one_wrong_request_does_not_fail_those_beside_it(tmp_path):
    save_model(tmp_path / "1", 1.0)
    good = {"signature_name": "regression", "examples": [{"x": [1.0, 2.0]}]}
    bad = {"signature_name": "regression", "examples": [{"x": [1.0]}]}
    first, second, third = ask(
        tmp_path,
        *((":regress", each) for each in (good, bad, good)),
        wait_secs=3600.0,
        most_rows=3,
    )
    assert first == third == (200, {"results": [3.0]})
    assert second[0] == 400
    assert "'x'" in second[1]["error"]


def test_a_model_that_fails_is_an_error_of_the_server(tmp_path, monkeypatch, caplog):
    save_model(tmp_path / "1", 1.0)

    def fail(signature, **inputs):
        raise RuntimeError("no memory")

    model = Model(tmp_path, "m", 8, print)
    model.look()

    async def send():
        with contextlib.closing(Api(model, **LIMITS)) as api:
            return await api.answer("POST", "/v1/models/m:predict", b'{"instances": [[1, 2]]}')

    monkeypatch.setattr(Signature, "__call__", fail)
    status, answer = asyncio.run(send())
    assert (status, json.loads(answer)) == (500, {"error": "RuntimeError: no memory"})
    assert "no memory" in caplog.text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"inputs": {"x": []}}, "shape"),
        (
            {"signature_name": "both", "inputs": {"x": [[1, 2]], "word": ["a", "b"]}},
            "differ in their number of rows",
        ),
        ({"signature_name": "regression", "inputs": []}, "no rows"),
    ],
)
def test_inputs_must_have_one_number_of_rows(tmp_path, body, message):
    save_model(tmp_path / "1", 1.0)
    ((status, answer),) = ask(tmp_path, (":predict", body))
    assert status == 400
    assert message in answer["error"]


def test_a_runner_computes_what_waits_before_it_ends():
    done = []
    started, goes_on = threading.Event(), threading.Event()

    def slow(x):
        started.set()
        assert goes_on.wait(60)
        return {"y": x}

    runner = Runner(done.extend, most_rows=4, most_jobs=2, wait_secs=0.0)
    jobs = [InferenceRequest(slow, {"x": np.array([i])}, 1) for i in range(3)]
    runner.submit(jobs[0])
    assert started.wait(60)
    runner.submit(jobs[1])
    runner.submit(jobs[2])
    with pytest.raises(RequestError, match="busy"):
        runner.submit(jobs[0])
    closing = threading.Thread(target=runner.close)
    closing.start()
    goes_on.set()
    closing.join(60)
    assert [job for job, _ in done] == jobs
    assert [outcome["y"].tolist() for _, outcome in done] == [[0], [1], [2]]


def families(text):
    """Return the samples of a text in OpenMetrics' form, which another parser reads."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_was_done_is_told_to_prometheus(tmp_path):
    save_model(tmp_path / "7", 1.0)
    model = Model(tmp_path, "m", 8, print)
    model.look()

    async def send():
        with contextlib.closing(Api(model, **LIMITS)) as api:
            body = json.dumps({"instances": [[1.0, 2.0], [3.0, 4.0]]}).encode()
            for path in ("/v1/models/m:predict", "/v1/models/m:predict", "/v1/models/none:predict", "/x"):
                await api.answer("POST", path, body)
            return [api.metrics.text(accept) for accept in ("", "application/openmetrics-text")]

    (plain, plain_type), (opened, opened_type) = asyncio.run(send())
    assert plain_type.startswith("text/plain")
    assert opened_type.startswith("application/openmetrics-text")
    assert b'muster_serve_requests_total{code="200",model="m",verb="predict"} 2.0' in plain
    found = families(opened.decode())
    of_model = ("model", "m")
    for verb, code, count in (("predict", "200", 2), ("predict", "404", 1), ("other", "404", 1)):
        assert found["muster_serve_requests_total", ("code", code), of_model, ("verb", verb)] == count
    assert found["muster_serve_request_seconds_count", of_model, ("verb", "predict")] == 3
    assert found["muster_serve_batch_rows_sum", of_model] == 4
    assert found["muster_serve_batch_requests_count", of_model] == 2
    assert found["muster_serve_compute_seconds_count", of_model] == 2
    assert found["muster_serve_waiting", of_model] == 0
    assert found["muster_serve_version", of_model] == 7
    assert found["process_cpu_seconds_total",] > 0
