"""What cluster managers are told: valid by their schemas, and with the TF_CONFIG that a local job has."""

import os
import re
import subprocess
import sys

import jsonschema
import kubernetes_validate
import pytest
import yaml

from large_data import large_data
from muster.__main__ import main
from muster.cluster import TFConfig
from muster.cluster.roster import EXIT_PEER_LOST
from muster.net import Credentials
from strict_schemas import strict

KUBERNETES = "1.30"


def manifest(capsys, *arguments):
    assert main(["manifest", *arguments]) == 0
    return capsys.readouterr().out


def objects(capsys, kind, *arguments):
    return list(yaml.safe_load_all(manifest(capsys, kind, "--image", "repo/train:1", *arguments)))


def tf_config(job, index):
    """The TF_CONFIG that Kubernetes makes for a pod of a Job."""
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    first, second = (each for each in env if each["name"] in ("MUSTER_TASK_INDEX", "TF_CONFIG"))
    assert first["valueFrom"]["fieldRef"]["fieldPath"] == (
        "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    )
    return TFConfig.parse(second["value"].replace(f"$({first['name']})", str(index)))


def test_kubernetes_jobs_are_valid_and_their_pods_know_their_places(capsys):
    secret, service, chief, worker, evaluator = objects(
        capsys, "kubernetes", "--name", "digits", "--workers", "2", "--chief", "--evaluator", "--gpus", "1",
        "--cpus", "4", "--volume", "models:/models", "train.py", "--model-dir", "/models/$(x)",
    )  # fmt: skip
    for each in (secret, service, chief, worker, evaluator):
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    assert service["spec"]["clusterIP"] == "None"
    for job, role, count in ((chief, "chief", 1), (worker, "worker", 2), (evaluator, "evaluator", 1)):
        spec = job["spec"]
        assert (spec["completions"], spec["parallelism"]) == (count, count)
        assert spec["backoffLimit"] == 3 * count
        pod = spec["template"]["spec"]
        assert pod["restartPolicy"] == "Never"
        assert pod["terminationGracePeriodSeconds"] == 60
        # Another Job may have the task that was lost: then the loss counts, and both come to an end.
        assert ignored(spec) == ["DisruptionTarget"]
        assert pod["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()
        container = pod["containers"][0]
        assert container["command"] == ["python", "train.py", "--model-dir", "/models/$$(x)"]
        assert container["volumeMounts"] == [{"name": "shared", "mountPath": "/models"}]
        limits = container["resources"].get("limits")
        assert limits == (None if role == "evaluator" else {"nvidia.com/gpu": 1})
        config = tf_config(job, count - 1)
        assert (config.task.type, config.task.index) == (role, count - 1)
        # The names that pods of an Indexed Job have in a headless Service: JOB-INDEX.SERVICE.
        told = {
            "chief": ["digits-chief-0.digits:2222"],
            "worker": [f"{worker['metadata']['name']}-{i}.digits:2222" for i in range(2)],
        }
        if role != "evaluator":
            told["evaluator"] = ["digits-evaluator-0.digits:2222"]
        assert config.cluster.as_dict() == told


def ignored(spec):
    """What a Job's policy does not count as a failure."""
    found = []
    for rule in spec["podFailurePolicy"]["rules"]:
        assert rule["action"] == "Ignore"
        found += [each["type"] for each in rule.get("onPodConditions", ())]
        if "onExitCodes" in rule:
            (container,) = spec["template"]["spec"]["containers"]
            assert rule["onExitCodes"]["containerName"] == container["name"]
            found += rule["onExitCodes"]["values"]
    return found


def test_neither_preemption_nor_the_loss_of_a_peer_counts_as_a_failure(capsys):
    *_, worker = objects(capsys, "kubernetes", "--name", "a", "--workers", "2", "train.py")
    _, job_set = objects(capsys, "jobset", "--name", "a", "--chief", "--workers", "2", "train.py")
    _, runtime, _ = objects(capsys, "trainjob", "--name", "a", "--chief", "--workers", "2", "train.py")
    replicated = [*job_set["spec"]["replicatedJobs"], *runtime["spec"]["template"]["spec"]["replicatedJobs"]]
    for spec in (worker["spec"], *(each["template"]["spec"] for each in replicated)):
        assert ignored(spec) == ["DisruptionTarget", EXIT_PEER_LOST]
        assert spec["backoffLimit"] == 3


def test_a_job_set_has_jobs_of_its_own_service_and_is_let_in_as_a_whole(capsys):
    arguments = ["--name", "a", "--chief", "--workers", "2", "--ps", "1", "--evaluator", "--queue", "team"]
    _, job_set = objects(capsys, "jobset", *arguments, "train.py")
    assert job_set["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    spec = job_set["spec"]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["chief", "evaluator"]}
    assert spec["failurePolicy"] == {"maxRestarts": 0}
    assert [each["name"] for each in spec["replicatedJobs"]] == ["chief", "worker", "ps", "evaluator"]
    for each in spec["replicatedJobs"]:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, **each["template"]}
        kubernetes_validate.validate(job, KUBERNETES, strict=True)
        assert "subdomain" not in job["spec"]["template"]["spec"]
        assert tf_config(job, 0).cluster.as_dict()["worker"] == ["a-worker-0-0.a:2222", "a-worker-0-1.a:2222"]


def test_job_sets_have_only_fields_that_the_controller_knows(capsys):
    definition = yaml.safe_load(large_data("crds/jobsets.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    _, job_set = objects(capsys, "jobset", "--name", "a", "--chief", "--ps", "1", "--shm", "1Gi", "train.py")
    jsonschema.validate(job_set, schema)
    job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["backOffLimit"] = 1
    with pytest.raises(jsonschema.ValidationError, match="'backOffLimit' was unexpected"):
        jsonschema.validate(job_set, schema)


POD = """\
serviceAccountName: trainer
tolerations:
  - {key: nvidia.com/gpu, operator: Exists}
securityContext: {runAsNonRoot: true, runAsUser: 1000}
volumes:
  - {name: cache, emptyDir: {}}
containers:
  - securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts:
      - {name: cache, mountPath: /cache}
    env:
      - {name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}
"""


@pytest.mark.parametrize("kind", ["kubernetes", "jobset", "trainjob", "tfjob"])
def test_a_file_adds_fields_to_the_pods(capsys, tmp_path, kind):
    (tmp_path / "pod.yaml").write_text(POD)
    arguments = ["--name", "a", "--pod", f"{tmp_path}/pod.yaml", "--grace-secs", "90"]
    volumes = ["--volume", "models:/models", "--volume", "data:/data"]
    made = objects(capsys, kind, *arguments, *volumes, "--workers", "2", "train.py")
    found = pods(made)
    assert found
    for pod in found:
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": pod}}, KUBERNETES, strict=True
        )
        assert pod["serviceAccountName"] == "trainer"
        assert pod["securityContext"]["runAsUser"] == 1000
        assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"
        assert pod["terminationGracePeriodSeconds"] == 90
        claims = [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"][:2]]
        assert claims == ["models", "data"]
        (container,) = pod["containers"]
        assert [each["mountPath"] for each in container["volumeMounts"]] == ["/models", "/data", "/cache"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        names = [each["name"] for each in container["env"]]
        assert "TOKEN" in names
        assert ("TF_CONFIG" in names) == (kind != "tfjob")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "must have fields of a pod's spec"),
        ("{", "cannot be read"),
        ("restartPolicy: Always", "cannot say restartPolicy: the manifest does"),
        ("containers: [{image: a}]", "cannot say image: the manifest does"),
        ("containers: [{}, {}]", "may have one entry in containers"),
    ],
)
def test_a_file_of_pods_that_makes_no_sense_is_refused(capsys, tmp_path, text, told):
    (tmp_path / "pod.yaml").write_text(text)
    with pytest.raises(SystemExit):
        main(
            ["manifest", "kubernetes", "--name", "a", "--image", "i", "--pod", f"{tmp_path}/pod.yaml", "a.py"]
        )
    assert told in " ".join(capsys.readouterr().err.split())


def test_kubernetes_jobs_of_parameter_servers_get_no_gpu(capsys):
    _, _, chief, worker, server, evaluator = objects(
        capsys, "kubernetes", "--name", "a", "--chief", "--workers", "1", "--ps", "2", "--evaluator",
        "--gpus", "1", "--cpus", "2", "train.py",
    )  # fmt: skip
    kubernetes_validate.validate(server, KUBERNETES, strict=True)
    assert (server["metadata"]["name"], server["spec"]["completions"]) == ("a-ps", 2)
    told = {
        "chief": ["a-chief-0.a:2222"],
        "worker": ["a-worker-0.a:2222"],
        "ps": ["a-ps-0.a:2222", "a-ps-1.a:2222"],
    }
    assert tf_config(evaluator, 0).cluster.as_dict() == told
    for job in (chief, worker, server):
        assert tf_config(job, 0).cluster.as_dict() == {**told, "evaluator": ["a-evaluator-0.a:2222"]}
        container = job["spec"]["template"]["spec"]["containers"][0]
        serves = job is server
        assert container["resources"].get("limits") == (None if serves else {"nvidia.com/gpu": 1})
        assert container["resources"]["requests"] == {"cpu": "2"}
        assert ({"name": "JAX_PLATFORMS", "value": "cpu"} in container["env"]) == serves


def test_a_tfjob_calls_parameter_servers_as_the_operator_does(capsys):
    _, job = objects(
        capsys, "tfjob", "--name", "a", "--ps", "2", "--evaluator", "--gpus", "1", "train.py"
    )  # fmt: skip
    replicas = job["spec"]["tfReplicaSpecs"]
    counts = {role: spec["replicas"] for role, spec in replicas.items()}
    assert counts == {"Chief": 1, "Worker": 1, "PS": 2, "Evaluator": 1}
    assert job["spec"]["successPolicy"] == ""
    container = replicas["PS"]["template"]["spec"]["containers"][0]
    assert {"name": "JAX_PLATFORMS", "value": "cpu"} in container["env"]
    assert "resources" not in container
    template = {"apiVersion": "v1", "kind": "PodTemplate", "template": replicas["PS"]["template"]}
    kubernetes_validate.validate(template, KUBERNETES, strict=True)


def test_a_job_without_restarts_is_never_restarted(capsys):
    *_, worker = objects(capsys, "kubernetes", "--name", "a", "--restarts", "0", "train.py")
    kubernetes_validate.validate(worker, KUBERNETES, strict=True)
    assert worker["spec"]["backoffLimit"] == 0
    assert worker["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_a_tfjob_has_valid_pods_and_the_names_that_the_operator_looks_for(capsys):
    secret, job = objects(
        capsys, "tfjob", "--name", "digits", "--workers", "2", "--chief", "--evaluator", "train.py", "-v"
    )  # fmt: skip
    kubernetes_validate.validate(secret, KUBERNETES, strict=True)
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert job["spec"]["runPolicy"] == {"backoffLimit": 3, "cleanPodPolicy": "None"}
    replicas = job["spec"]["tfReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in replicas.items()} == {
        "Chief": 1,
        "Worker": 2,
        "Evaluator": 1,
    }
    for spec in replicas.values():
        assert spec["restartPolicy"] == "ExitCode"
        # The operator's own schema of a pod is that of Kubernetes.
        template = {"apiVersion": "v1", "kind": "PodTemplate", "template": spec["template"]}
        kubernetes_validate.validate(template, KUBERNETES, strict=True)
        container = spec["template"]["spec"]["containers"][0]
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
        assert "TF_CONFIG" not in {each["name"] for each in container["env"]}


def pods(value):
    """The specs of all pods of a manifest."""
    if isinstance(value, list):
        return [pod for each in value for pod in pods(each)]
    if not isinstance(value, dict):
        return []
    return [value] if "containers" in value else [pod for each in value.values() for pod in pods(each)]


@pytest.mark.parametrize("kind", ["kubernetes", "tfjob"])
def test_each_manifest_has_a_secret_of_its_own_which_its_pods_are_given(capsys, kind):
    values = set()
    for _ in range(2):
        secret, *_ = all_objects = objects(capsys, kind, "--name", "a", "--evaluator", "train.py")
        (value,) = secret["stringData"].values()
        Credentials.from_environ({"MUSTER_SECRET": value})
        values.add(value)
        assert str(all_objects).count(value) == 1
        found = pods(all_objects)
        assert len(found) == 2
        for pod in found:
            (env,) = (each for each in pod["containers"][0]["env"] if each["name"] == "MUSTER_SECRET")
            (key,) = secret["stringData"]
            assert env["valueFrom"] == {"secretKeyRef": {"name": secret["metadata"]["name"], "key": key}}
            assert "volumes" not in pod
    assert len(values) == 2


@pytest.mark.parametrize("kind", ["kubernetes", "tfjob"])
def test_certificates_are_mounted_for_the_pods_user_alone(capsys, kind):
    _, *rest = objects(
        capsys, kind, "--name", "a", "--tls-secret", "a-tls", "--volume", "models:/models", "train.py"
    )  # fmt: skip
    for pod in pods(rest):
        template = {"apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": pod}}
        kubernetes_validate.validate(template, KUBERNETES, strict=True)
        (container,) = pod["containers"]
        shared, tls = container["volumeMounts"]
        assert shared["mountPath"] == "/models"
        assert {"name": "MUSTER_TLS", "value": tls["mountPath"]} in container["env"]
        volume = pod["volumes"][1]
        assert volume["name"] == tls["name"]
        assert volume["secret"] == {"secretName": "a-tls", "defaultMode": 0o400}


SRUN = """\
#!/bin/bash
# Runs the command once a rank, as Slurm would, and counts how often it was called.
if [[ ${!#} == true ]]; then exit "${FAKE_DEAD:-0}"; fi  # to see whether the nodes answer
printf '%s\\n' "$@" >> "$FAKE/words"
while [[ $1 == --* ]]; do echo "$1" >> "$FAKE/options"; shift; done
for ((last = 1; last <= $#; last++)); do  # of a job of several parts all run the same
  if [[ ${!last} == : ]]; then set -- "${@:1:last-1}"; fi
done
echo >> "$FAKE/steps"
export SLURM_STEP_NODELIST='node[1-3]' SLURM_STEP_TASKS_PER_NODE="$FAKE_LAYOUT"
export SLURM_STEP_ID=$(($(wc -l < "$FAKE/steps") - 1))
worst=0
for ((rank = 0; rank < FAKE_TASKS; rank++)); do
  SLURM_PROCID=$rank "$@" || worst=$?
done
exit "$worst"
"""
SCONTROL = """\
#!/bin/bash
if [[ $1 == requeue ]]; then echo "$*" >> "$FAKE/queued"; exit 0; fi
if [[ "$*" == "show hostnames node[1-3]" ]]; then printf '%s\\n' node1 node2 node3; else echo "${@: -1}"; fi
"""
TASK = """\
import os, signal, sys
print(os.environ["MUSTER_JOB_ID"], os.environ["TF_CONFIG"], sys.argv[1:])
with open(os.path.join(os.environ["FAKE"], "secrets"), "a") as file:
    print(os.environ.get("MUSTER_SECRET"), file=file)
with open(os.path.join(os.environ["FAKE"], "platforms"), "a") as file:
    print(os.environ.get("JAX_PLATFORMS"), file=file)
if sys.argv[1] == "143":
    os.kill(os.getppid(), signal.SIGTERM)
sys.exit(int(sys.argv[1]) if '"type": "worker", "index": 1' in os.environ["TF_CONFIG"] else 0)
"""


@pytest.fixture
def run_batch(capsys, tmp_path):
    """Print a batch script, and run it with a Slurm that is made of shell."""

    def run(*arguments, layout, tasks, code="0", environ=()):
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        (tmp_path / "task.py").write_text(TASK)
        script = manifest(
            capsys, "slurm", "--name", "digits", "--python", sys.executable, *arguments,
            str(tmp_path / "task.py"), code, "two words", "it's",
        )  # fmt: skip
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=30)
        return script, subprocess.run(
            ["bash", "-c", script],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "FAKE": str(tmp_path),
                "FAKE_LAYOUT": layout,
                "FAKE_TASKS": str(tasks),
                "SLURM_JOB_ID": "31234",
                **dict(environ),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.mark.processes
@pytest.mark.parametrize(
    ("layout", "addresses"),
    [
        ("2(x2)", ["node1:29744", "node1:29745", "node2:29744", "node2:29745"]),
        ("1,2,1", ["node1:29744", "node2:29744", "node2:29745", "node3:29744"]),
        ("2,1(x2)", ["node1:29744", "node1:29745", "node2:29744", "node3:29744"]),
    ],
)
def test_slurm_tasks_find_their_places(run_batch, layout, addresses):
    script, done = run_batch(
        "--workers", "2", "--chief", "--evaluator", "--tasks-per-node", "2", layout=layout, tasks=4
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    configs = [TFConfig.parse(line[line.index("{") : line.rindex("}") + 1]) for line in lines]
    assert [str(config.task) for config in configs] == ["chief 0", "worker 0", "worker 1", "evaluator 0"]
    for line, config in zip(lines, configs, strict=True):
        told = {"chief": addresses[:1], "worker": addresses[1:3], "evaluator": addresses[3:]}
        if config.task.type == "evaluator":
            del told["evaluator"]
        assert config.cluster.as_dict() == told
        assert line.startswith("slurm-31234-0-0 ")
        assert line.endswith(repr(["0", "two words", "it's"]))
    options = [line.split(maxsplit=1)[1] for line in script.splitlines() if line.startswith("#SBATCH")]
    assert {"--ntasks=4", "--ntasks-per-node=2", "--requeue"} <= set(options)


@pytest.mark.slow
@pytest.mark.processes
def test_slurm_jobs_with_numbers_in_sequence_share_no_port(run_batch):
    ports = []
    for number in ("31234", "31235"):
        script, done = run_batch(
            "--workers", "4", "--tasks-per-node", "4", layout="4", tasks=4, environ={"SLURM_JOB_ID": number}
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ports.append(set(re.findall(r"node1:(\d+)", done.stdout)))
    assert [len(each) for each in ports] == [4, 4]
    assert not ports[0] & ports[1]


@pytest.mark.processes
def test_a_slurm_job_is_started_again_after_a_failure_and_ends_with_its_code(run_batch, tmp_path):
    script, done = run_batch(
        "--workers", "2", "--restarts", "2", "--cpus", "3", "--gpus", "1", layout="1(x2)", tasks=2, code="7"
    )
    assert done.returncode == 7
    ids = [line.split()[0] for line in done.stdout.splitlines()]
    assert ids == [f"slurm-31234-0-{step}" for step in (0, 0, 1, 1, 2, 2)]
    assert done.stderr.count("srun ended with 7; restart") == 2
    assert "#SBATCH --gpus-per-task=1" in script
    assert "--cpus-per-task=3" in (tmp_path / "options").read_text().split()


@pytest.mark.processes
@pytest.mark.parametrize("shape", [["--workers", "2"], ["--chief", "--workers", "2", "--ps", "1"]])
def test_a_slurm_job_that_has_lost_a_node_is_queued_again(run_batch, tmp_path, shape):
    options = [*shape, "--restarts", "2"]
    dead = {"FAKE_DEAD": "1", "SLURM_JOB_NUM_NODES": "3"}
    _, done = run_batch(*options, layout="4", tasks=4, code="7", environ=dead)
    assert done.returncode == 7
    assert "muster: a node does not answer: the job is queued again" in done.stderr
    assert (tmp_path / "queued").read_text() == "requeue 31234\n"
    # It has been so often enough.
    run_batch(*options, layout="4", tasks=4, code="7", environ={**dead, "SLURM_RESTART_COUNT": "2"})
    assert (tmp_path / "queued").read_text() == "requeue 31234\n"


def test_a_slurm_job_has_options_and_lines_of_its_own(capsys):
    told = manifest(
        capsys, "slurm", "--name", "a", "--sbatch=--account=me", "--sbatch=-p gpu",
        "--setup", "module load cuda", "--setup", ". venv/bin/activate", "t.py",
    )  # fmt: skip
    lines = told.splitlines()
    assert {"#SBATCH --account=me", "#SBATCH -p gpu"} <= set(lines)
    assert lines.index("module load cuda") + 1 == lines.index(". venv/bin/activate")
    with pytest.raises(SystemExit, match="2"):
        manifest(capsys, "slurm", "--name", "a", "--sbatch=me", "t.py")


@pytest.mark.processes
def test_slurm_tasks_of_a_type_may_have_nodes_of_another_kind(run_batch, tmp_path):
    own = ["--sbatch=--partition=cpu", "--sbatch=ps:--mem=64G", "--sbatch=worker:--partition=gpu"]
    own += ["--sbatch=worker:--cpus-per-task=8"]
    groups = {f"SLURM_JOB_NODELIST_HET_GROUP_{number}": f"node{number + 1}" for number in range(3)}
    script, done = run_batch(
        *own, "--chief", "--workers", "2", "--ps", "1", "--tasks-per-node", "2", "--cpus", "2",
        layout="1,2,1", tasks=4, environ=groups,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    config = TFConfig.parse(done.stdout[done.stdout.index("{") : done.stdout.index("}}") + 2])
    assert config.cluster.as_dict() == {
        "chief": ["node1:29744"], "worker": ["node2:29744", "node2:29745"], "ps": ["node3:29744"],
    }  # fmt: skip
    lines = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]
    first, second, third = " ".join(lines).split(" hetjob ")
    assert "--job-name=digits" in first
    assert "--partition=cpu --cpus-per-task=2" in first
    assert second == (
        "--ntasks=2 --ntasks-per-node=2 --partition=cpu --cpus-per-task=2 --partition=gpu --cpus-per-task=8"
    )
    assert third == "--ntasks=1 --ntasks-per-node=1 --partition=cpu --cpus-per-task=2 --mem=64G"
    words = (tmp_path / "words").read_text().splitlines()
    parts = [words.index(f"--het-group={number}") for number in range(3)]
    assert [words[part + 1] for part in parts] == [f"--cpus-per-task={cpus}" for cpus in (2, 8, 2)]
    assert words.count(":") == 2


@pytest.mark.processes
def test_slurm_tasks_run_in_a_container(run_batch, tmp_path):
    """Its hosts are found outside, as there is no scontrol in it."""
    container = ["--image", "me/digits:1", "--mount", "/data:/data:ro", "--mount", "/runs:/runs"]
    script, done = run_batch(
        *container, "--workers", "2", "--workdir", "/app", layout="1(x2)", tasks=2,
        environ={"SLURM_JOB_NODELIST": "node[1-3]"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"worker": ["node1:29744","node2:29744"]' in done.stdout
    options = (tmp_path / "options").read_text().split()
    assert {
        "--container-image=me/digits:1",
        "--container-mounts=/data:/data:ro,/runs:/runs",
        "--container-workdir=/app",
    } <= {*options}
    assert "--chdir" not in script
    task = script[script.index("<<'END_OF_TASK'") : script.index("\nEND_OF_TASK")]
    assert "scontrol" not in task


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--mount", "/a:/a"], "--mount is for containers: name theirs with --image"),
        (
            ["--sbatch=ps:--mem=1G"],
            "There are options of sbatch for ps, and the job's tasks are",
        ),
        (["--sbatch=ps:1G"], "must be an option, such as --account=me, or ps:--mem=64G"),
    ],
)
def test_options_of_slurm_that_make_no_sense(capsys, options, told):
    with pytest.raises(SystemExit, match="2"):
        main(["manifest", "slurm", "--name", "a", *options, "t.py"])
    assert told in capsys.readouterr().err


SERVED = ["--chief", "--workers", "2", "--ps", "1", "--evaluator"]


@pytest.mark.slow
@pytest.mark.processes
def test_slurm_starts_a_task_of_a_job_with_parameter_servers_again_alone(run_batch):
    script, done = run_batch(*SERVED, "--restarts", "2", layout="2,2,1", tasks=5, code="7")
    assert done.returncode == 7
    configs = [
        TFConfig.parse(line[line.index("{") : line.rindex("}") + 1]) for line in done.stdout.splitlines()
    ]
    assert [str(each.task) for each in configs] == [
        "chief 0", "worker 0", "worker 1", "worker 1", "worker 1", "ps 0", "evaluator 0",
    ]  # fmt: skip
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"slurm-31234-0-0"}
    assert configs[5].cluster.as_dict() == {
        "chief": ["node1:29744"],
        "worker": ["node1:29745", "node2:29744"],
        "ps": ["node2:29745"],
        "evaluator": ["node3:29744"],
    }
    assert configs[-1].cluster.jobs == ["chief", "worker", "ps"]
    assert done.stderr.splitlines() == [
        f"muster: worker 1 ended with 7; restart {restart} of 2" for restart in (1, 2)
    ]


@pytest.mark.slow
@pytest.mark.processes
def test_slurm_gives_parameter_servers_no_gpu(run_batch, tmp_path):
    _, done = run_batch(*SERVED, layout="5", tasks=5)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "platforms").read_text().split() == ["None", "None", "None", "cpu", "None"]


@pytest.mark.slow
@pytest.mark.processes
def test_slurm_starts_nothing_again_that_was_told_to_end(run_batch, tmp_path):
    _, done = run_batch(*SERVED, "--restarts", "2", layout="5", tasks=5, code="143")
    assert done.returncode == 143
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.processes
def test_a_slurm_job_has_a_secret_that_no_command_line_tells(run_batch, tmp_path):
    for _ in range(2):
        script, done = run_batch("--workers", "2", "--restarts", "1", layout="1(x2)", tasks=2, code="7")
        assert done.returncode == 7
        assert not (set((tmp_path / "secrets").read_text().split()) & set(script.split()))
        assert "--export=ALL" in (tmp_path / "words").read_text().splitlines()
    secrets = (tmp_path / "secrets").read_text().splitlines()
    assert len(secrets) == 8
    assert [len(set(secrets[:4])), len(set(secrets[4:])), len(set(secrets))] == [1, 1, 2]
    for secret in secrets:
        assert len(bytes.fromhex(secret)) == 32
        assert secret not in (tmp_path / "words").read_text() + done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    ("environ", "known"),
    [
        ({"MUSTER_SECRET": "correct horse battery"}, "correct horse battery"),
        ({"MUSTER_SECRET_FILE": "/home/me/secret"}, "None"),
    ],
)
def test_a_secret_that_the_slurm_job_is_given_is_kept(run_batch, tmp_path, environ, known):
    _, done = run_batch("--workers", "1", layout="1", tasks=1, environ=environ)
    assert done.returncode == 0
    assert (tmp_path / "secrets").read_text().splitlines() == [known]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["kubernetes", "--name", "Digits", "--image", "i", "t.py"], "and 'Digits' cannot"),
        (["kubernetes", "--name", "a-", "--image", "i", "t.py"], "and 'a-' cannot"),
        (["kubernetes", "--name", "a" * 41, "--image", "i", "t.py"], "at most 40 small letters"),
        (["kubernetes", "--name", "a", "t.py"], "required: --image"),
        (["kubernetes", "--name", "a", "--image", "i", "--volume", "m", "t.py"], "must be CLAIM:PATH"),
        (["slurm", "--name", "a", "--workers", "0", "t.py"], "at least one task that trains"),
        (["slurm", "--name", "a"], "required: SCRIPT"),
        (["nomad"], "invalid choice: 'nomad'"),
    ],
)
def test_bad_manifests_are_refused(capsys, arguments, told):
    with pytest.raises(SystemExit) as exit:
        main(["manifest", *arguments])
    assert exit.value.code == 2
    told_and_usage = capsys.readouterr()
    assert told in told_and_usage.err
    assert told_and_usage.out == ""


