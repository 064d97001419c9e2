"""The entry: donation, layouts, memory spaces, names, locations, and numbers of replicas and partitions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import xlapy
from tests.stablehlo.importing.runner import hlo_of, run
from xlapy.hlo.module import Alias, BufferDonor
from xlapy.testing.stablehlo.programs import function

PROGRAM = """
    module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 3 : i32,
        mhlo.frontend_attributes = {fingerprint = "abc"}} {
      func.func public @main(%x: tensor<2x3xf32> {tf.aliasing_output = 1 : i32, mhlo.layout_mode = "{0,1}"},
          %y: tensor<2x3xf32> {jax.buffer_donor = true}, %z: tensor<4xf32> {mhlo.memory_kind = "pinned_host"})
          -> (tensor<4xf32> {mhlo.layout_mode = "default"}, tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) {
        %0 = stablehlo.add %x, %y : tensor<2x3xf32>
        return %z, %0 : tensor<4xf32>, tensor<2x3xf32>
      }
    }"""


def test_configuration() -> None:
    module = xlapy.parse_stablehlo(PROGRAM)
    config = module.config
    assert module.name == "jit_f"
    assert (config.replica_count, config.num_partitions) == (3, 2)
    assert config.frontend_attributes == {"fingerprint": "abc"}
    assert config.input_output_alias == (Alias((1,), 0, ()),)
    assert config.buffer_donors == (BufferDonor(1, ()),)
    assert config.entry_computation_layout is not None
    parameters = [shape.to_text() for shape in config.entry_computation_layout.parameters]
    assert parameters == ["f32[2,3]{0,1}", "f32[2,3]{1,0}", "f32[4]{0:S(5)}"]
    assert config.entry_computation_layout.result.to_text() == "(f32[4]{0}, f32[2,3]{0,1})"


def test_a_single_result_is_not_a_tuple_and_no_results_are_an_empty_tuple() -> None:
    one = xlapy.parse_stablehlo(function("%x: tensor<f32>", "tensor<f32>", "return %x : tensor<f32>"))
    none = xlapy.parse_stablehlo(function("%x: tensor<f32>", "", "return"))
    assert one.entry_computation.program_shape.result.to_text() == "f32[]"
    assert none.entry_computation.program_shape.result.to_text() == "()"


LOCATED = """
    #file = loc("a.py":10:3)
    #caller = loc("b.py":20:5)
    func.func @main(%x: tensor<3xf32> loc("batch.x")) -> tensor<3xf32> {
      %0 = stablehlo.add %x, %x : tensor<3xf32> loc("jit(f)/sum"(#file))
      %1 = stablehlo.add %0, %x : tensor<3xf32> loc("jit(f)/twice"(callsite("inner"(#file) at "outer"(#caller))))
      %2 = stablehlo.add %1, %x : tensor<3xf32> loc("kind:"("name"(#file)))
      %3 = stablehlo.add %2, %x : tensor<3xf32>
      return %3 : tensor<3xf32>
    }"""


def test_locations_are_metadata_and_names() -> None:
    module = xlapy.parse_stablehlo(LOCATED)
    theirs = {i.name.partition(".")[0]: i for i in xlapy.parse_hlo(hlo_of(LOCATED)).entry_computation}
    ours = {i.name: i for i in module.entry_computation}
    assert list(ours) == ["batch.x", "sum", "twice", "name", "add"]
    for name in ("sum", "twice", "name"):
        mine, other = ours[name].metadata, theirs[name].metadata
        assert mine is not None and other is not None
        assert (mine.op_name, mine.op_type) == (other.op_name, other.op_type)
        assert (mine.source_file, mine.source_line, mine.source_column) == ("a.py", 10, 3)
    assert ours["add"].metadata is None
    frames = module.stack_frames
    assert frames is not None
    twice = ours["twice"].metadata
    assert twice is not None
    frame = frames.frames[twice.stack_frame_id - 1]
    place = frames.file_locations[frame.file_location_id - 1]
    parent = frames.file_locations[frames.frames[frame.parent_frame_id - 1].file_location_id - 1]
    assert (frames.function_names[place.function_name_id - 1], place.line) == ("inner", 10)
    assert (frames.function_names[parent.function_name_id - 1], parent.line) == ("outer", 20)


def test_parameters_are_named_as_in_the_text() -> None:
    text = "func.func @main(%rate: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> { return %rate : tensor<f32> }"
    assert [p.name for p in xlapy.parse_stablehlo(text).entry_computation.parameters] == ["rate", "Arg_1"]


def test_a_jax_program_with_its_names() -> None:
    text = jax.jit(lambda x: jnp.where(x > 0, jnp.sin(x), x)).lower(np.ones(3, np.float32)).as_text(debug_info=True)
    module = xlapy.parse_stablehlo(text)
    metadata = [i.metadata for c in module.computations for i in c if i.op is xlapy.opcodes.SINE]
    assert [each.op_name for each in metadata if each is not None] == ["jit(<lambda>)/sin"]
    x = np.array([-1, 0, 2], np.float32)
    np.testing.assert_allclose(run(text, x), np.where(x > 0, np.sin(x), x), rtol=1e-6)


def test_custom_call_results_get_the_layout_of_the_entry() -> None:
    text = function(
        "%x: tensor<2x3xf32>",
        "tensor<2x3xf32>",
        """%0 = stablehlo.custom_call @Sharding(%x) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
          result_layouts = [dense<[0, 1]> : tensor<2xindex>], mhlo.sharding = "{replicated}"} :
          (tensor<2x3xf32>) -> tensor<2x3xf32>
        return %0 : tensor<2x3xf32>""",
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    layout = xlapy.parse_stablehlo(text).config.entry_computation_layout
    assert layout is not None and layout.result.to_text() == "f32[2,3]{1,0}"
    for platform in ("interpreter", "cpu"):
        np.testing.assert_array_equal(run(text, x, platform=platform), x)
