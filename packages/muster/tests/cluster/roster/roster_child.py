"""A task of a job that does what it is told, line by line: a command of JSON in, a reply of JSON out."""

import json
import logging
import os
import signal
import sys

from muster.cluster import Task, TFConfig
from muster.cluster.roster._roster import Roster


def do(roster, command, *args):
    match command:
        case "wait":
            return roster.wait_for_all(*args)
        case "announce":
            return roster.announce(*args)
        case "lookup":
            kind, index, *rest = args
            return roster.lookup(Task(kind, index), *rest)
        case "report":
            return roster.report(**args[0])
        case "raise":
            raise KeyError(*args)
        case "hang":  # with the lock that whoever writes to the log needs
            handler = logging.StreamHandler()
            logging.getLogger().addHandler(handler)
            with handler.lock:
                print(json.dumps("hangs"), flush=True)
                while True:
                    signal.pause()
        case "fork":
            child = os.fork()
            if child == 0:
                while True:
                    signal.pause()
            return child


def main():
    config = TFConfig.from_environ(os.environ)
    options = json.loads(sys.argv[1])
    with Roster.from_environ(os.environ, config.cluster, config.task, **options) as roster:
        print(json.dumps("here"), flush=True)
        for line in sys.stdin:
            print(json.dumps(do(roster, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
