"""Jobs in a cluster of Kubernetes: an API server, controllers and a node of the test's own."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from kubernetes.config import kube_config
from kubernetes_cluster import Cluster, is_possible
from launched import CHILD, MARK, clean_environment, wait_until

import muster.launch
from large_data import large_data
from muster.__main__ import main
from muster._errors import ClusterError
from remote_stores import faulty_store as faulty_store

pytestmark = [
    pytest.mark.alone,
    pytest.mark.processes,
    pytest.mark.skipif(not is_possible(), reason="needs Linux' namespaces, by root: unshare --net --mount"),
]

DEADLINE = 60.0
TWO = ["--workers", "2"]


class Pods:
    """A cluster, and ``muster run`` for it."""

    def __init__(self, folder, **options):
        folder.mkdir()
        self.cluster = Cluster(folder, f"{MARK}={folder.parent}", **options)
        self.options = ["--on", "kubernetes", "--image", "here", "--python", sys.executable]
        self.environ = {"KUBECONFIG": str(self.cluster.config)}

    def left(self):
        """What there is in the cluster, but for what has happened."""
        return [name for kind in ("jobs", "jobsets", "pods", "secrets", "services")
                for name in self.cluster.names(kind)]  # fmt: skip

    def kill(self, host):
        wait_until(lambda: self.cluster.process_of(host))
        os.kill(self.cluster.process_of(host), signal.SIGKILL)


@pytest.fixture
def pods(tmp_path):
    made = Pods(tmp_path / "cluster")
    yield made
    left = made.left()
    made.cluster.close()
    assert left == []


@pytest.fixture
def run(launch, pods):
    def start(*deeds, options=(), name="digits", **more):
        options = [*pods.options, "--name", name, *options]
        return launch(*deeds, options=options, environ=pods.environ, **more)

    return start


TOGETHER = """\
from muster.distribute import MultiWorkerMirroredStrategy
print("together", MultiWorkerMirroredStrategy().num_replicas_in_sync)
"""


def test_pods_find_each_other_and_leave_nothing(run, pods, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(TOGETHER)
    job = run(options=TWO, program=program)
    assert job.end(DEADLINE) == 0, job.text
    assert sorted(job.of_tasks) == ["worker 0 | together 2", "worker 1 | together 2"]
    assert [each["kind"] for each in pods.cluster.seen] == ["Secret", "Service", "Job"]
    assert "The cluster has the job digits in the namespace ml" in job.text
    assert "All tasks have ended well" in job.text


@pytest.mark.slow
def test_one_model_is_trained_with_the_numbers_of_one_machine(trained, pods, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", pods.environ["KUBECONFIG"])
    assert trained(*pods.options) == trained("--oversubscribe")


def test_ctrl_c_lets_pods_save_and_deletes_the_job(run, pods):
    job = run("worker0=save", "worker1=save", options=TWO)
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(signal.SIGINT)
    assert job.end(DEADLINE) == 130, job.text
    # Kubernetes knows no other signal.
    assert {"worker 0 | saved after SIGTERM", "worker 1 | saved after SIGTERM"} <= {*job.lines}
    assert "failed" not in job.text


@pytest.mark.slow
def test_a_second_ctrl_c_kills(run, pods):
    job = run("worker0=stubborn", options=["--workers", "1"])
    job.read_until("worker 0 | ready")
    job.process.send_signal(signal.SIGINT)
    job.read_until("SIGINT: worker 0 may save and end")
    time.sleep(1.1)  # within a second it is the same one
    job.process.send_signal(signal.SIGINT)
    assert job.end(DEADLINE) == 130, job.text


def test_a_pod_that_is_killed_is_replaced_by_kubernetes(run, pods):
    job = run("worker0=save", "worker1=save", options=[*TWO, "--restarts", "1"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    pods.kill("digits-worker-1")
    job.read_until(
        "Kubernetes has started worker 1 again, on node-1, as digits-worker-1-",
        "the pod before has ended, with exit code -9",
        "worker 1 | ready",
    )
    job.process.send_signal(signal.SIGTERM)
    assert job.end(DEADLINE) == 143, job.text


def test_what_fails_for_good_ends_the_job_and_is_named(run, pods):
    job = run("chief0=save", "worker0=exit:3", options=["--chief", "--workers", "1"])
    assert job.end(DEADLINE) == 3, job.text
    assert "worker 0 failed: exit code 3" in job.text
    assert "chief 0  | saved after SIGTERM" in job.lines
    assert "worker 0 | about to end" in job.lines


@pytest.mark.slow
def test_a_job_that_somebody_deletes_has_failed(run, pods):
    job = run("worker0=save", options=["--workers", "1"])
    job.read_until("worker 0 | ready")
    pods.cluster.act("DELETE", "batch/v1", "jobs", "digits-worker", {}, None)
    assert job.end(DEADLINE) == 255, job.text
    assert "worker 0 is gone: it was deleted in the cluster." in job.text
    assert "worker 0 | saved after SIGTERM" in job.lines


@pytest.mark.slow
def test_a_job_set_ends_with_its_chief(launch, tmp_path):
    definition = yaml.safe_load(large_data("crds/jobsets.yaml").read_text().removeprefix("---"))
    pods = Pods(tmp_path / "cluster", definitions=[definition])
    try:
        options = [
            *pods.options[2:],
            "--on",
            "kubernetes:jobset",
            "--name",
            "served",
            "--ps",
            "1",
            "--workers",
            "1",
        ]
        job = launch("ps0=sleep", options=options, environ=pods.environ)
        assert job.end(DEADLINE) == 0, job.text
        assert [each["kind"] for each in pods.cluster.seen] == ["Secret", "JobSet"]
        assert pods.left() == []
    finally:
        pods.cluster.close()


IMPATIENT = """\
import sys
from muster.__main__ import main
from muster.engines import _kubernetes
_kubernetes.PULL_SECS = 0.5
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("options", "quota", "told"),
    [
        (
            ["--image", "missing"],
            None,
            "cannot be started within 0 s: ImagePullBackOff: Back-off",
        ),
        (
            ["--cpus", "9", "--pending-secs", "0.5"],
            None,
            "has found no room within 0 s: it asks for cpu 9: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (["--pending-secs", "0.5"], 0, "is forbidden: exceeded quota: few"),
    ],
    ids=["image", "cores", "quota"],
)
def test_what_does_not_start_is_told_and_given_up(options, quota, told, pods):
    pods.cluster.quota = quota
    words = ["run", *pods.options, "--name", "digits", "--workers", "1", *options, CHILD]
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, *words], env={**clean_environment(), **pods.environ},
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 255, done.stderr
    assert told in done.stderr
    assert "muster   | worker 0 waits: " in done.stderr


