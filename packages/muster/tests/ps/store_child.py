"""A parameter server as a process. Its last argument, in JSON, has options of its `Server`."""

import json
import os
import sys

from muster.distribute import Server

config = json.loads(os.environ["TF_CONFIG"])
server = Server(config["cluster"], "ps", config["task"]["index"], **json.loads(sys.argv[-1]))
server.join()
