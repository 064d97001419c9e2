"""Text to proto to text loses nothing, and equal modules have equal bytes."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy
from tests.proto.modules import GROUPS, modules_of, whole
from tests.raising import raises
from xlapy.base.error_codes.formats import protos as codes
from xlapy.hlo.module import Module
from xlapy.proto import from_text_format, to_text_format
from xlapy.proto.messages import decode, encode


@pytest.mark.parametrize("group", GROUPS)
def test_text_to_message_to_text(group: str):
    for name, _, module in modules_of(group):
        data = module.to_proto()
        read = Module.from_proto(data)
        assert whole(read) == whole(module), name
        assert read.to_proto() == data, name


@pytest.mark.parametrize("group", ["control", "collectives", "custom"])
def test_text_format(group: str):
    for name, _, module in modules_of(group):
        assert whole(from_text_format(to_text_format(module))) == whole(module), name


EVERYTHING = """
HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }, \
buffer_donor={ (2, {}) }, alias_passthrough_params=true, \
entry_computation_layout={(f32[4]{0}, f32[4]{0}, f32[2,2]{0,1:T(2)S(1)})->(f32[4]{0}, f32[4]{0}, f32[])}, \
allow_spmd_sharding_propagation_to_parameters={true,false,true}, allow_spmd_sharding_propagation_to_output={true}, \
replica_count=2, num_partitions=3, frontend_attributes={key="value"}

FileNames
1 "f.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=4 column=5 end_column=6}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT a = f32[] add(x, y), statistics={visualizing_index=1,count_nan=100,other=2}
}

ENTRY e {
  q = f32[4]{0} parameter(1)
  p = f32[4]{0} parameter(0), origin={{"p0"}}
  k = f32[2,2]{0,1:T(2)S(1)} parameter(2), sharding={mesh['a'=2,'b'=2], [{'a'}, {'b', ?}]}
  z = f32[] constant(0)
  v = f32[4]{0} exponential(p), control-predecessors={q}, result_accuracy={tolerance={atol=0,rtol=0.5,ulps=2}}, \
metadata={op_type="exp" op_name="x" source_file="f.py" source_line=3 source_column=4 profile_type={1} \
stack_frame_id=1 metadata_payload="abc"}
  r = f32[] reduce(p, z), dimensions={0}, to_apply=sum, frontend_attributes={a="1",b="2"}
  s = f32[4]{0} all-reduce(q), channel_id=1, replica_groups=[2,1]<=[2], to_apply=sum
  ROOT t = (f32[4]{0}, f32[4]{0}, f32[]) tuple(v, s, r), \
sharding={{replicated}, {devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}, {maximal device=1}}, \
origin={(({"p0"}, {}), {"p1" {1}}, {})}, backend_config={"a":1}
}
"""


def test_everything_that_a_module_carries():
    module = xlapy.parse_hlo(EVERYTHING, verify=False)
    read = Module.from_proto(module.to_proto(), verify=False)
    assert whole(read) == whole(module)
    for part in ("must-alias", "buffer_donor", "replica_count=2", "metadata_payload", "mesh['a'=2", "end_column=6"):
        assert part in whole(read)
    assert [i.name for i in read.entry_computation][:3] == ["q", "p", "k"]


def test_a_schedule_determines_the_order():
    module = xlapy.parse_hlo(EVERYTHING, verify=False)
    message = decode("HloModuleProto", module.to_proto())
    (number,) = [c.id for c in message.computations if c.name == "e"]
    ids = message.schedule.sequences[number].instruction_ids
    ids[:2] = [ids[1], ids[0]]
    read = Module.from_proto(encode(message), verify=False)
    assert [i.name for i in read.entry_computation][:3] == ["p", "q", "k"]


def test_unknown_fields_are_preserved():
    module = xlapy.parse_hlo("HloModule m\nENTRY e { p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p) }")
    message = decode("HloModuleProto", module.to_proto())
    message.profile_info.add(fingerprint="abc")
    message.device_type = "tpu"
    negate = message.computations[0].instructions[1]
    negate.metadata.size_of_generated_code_in_bytes = 17
    negate.delta = 3
    unknown = b"\xfa\xac\x02\x03new"  # field 4783, bytes "new"
    data = Module.from_proto(encode(message) + unknown).to_proto()
    again = decode("HloModuleProto", data)
    assert again.profile_info[0].fingerprint == "abc"
    assert again.device_type == "tpu"
    assert again.computations[0].instructions[1].metadata.size_of_generated_code_in_bytes == 17
    assert again.computations[0].instructions[1].delta == 3
    assert unknown in data


def test_backend_configurations_may_be_any_bytes():
    module = xlapy.parse_hlo("HloModule m\nENTRY e { p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p) }")
    module.entry_computation.root_instruction.backend_config = b"\xff\x00".decode("utf-8", "surrogateescape")
    read = Module.from_proto(module.to_proto())
    assert read.entry_computation.root_instruction.backend_config.encode("utf-8", "surrogateescape") == b"\xff\x00"


def test_payloads_can_be_in_the_module_table():
    module = xlapy.parse_hlo("HloModule m\nENTRY e { p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p) }")
    message = decode("HloModuleProto", module.to_proto())
    message.payloads.append(b"{}")
    message.computations[0].instructions[1].backend_config_payload.id = 0
    assert Module.from_proto(encode(message)).entry_computation.root_instruction.backend_config == "{}"
    message.computations[0].instructions[1].backend_config_payload.id = 1
    with raises(xlapy.errors.ProtoError, codes.PROTO_REFERENCE, "'n'", "(negate)", "payload 1"):
        Module.from_proto(encode(message))


def test_a_computation_that_was_built():
    builder = xlapy.XlaBuilder("axpy")
    x = xlapy.ops.parameter(builder, 0, xlapy.Shape.parse("f32[3]"), "x")
    xlapy.ops.add(x, x)
    computation = builder.build()
    data = computation.as_serialized_hlo_module_proto()
    assert whole(Module.from_proto(data)) == computation.as_hlo_text(print_large_constants=True)
    result = xlapy.Client("interpreter").compile(data)(np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(result, [2, 4, 6])