def test_an_image_without_muster_is_told_with_what_to_do(run, pods, tmp_path):
    bare, program = tmp_path / "python", tmp_path / "train.py"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    program.write_text("import muster\n")
    job = run(options=["--workers", "1", "--restarts", "0", "--python", str(bare)], program=program)
    assert job.end(DEADLINE) == 1, job.text
    told = "muster   | worker 0 has no muster: the Python of the image here lacks it. Build one with `RUN pip"
    assert job.text.count(told) == 2, job.text  # at once, and as the reason of the end


def test_profiles_of_pods_go_to_an_object_store(pods, faulty, monkeypatch, capsys):
    words = ["--on", "kubernetes", "--image", "i", "--profile", "faulty://b/profile", "--dry-run"]
    use(monkeypatch, pods)
    assert main(["run", *words, str(CHILD)]) == 0
    assert "name: MUSTER_PROFILE\n          value: faulty://b/profile\n" in capsys.readouterr().out


def use(monkeypatch, pods):
    """Let this process use the cluster: the client has read its variable when it was imported."""
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", pods.environ["KUBECONFIG"])


def refused(monkeypatch, pods, **options):
    use(monkeypatch, pods)
    with pytest.raises(ClusterError) as caught:
        muster.launch.run("train.py", **{"on": "kubernetes", "image": "here", **options})
    return str(caught.value)


def test_what_the_cluster_refuses_is_told_before_anything_is_made(pods, monkeypatch):
    assert "has no namespace 'other'. Name another by --namespace" in refused(
        monkeypatch, pods, namespace="other"
    )
    assert "knows no JobSet of jobset.x-k8s.io/v1alpha2: what runs them is not installed there" in refused(
        monkeypatch, pods, on="kubernetes:jobset"
    )
    pods.cluster.forbidden = {"Job"}
    told = refused(monkeypatch, pods)
    assert 'User "u" cannot create resource "jobs"' in told
    assert "kubectl auth can-i create jobs --namespace ml" in told
    assert pods.cluster.seen == []
    config = yaml.safe_load(pods.cluster.config.read_text())
    config["users"][0]["user"]["token"] = "another"
    pods.cluster.config.write_text(yaml.safe_dump(config))
    assert "does not know who asks: Unauthorized. Log in to it again." in refused(monkeypatch, pods)
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    pods.cluster.config.write_text(yaml.safe_dump(config))
    assert "The cluster of Kubernetes at http://127.0.0.1:1 does not answer" in refused(monkeypatch, pods)
    pods.environ["KUBECONFIG"] = "/no/such"
    assert "Nothing says where a cluster of Kubernetes is" in refused(monkeypatch, pods)


