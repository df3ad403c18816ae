"""One strategy a file: each chooses workers, a placement and an engine."""

from muster.distribute.strategies._default import strategy_of as strategy_of
from muster.distribute.strategies._one_device import device_of as device_of
from muster.distribute.strategies._programs import as_replica as as_replica
from muster.distribute.strategies._programs import compile_program as compile_program
from muster.distribute.strategies._programs import start_program as start_program
from muster.distribute.strategies._strategy import join_loop as join_loop
