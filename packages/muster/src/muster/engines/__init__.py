"""Engines: what starts the tasks of a job, on this machine or on others. They never import JAX or Keras."""

from muster.engines._engine import EXIT_LOST as EXIT_LOST
from muster.engines._engine import Engine as Engine
from muster.engines._engine import Place as Place
from muster.engines._engine import TaskCondition as TaskCondition
from muster.engines._engine import TaskExit as TaskExit
from muster.engines._engine import TaskRequest as TaskRequest
from muster.engines._engine import TaskStart as TaskStart
from muster.engines._keeper import FINISH_SECS as FINISH_SECS
from muster.engines._local import LocalEngine as LocalEngine
from muster.engines._machine import MachineResources as MachineResources
from muster.engines._machine import this_machine as this_machine
from muster.engines._nodes import NodesEngine as NodesEngine
from muster.engines._nodes import join_nodes as join_nodes
from muster.engines._program import what_is_wrong_with as what_is_wrong_with
from muster.engines._ray import RayEngine as RayEngine
from muster.engines._remote import AgentConnection as AgentConnection
from muster.engines._remote import RemoteEngine as RemoteEngine
from muster.engines._remote import agent_command as agent_command
from muster.engines._remote import spread as spread
from muster.engines._ssh import SshEngine as SshEngine
from muster.engines._ssh import SshHost as SshHost
