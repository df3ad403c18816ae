"""Run a parameter server for ``bench.embeddings``. Argument: its cluster, in JSON."""

import json
import sys

from muster.distribute import Server

if __name__ == "__main__":
    Server(json.loads(sys.argv[1]), "ps", 0).join()
