"""Kubernetes objects for a job: plain Indexed Jobs with a headless Service, or a job of Kubeflow's."""

import json
from collections.abc import Callable
from typing import Any

from muster.cluster import Task, TaskType
from muster.launch._plan import CPU_ONLY, JobManifest
from muster.net import SECRET, TLS

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


# Where a pod finds the certificates of its job, and the mode of their files: the secret parts of them are
# refused if others may read them, as all may by Kubernetes' default.
_TLS_FOLDER = "/etc/muster/tls"
_TLS_MODE = 0o400


# The API of Kubeflow Trainer, the name of its tasks that train, and the label by which it knows their job.
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_NODE = "node"
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
# The label of a runtime by which Kubeflow's SDK knows how to run programs. It lists no job of a namespace in
# which a job's runtime lacks it.
_FRAMEWORK = "trainer.kubeflow.org/framework"

# What Kubeflow calls the types of tasks.
_REPLICA_TYPES: dict[str, str] = {
    TaskType.CHIEF: "Chief",
    TaskType.WORKER: "Worker",
    TaskType.PS: "PS",
    TaskType.EVALUATOR: "Evaluator",
}


def kubernetes_objects(manifest: JobManifest, secret: str) -> list[dict[str, Any]]:
    """Return a Secret, a headless Service, and an Indexed Job for each type of task.

    The pods of an Indexed Job keep their host names when they are restarted, and Kubernetes fills
    a pod's index into ``TF_CONFIG``. A container that fails is started again in place; the others end when
    they have lost it, are started again too, and all go on from the last checkpoint. With parameter servers
    the others go on. Needs Kubernetes 1.24.

    Args:
        manifest: The job.
        secret: The secret that its tasks share.
    """
    name = manifest.name
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(manifest, name),
        "spec": {
            "clusterIP": "None",
            # Tasks look for each other before they are ready.
            "publishNotReadyAddresses": True,
            "selector": _labels(manifest),
            "ports": [{"name": "task", "port": manifest.port}],
        },
    }
    jobs = (_job(manifest, role, count) for role, count in manifest.replicas.items())
    return [_secret(manifest, secret), service, *jobs]


def tfjob_objects(manifest: JobManifest, secret: str) -> list[dict[str, Any]]:
    """Return a Secret and a TFJob of Kubeflow's training operator, which sets ``TF_CONFIG`` itself.

    With restarts, exit codes below 128 are faults of the program for the operator, and end the job. It starts
    tasks again that ended with another code: those that were killed, and those that lost a peer.

    Args:
        manifest: The job.
        secret: The secret that its tasks share.
    """
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": _metadata(manifest, manifest.name),
        "spec": {
            "runPolicy": {
                "backoffLimit": manifest.restarts,
                # An evaluator still works when training is done.
                "cleanPodPolicy": "None",
            },
            # With parameter servers the chief ends the job.
            "successPolicy": "AllWorkers" if manifest.shape.workers and not manifest.shape.ps else "",
            "tfReplicaSpecs": {
                _REPLICA_TYPES[role]: {
                    "replicas": count,
                    "restartPolicy": "ExitCode" if manifest.restarts else "Never",
                    # The operator knows the container and the port by these names.
                    "template": {"spec": _pod(manifest, role, "tensorflow", "tfjob-port")},
                }
                for role, count in manifest.replicas.items()
            },
        },
    }
    return [_secret(manifest, secret), job]


def _secret(manifest: JobManifest, secret: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(manifest, _secret_name(manifest)),
        "type": "Opaque",
        "stringData": {"secret": secret},
    }


def _secret_name(manifest: JobManifest) -> str:
    return f"{manifest.name}-secret"


def _metadata(manifest: JobManifest, name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": _labels(manifest)}
    return metadata | ({"namespace": manifest.namespace} if manifest.namespace else {})


def trainjob_objects(manifest: JobManifest, secret: str) -> list[dict[str, Any]]:
    """Return a Secret, a TrainingRuntime and a TrainJob of Kubeflow Trainer.

    The runtime has an Indexed Job for each type of task, as `kubernetes_objects` has, which JobSet runs and
    gives host names. Kubeflow Trainer knows the tasks that train by the name ``node``. Needs JobSet's default
    network, with DNS host names.

    Args:
        manifest: The job.
        secret: The secret that its tasks share.
    """
    name = manifest.name
    nodes = _node_role(manifest)
    metadata = _metadata(manifest, name)
    runtime = {
        "apiVersion": _TRAINER,
        "kind": "TrainingRuntime",
        "metadata": metadata | {"labels": metadata["labels"] | {_FRAMEWORK: "jax"}},
        "spec": {
            "mlPolicy": {"numNodes": manifest.replicas[nodes]},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        _replicated_job(manifest, role, count) for role, count in manifest.replicas.items()
                    ]
                }
            },
        },
    }
    job = {
        "apiVersion": _TRAINER,
        "kind": "TrainJob",
        "metadata": _metadata(manifest, name),
        "spec": {
            "runtimeRef": {"apiGroup": _TRAINER.partition("/")[0], "kind": "TrainingRuntime", "name": name},
            "trainer": {"numNodes": manifest.replicas[nodes]},
        },
    }
    return [_secret(manifest, secret), runtime, job]


