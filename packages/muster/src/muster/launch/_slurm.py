"""The batch script for Slurm."""

import math
import re
import shlex

from muster.cluster import Task, TaskType
from muster.launch._manifest import JobManifest
from muster.launch._plan import CPU_ONLY

_SCRIPT = """\
#!/bin/bash
{options}

# Run by each task: it finds its place from Slurm's variables, then becomes the program.
read -r -d '' task <<'END_OF_TASK'
# The addresses: hosts in the order of ranks, and a port for each task of a host.
hosts=({hosts})
IFS=, read -ra groups <<< "$SLURM_STEP_TASKS_PER_NODE"
addresses=()
host=0
for group in "${{groups[@]}}"; do  # such as 2(x3): three hosts with two tasks each
  tasks=${{group%%(*}}
  alike=1
  if [[ $group == *x* ]]; then alike=${{group##*x}}; alike=${{alike%)}}; fi
  for ((; alike > 0; alike--, host++)); do
    for ((i = 0; i < tasks; i++)); do addresses+=("\\"${{hosts[host]}}:$(({port} + i))\\""); done
  done
done
join() {{ local IFS=,; echo "$*"; }}
{roles}
task="\\"type\\": \\"$type\\", \\"index\\": $index"
export TF_CONFIG="{{\\"cluster\\": {{$cluster}}, \\"task\\": {{$task}}}}"
export MUSTER_JOB_ID="slurm-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}-$SLURM_STEP_ID"
{program}
END_OF_TASK

# Who does not know it cannot take part in the job. No command line has it, for all users of a host see those.
if [[ ! ${{MUSTER_SECRET+set}} && ! ${{MUSTER_SECRET_FILE+set}} ]]; then
  MUSTER_SECRET=$(od -An -v -tx1 -N32 /dev/urandom | tr -d '[:space:]')
  export MUSTER_SECRET
fi

# A minute before the time limit tasks get SIGTERM, to save and end; at scancel Slurm sends it itself.
ending=
limit=
trap 'ending=1 limit=1; scancel --signal=TERM "$SLURM_JOB_ID"' USR1
trap 'ending=1' TERM
# One task that fails ends the step, the evaluator with it.
run_step() {{
  srun {srun} &
  step=$!
  wait "$step"
  code=$?
  while kill -0 "$step" 2> /dev/null; do wait "$step"; code=$?; done  # a trap interrupts it
}}
{again}{run}
"""

# The job goes on from its last checkpoint in another allocation, of nodes that answer.
_AGAIN_IN_QUEUE = """\
# A job whose time is over is queued again, and so is one that has lost a node, which this allocation keeps.
queue_again() {{
  echo "muster: $1: the job is queued again" >&2
  scontrol requeue "$SLURM_JOB_ID" && exit "$code"
}}
nodes_answer() {{
  timeout 60 srun --quiet {all_nodes} true
}}
look_for_room() {{
  if [[ $limit ]] && ((code != 0)); then queue_again "the time limit has come"; fi
  if [[ $ending ]] || ((code == 0)); then exit "$code"; fi
  if ((${{SLURM_RESTART_COUNT:-0}} < {restarts})) && ! nodes_answer; then
    queue_again "a node does not answer"
  fi
}}
"""
_LOOK = "look_for_room\n"

# All tasks are started again if one has failed.
_RUN_AGAIN = """\
for ((restart = 0; ; restart++)); do
  run_step
  {look}if [[ $ending ]] || ((code == 0 || restart == {restarts})); then exit "$code"; fi
  echo "muster: a task failed, srun ended with $code; restart $((restart + 1)) of {restarts}" >&2
done"""

_RUN_ONCE = 'run_step\n{look}exit "$code"'


# With parameter servers only the task that has failed is started again, while the others go on.
_AGAIN = """\
if [[ $type == ps ]]; then export {cpu_only}; fi
ending=
trap 'ending=1' TERM
for ((restart = 0; ; restart++)); do
  {command} && exit 0
  code=$?
  if [[ $ending ]] || ((restart == {restarts})); then exit "$code"; fi
  echo "muster: $type $index ended with $code; restart $((restart + 1)) of {restarts}" >&2
done"""


def sbatch_script(manifest: JobManifest) -> str:
    """Return a script for ``sbatch``, to be completed with the account, the partition and the time limit.

    Tasks get ranks in the order of ``manifest.shape.tasks``. Ports are derived from the job's number, so
    that jobs on one host have different ones: sixteen each, or a multiple of that for more tasks. A task that
    fails ends the others, and all are started again. With parameter servers only that task is, so many times
    at most; after that its failure ends the job.

    With restarts, a job whose tasks have been told to save, as its time limit comes, is queued again; so is
    one of which a node does not answer any more, so many times at most.

    With options for one type of tasks, the job is heterogeneous: each type is a part of it, on nodes of its
    own. One step runs all parts, with ranks that are counted through.
    """
    ports = 16 * math.ceil(manifest.tasks_per_node / 16)
    command = shlex.join(manifest.command)
    is_heterogeneous = bool(manifest.sbatch_of_types)
    again, look = "", ""
    if manifest.restarts:
        all_nodes = '--ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1'
        if is_heterogeneous:
            all_nodes = f"--het-group=0-{len(manifest.replicas) - 1}"
        again = _AGAIN_IN_QUEUE.format(restarts=manifest.restarts, all_nodes=all_nodes)
        look = _LOOK
    program = f"exec {command}"
    run = _RUN_AGAIN.format(restarts=manifest.restarts, look=look.replace("\n", "\n  "))
    if manifest.shape.ps:
        cpu_only = " ".join(f"{name}={value}" for name, value in CPU_ONLY.items())
        program = _AGAIN.format(command=command, restarts=manifest.restarts, cpu_only=cpu_only)
        run = _RUN_ONCE.format(look=look)
    # A container has no scontrol, so that the hosts are found outside.
    hosts = _hosts(manifest, "STEP")
    setup = list(manifest.setup)
    if manifest.image:
        setup.append(f'export JOB_HOSTS="{_hosts(manifest, "JOB")}"')
        hosts = "$JOB_HOSTS"
    return _SCRIPT.format(
        options="\n".join(_options(manifest))
        + "".join(f"\nexport {name}={shlex.quote(value)}" for name, value in manifest.env)
        + "".join(f"\n{line}" for line in setup),
        hosts=hosts,
        port=f"20000 + SLURM_JOB_ID % {10_000 // ports} * {ports}",
        roles="\n".join(_roles(manifest)),
        program=program,
        again=again,
        run=run,
        srun=" : ".join(_steps(manifest)),
    )


