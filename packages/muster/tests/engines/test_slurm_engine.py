"""What the engine of Slurm asks for and understands, without a Slurm."""

import argparse
import subprocess

import pytest

from muster._errors import ClusterError, PlacementError
from muster.cluster import Task
from muster.engines import SlurmPart, _slurm
from muster.launch._command import add_run_command
from muster.launch._engines import make_engine
from muster.launch._manifest import JobManifest
from muster.launch._plan import JobShape
from muster.launch._slurm import parts_of_job, sbatch_script

CHIEF, EV = Task("chief", 0), Task("evaluator", 0)
WORKERS = tuple(Task("worker", index) for index in range(4))


class Held(_slurm._Allocation):
    """An allocation with variables of a test."""

    def __init__(self, **variables):
        self.variables = variables

    def _read_held(self):
        lines = [f"SLURM_{name}={value}" for name, value in {"JOB_ID": "7", **self.variables}.items()]
        return "\0".join(["OTHER=a=b", *lines]).encode()


def test_nodes_get_tasks_in_blocks_as_slurm_has_room():
    held = Held(JOB_NODELIST="n[08-10],x", TASKS_PER_NODE="2(x2),1,1")
    nodes = held.await_nodes([SlurmPart((*WORKERS, EV), ())])
    assert nodes == {("n08", 0): [*WORKERS[:2]], ("n09", 0): [*WORKERS[2:]], ("n10", 0): [EV]}
    assert held.job == "7"


def test_each_part_of_a_heterogeneous_job_has_nodes_of_its_own():
    groups = {"JOB_NODELIST_HET_GROUP_0": "a", "TASKS_PER_NODE_HET_GROUP_0": "1"}
    groups |= {"JOB_NODELIST_HET_GROUP_1": "b[1-2]", "TASKS_PER_NODE_HET_GROUP_1": "2(x2)"}
    nodes = Held(**groups).await_nodes([SlurmPart((CHIEF,), ()), SlurmPart(WORKERS, ())])
    assert nodes == {("a", 0): [CHIEF], ("b1", 1): [*WORKERS[:2]], ("b2", 1): [*WORKERS[2:]]}


def test_what_slurm_says_is_told_once_with_what_to_do():
    said = "sbatch: error: invalid partition: x\n\nsbatch: error: invalid partition: x\nno\x1b[1m\n"
    told = _slurm._refusal("sbatch", said)
    assert told.startswith("Slurm refuses the job: invalid partition: x; no")
    assert "\x1b" not in told
    assert "--sbatch=--partition=NAME" in told
    assert _slurm._refusal("sbatch", "").startswith("Slurm refuses the job: sbatch has failed.")


def raising(error):
    def run(*args, **options):
        raise error

    return run


def test_without_slurm_the_command_that_lacks_is_named(monkeypatch):
    monkeypatch.setattr("subprocess.run", raising(FileNotFoundError()))
    with pytest.raises(PlacementError, match="There is no sbatch on the PATH.*login node"):
        _slurm._call("sbatch", "--test-only")


def test_a_slurm_that_does_not_answer_is_no_reason_to_wait(monkeypatch):
    monkeypatch.setattr("subprocess.run", raising(subprocess.TimeoutExpired("squeue", 60)))
    with pytest.raises(PlacementError, match="Slurm does not answer squeue within 60 s"):
        _slurm._call("squeue")


def test_variables_of_another_job_are_not_handed_to_slurm(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "3")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    made = _slurm._environment()
    assert "SLURM_JOB_ID" not in made
    assert made["SLURM_CONF"] == "/etc/slurm.conf"


def test_memory_is_that_of_all_tasks_of_a_node():
    shape = JobShape(workers=4)
    asked = JobManifest(name="a", shape=shape, command=("t.py",), memory="8Gi", tasks_per_node=2)
    ((tasks, options),) = parts_of_job(asked)
    assert tasks == [*WORKERS]
    assert options == ["--ntasks=4", "--ntasks-per-node=2", "--mem=16G"]
    assert "#SBATCH --mem=16G\n" in sbatch_script(asked)


def engine_of(words, environ=None):
    commands = argparse.ArgumentParser().add_subparsers()
    add_run_command(commands)
    args = commands.choices["run"].parse_args([*words, "t.py"])
    least, workers = args.workers
    shape = JobShape(workers=workers, least=least)
    engine, _ = make_engine(args, shape, ("t.py",), {"PYTHONHASHSEED": "1", **(environ or {})})
    return engine


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--on", "ssh:a", "--sbatch=-A me"], "--sbatch is for Slurm"),
        (["--tasks-per-node", "2"], "--tasks-per-node is for Slurm"),
        (["--on", "slurm", "--namespace", "x"], "--namespace is for Kubernetes"),
        (["--on", "kubernetes", "--image", "i", "--setup", "x"], "--setup is for Slurm"),
        (["--on", "ray", "--detach"], "--detach is for cluster managers"),
        (["--on", "slurm", "--detach", "--sync"], "--sync needs a launcher"),
        (["--on", "slurm", "--detach", "--page", "1"], "--page needs a launcher"),
        (
            ["--on", "slurm", "--detach", "--workers", "1:2"],
            "needs its launcher, as srun ends all tasks",
        ),
        (["--on", "slurm", "--ssh-command", "x"], "--ssh-command makes no sense in Slurm"),
        (["--on", "slurm", "--mount", "/a:/b"], "--mount is for containers"),
        (["--on", "slurm", "--sbatch=ps:--mem=1G"], "There are options of sbatch for ps"),
    ],
)
def test_options_that_make_no_sense_are_refused(words, told):
    with pytest.raises(ClusterError, match=told):
        engine_of(words)


def test_a_script_says_where_profiles_go():
    """As the job is one for Slurm alone, whose tasks write to a folder that all nodes see."""
    engine = engine_of(["--on", "slurm", "--detach", "--name", "a"], {"MUSTER_PROFILE": "/shared/profile"})
    assert "\nexport MUSTER_PROFILE=/shared/profile\n" in engine._script