def test_a_name_that_is_taken_is_told(pods, monkeypatch):
    taken = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "digits-secret"}, "stringData": {}}
    pods.cluster.act("POST", "v1", "secrets", None, {}, taken)
    assert "There is a Secret digits-secret in ml: a job has that name." in refused(
        monkeypatch, pods, name="digits"
    )
    pods.cluster.act("DELETE", "v1", "secrets", "digits-secret", {}, None)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"image": None}, "--on kubernetes needs --image"),
        ({"on": "kubernetes:cronjob"}, "There is no kind of job 'cronjob'"),
        ({"queue": "q", "chief": True}, "each type of task would be let in alone"),
        ({"profile": "/tmp/x"}, "--profile /tmp/x is a folder that would go with each pod"),
        ({"detach": True, "page": 1}, "--page needs a launcher: leave out --detach"),
        ({"on": "local"}, "--image is for cluster managers: give it with --on kubernetes or --on slurm"),
    ],
)
def test_options_that_make_no_sense(options, told, tmp_path):
    (tmp_path / "train.py").touch()
    with pytest.raises(ClusterError, match=re.escape(told)):
        muster.launch.run(tmp_path / "train.py", **{"on": "kubernetes", "image": "here", **options})


def test_a_dry_run_prints_the_manifest(pods, monkeypatch, capsys):
    use(monkeypatch, pods)
    options = {"on": "kubernetes", "image": "here", "name": "a", "volume": ["models:/models", "data:/data"]}
    muster.launch.run("train.py", ["--steps", "3"], **options, dry_run=True)
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["kind"] for each in printed] == ["Secret", "Service", "Job"]
    container = printed[2]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python", "train.py", "--steps", "3"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/models", "/data"]
    assert pods.cluster.seen == []


def muster_command(pods, *words):
    done = subprocess.run(
        [sys.executable, "-m", "muster", *words], env={**clean_environment(), **pods.environ},
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_that_was_left_to_the_cluster_is_watched_and_stopped(pods):
    deeds = ["worker0=save", "worker1=save"]
    told = muster_command(pods, "run", *pods.options, "--name", "digits", *TWO, "--detach", CHILD, *deeds)
    assert "muster logs -f --job kubernetes:ml/digits" in told
    name = "kubernetes:ml/digits"
    wait_until(lambda: pods.cluster.log_text().count("ready") == 2)
    told = muster_command(pods, "status", name)
    assert "job kubernetes:ml/digits runs" in told
    assert re.search(r"worker 1 .*running on node-1", told)
    assert muster_command(pods, "logs", "--job", name) == "worker 0 | ready\nworker 1 | ready\n"
    follows = subprocess.Popen(
        [sys.executable, "-m", "muster", "logs", "-f", "--job", "kubernetes:digits", "worker-1"],
        env={**clean_environment(), **pods.environ}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert follows.stdout.readline() == "ready\n"
    muster_command(pods, "stop", name)
    assert follows.communicate(timeout=DEADLINE)[0] == "saved after SIGTERM\n"
    assert pods.left() == []


GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "kubernetes.md"


def test_the_cluster_takes_what_the_guide_submits(pods, monkeypatch, capsys, tmp_path):
    text = GUIDE.read_text()
    commands = re.findall(r"^ *muster run --on ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert len(commands) == 3
    definition = yaml.safe_load(large_data("crds/jobsets.yaml").read_text())
    pods.cluster.definitions = {"jobsets": definition}
    use(monkeypatch, pods)
    (tmp_path / "pod.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    for command in commands:
        words = shlex.split(command.replace("\\\n", " ").replace("--detach ", ""))
        options = ["--dry-run", "--pod", str(tmp_path / "pod.yaml")]
        assert main(["run", *options, "--on", *words]) == 0
        objects = list(yaml.safe_load_all(capsys.readouterr().out))
        assert objects[0]["kind"] == "Secret"
    for command in ("status ", "logs -f --job ", "stop "):
        assert f"muster {command}kubernetes:ml/digits" in text
