"""Programs of graphs and sessions, as the page "Programs with sessions" rewrites them."""

import shutil
from pathlib import Path

import pytest

import muster_tensorflow.compat.v1 as tf
from jobs import Job
from repository import ROOT

FOLDER = Path(__file__).parent / "sessions"
PAGE = "docs/guides/session-programs.md"


def test_what_is_missing_names_the_page() -> None:
    for name in ("replica_device_setter", "MonitoredTrainingSession"):
        with pytest.raises(AttributeError) as caught:
            getattr(tf.train, name)
        assert f"({PAGE})" in str(caught.value)
    text = (ROOT / PAGE).read_text()
    assert text.startswith("# Programs with sessions\n")
    for path in FOLDER.glob("*_before.py"):
        assert f"`{path.name}` and `{path.name.replace('_before', '')}`" in text


@pytest.mark.processes
@pytest.mark.parametrize(
    "name", ["fed_session", "dist_mnist", pytest.param("sync_replicas", marks=[pytest.mark.slow])]
)
def test_it_trains_as_a_model_fn(name: str, tmp_path: Path) -> None:
    """One process; with flags that describe the cluster; with TF_CONFIG."""
    environ = {"WORK": str(tmp_path)}
    if name == "fed_session":
        tasks, environ["TF_CONFIG"] = {"worker": 1}, "{}"
    else:
        tasks = {"worker": 2, "ps": 1} if name == "dist_mnist" else {"chief": 1, "worker": 1, "ps": 1}
    command: list[object] = [shutil.copy(FOLDER / f"{name}.py", tmp_path)]
    with Job(tmp_path / "job", command, **tasks) as job:
        hosts = [f"--{kind}_hosts={','.join(addresses)}" for kind, addresses in job.cluster.items()]
        for kind, count in tasks.items():
            for index in range(count):
                if name == "dist_mnist":
                    command[1:] = [*hosts, f"--job_name={kind}", f"--task_index={index}"]
                job.start(kind, index, environ=environ)
        job.all_end_well()
        assert all(task.log.endswith("ok\n") for task in job.tasks), [task.log for task in job.tasks]
