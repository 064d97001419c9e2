"""Lowers Fourier transforms to thunks: one kernel per stage. Stages that keep the places of their points, except the
first one, work in the memory of the stage before them; between others there are temporaries.

Responsible for the temporaries and for the constants with twiddle factors. The stages are decided in
`codegen/emitters/fft/stages.py`.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.shape import Shape
from xlapy.codegen.emitters.fft.stages import component_type, fft_stages
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module


@THUNK_RULES.rule(opcodes.FFT)
def _lower_fft(context: LoweringContext, instruction: Instruction) -> None:
    stages = fft_stages(instruction, host_target())
    assert stages is not None, f"{instruction.name} was not decomposed"
    source = context.slice_of(instruction.operands[0])
    (result,) = context.allocate(instruction)
    if not stages:
        context.thunks.append(CopyThunk(source, result))
    complex_type = component_type(instruction).complex_type
    assert complex_type is not None
    for number, stage in enumerate(stages):
        rest = stages[number + 1 :]
        in_place = number > 0 and stage.keeps_places
        if in_place:
            target = source
        elif all(later.keeps_places for later in rest):
            target = result
        else:
            target = BufferSlice(Shape.array(complex_type, (stage.size,)), name=instruction.name)
        kernel, twiddles = stage.emit(instruction.name, in_place)
        constant = context.builder.module_state(_TwiddleConstants).constant(context, instruction, twiddles)
        slices = [constant, target] if in_place else [source, constant, target]
        context.thunks.append(KernelThunk(kernel, slices, instruction.name))
        source = target


class _TwiddleConstants:
    """The constants with twiddle factors of a program, each of which exists once."""

    def __init__(self, _: Module, __: NativeProgram) -> None:
        self._constants: dict[tuple[str, bytes], BufferSlice] = {}

    def constant(self, context: LoweringContext, instruction: Instruction, twiddles: Array) -> BufferSlice:
        key = (twiddles.dtype.name, twiddles.tobytes())
        if key not in self._constants:
            shape = Shape.array(component_type(instruction), twiddles.shape)
            self._constants[key] = context.builder.add_constant(twiddles, shape, instruction.name)
        return self._constants[key]
