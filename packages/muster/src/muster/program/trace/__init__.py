"""Trace user code into a program: a pure step over state."""

from muster.program.trace._eager import functions_run_eagerly as functions_run_eagerly
from muster.program.trace._eager import run_eagerly as run_eagerly
from muster.program.trace._function_program import FunctionProgram as FunctionProgram
from muster.program.trace._function_program import reduced_path as reduced_path
from muster.program.trace._function_scope import FunctionScope as FunctionScope
from muster.program.trace._function_scope import placeholder as placeholder
from muster.program.trace._outputs import output_of as output_of
from muster.program.trace._outputs import reserve_outputs as reserve_outputs
from muster.program.trace._program import Program as Program
from muster.program.trace._program import ProgramScope as ProgramScope
from muster.program.trace._program import no_collections as no_collections
from muster.program.trace._updates import steps_held_back as steps_held_back
