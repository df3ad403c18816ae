"""Kubernetes objects for a job: Indexed Jobs with a headless Service, a JobSet, or a job of Kubeflow's."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from muster.cluster import Task, TaskType
from muster.cluster.roster import EXIT_PEER_LOST
from muster.engines import NAME_LABEL, ROLE_LABEL
from muster.launch._manifest import JobManifest
from muster.launch._plan import CPU_ONLY
from muster.net import SECRET, TLS

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


# Where a pod finds the certificates of its job, and the mode of their files: the secret parts of them are
# refused if others may read them, as all may by Kubernetes' default.
_TLS_FOLDER = "/etc/muster/tls"
_TLS_MODE = 0o400


# The label of Kueue that names the queue of a job.
_QUEUE = "kueue.x-k8s.io/queue-name"

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

    The pods of an Indexed Job keep their host names when they are started again, and Kubernetes fills
    a pod's index into ``TF_CONFIG``. A pod that fails is replaced; the others end when they have lost it, are
    replaced too, and all go on from the last checkpoint. With parameter servers the others go on. A pod that
    was preempted, or has lost another, does not count as a failure. Needs Kubernetes 1.26.

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


def jobset_objects(manifest: JobManifest, secret: str) -> list[dict[str, Any]]:
    """Return a Secret, and a JobSet of an Indexed Job for each type of task.

    The Jobs are those of `kubernetes_objects`; JobSet makes the Service, admits them together, and ends all
    when one has failed for good. With parameter servers the chief and the evaluator end the job.

    Args:
        manifest: The job.
        secret: The secret that its tasks share.
    """
    ends = [str(role) for role in manifest.replicas if role in (TaskType.CHIEF, TaskType.EVALUATOR)]
    success = {"operator": "All"} | ({"targetReplicatedJobs": ends} if manifest.shape.ps else {})
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _workload_metadata(manifest, manifest.name),
        "spec": {
            "successPolicy": success,
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [
                _replicated_job(manifest, role, count) for role, count in manifest.replicas.items()
            ],
        },
    }
    return [_secret(manifest, secret), job_set]


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
        "metadata": _workload_metadata(manifest, manifest.name),
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
                    "template": {
                        "metadata": {"labels": _pod_labels(manifest, role)},
                        "spec": _pod(manifest, role, "tensorflow", "tfjob-port"),
                    },
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


def _workload_metadata(manifest: JobManifest, name: str) -> dict[str, Any]:
    """Return the metadata of what Kueue admits, if there is a queue."""
    metadata = _metadata(manifest, name)
    queue = {_QUEUE: manifest.queue} if manifest.queue else {}
    return {**metadata, "labels": metadata["labels"] | queue}


def trainjob_objects(manifest: JobManifest, secret: str) -> list[dict[str, Any]]:
    """Return a Secret, a TrainingRuntime and a TrainJob of Kubeflow Trainer.

    The runtime has an Indexed Job for each type of task, as `kubernetes_objects` has, which JobSet runs and
    gives host names. Kubeflow Trainer knows the tasks that train by the name ``node``. Needs JobSet's default
    network, with DNS host names. For a runtime of the cluster's, such as ``jax-distributed``, a Secret and a
    TrainJob: its workers find each other by the variables that Kubeflow Trainer sets for JAX.

    Args:
        manifest: The job.
        secret: The secret that its tasks share.
    """
    if manifest.runtime:
        return [_secret(manifest, secret), _job_of_runtime(manifest)]
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
                        _replicated_job(manifest, role, count, nodes)
                        for role, count in manifest.replicas.items()
                    ]
                }
            },
        },
    }
    job = {
        "apiVersion": _TRAINER,
        "kind": "TrainJob",
        "metadata": _workload_metadata(manifest, name),
        "spec": {
            "runtimeRef": {"apiGroup": _TRAINER.partition("/")[0], "kind": "TrainingRuntime", "name": name},
            "trainer": {"numNodes": manifest.replicas[nodes]},
        },
    }
    return [_secret(manifest, secret), runtime, job]


def _job_of_runtime(manifest: JobManifest) -> dict[str, Any]:
    """Return a TrainJob for a runtime that the cluster has."""
    container = _pod(manifest, TaskType.WORKER, _NODE, "task")["containers"][0]
    trainer = {name: container[name] for name in ("image", "command", "env")}
    trainer["numNodes"] = manifest.replicas[TaskType.WORKER]
    if "resources" in container:
        trainer["resourcesPerNode"] = container["resources"]
    return {
        "apiVersion": _TRAINER,
        "kind": "TrainJob",
        "metadata": _workload_metadata(manifest, manifest.name),
        "spec": {
            "runtimeRef": {
                "apiGroup": _TRAINER.partition("/")[0],
                "kind": "ClusterTrainingRuntime",
                "name": manifest.runtime,
            },
            "trainer": trainer,
        },
    }


def _node_role(manifest: JobManifest) -> str:
    """Return the type of the tasks that Kubeflow Trainer calls nodes."""
    return TaskType.WORKER if manifest.shape.workers else TaskType.CHIEF


def _replicated_job(manifest: JobManifest, role: str, count: int, nodes: str | None = None) -> dict[str, Any]:
    """Return a Job for the tasks of a type, as a JobSet has it.

    Args:
        manifest: The job.
        role: The type.
        count: How many tasks it has.
        nodes: The type of the tasks that Kubeflow Trainer calls nodes; None for a JobSet without it.
    """
    job = _job(manifest, role, count, lambda task: _host_in_jobset(manifest, task, nodes))
    pods = job["spec"]["template"]["spec"]
    del pods["subdomain"]  # JobSet sets it
    labels = _labels(manifest)
    if role == nodes:
        pods["containers"][0]["name"] = _NODE
        for rule in job["spec"].get("podFailurePolicy", {}).get("rules", ()):
            if "onExitCodes" in rule:
                rule["onExitCodes"]["containerName"] = _NODE
        labels |= {_STEP: "trainer"}
    return {
        "name": _NODE if role == nodes else str(role),
        "replicas": 1,
        "template": {"metadata": {"labels": labels}, "spec": job["spec"]},
    }


def _host_in_jobset(manifest: JobManifest, task: Task, nodes: str | None) -> str:
    """Return the host name that JobSet gives a task's pod."""
    job = _NODE if task.type == nodes else task.type
    return f"{manifest.name}-{job}-0-{task.index}.{manifest.name}"


