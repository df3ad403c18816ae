"""A parameter server as a process: it serves at its address in TF_CONFIG until the chief ends the job."""

import json
import os

from ps_job import served

from muster.ps.contents.updates import JaxDevice, versions

config = json.loads(os.environ["TF_CONFIG"])
address = config["cluster"]["ps"][config["task"]["index"]]
with served(JaxDevice(), versions(), port=int(address.rpartition(":")[2])) as server:
    server.service.join()
