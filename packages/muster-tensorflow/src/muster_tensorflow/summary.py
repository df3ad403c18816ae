"""``tf.summary`` and ``tf.compat.v1.summary``, one module for both."""

from muster.summary import SummaryWriter as SummaryWriter
from muster.summary import create_file_writer as create_file_writer
from muster.summary import create_noop_writer as create_noop_writer
from muster.summary import flush as flush
from muster.summary import get_step as _get_step
from muster.summary import record_if as record_if
from muster.summary import set_step as _set_step
from muster.summary import should_record_summaries as should_record_summaries
from muster.summary import summary_scope as _summary_scope
from muster.summary import trace_export as trace_export
from muster.summary import trace_off as trace_off
from muster.summary import trace_on as trace_on
from muster.summary import write_raw_pb as _write_raw_pb
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1._summary import FileWriter as FileWriter
from muster_tensorflow.programs.v1._summary import FileWriterCache as FileWriterCache
from muster_tensorflow.programs.v1._summary import Summary as Summary
from muster_tensorflow.programs.v1._summary import histogram as histogram
from muster_tensorflow.programs.v1._summary import image as image
from muster_tensorflow.programs.v1._summary import merge as merge
from muster_tensorflow.programs.v1._summary import merge_all as merge_all
from muster_tensorflow.programs.v1._summary import scalar as scalar
from muster_tensorflow.programs.v1._summary import text as text

experimental = _Names(
    "tf.summary.experimental",
    get_step=_get_step,
    set_step=_set_step,
    summary_scope=_summary_scope,
    write_raw_pb=_write_raw_pb,
)