def _host_in_service(manifest: JobManifest, task: Task) -> str:
    """Return the host name that a pod of an Indexed Job has in the headless Service."""
    return f"{manifest.name}-{task.type}-{task.index}.{manifest.name}"


def _job(
    manifest: JobManifest, role: str, count: int, host_of: Callable[[Task], str] | None = None
) -> dict[str, Any]:
    """Return an Indexed Job for the tasks of a type; by default one that belongs to no JobSet."""
    pod = _pod(manifest, role, "task", "task")
    # Where another Job may have the task that was lost, nobody would end this one when that is lost for good.
    counts = host_of is None and len({TaskType.CHIEF, TaskType.WORKER} & set(manifest.replicas)) > 1
    host_of = host_of or (lambda task: _host_in_service(manifest, task))
    # A variable's value may only use variables before it in the list.
    pod["containers"][0]["env"] += [
        {"name": "MUSTER_TASK_INDEX", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        {"name": "TF_CONFIG", "value": _tf_config(manifest, role, host_of)},
        *({"name": name, "value": text} for name, text in manifest.shape.elastic_environment.items()),
    ]
    ignored: list[dict[str, Any]] = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
    if not counts:
        codes = {"containerName": "task", "operator": "In", "values": [EXIT_PEER_LOST]}
        ignored.append({"action": "Ignore", "onExitCodes": codes})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _workload_metadata(manifest, f"{manifest.name}-{role}"),
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            # Where the loss of another task counts, each failure costs one of every task.
            "backoffLimit": manifest.restarts * (count if counts else 1),
            **({"podFailurePolicy": {"rules": ignored}} if manifest.restarts else {}),
            "template": {
                "metadata": {"labels": _pod_labels(manifest, role)},
                "spec": {"subdomain": manifest.name, "restartPolicy": "Never", **pod},
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
    for number, (claim, path) in enumerate(manifest.volumes):
        name = f"shared-{number}" if number else "shared"
        mounts.append({"name": name, "mountPath": path})
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
    if manifest.shm:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": manifest.shm}})
    if manifest.tls_secret:
        container["env"].append({"name": TLS, "value": _TLS_FOLDER})
        mounts.append({"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True})
        source = {"secretName": manifest.tls_secret, "defaultMode": _TLS_MODE}
        volumes.append({"name": "tls", "secret": source})
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": manifest.grace_secs,
        "containers": [container],
    }
    if volumes:
        container["volumeMounts"] = mounts
        pod["volumes"] = volumes
    merged: dict[str, Any] = _merged(pod, manifest.pod)
    return merged


def _merged(ours: Any, theirs: Any) -> Any:
    """Add the user's fields to those of a manifest: lists get longer, and of two values theirs counts.

    The lists of containers, which have one entry each, become one entry.
    """
    if isinstance(ours, dict) and isinstance(theirs, Mapping):
        merged = dict(ours)
        for name, value in theirs.items():
            if name == "containers":
                merged[name] = [_merged(ours[name][0], value[0])]
            else:
                merged[name] = _merged(ours[name], value) if name in ours else value
        return merged
    if isinstance(ours, list) and isinstance(theirs, list):
        return ours + theirs
    return theirs


def _pod_labels(manifest: JobManifest, role: str) -> dict[str, str]:
    """Return the labels of the pods of a type of task, by which `muster run` knows them."""
    return _labels(manifest) | {ROLE_LABEL: str(role)}


def _labels(manifest: JobManifest) -> dict[str, str]:
    return {NAME_LABEL: manifest.name, "app.kubernetes.io/managed-by": "muster"}


def _tf_config(manifest: JobManifest, role: str, host_of: Callable[[Task], str]) -> str:
    """Return ``TF_CONFIG`` with a placeholder for the pod's index, which Kubernetes fills in."""
    cluster = manifest.shape.cluster_for(role, lambda task: f"{host_of(task)}:{manifest.port}")
    place = f'{{"type": {json.dumps(role)}, "index": $(MUSTER_TASK_INDEX)}}'
    return f'{{"cluster": {json.dumps(cluster)}, "task": {place}}}'


# What describes a job, by the kind of its manifest.
OBJECTS: dict[str, Callable[[JobManifest, str], list[dict[str, Any]]]] = {
    "kubernetes": kubernetes_objects,
    "jobset": jobset_objects,
    "tfjob": tfjob_objects,
    "trainjob": trainjob_objects,
}


def host_names(manifest: JobManifest, kind: str) -> dict[Task, str]:
    """Return the host name of each task's pod, by which the others call it.

    Args:
        manifest: The job.
        kind: That of its manifest: kubernetes, jobset or trainjob.
    """
    nodes = _node_role(manifest) if kind == "trainjob" else None
    if kind == "kubernetes":
        return {task: _host_in_service(manifest, task) for task in manifest.shape.tasks}
    return {task: _host_in_jobset(manifest, task, nodes) for task in manifest.shape.tasks}
