"""Protos: serialized modules, snapshots and compile options.

Codes E3300 to E3399. The rules of modules and values hold for protos too, and have the codes of those.
"""

from xlapy.base.error_codes.code import ErrorCode

PROTO_ENCODING = ErrorCode(
    "E3300",
    "Bytes or text encode the message that is requested.",
    remedy="Check that the file is complete, and whether it is a module, an HloProto or a snapshot.",
    python="xla.Module.from_proto(b'\\xff\\xff')",
)
PROTO_FIELDS = ErrorCode(
    "E3301",
    "The numbers of a module fit in the fields of its proto, its text is UTF-8, and the whole is below two gigabytes.",
    remedy="Change the value that the message names; HLO text has room for more.",
    python="""
        module = xla.parse_hlo("ENTRY main { ROOT x = f32[] parameter(0) }")
        module.entry.root.metadata = xla.OpMetadata(source_line=2**40)
        module.to_proto()
    """,
)
PROTO_REFERENCE = ErrorCode(
    "E3302",
    "An id in a proto is that of an instruction, computation or payload listed in the module, operands and called "
    "computations before their users.",
    remedy="List each instruction after its operands, and each computation after those that it calls.",
    python="""
        from xlapy.proto.read import module_of
        from xlapy.proto.text_format import parse_message
        module_of(parse_message("HloModuleProto", "name: 'm' entry_computation_id: 1"))
    """,
)
PROTO_UNIQUE_ID = ErrorCode(
    "E3303",
    "The computations of a proto have different ids, and so have the instructions of a computation.",
    remedy="Number them anew.",
    python="""
        from xlapy.proto.read import module_of
        from xlapy.proto.text_format import parse_message
        instruction = '''instructions {
            name: 'x' opcode: 'constant' id: 1
            shape { element_type: PRED } literal { shape { element_type: PRED } preds: true }
        }'''
        text = "computations { name: 'f' id: 1 root_id: 1 " + 2 * instruction + " } entry_computation_id: 1"
        module_of(parse_message("HloModuleProto", text))
    """,
)
PROTO_SCHEDULE = ErrorCode(
    "E3304",
    "The schedule of a proto lists each instruction of a computation once.",
    remedy="List the ids of all instructions, or leave the schedule out.",
    python="""
        from xlapy.proto.messages import decode
        from xlapy.proto.read import module_of
        text = "HloModule m, is_scheduled=true  ENTRY main { ROOT x = f32[] parameter(0) }"
        message = decode("HloModuleProto", xla.parse_hlo(text).to_proto())
        for sequence in message.schedule.sequences.values():
            sequence.instruction_ids.append(sequence.instruction_ids[0])
        module_of(message)
    """,
)
PROTO_VALUE = ErrorCode(
    "E3305",
    "The number or word in a field of a proto is one of those that the field takes.",
    remedy="Use one of the values that xla_data.proto or hlo.proto declares for the field.",
    python="""
        from xlapy.proto.meshes import read_sharding
        from xlapy.proto.text_format import parse_message
        tiles = "tile_assignment_dimensions: 2 iota_reshape_dims: 2 iota_transpose_perm: 0"
        read_sharding(parse_message("OpSharding", "type: OTHER last_tile_dims: TUPLE " + tiles))
    """,
)
PROTO_COUNT = ErrorCode(
    "E3306",
    "A repeated field has as many entries as the other fields of its message require.",
    remedy="Add or remove entries.",
    python="""
        from xlapy.proto.meshes import read_sharding
        from xlapy.proto.text_format import parse_message
        read_sharding(parse_message("OpSharding", "type: MAXIMAL"))
    """,
)
PROTO_ATTRIBUTE = ErrorCode(
    "E3307",
    "A message has the attributes without a default that its operation takes.",
    remedy="Set the field of the attribute.",
    python="""
        from xlapy.proto.read import module_of
        from xlapy.proto.text_format import parse_message
        instruction = "name: 'x' opcode: 'constant' id: 1 shape { element_type: PRED }"
        text = "name: 'f' id: 1 root_id: 1 instructions { " + instruction + " }"
        module_of(parse_message("HloModuleProto", "entry_computation_id: 1 computations { " + text + " }"))
    """,
)
PROTO_LEAVES = ErrorCode(
    "E3308",
    "An original value in a proto lists the arrays of a tuple in order, from the first one on.",
    remedy="Order the entries by their tuple indices, and add those that are missing, without an origin.",
    python="""
        from xlapy.proto.metadata import read_original_value
        from xlapy.proto.text_format import parse_message
        read_original_value(parse_message("OriginalValueProto", "elements { shape_index: 1 }"))
    """,
)
COMPILE_OPTIONS = ErrorCode(
    "E3310",
    "Compile options have at least one replica and partition, and a device assignment of as many devices.",
    remedy="Correct `num_replicas`, `num_partitions` or the device assignment.",
    python="""
        from xlapy.proto.compile_options import CompileOptions
        CompileOptions.from_proto(CompileOptions(num_replicas=-1).to_proto())
    """,
)