SETTINGS = [
    "--name", "digits", "--workers", "2", "--chief", "--evaluator", "--namespace", "ml", "--memory", "8Gi",
    "--shm", "1Gi", "--env", "DATA=/data/$(x)", "--env", "MODE=a=b", "--workdir", "/app", "--cpus", "2",
    "-m", "trainer.task", "--steps", "9",
]  # fmt: skip


def check_container(pod):
    container = pod["containers"][0]
    assert container["command"] == ["python", "-m", "trainer.task", "--steps", "9"]
    assert container["workingDir"] == "/app"
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "8Gi"},
        "limits": {"memory": "8Gi"},
    }
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert (values["DATA"], values["MODE"]) == ("/data/$$(x)", "a=b")
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}} in pod["volumes"]


@pytest.mark.parametrize("kind", ["kubernetes", "tfjob", "trainjob"])
def test_what_a_task_runs_in_and_with_is_told(capsys, kind):
    made = objects(capsys, kind, *SETTINGS)
    assert {each["metadata"]["namespace"] for each in made} == {"ml"}
    if kind == "kubernetes":
        for each in made:
            kubernetes_validate.validate(each, KUBERNETES, strict=True)
        pods = [each["spec"]["template"]["spec"] for each in made if each["kind"] == "Job"]
    elif kind == "tfjob":
        pods = [each["template"]["spec"] for each in made[1]["spec"]["tfReplicaSpecs"].values()]
    else:
        replicated = made[1]["spec"]["template"]["spec"]["replicatedJobs"]
        pods = [each["template"]["spec"]["template"]["spec"] for each in replicated]
    assert len(pods) == 3
    for pod in pods:
        check_container(pod)