def _node_role(manifest: JobManifest) -> str:
    """Return the type of the tasks that Kubeflow Trainer calls nodes."""
    return TaskType.WORKER if manifest.shape.workers else TaskType.CHIEF


def _replicated_job(manifest: JobManifest, role: str, count: int) -> dict[str, Any]:
    node = role == _node_role(manifest)
    job = _job(manifest, role, count, lambda task: _host_in_jobset(manifest, task))
    pods = job["spec"]["template"]["spec"]
    del pods["subdomain"]  # JobSet sets it
    if node:
        pods["containers"][0]["name"] = _NODE
    template = {"spec": job["spec"]}
    labels = {_STEP: "trainer"} if node else {}
    return {
        "name": _NODE if node else str(role),
        "replicas": 1,
        "template": {"metadata": {"labels": _labels(manifest) | labels}, **template},
    }


def _host_in_jobset(manifest: JobManifest, task: Task) -> str:
    """Return the host name that JobSet gives a task's pod."""
    job = _NODE if task.type == _node_role(manifest) else task.type
    return f"{manifest.name}-{job}-0-{task.index}.{manifest.name}"


def _host_in_service(manifest: JobManifest, task: Task) -> str:
    """Return the host name that a pod of an Indexed Job has in the headless Service."""
    return f"{manifest.name}-{task.type}-{task.index}.{manifest.name}"


def _job(
    manifest: JobManifest, role: str, count: int, host_of: Callable[[Task], str] | None = None
) -> dict[str, Any]:
    pod = _pod(manifest, role, "task", "task")
    host_of = host_of or (lambda task: _host_in_service(manifest, task))
    # A variable's value may only use variables before it in the list.
    pod["containers"][0]["env"] += [
        {"name": "MUSTER_TASK_INDEX", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        {"name": "TF_CONFIG", "value": _tf_config(manifest, role, host_of)},
        *({"name": name, "value": text} for name, text in manifest.shape.elastic_environment.items()),
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(manifest, f"{manifest.name}-{role}"),
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            # Each restart of the job restarts every task.
            "backoffLimit": manifest.restarts * count,
            "template": {
                "metadata": {"labels": _labels(manifest)},
                "spec": {
                    "subdomain": manifest.name,
                    "restartPolicy": "OnFailure" if manifest.restarts else "Never",
                    **pod,
                },
            },
        },
    }


def _pod(manifest: JobManifest, role: str, container_name: str, port_name: str) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": container_name,
        "image": manifest.image,
        # Kubernetes would replace $(NAME) by a variable.
        "command": [word.replace("$(", "$$(") for word in manifest.command],
        "ports": [{"name": port_name, "containerPort": manifest.port}],
        "env": [
            {
                "name": SECRET,
                "valueFrom": {"secretKeyRef": {"name": _secret_name(manifest), "key": "secret"}},
            },
            *({"name": name, "value": value.replace("$(", "$$(")} for name, value in manifest.env),
        ],
    }
    if manifest.workdir:
        container["workingDir"] = manifest.workdir
    resources: dict[str, Any] = {}
    if manifest.cpus is not None:
        resources["requests"] = {"cpu": str(manifest.cpus)}
    if manifest.memory:
        # More than it has asked for might be another's: then the kernel would end one of the two.
        resources.setdefault("requests", {})["memory"] = manifest.memory
        resources["limits"] = {"memory": manifest.memory}
    gpus = manifest.shape.devices_per_worker
    if role == TaskType.PS:
        container["env"] += [{"name": name, "value": value} for name, value in CPU_ONLY.items()]
    elif gpus is not None and role != TaskType.EVALUATOR:
        resources.setdefault("limits", {})["nvidia.com/gpu"] = gpus
    if resources:
        container["resources"] = resources
    mounts: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    if manifest.volume is not None:
        claim, path = manifest.volume
        mounts.append({"name": "shared", "mountPath": path})
        volumes.append({"name": "shared", "persistentVolumeClaim": {"claimName": claim}})
    if manifest.shm:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": manifest.shm}})
    if manifest.tls_secret:
        container["env"].append({"name": TLS, "value": _TLS_FOLDER})
        mounts.append({"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True})
        source = {"secretName": manifest.tls_secret, "defaultMode": _TLS_MODE}
        volumes.append({"name": "tls", "secret": source})
    pod: dict[str, Any] = {"containers": [container]}
    if volumes:
        container["volumeMounts"] = mounts
        pod["volumes"] = volumes
    return pod


def _labels(manifest: JobManifest) -> dict[str, str]:
    return {"app.kubernetes.io/name": manifest.name, "app.kubernetes.io/managed-by": "muster"}


def _tf_config(manifest: JobManifest, role: str, host_of: Callable[[Task], str]) -> str:
    """Return ``TF_CONFIG`` with a placeholder for the pod's index, which Kubernetes fills in."""
    cluster = manifest.shape.cluster_for(role, lambda task: f"{host_of(task)}:{manifest.port}")
    place = f'{{"type": {json.dumps(role)}, "index": $(MUSTER_TASK_INDEX)}}'
    return f'{{"cluster": {json.dumps(cluster)}, "task": {place}}}'
