"""Manifests for Kubeflow Trainer have only fields that its API knows; it would drop others in silence."""

import jsonschema
import kubernetes_validate
import pytest
import yaml

from large_data import large_data
from muster.__main__ import main
from strict_schemas import strict

KUBERNETES = "1.30"
TRAINER = "trainer.kubeflow.org/v1alpha1"


def fields(*, needed=(), **properties):
    """A schema of an object that has no other fields than these."""
    return {
        "type": "object",
        "required": list(needed),
        "properties": properties,
        "additionalProperties": False,
    }


TEXT, OBJECT, LIST = {"type": "string"}, {"type": "object"}, {"type": "array"}
COUNT = {"type": "integer", "minimum": 1}
TEXTS = {"type": "object", "additionalProperties": TEXT}
# A TrainJob's name is a label of RFC 1035, and so is the runtime's here, of the same name.
METADATA = fields(
    needed=["name"],
    name={"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
    namespace=TEXT,
    labels=TEXTS,
    annotations=TEXTS,
)
# Kubeflow's SDK lists no job of a namespace in which a job's runtime does not name its framework.
FRAMEWORK = "trainer.kubeflow.org/framework"
RUNTIME_METADATA = METADATA | {
    "required": ["name", "labels"],
    "properties": METADATA["properties"]
    | {"labels": {**TEXTS, "required": [FRAMEWORK], "properties": {FRAMEWORK: {"const": "jax"}}}},
}
# What a JobSet runs; `template` is a Job's, which `kubernetes_validate` knows. Kubeflow takes one replica.
REPLICATED_JOB = fields(
    needed=["name", "template"],
    name=TEXT,
    groupName=TEXT,
    replicas={"const": 1},
    dependsOn=LIST,
    template=fields(needed=["spec"], metadata=OBJECT, spec=OBJECT),
)
JOB_SET = fields(
    replicatedJobs={"type": "array", "minItems": 1, "items": REPLICATED_JOB},
    network=OBJECT,
    successPolicy=OBJECT,
    failurePolicy=OBJECT,
    startupPolicy=OBJECT,
    suspend={"type": "boolean"},
    coordinator=OBJECT,
    managedBy=TEXT,
    ttlSecondsAfterFinished={"type": "integer"},
    volumeClaimPolicies=LIST,
)
RUNTIME = fields(
    needed=["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": TRAINER},
    kind={"const": "TrainingRuntime"},
    metadata=RUNTIME_METADATA,
    spec=fields(
        # Of these policies a program that reads TF_CONFIG wants none.
        mlPolicy=fields(numNodes=COUNT, torch=OBJECT, mpi=OBJECT, jax=OBJECT, xgboost=OBJECT, flux=OBJECT),
        podGroupPolicy=OBJECT,
        template=fields(metadata=OBJECT, spec=JOB_SET),
    ),
)
TRAIN_JOB = fields(
    needed=["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": TRAINER},
    kind={"const": "TrainJob"},
    metadata=METADATA,
    spec=fields(
        needed=["runtimeRef"],
        # Without a kind Kubeflow would look for a ClusterTrainingRuntime.
        runtimeRef=fields(
            needed=["name", "kind"],
            name=TEXT,
            apiGroup={"const": "trainer.kubeflow.org"},
            kind={"const": "TrainingRuntime"},
        ),
        trainer=fields(
            image=TEXT,
            command=LIST,
            args=LIST,
            env=LIST,
            numNodes=COUNT,
            resourcesPerNode=OBJECT,
            numProcPerNode=COUNT,
        ),
        initializer=OBJECT,
        suspend={"type": "boolean"},
        managedBy=TEXT,
        activeDeadlineSeconds=COUNT,
    ),
)


def made(capsys, *arguments):
    words = ["manifest", "trainjob", "--name", "digits", "--image", "repo/train:1", *arguments, "train.py"]
    assert main(words) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--workers", "2", "--chief", "--evaluator", "--gpus", "1"],
        ["--chief", "--workers", "3", "--ps", "2", "--evaluator"],
        [
            "--namespace",
            "ml",
            "--memory",
            "8Gi",
            "--shm",
            "1Gi",
            "--env",
            "A=b",
            "--volume",
            "models:/models",
        ],
    ],
    ids=" ".join,
)
def test_kubeflow_trainer_knows_every_field(capsys, arguments):
    secret, runtime, job = made(capsys, *arguments)
    kubernetes_validate.validate(secret, KUBERNETES, strict=True)
    jsonschema.validate(runtime, RUNTIME)
    jsonschema.validate(job, TRAIN_JOB)
    # The runtime of the job is found in the job's namespace, and there before it.
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert job["metadata"].get("namespace") == runtime["metadata"].get("namespace")
    for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        batch_job = {"apiVersion": "batch/v1", "kind": "Job", **each["template"]}
        batch_job["metadata"] = {"name": each["name"], **each["template"]["metadata"]}
        kubernetes_validate.validate(batch_job, KUBERNETES, strict=True)
        # What Kubeflow does not count as nodes has as many pods as run at a time.
        assert each["template"]["spec"]["parallelism"] == each["template"]["spec"]["completions"]
        # JobSet's host names: JOBSET-JOB-NUMBER-INDEX, a label each.
        assert len(f"{'x' * 40}-{each['name']}-0-999") <= 63


def test_a_job_for_kubeflows_own_runtime(capsys):
    arguments = [
        "--runtime",
        "jax-distributed",
        "--workers",
        "3",
        "--cpus",
        "4",
        "--gpus",
        "1",
        "--queue",
        "q",
    ]
    secret, job = made(capsys, *arguments, "--env", "DATA=/data")
    kubernetes_validate.validate(secret, KUBERNETES, strict=True)
    definition = yaml.safe_load(large_data("crds/trainjobs.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    jsonschema.validate(job, strict(version["schema"]["openAPIV3Schema"]))
    assert job["spec"]["runtimeRef"]["kind"] == "ClusterTrainingRuntime"
    trainer = job["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["command"]) == (3, ["python", "train.py"])
    assert trainer["resourcesPerNode"] == {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": 1}}
    # Workers find each other by what Kubeflow Trainer sets.
    assert [each["name"] for each in trainer["env"]] == ["MUSTER_SECRET", "DATA"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--chief"], "runs tasks of one type, given: chief, worker"),
        (["--workers", "1:2"], "runs tasks of one type"),
        (
            ["--shm", "1Gi", "--workdir", "/app"],
            "what its pods are like, given: --shm, --workdir",
        ),
    ],
)
def test_what_a_runtime_says_itself_is_refused(capsys, arguments, told):
    with pytest.raises(SystemExit):
        made(capsys, "--runtime", "jax-distributed", *arguments)
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_field_that_kubeflow_does_not_know_is_noticed(capsys):
    _, runtime, job = made(capsys)
    runtime["spec"]["mlPolicy"]["nodes"] = 2
    with pytest.raises(jsonschema.ValidationError, match="'nodes' was unexpected"):
        jsonschema.validate(runtime, RUNTIME)
    del runtime["spec"]["mlPolicy"]["nodes"], runtime["metadata"]["labels"][FRAMEWORK]
    with pytest.raises(jsonschema.ValidationError, match=f"'{FRAMEWORK}' is a required property"):
        jsonschema.validate(runtime, RUNTIME)
    del job["spec"]["runtimeRef"]["kind"]
    with pytest.raises(jsonschema.ValidationError, match="'kind' is a required property"):
        jsonschema.validate(job, TRAIN_JOB)