def _hosts(manifest: JobManifest, of: str) -> str:
    """Return the shell's words for the hosts, in the order of ranks.

    Args:
        of: Which variable names them, if the job has one part: ``JOB`` or ``STEP``.
    """
    if not manifest.sbatch_of_types:
        return f'$(scontrol show hostnames "$SLURM_{of}_NODELIST")'
    groups = range(len(manifest.replicas))
    return " ".join(f'$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_{each}")' for each in groups)


def _options(manifest: JobManifest) -> list[str]:
    """Return the lines for sbatch: of a heterogeneous job, a part for each type of tasks."""
    options = [
        f"--job-name={manifest.name}",
        f"--output={manifest.name}-%j.log",
        "--open-mode=append",
        "--signal=B:USR1@60",
        "--requeue" if manifest.restarts else "--no-requeue",
    ]
    if manifest.workdir and not manifest.image:
        options.append(f"--chdir={manifest.workdir}")
    lines = [f"#SBATCH {option}" for option in options]
    for number, (_, part) in enumerate(parts_of_job(manifest)):
        lines += ["#SBATCH hetjob"] if number else []
        lines += [f"#SBATCH {option}" for option in part]
    return lines


def parts_of_job(manifest: JobManifest) -> list[tuple[list[Task], list[str]]]:
    """Return the tasks of each part of a job, in the order of their ranks, and its options.

    A heterogeneous job has a part for each type of tasks, any other has one.
    """
    tasks = manifest.shape.tasks
    parts = {"": [*tasks]}
    if manifest.sbatch_of_types:
        parts = {role: [task for task in tasks if task.type == role] for role in manifest.replicas}
    found = []
    for role, members in parts.items():
        count = len(members)
        part = [f"--ntasks={count}", f"--ntasks-per-node={min(count, manifest.tasks_per_node)}"]
        part += [option for option in manifest.sbatch if option.startswith("-")]
        if manifest.memory:
            part.append(f"--mem={_on_node(manifest.memory, min(count, manifest.tasks_per_node))}")
        if manifest.cpus is not None:
            part.append(f"--cpus-per-task={manifest.cpus}")
        if manifest.shape.devices_per_worker is not None and role != TaskType.PS:
            part.append(f"--gpus-per-task={manifest.shape.devices_per_worker}")
        part += [option for kind, option in manifest.sbatch_of_types if kind == role]  # the last one counts
        found.append((members, part))
    return found


def container_options(manifest: JobManifest) -> list[str]:
    """Return the options of srun for the container that tasks run in."""
    if not manifest.image:
        return []
    options = [f"--container-image={manifest.image}"]
    if manifest.mounts:
        options.append(f"--container-mounts={','.join(manifest.mounts)}")
    if manifest.workdir:
        options.append(f"--container-workdir={manifest.workdir}")
    return options


def _steps(manifest: JobManifest) -> list[str]:
    """Return the words of srun for each part of a step."""
    # The environment has the job's secret, and goes along also where sbatch was told to take none.
    common = ["--kill-on-bad-exit=1", "--distribution=block", "--export=ALL"]
    common += map(shlex.quote, container_options(manifest))
    steps = []
    for number, role in enumerate(manifest.replicas if manifest.sbatch_of_types else [""]):
        words = [f"--het-group={number}"] if manifest.sbatch_of_types else []
        cpus = "" if manifest.cpus is None else str(manifest.cpus)
        for kind, option in manifest.sbatch_of_types:
            if kind == role and (found := re.fullmatch(r"(?:--cpus-per-task[= ]|-c *)(\d+)", option)):
                cpus = found[1]
        if cpus:
            words.append(f"--cpus-per-task={cpus}")  # which srun does not take from its job
        steps.append(" ".join([*words, *common, 'bash -c "$task"']))
    return steps


def _on_node(memory: str, tasks: int) -> str:
    """Return what tasks of a memory such as ``8Gi`` need together; Slurm's ``8G`` are gibibytes."""
    return f"{int(memory[:-2]) * tasks}{memory[-2]}"


def _roles(manifest: JobManifest) -> list[str]:
    """Return the shell lines that derive the cluster, the type and the index from addresses and the rank."""
    known: list[str] = []
    lines = []
    start = 0
    for role, count in manifest.replicas.items():
        addresses = f'\\"{role}\\": [$(join "${{addresses[@]:{start}:{count}}}")]'
        mine = f"type={role} index=$((SLURM_PROCID - {start}))"
        if role == TaskType.EVALUATOR:
            training = ", ".join(known)
            mine += f' cluster="{training}"'
        lines.append(f"((SLURM_PROCID >= {start})) && {mine}")
        known.append(addresses)
        start += count
    return [f'cluster="{", ".join(known)}"', *lines]
