"""A cluster of Kubernetes for tests: an API server, the controllers of Jobs and JobSets, and a node.

The server takes only what Kubernetes' schemas allow. The node runs the containers of pods as processes of
this machine, with a network namespace of their own in which each pod has an address, and with hosts by the
names that the pods' Service would give them. All images are this machine, but one called "missing". Where a
task writes its termination message is told by a variable, as /dev/termination-log is this machine's.
"""

import contextlib
import copy
import http.server
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

import jsonschema
import kubernetes_validate
import yaml

from strict_schemas import strict

VERSION = "1.30"
TOKEN = "a-token"
INDEX = "batch.kubernetes.io/job-completion-index"
CORE = {"secrets": "Secret", "services": "Service", "pods": "Pod", "events": "Event", "jobs": "Job"}
ADDRESSES = [f"10.97.0.{number}" for number in range(1, 40)]
POD_ENVIRONMENT = ("PATH", "HOME", "LANG", "PYTHONPATH", "KERAS_BACKEND", "VIRTUAL_ENV")


class Refusal(Exception):
    def __init__(self, status, reason, message, **details):
        super().__init__(message)
        self.status = status
        self.body = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
            "details": details, "code": status,
        }  # fmt: skip


class Cluster:
    """The state of the cluster, its server, its controllers and its node.

    Attributes:
        cores: How many its node has.
        forbidden: The kinds that nobody may make.
        quota: How many pods there may be; None for no limit.
        seen: What was made, as it was posted.
    """

    def __init__(self, folder, mark, cores=8, definitions=()):
        self.folder, self.mark, self.cores = folder, mark, cores
        self.definitions = {each["spec"]["names"]["plural"]: each for each in definitions}
        self.forbidden, self.quota, self.seen = set(), None, []
        self.objects, self.events_of_pods = {}, []
        self.changed = threading.Condition()
        self.version, self.numbers = 1, itertools.count(1)
        self.processes, self.addresses = {}, {}
        self.ended = False
        setup = " && ".join(
            ["ip link set lo up", *(f"ip address add {address}/32 dev lo" for address in ADDRESSES)]
        )
        self.network = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", f"{setup} && echo up && exec sleep 100000"],
            stdout=subprocess.PIPE,
        )
        assert self.network.stdout.readline() == b"up\n"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = False
        self.threads = [
            threading.Thread(target=self.server.serve_forever, args=(0.05,)),
            threading.Thread(target=self.control),
        ]
        for thread in self.threads:
            thread.start()
        self.config = folder / "kubeconfig"
        self.config.write_text(yaml.safe_dump(self.kubeconfig()))

    def kubeconfig(self):
        address = f"http://127.0.0.1:{self.server.server_address[1]}"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        }

    def close(self):
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.server.shutdown()
        self.server.server_close()
        for thread in self.threads:
            thread.join()
        self.network.kill()
        self.network.wait()
        self.network.stdout.close()

    # The server

    def handler(cluster):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self):
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                try:
                    if self.headers.get("authorization") != f"Bearer {TOKEN}":
                        raise Refusal(401, "Unauthorized", "Unauthorized")
                    match = re.fullmatch(
                        r"/(?:api|apis)/([\w./-]+)/namespaces/([\w-]+)/(\w+)(?:/([\w.-]+))?(/log)?", url.path
                    )
                    api, namespace, plural, name, log = match.groups()
                    if namespace != "ml":
                        raise Refusal(
                            404, "NotFound", f'namespaces "{namespace}" not found', kind="namespaces"
                        )
                    if log:
                        self.stream(cluster.log(name, query))
                    elif query.get("watch"):
                        self.stream(cluster.watch(query))
                    else:
                        self.answer(200, cluster.act(self.command, api, plural, name, query, body))
                except Refusal as exc:
                    self.answer(exc.status, exc.body)

            do_GET = do_POST = do_DELETE = do

            def answer(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")  # or its thread would wait for another request
                self.end_headers()
                self.wfile.write(data)

            def stream(self, chunks):
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.send_header("Connection", "close")
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    for chunk in chunks:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *args):
                pass

        return Handler

    def act(self, method, api, plural, name, query, body):
        with self.changed:
            if plural not in CORE and plural not in self.definitions:
                raise Refusal(404, "NotFound", "the server could not find the requested resource")
            if method == "POST":
                return self.make(plural, body, dry_run=query.get("dryRun") == "All")
            if method == "DELETE":
                self.delete(plural, name, (body or {}).get("gracePeriodSeconds"))
                return {"kind": "Status", "status": "Success"}
            if name:
                return self.find(plural, name)
            found = [each for (kind, _), each in self.objects.items() if kind == plural]
            for field in filter(None, query.get("fieldSelector", "").split(",")):
                path, value = field.split("=")
                found = [each for each in found if str(at(each, path)) == value]
            return {
                "kind": "List",
                "metadata": {"resourceVersion": str(self.version)},
                "items": [each for each in found if chosen(each, query)],
            }

    def find(self, plural, name):
        if (plural, name) not in self.objects:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found', kind=plural)
        return self.objects[plural, name]

    def make(self, plural, body, *, dry_run=False):
        kind, name = body["kind"], body["metadata"]["name"]
        if kind in self.forbidden:
            raise Refusal(
                403, "Forbidden", f'{plural} is forbidden: User "u" cannot create resource "{plural}"'
            )
        if plural in self.definitions:
            (version,) = self.definitions[plural]["spec"]["versions"]
            jsonschema.validate(body, strict(version["schema"]["openAPIV3Schema"]))
            template = [each["template"] for each in body["spec"]["replicatedJobs"]]
        else:
            kubernetes_validate.validate(body, VERSION, strict=True)
            template = [body] if kind == "Job" else []
        for each in template:
            pod = each["spec"]["template"]["spec"]
            if "podFailurePolicy" in each["spec"] and pod["restartPolicy"] != "Never":
                raise Refusal(422, "Invalid", 'restartPolicy: Invalid value: only "Never" is supported')
        if (plural, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists', kind=plural, name=name)
        if dry_run:
            return body
        self.seen.append(copy.deepcopy(body))
        return self.put(plural, body)

    def put(self, plural, body, owner=None):
        number = next(self.numbers)
        body = copy.deepcopy(body)
        body["metadata"] |= {"uid": f"uid-{number}", "creationTimestamp": f"2026-01-01T00:00:{number:05}Z"}
        body |= {"status": {}, "owner": owner}
        self.objects[plural, body["metadata"]["name"]] = body
        self.touch(body)
        return body

    def touch(self, body, what="MODIFIED"):
        self.version += 1
        if body.get("kind") == "Pod":
            self.events_of_pods.append((self.version, what, copy.deepcopy(body)))
        self.changed.notify_all()

    def delete(self, plural, name, grace=None):
        body = self.find(plural, name)
        if plural in ("secrets", "services"):
            del self.objects[plural, name]
            return
        body["metadata"].setdefault("deletionTimestamp", "now")
        if plural == "pods":
            if grace is None:
                grace = body["spec"].get("terminationGracePeriodSeconds", 30)
            at = time.monotonic() + grace
            first = "kill_at" not in body
            body["kill_at"] = min(at, body.get("kill_at", at))
            process = self.processes.get(name)
            if process is not None and first:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
        self.touch(body)

    def watch(self, query):
        version, until = int(query["resourceVersion"]), time.monotonic() + int(query["timeoutSeconds"])
        while True:
            with self.changed:
                fresh = [each for each in self.events_of_pods if each[0] > version]
                if not fresh and not self.ended and time.monotonic() < until:
                    self.changed.wait(until - time.monotonic())
                    continue
            if not fresh:
                return
            version = fresh[-1][0]
            for _, what, body in fresh:
                if chosen(body, query):
                    yield json.dumps({"type": what, "object": body}).encode() + b"\n"

    def log(self, name, query):
        path = self.folder / f"{name}.log"
        with self.changed:
            self.find("pods", name)
        with path.open("rb") as file:
            while True:
                process = self.processes[name]
                done = process.poll() is not None or self.ended or query["follow"] == "false"
                place = file.tell()
                for line in file.readlines():  # a line has the time of its place
                    place += len(line)
                    yield f"2026-01-01T00:00:00.{place:09}Z ".encode() + line
                if done:
                    return
                time.sleep(0.02)

    # The controllers, and the node

    def control(self):
        while True:
            with self.changed:
                if self.ended:
                    return
                for plural, act in (
                    ("jobsets", self.run_job_set),
                    ("jobs", self.run_job),
                    ("pods", self.run_pod),
                ):
                    for (kind, _), body in [*self.objects.items()]:
                        if kind == plural:
                            act(body)
            time.sleep(0.03)

    def owned(self, plural, body):
        uid = body["metadata"]["uid"]
        return [each for (kind, _), each in self.objects.items() if kind == plural and each["owner"] == uid]

    def drop_if_empty(self, plural, body, parts):
        """Go on with the deletion of an object, once its parts are gone."""
        left = self.owned(parts, body)
        for each in left:
            if "deletionTimestamp" not in each["metadata"]:
                self.delete(parts, each["metadata"]["name"])
        if not left:
            del self.objects[plural, body["metadata"]["name"]]
            self.touch(body, "DELETED")

    def run_job_set(self, body):
        name, spec = body["metadata"]["name"], body["spec"]
        if "deletionTimestamp" in body["metadata"]:
            return self.drop_if_empty("jobsets", body, "jobs")
        if conditions(body):
            return None
        jobs = {each["metadata"]["name"]: each for each in self.owned("jobs", body)}
        for each in spec["replicatedJobs"]:
            job = f"{name}-{each['name']}-0"
            if job not in jobs:
                made = copy.deepcopy(each["template"])
                made["spec"]["template"]["spec"]["subdomain"] = name
                made |= {"apiVersion": "batch/v1", "kind": "Job"}
                made["metadata"] = {**made.get("metadata", {}), "name": job}
                kubernetes_validate.validate(made, VERSION, strict=True)
                jobs[job] = self.put("jobs", made, body["metadata"]["uid"])
        ends = {job: conditions(each) for job, each in jobs.items()}
        wanted = spec["successPolicy"].get("targetReplicatedJobs") or [
            each["name"] for each in spec["replicatedJobs"]
        ]
        how = None
        if "Failed" in ends.values():
            how = "Failed"
        elif all(ends[f"{name}-{each}-0"] == "Complete" for each in wanted):
            how = "Completed"
        if how:
            conclude(body, how, "jobset")
            for job, end in ends.items():
                if not end:
                    self.delete("jobs", job)
            self.touch(body)
        return None

    def run_job(self, body):
        spec = body["spec"]
        pods = self.owned("pods", body)
        if "deletionTimestamp" in body["metadata"]:
            return self.drop_if_empty("jobs", body, "pods")
        if conditions(body):
            return None
        failed = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
        rules = spec.get("podFailurePolicy", {}).get("rules", [])
        if len([pod for pod in failed if not ignored(pod, rules)]) > spec["backoffLimit"]:
            conclude(body, "Failed", "Job has reached the specified backoff limit")
            for pod in pods:
                if pod not in failed and pod["status"].get("phase") != "Succeeded":
                    self.delete("pods", pod["metadata"]["name"])
            return self.touch(body)
        done = 0
        for index in range(spec["completions"]):
            mine = [pod for pod in pods if pod["metadata"]["annotations"][INDEX] == str(index)]
            phases = {pod["status"].get("phase") for pod in mine}
            done += "Succeeded" in phases
            if not phases - {"Failed"}:
                self.make_pod(body, index)
        if done == spec["completions"]:
            conclude(body, "Complete", "")
            self.touch(body)
        return None

    def make_pod(self, job, index):
        name = job["metadata"]["name"]
        count = sum(kind == "pods" for kind, _ in self.objects)
        if self.quota is not None and count >= self.quota:
            self.complain(job, f'Error creating: pods "{name}-0" is forbidden: exceeded quota: few')
            return
        template = copy.deepcopy(job["spec"]["template"])
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] |= {
            "name": f"{name}-{index}-{next(self.numbers)}",
            "annotations": {INDEX: str(index)},
        }
        kubernetes_validate.validate(pod, VERSION, strict=True)
        pod["spec"]["hostname"] = f"{name}-{index}"
        self.put("pods", pod, job["metadata"]["uid"])["status"] = {"phase": "Pending"}

    def complain(self, body, message):
        name = body["metadata"]["name"]
        self.objects["events", f"{name}.{message[:20]}"] = {
            "kind": "Event", "metadata": {"name": name}, "involvedObject": {"name": name}, "type": "Warning",
            "message": message, "lastTimestamp": "2026-01-01T00:00:00Z", "owner": None,
        }  # fmt: skip

    def run_pod(self, pod):
        name, status = pod["metadata"]["name"], pod["status"]
        process = self.processes.get(name)
        if process is None and "deletionTimestamp" in pod["metadata"]:
            del self.objects["pods", name]
            return self.touch(pod, "DELETED")
        if status.get("phase") == "Pending":
            return self.start_pod(pod)
        if process is None:
            return None
        if process.poll() is None:
            if time.monotonic() > pod.get("kill_at", float("inf")):
                os.killpg(process.pid, signal.SIGKILL)
            return None
        if status["phase"] == "Running":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            message = self.folder / f"{name}.end"
            ended = {
                "exitCode": code,
                "message": message.read_text(),
                "finishedAt": f"{time.monotonic():020.6f}",
            }
            status["phase"] = "Failed" if code else "Succeeded"
            status["containerStatuses"] = [container(pod, {"terminated": ended})]
            self.touch(pod)
        elif "deletionTimestamp" in pod["metadata"]:
            del self.objects["pods", name]
            self.touch(pod, "DELETED")
        return None

    def start_pod(self, pod):
        spec, status = pod["spec"], pod["status"]
        (task,) = spec["containers"]
        running = [
            each
            for (kind, _), each in self.objects.items()
            if kind == "pods" and each["status"].get("phase") == "Running"
        ]
        before = copy.deepcopy(status)
        if sum(map(cores_of, running)) + cores_of(pod) > self.cores:
            status["conditions"] = [
                {
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient cpu.",
                }
            ]  # fmt: skip
        elif task["image"] == "missing":
            told = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "missing"'}
            status["containerStatuses"] = [container(pod, {"waiting": told})]
        elif not self.host_is_taken(pod):
            status["conditions"] = [{"type": "PodScheduled", "status": "True"}]
            spec["nodeName"] = "node-1"
            self.run(pod, task)
            status["phase"] = "Running"
            status["containerStatuses"] = [container(pod, {"running": {}})]
        if status != before:
            self.touch(pod)

    def host_is_taken(self, pod):
        """Whether a pod of that host name still runs, which a real one would not notice."""
        return any(
            process.poll() is None
            and self.objects.get(("pods", name), {"spec": {}})["spec"].get("hostname")
            == pod["spec"]["hostname"]
            for name, process in self.processes.items()
        )

    def run(self, pod, task):
        name, spec = pod["metadata"]["name"], pod["spec"]
        host = f"{spec['hostname']}.{spec['subdomain']}"
        self.addresses.setdefault(host, ADDRESSES[len(self.addresses)])
        # A pod that starts later is known, too, as a name server would know it.
        hosts = self.folder / "hosts"
        hosts.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{ip} {of}\n" for of, ip in self.addresses.items())
        )
        message = self.folder / f"{name}.end"
        message.write_text("")
        variables = {each: os.environ[each] for each in POD_ENVIRONMENT if each in os.environ}
        for each in task["env"]:
            value = each.get("value")
            if value is not None:
                value = re.sub(r"(?<!\$)\$\((\w+)\)", lambda found: variables[found[1]], value).replace(
                    "$$", "$"
                )
            elif "secretKeyRef" in each["valueFrom"]:
                source = each["valueFrom"]["secretKeyRef"]
                value = self.find("secrets", source["name"])["stringData"][source["key"]]
            else:
                value = pod["metadata"]["annotations"][INDEX]
            variables[each["name"]] = value
        variables |= {"JAX_PLATFORMS": "cpu", "MUSTER_TERMINATION_LOG": str(message)}
        mark, _, value = self.mark.partition("=")
        inside = f"mount --bind {hosts} /etc/hosts"
        words = [word.replace("$$", "$") for word in task["command"]]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                ["nsenter", f"--net=/proc/{self.network.pid}/ns/net", "unshare", "--mount", "sh", "-c",
                 f'{inside} && exec "$@"', "sh", *words],
                env={**variables, mark: value},
                cwd=task.get("workingDir"), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def log_text(self):
        """What all pods have written."""
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    def names(self, plural):
        with self.changed:
            return sorted(name for kind, name in self.objects if kind == plural)

    def process_of(self, host):
        """The process of the pod that runs with a host name."""
        with self.changed:
            for name, process in self.processes.items():
                pod = self.objects.get(("pods", name))
                if pod and pod["spec"]["hostname"] == host and process.poll() is None:
                    return process.pid
        return None


def cores_of(pod):
    resources = pod["spec"]["containers"][0].get("resources", {})
    return float(resources.get("requests", {}).get("cpu", 0))


def container(pod, state):
    task = pod["spec"]["containers"][0]
    return {"name": task["name"], "image": task["image"], "state": state}


def conditions(body):
    return "".join(each["type"] for each in body["status"].get("conditions", []))


def conclude(body, how, message):
    body["status"]["conditions"] = [{"type": how, "status": "True", "reason": how, "message": message}]


def ignored(pod, rules):
    code = pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    return any(code in rule.get("onExitCodes", {}).get("values", ()) for rule in rules)


def at(body, path):
    for each in path.split("."):
        body = body.get(each, {})
    return body


def chosen(body, query):
    wanted = dict(each.split("=") for each in filter(None, query.get("labelSelector", "").split(",")))
    return wanted.items() <= body["metadata"].get("labels", {}).items()


def is_possible():
    """Whether this machine lets a test make namespaces."""
    command = [
        "unshare",
        "--net",
        "--mount",
        "sh",
        "-c",
        "ip link set lo up && mount --bind /etc/hosts /etc/hosts",
    ]
    return (
        sys.platform == "linux" and subprocess.run(command, check=False, capture_output=True).returncode == 0
    )