def test_kubeflow_trainer_gets_a_runtime_and_a_job_of_it(capsys):
    secret, runtime, job = objects(capsys, "trainjob", *SETTINGS)
    assert secret["metadata"]["name"] == "digits-secret"
    assert {runtime["apiVersion"], job["apiVersion"]} == {"trainer.kubeflow.org/v1alpha1"}
    assert (runtime["kind"], job["kind"]) == ("TrainingRuntime", "TrainJob")
    assert job["spec"] == {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "digits"},
        "trainer": {"numNodes": 2},
    }
    assert runtime["metadata"]["name"] == "digits"
    assert runtime["metadata"]["labels"] == {
        "app.kubernetes.io/name": "digits",
        "app.kubernetes.io/managed-by": "muster",
        "trainer.kubeflow.org/framework": "jax",
    }
    assert runtime["metadata"]["labels"].items() > job["metadata"]["labels"].items()
    assert runtime["spec"]["mlPolicy"] == {"numNodes": 2}
    chief, node, evaluator = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert [each["name"] for each in (chief, node, evaluator)] == ["chief", "node", "evaluator"]
    step = "trainer.kubeflow.org/trainjob-ancestor-step"
    assert [each["template"]["metadata"]["labels"].get(step) for each in (chief, node, evaluator)] == [
        None, "trainer", None,
    ]  # fmt: skip
    assert node["template"]["spec"]["template"]["spec"]["containers"][0]["name"] == "node"
    for each, count in ((chief, 1), (node, 2), (evaluator, 1)):
        batch_job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **each["template"]}
        batch_job["metadata"] |= each["template"]["metadata"]
        kubernetes_validate.validate(batch_job, KUBERNETES, strict=True)
        assert each["replicas"] == 1
        assert each["template"]["spec"]["completions"] == count
    config = tf_config(node["template"], 1)
    assert (config.task.type, config.task.index) == ("worker", 1)
    # The names that pods have in a JobSet: JOBSET-JOB-NUMBER-INDEX.JOBSET.
    assert config.cluster.as_dict() == {
        "chief": ["digits-chief-0-0.digits:2222"],
        "worker": ["digits-node-0-0.digits:2222", "digits-node-0-1.digits:2222"],
        "evaluator": ["digits-evaluator-0-0.digits:2222"],
    }


