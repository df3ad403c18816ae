"""Jobs with a secret and certificates: with TLS they train and fail as ever; else all say why."""

import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from certificates import DAY, NOW, Authority
from jobs import DEADLINE, SOON, Job
from muster.cluster import Task
from muster.cluster.roster._roster import EXIT_PEER_LOST

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("bad_job_child.py")
SECRET, OTHER = "correct horse battery staple", "incorrect horse battery staple"


class Pair(Job):
    """Two workers."""

    def __init__(self, folder):
        super().__init__(folder, [CHILD], worker=2)
        self.addresses = self.cluster["worker"]

    def launch(self, index, environ, **options):
        options = {"model_dir": str(self.folder / "model"), "stray_secs": 2.0, "timeout": 20.0, **options}
        return self.start("worker", index, options, environ)


@pytest.fixture
def job(tmp_path):
    with Pair(tmp_path / "job") as job:
        yield job


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def keys(authority, tmp_path_factory):
    return authority.make(tmp_path_factory.mktemp("keys") / "tls", "127.0.0.1", "localhost")


@pytest.fixture
def folder(request, tmp_path, keys, authority):
    """A folder for MUSTER_TLS, by what is wrong with it."""
    match request.param:
        case "authority":
            return Authority().make(tmp_path / "other", "127.0.0.1")
        case "host":
            return authority.make(tmp_path / "other", "node-1")
        case "expired":
            return authority.make(tmp_path / "other", "127.0.0.1", start=NOW - 3 * DAY, end=NOW - DAY)


def neither_comes_in(*tasks):
    """What the last lines of tasks say that each end with an error of their own."""
    assert [task.code() for task in tasks] == [1, 1], [task.log for task in tasks]
    for task in tasks:
        assert task.last_line.startswith("muster.StrayPeerError: What answers is not worker "), task.log
    return [task.last_line for task in tasks]


def test_different_secrets(job):
    for said in neither_comes_in(
        job.launch(0, {"MUSTER_SECRET": SECRET}), job.launch(1, {"MUSTER_SECRET": OTHER})
    ):
        assert "it says: the connection is refused: the caller has another secret than this task" in said
        assert SECRET not in said


@pytest.mark.slow
def test_a_secret_in_one_task_only(job):
    with_one, without = neither_comes_in(job.launch(0, {"MUSTER_SECRET": SECRET}), job.launch(1, {}))
    assert "it says: the connection is refused: the caller has a secret, and this task has none" in with_one
    assert "it says: the connection is refused: the caller has no secret, and this task has one" in without


@pytest.mark.slow
def test_tls_in_one_task_only(job, keys):
    with_tls, without = neither_comes_in(job.launch(0, {"MUSTER_TLS": str(keys)}), job.launch(1, {}))
    assert "it does not speak TLS: set MUSTER_TLS for all tasks of the job, or for none" in with_tls
    assert "it says: the connection is refused: this task speaks TLS, and the caller does not" in without


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["authority"], indirect=True)
def test_certificates_of_two_authorities(job, keys, folder):
    for said in neither_comes_in(
        job.launch(0, {"MUSTER_TLS": str(keys)}), job.launch(1, {"MUSTER_TLS": str(folder)})
    ):
        assert "it shows a certificate of an authority that is not in this task's ca.crt" in said


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["host"], indirect=True)
def test_a_certificate_for_another_host(job, keys, folder):
    other, task = job.launch(0, {"MUSTER_TLS": str(keys)}), job.launch(1, {"MUSTER_TLS": str(folder)})
    assert (other.code(), task.code()) == (1, EXIT_PEER_LOST)
    for each in (other, task):
        assert "it shows a certificate for other hosts: make one that names the host" in each.last_line
    assert "127.0.0.1 does not accept the certificate of this task: it is for other hosts" in task.log


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["expired"], indirect=True)
def test_a_certificate_that_has_expired(job, folder):
    task = job.launch(1, {"MUSTER_TLS": str(folder)})
    assert task.code() == 1
    assert f"muster.CredentialsError: {folder / 'tls.crt'} has expired, or" in task.last_line


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MUSTER_SECRET_FILE", "MUSTER_TLS"])
def test_a_secret_that_others_may_read(job, keys, tmp_path, name):
    folder = shutil.copytree(keys, tmp_path / "exposed")
    secret = folder / "tls.key"  # which does as a secret, too
    secret.chmod(0o644)
    task = job.launch(0, {name: str(folder if name == "MUSTER_TLS" else secret)})
    assert task.code() == 1
    assert task.last_line.startswith(
        f"muster.CredentialsError: Others may read or change {secret}, which must be secret. Its "
        f"mode is 0644. Run: chmod 600 {secret}"
    )


@pytest.mark.slow
def test_another_version_of_the_protocol(job):
    first, second = neither_comes_in(job.launch(0, {}), job.launch(1, {}, protocol=77))
    assert ": it speaks version 77 of muster's protocol, and this task version " in first
    assert "and this task version 77: install the same muster everywhere" in second


@pytest.mark.slow
def test_a_host_that_does_not_exist(job):
    job.cluster["worker"][1] = "no-such-host.invalid:1234"
    task = job.launch(0, {}, timeout=3.0)
    assert task.code() == 1
    assert re.search(r"has waited 3 s for worker 1 at no-such-host\.invalid:1234 \(\w", task.last_line)


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_worker_of_a_job_with_credentials_is_killed(job, keys, encrypted):
    environ = {"MUSTER_SECRET": SECRET, **({"MUSTER_TLS": str(keys)} if encrypted else {})}
    other, task = (job.launch(index, environ, steps=10**6) for index in (0, 1))
    deadline = time.monotonic() + DEADLINE
    while not re.search(r"^step [1-9]", other.log, re.M):
        assert other.process.poll() is None, other.log
        assert time.monotonic() < deadline, other.log
        time.sleep(0.05)
    task.process.send_signal(signal.SIGKILL)
    assert task.code() == -signal.SIGKILL
    assert other.code(SOON) == EXIT_PEER_LOST
    assert other.told.culprit == Task("worker", 1)
    assert f"worker 1 at {job.addresses[1]} has ended without a word" in other.told.reason, other.log


def test_a_job_with_tls_trains_to_its_end(job, keys):
    for index in (0, 1):
        job.launch(index, {"MUSTER_TLS": str(keys)})
    job.all_end_well()
