"""A task of a job, started by test_run_multiprocess.py: does what its arguments tell its role to do.

Arguments: ``ROLE=ACT`` or ``ROLE=ACT:VALUE``, such as ``worker1=exit:3``; a role without one ends at once.
"""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

FOREVER = 600.0


def ready():
    print("ready", flush=True)


def act(what, value):
    match what:
        case "exit":
            print("about to end")
            sys.exit(int(value))
        case "raise":
            raise RuntimeError(value)
        case "kill":
            os.kill(os.getpid(), int(value))
        case "sleep":
            ready()
            time.sleep(FOREVER)
        case "silent":  # as a program whose imports take long
            Path(value).touch()
            time.sleep(FOREVER)
        case "save":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
            ready()
            received = signal.sigwait({signal.SIGTERM, signal.SIGINT})
            print(f"saved after {signal.Signals(received).name}")
        case "savefail":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
            ready()
            signal.sigwait({signal.SIGTERM, signal.SIGINT})
            raise RuntimeError("disk full")
        case "slowsave":  # a step under way, which is finished before anything is saved
            received = []
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, frame: received.append(number))
            ready()
            while not received:
                time.sleep(0.01)
            time.sleep(float(value))
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            print("saved")
            sys.exit(128 + received[0])
        case "stubborn":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            ready()
            time.sleep(FOREVER)
        case "family":
            # One in the task's group, one that has left it, both deaf to everything but SIGKILL.
            for session in (False, True):
                deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
                subprocess.Popen([sys.executable, "-c", deaf], start_new_session=session)
            ready()
            if value == "stay":
                time.sleep(FOREVER)
        case "daemon":  # a process that has left the task, its session and its environment
            program = """if True:
                import os, signal, time
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        signal.signal(signal.SIGTERM, signal.SIG_IGN)
                        print(os.getpid(), flush=True)
                        os.close(1)
                        time.sleep(600)
            """
            command = [sys.executable, "-I", "-S", "-c", program]
            left = subprocess.run(command, env={}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            print(f"left {int(left.stdout)}")
            if value == "stay":
                time.sleep(FOREVER)
        case "once":
            # Fails the first time, ends well the second.
            marker = Path(value)
            if not marker.exists():
                marker.touch()
                sys.exit(9)
        case "accept":
            listener = socket.socket(fileno=int(os.environ["MUSTER_LISTEN_FD"]))
            ready()
            connection, _ = listener.accept()
            with connection:
                print("heard", connection.recv(100).decode())
        case "call":
            host, port = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][int(value)].split(":")
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b"hello")
        case "digest":
            print("digest", hashlib.sha256(os.environ["MUSTER_SECRET"].encode()).hexdigest(), flush=True)
        case "write":
            for number in range(int(value)):
                sys.stdout.write(f"{what} {number} ")
                sys.stdout.flush()
                os.write(2, b"end\n")
        case "bytes":
            sys.stdout.buffer.write(
                b"caf\xc3\xa9 \xff\x1b[31mred\x1b[0m\x07\nprogress 1%\rprogress 100%\r\nno end"
            )
        case "train":
            # What a training task says of itself, until it is told to end.
            from muster.cluster import TFConfig
            from muster.cluster.roster._roster import Roster

            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            config = TFConfig.from_environ(os.environ)
            with Roster.from_environ(os.environ, config.cluster, config.task) as roster:
                roster.report(
                    state="training", step=int(value), steps_per_sec=12.34, loss=0.5, input_wait=0.07
                )
                roster.wait_for_all(FOREVER)
                ready()
                signal.sigwait({signal.SIGTERM})
        case "serve":
            # What a parameter server says of itself, until it is told to end.
            from muster.cluster import TFConfig
            from muster.cluster.roster._roster import Roster

            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            config = TFConfig.from_environ(os.environ)
            with Roster.from_environ(os.environ, config.cluster, config.task, peers=()) as roster:
                roster.report(state="training", pulls=int(value), pushes=12, queue=3, staleness=1.25)
                signal.sigwait({signal.SIGTERM})
        case "show":
            wanted = ("MUSTER_JOB_ID", "XLA_FLAGS", "OMP_NUM_THREADS", "TF_CONFIG", "PYTHONHASHSEED")
            told = {name: os.environ.get(name) for name in wanted}
            cores = sorted(os.sched_getaffinity(0))
            print(json.dumps({**told, "cores": cores, "name": __name__, "argv0": sys.argv[0]}))


def main():
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    role = f"{task['type']}{task['index']}"
    for argument in sys.argv[1:]:
        name, _, deed = argument.partition("=")
        if name == role:
            what, _, value = deed.partition(":")
            act(what, value)


if __name__ == "__main__":
    main()