def test_a_batch_script_says_what_tasks_run_in_and_with(capsys):
    script = manifest(
        capsys, "slurm", "--name", "digits", "--memory", "8Gi", "--workdir", "/home/me", "--env", "A=b c",
        "-m", "trainer.task", "--steps", "9",
    )  # fmt: skip
    lines = script.splitlines()
    assert "#SBATCH --mem=8G" in lines
    assert "#SBATCH --chdir=/home/me" in lines
    assert "export A='b c'" in lines
    assert any(line.strip() == "exec python -m trainer.task --steps 9" for line in lines)
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert lines.index("export A='b c'") > last  # Slurm reads options only before the first command


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--memory", "8", "must be a number and Ki, Mi, Gi or Ti, such as 8Gi, given: '8'"),
        ("--shm", "1G", "must be a number and Ki, Mi, Gi or Ti"),
        ("--env", "DATA", "must be NAME=VALUE, given: 'DATA'"),
        ("--env", "1A=b", "must be NAME=VALUE"),
    ],
)
def test_settings_that_make_no_sense_are_told(capsys, option, value, told):
    with pytest.raises(SystemExit):
        main(["manifest", "kubernetes", "--name", "x", "--image", "i", option, value, "train.py"])
    assert told in capsys.readouterr().err


def test_an_image_is_described(capsys):
    lines = manifest(capsys, "dockerfile", "--base", "python:3.13", "--requirements", "r.txt").splitlines()
    assert lines[1:3] == ["FROM python:3.13", "WORKDIR /app"]
    assert "RUN pip install --no-cache-dir --requirement r.txt" in lines
    assert lines.index("COPY r.txt ./") < lines.index("COPY . .")
