"""HLO as protocol buffers, on the wire as XLA has it: `to_proto`, `from_proto`, text format, snapshots, options.

Nothing here knows a particular operation: attributes are written by `attributes.py` from a table of fields.
"""

from xlapy.proto.compile_options import CompileOptions
from xlapy.proto.read import from_proto
from xlapy.proto.snapshot import Snapshot
from xlapy.proto.text_format import from_text_format, to_text_format
from xlapy.proto.write import to_proto

__all__ = ["CompileOptions", "Snapshot", "from_proto", "from_text_format", "to_proto", "to_text_format"]
