"""What a job tells Prometheus, and what the dashboard for Grafana asks for."""

import json
import re
from importlib.resources import files

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from muster.cluster.roster import Progress, TaskState, WorkTotals
from muster.launch._job_record import JobRecord
from muster.launch._job_state import TaskRecord
from muster.launch.page._metrics import JobMetrics
from repository import ROOT

WORKS = Progress(
    state=TaskState.TRAINING,
    step=40,
    max_steps=100,
    steps_per_sec=2.5,
    loss=0.25,
    epoch=2,
    metrics={"auc": 0.9, "mae": 1.5},
    closures=7,
    closures_per_sec=1.5,
    queue=2,
    staleness=1.25,
    pulls=8,
    pushes=9,
    checkpoint=30,
    totals=WorkTotals(40, 8.0, 1.0, 2.0, 0.5, 4000),
)


def task(**changes):
    known = {"type": "worker", "index": 0, "state": "running", "pid": 1, "address": "h:1", "log": "l"}
    return TaskRecord(**{**known, "starts": 2, "answers": True, "progress": WORKS, **changes})


RECORD = JobRecord(
    name="3f0a",
    program=("train.py", 'say "hi"\n'),
    folder="/logs",
    host="here",
    pid=1,
    started=None,
    began=1000.0,
    written=1060.0,
    code=3,
    tasks=(
        task(waits={"compute": 0.75, "input": 0.25}),
        task(index=1, answers=False, state="exit code 3", progress=None),
    ),
)


def samples(record, parse=openmetrics, accept="application/openmetrics-text; version=1.0.0"):
    text, _ = JobMetrics(lambda: record).text(accept)
    return [each for family in parse(text.decode()) for each in family.samples]


def value(found, name, **labels):
    (one,) = [each.value for each in found if each.name == name and labels.items() <= each.labels.items()]
    return one


@pytest.mark.parametrize(
    ("parse", "accept"), [(openmetrics, "application/openmetrics-text"), (prometheus, "")]
)
def test_both_forms_can_be_parsed_and_have_what_is_known(parse, accept):
    found = samples(RECORD, parse, accept)
    assert value(found, "muster_job_running") == 0.0
    assert value(found, "muster_job_exit_code") == 3.0
    assert value(found, "muster_job_info", host="here", program='train.py say "hi"\n') == 1.0
    assert value(found, "muster_task_up", task="worker 0") == 1.0
    assert value(found, "muster_task_up", task="worker 1") == 0.0
    assert value(found, "muster_task_state", task="worker 1", state="exit code 3") == 1.0
    assert value(found, "muster_task_step", task="worker 0") == 40.0
    assert value(found, "muster_task_metric", metric="auc") == 0.9
    assert value(found, "muster_task_seconds_total", kind="communication") == 2.0
    assert value(found, "muster_task_time_ratio", kind="input") == 0.25
    assert value(found, "muster_task_starts_total", task="worker 0") == 2.0
    assert value(found, "muster_task_timed_steps_total") == 40.0
    assert value(found, "muster_task_exchanged_bytes_total") == 4000.0


def test_a_job_that_is_gone_has_none():
    assert samples(None) == []


def names_of(found):
    return {each.name for each in found}


def test_the_dashboard_asks_for_metrics_that_there_are():
    board = json.loads(files("muster.launch.page").joinpath("grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    names = {name for text in asked for name in re.findall(r"\bmuster_\w+", text)}
    assert len(names) > 12
    assert names <= names_of(samples(RECORD))
    labels = {name for each in samples(RECORD) for name in each.labels}
    assert {name for text in asked for name in re.findall(r"by \((.*?)\)", text)} <= labels | {"task, kind"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_docs_list_every_metric():
    page = (ROOT / "docs/guides/watching.md").read_text()
    assert {name for name in names_of(samples(RECORD)) if f"`{name}`" not in page} == set()
    listed = set(re.findall(r"`(muster_(?:job|task)_\w+)`", page))
    assert listed == names_of(samples(RECORD))
