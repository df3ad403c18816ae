"""A machine holds so many tasks; more are refused before anything is started."""

import pytest

from muster.__main__ import main
from muster._errors import ClusterError
from muster.engines import MachineResources
from muster.engines._memory import available_memory
from muster.launch import _engines, _notebook, notebook_launcher
from muster.launch._plan import TASK_MIB, TASKS_A_CORE, JobShape, check_room

MIB = 1 << 20


def machine(cores, memory=None):
    return MachineResources(
        cores=tuple((2 * core, 2 * core + 1) for core in range(cores // 2)), memory=memory
    )


def test_every_task_counts_against_every_logical_processor():
    shape = JobShape(workers=4, chief=True, ps=2, evaluator=True)
    check_room(len(shape.tasks), machine(2))
    with pytest.raises(
        ClusterError, match=r"too small for 9 tasks: 2 cores hold 8 tasks, 4 each\. Ask for fewer.*--oversub"
    ):
        check_room(len(JobShape(workers=5, chief=True, ps=2, evaluator=True).tasks), machine(2))
    check_room(len(JobShape(workers=16).tasks), machine(4))


def test_tasks_need_memory():
    shape = JobShape(workers=3)
    check_room(len(shape.tasks), machine(2, 3 * TASK_MIB * MIB))
    with pytest.raises(ClusterError, match=r"3 tasks: 900 MiB of memory are needed, 300 each, and 899 MiB"):
        check_room(len(shape.tasks), machine(2, 3 * TASK_MIB * MIB - 1))
    with pytest.raises(ClusterError, match=r"2000 tasks: 2 cores hold 8 tasks, 4 each; 600000 MiB of memory"):
        check_room(len(JobShape(workers=2000).tasks), machine(2, 24000 * MIB))


@pytest.fixture
def small(monkeypatch):
    """This machine is one that holds two tasks."""
    found = machine(2, 2 * TASK_MIB * MIB)
    for module in (_engines, _notebook):
        monkeypatch.setattr(module, "this_machine", lambda environ: found)


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    path = tmp_path / "train.py"
    path.write_text("print('trains')")
    return str(path)


@pytest.mark.parametrize("tasks", [["--workers", "3"], ["--chief", "--workers", "1", "--ps", "1"]])
@pytest.mark.usefixtures("small")
def test_the_command_starts_nothing_and_makes_nothing(tasks, program, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", *tasks, "--log-dir", str(tmp_path / "logs"), program])
    assert ended.value.code == 2
    assert "too small for 3 tasks: 900 MiB of memory are needed" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.usefixtures("small")
def test_oversubscribe_starts_them_all_the_same(program, monkeypatch):
    started = []
    monkeypatch.setattr("muster.launch._run._Run.until_end", lambda run: started.append(run) or 0)
    assert main(["run", "--workers", "3", "--oversubscribe", program]) == 0
    assert main(["run", "--workers", "2", program]) == 0
    assert len(started) == 2


@pytest.mark.usefixtures("small")
def test_a_notebook_is_told_so_too(monkeypatch):
    given = []
    monkeypatch.setattr(_notebook, "_run", lambda options: given.append(options) or 1)
    with pytest.raises(ClusterError, match="oversubscribe=True to notebook_launcher"):
        notebook_launcher(print, workers=2, evaluator=True)
    assert given == []
    with pytest.raises(RuntimeError, match="exit code 1"):  # as the fake command's is
        notebook_launcher(print, workers=2, evaluator=True, oversubscribe=True)
    assert "--oversubscribe" in given[0]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_memory_is_what_the_machine_and_its_control_groups_leave(tmp_path):
    proc, groups = tmp_path / "proc", tmp_path / "groups"

    def left():
        return available_memory(proc, groups)

    assert left() is None
    write(proc / "meminfo", "MemTotal: 9000 kB\nHugePages_Total: 0\nMemAvailable:    8000 kB\n")
    assert left() == 8000 * 1024
    # Version 2: limits of groups around count, too; what files may give back is left.
    write(proc / "self" / "cgroup", "3:cpu:/other\n0::/jobs/mine\n")
    write(groups / "jobs" / "mine" / "memory.max", "max\n")
    write(groups / "jobs" / "mine" / "memory.current", "1000\n")
    assert left() == 8000 * 1024
    write(groups / "jobs" / "memory.max", "5000000\n")
    write(groups / "jobs" / "memory.current", "2000000\n")
    write(groups / "jobs" / "memory.stat", "anon 1\ninactive_file 500000\n")
    assert left() == 3500000
    # Version 1, in a container that sees its own group as the root.
    write(proc / "self" / "cgroup", "4:cpuset,memory:/docker/abc\n")
    write(groups / "memory" / "memory.limit_in_bytes", "700000\n")
    write(groups / "memory" / "memory.usage_in_bytes", "650000\n")
    write(groups / "memory" / "memory.stat", "total_inactive_file 10000\n")
    assert left() == 60000
    write(groups / "memory" / "memory.usage_in_bytes", "800000\n")
    assert left() == 0


def test_the_rule_is_the_one_that_the_help_tells(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert f"More than {TASKS_A_CORE} tasks for each core are refused" in told
    assert f"at {TASK_MIB} MiB each" in told
