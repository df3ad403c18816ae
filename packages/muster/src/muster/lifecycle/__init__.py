"""The life of a process: its signals, how it begins and ends, and what it says of uncaught errors.

`install` replaces what Python does with Ctrl-C that it would drop, and with uncaught errors. Strategies,
servers, the command line and the import of Keras call it; ``import muster`` does not. In a block of
`embedded`, the process is somebody else's, and nothing of it is changed.
"""

from muster.lifecycle._embedding import at_block_end as at_block_end
from muster.lifecycle._embedding import embedded as embedded
from muster.lifecycle._embedding import is_embedded as is_embedded
from muster.lifecycle._exit_code import PROGRAM_END as PROGRAM_END
from muster.lifecycle._interrupts import SAME_SECS as SAME_SECS
from muster.lifecycle._interrupts import keep_interrupts
from muster.lifecycle._interrupts import was_interrupted as was_interrupted
from muster.lifecycle._keras_backend import choose_jax as choose_jax
from muster.lifecycle._keras_backend import require_jax as require_jax
from muster.lifecycle._keras_backend import take_jax as take_jax
from muster.lifecycle._processes import process_start as process_start
from muster.lifecycle._processes import start_ticks as start_ticks
from muster.lifecycle._program_end import closed_at_exit as closed_at_exit
from muster.lifecycle._program_end import thread_stacks as thread_stacks
from muster.lifecycle._program_end import watch_program_end as watch_program_end
from muster.lifecycle._signals import INTERRUPTS as INTERRUPTS
from muster.lifecycle._signals import PREEMPTION as PREEMPTION
from muster.lifecycle._signals import SignalWatch as SignalWatch
from muster.lifecycle._signals import Terminated as Terminated
from muster.lifecycle._signals import preempt as preempt
from muster.lifecycle._uncaught import at_uncaught as at_uncaught
from muster.lifecycle._uncaught import exit_at_once as exit_at_once
from muster.lifecycle._uncaught import hook_uncaught
from muster.lifecycle._uncaught import is_told as is_told
from muster.lifecycle._uncaught import leave as leave
from muster.lifecycle._uncaught import log_interrupt as log_interrupt
from muster.lifecycle._uncaught import mark_told as mark_told


def install() -> None:
    """Raise Ctrl-C again where Python drops it, and report what is uncaught in one piece; once."""
    keep_interrupts()
    hook_uncaught()
