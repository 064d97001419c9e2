"""HLO as protocol buffers, compatible with XLA: `to_proto`, `from_proto`, text format, snapshots, compile options.

There is no code per operation: `attributes.py` writes attributes from a table of fields.
"""

from xlapy.proto.compile_options import CompileOptions
from xlapy.proto.read import from_proto
from xlapy.proto.snapshot import Snapshot
from xlapy.proto.text_format import from_text_format, to_text_format
from xlapy.proto.wrappers import HloProto, read_module, read_module_text
from xlapy.proto.write import to_proto

__all__ = [
    "CompileOptions",
    "HloProto",
    "Snapshot",
    "from_proto",
    "from_text_format",
    "read_module",
    "read_module_text",
    "to_proto",
    "to_text_format",
]
