"""Errors about an instruction name the line of the user's program that it comes from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import xlapy as xla
from tests.raising import raises
from xlapy import ops
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import modules as codes
from xlapy.base.errors import VerificationError
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction, describe_instruction, source_of
from xlapy.hlo.metadata import OpMetadata, shown_path
from xlapy.hlo.module import FileLocation, Module, StackFrame, StackFrames
from xlapy.hlo.verify import verify

METADATA = 'metadata={op_name="f" source_file="model.py" source_line=12}'
"""The position `model.py:12` in HLO text."""


def built_module() -> tuple[Module, int]:
    """A module of the builder that negates a parameter in its last instruction, and the line of that instruction."""
    builder = xla.XlaBuilder("m")
    x = ops.parameter(builder, 0, xla.Shape.parse("f32[2]"), "x")
    y = ops.neg(x)
    return builder.build(y).module, y.instruction.metadata.source_line


def test_a_module_of_the_builder_names_the_line_of_the_call() -> None:
    module, line = built_module()
    root = module.entry_computation.root_instruction
    edit.set_shape(root, xla.Shape.parse("f32[3]"))
    place = f"{root.name} (negate) at {shown_path(__file__)}:{line}: "
    with raises(VerificationError, operand_codes.RESULT_SHAPE, place) as caught:
        verify(module)
    assert Path(__file__).read_text().splitlines()[line - 1].strip() == "y = ops.neg(x)"
    assert caught.value.message.count(Path(__file__).name) == 1


def test_metadata_of_hlo_text_gives_the_line() -> None:
    text = f"ENTRY main {{ x = f32[2] parameter(0)  ROOT y = f32[3] negate(x), {METADATA} }}"
    with raises(VerificationError, operand_codes.RESULT_SHAPE, "main: y (negate) at model.py:12: "):
        xla.parse_hlo(text, verify=True)


def test_stack_frames_of_hlo_text_give_the_line() -> None:
    text = """HloModule m

FileNames
1 "layers.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=34 end_line=34 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY main {
  x = f32[2] parameter(0)
  ROOT y = f32[3] negate(x), metadata={op_name="f" stack_frame_id=1}
}
"""
    with raises(VerificationError, operand_codes.RESULT_SHAPE, "main: y (negate) at layers.py:34: "):
        xla.parse_hlo(text, verify=True)


def test_an_instruction_without_a_line_has_its_name_and_op() -> None:
    with raises(VerificationError, operand_codes.RESULT_SHAPE, "main: y (negate): "):
        xla.parse_hlo("ENTRY main { x = f32[2] parameter(0)  ROOT y = f32[3] negate(x) }", verify=True)


def test_a_second_instruction_in_a_message_has_its_line_too() -> None:
    text = f"""
        fused {{
          x = f32[2] parameter(0)
          unused = f32[2] negate(x), {METADATA}
          ROOT y = f32[2] exponential(x)
        }}
        ENTRY main {{
          x = f32[2] parameter(0)
          ROOT z = f32[2] fusion(x), kind=kLoop, calls=fused, {METADATA.replace("12", "20")}
        }}
    """
    with raises(VerificationError, codes.FUSED_USERS, "(fusion) at model.py:20: unused (negate) at model.py:12 "):
        xla.parse_hlo(text, verify=True)


def test_a_line_survives_a_proto() -> None:
    text = f"ENTRY main {{ x = f32[2] parameter(0)  ROOT y = f32[3] negate(x), {METADATA} }}"
    with raises(VerificationError, operand_codes.RESULT_SHAPE, "y (negate) at model.py:12: "):
        Module.from_proto(xla.parse_hlo(text, verify=False).to_proto())


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        (None, ""),
        (OpMetadata(op_name="f"), ""),
        (OpMetadata(source_file="model.py", source_line=3), "model.py:3"),
        (OpMetadata(source_file="model.py"), "model.py"),
        (OpMetadata(stack_frame_id=1), "layers.py:7"),
        (OpMetadata(stack_frame_id=2), ""),
    ],
)
def test_where_the_line_comes_from(metadata: OpMetadata | None, shown: str) -> None:
    module = xla.parse_hlo("ENTRY main { ROOT x = f32[] parameter(0) }")
    module.stack_frames = StackFrames(["layers.py"], ["f"], [FileLocation(1, 1, 7, 7, 1, 2)], [StackFrame(1, 0)])
    root = module.entry_computation.root_instruction
    root.metadata = metadata
    assert source_of(root) == shown
    assert describe_instruction(root) == (f"x (parameter) at {shown}" if shown else "x (parameter)")


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "models" / "model.py", tmp_path.parent / "other.py"
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(inside)) == os.path.join("models", "model.py")
    assert shown_path(str(outside)) == str(outside)
    assert shown_path("model.py") == "model.py"
    monkeypatch.chdir(tmp_path / "..")
    assert shown_path(str(inside)) == os.path.join(tmp_path.name, "models", "model.py")


def test_a_working_directory_that_is_removed_leaves_paths_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert shown_path("/models/model.py") == "/models/model.py"


def test_a_new_instruction_has_no_module() -> None:
    parameter = xla.parse_hlo("ENTRY main { ROOT x = f32[] parameter(0) }").entry_computation.root_instruction
    lonely = Instruction(parameter.op, parameter.shape, (), parameter.attributes, (), "x", OpMetadata(stack_frame_id=1))
    assert source_of(lonely) == ""
