"""A job with parameter servers: the server of a task, and a worker's connections to all of them."""

from muster.distribute.servers._coordinator_links import CoordinatorLinks as CoordinatorLinks
from muster.distribute.servers._remote_servers import RemoteServers as RemoteServers
from muster.distribute.servers._restored import restore_variables as restore_variables
from muster.distribute.servers._stored_parts import save_variables as save_variables
from muster.distribute.servers._stored_variables import StoredVariables as StoredVariables
from muster.distribute.servers._ticketed_steps import TicketedSteps as TicketedSteps
