"""Lowers infeed and outfeed to messages in shared memory, with the host at the other end of the queue.

Each value that is fed in or out is one message. If that is not possible, because the host has not joined the run or has
fed in something that is not an array of the right shape, the interpreter's rule executes the instruction.

Responsible for the queues and for numbering the shapes. Does not depend on what the host does or on how devices wait.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import QUEUE_BYTES
from xlapy.cpu.program.thunks import FeedThunk
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module


class FeedQueues:
    """The infeed and outfeed queues of all devices, and the numbers of the shapes that are fed in."""

    def __init__(self, module: Module, program: NativeProgram) -> None:
        size = QUEUE_BYTES * program.replica_count * program.partition_count
        self.offsets = {op: program.allocate_shared(size) for op in (opcodes.INFEED, opcodes.OUTFEED)}
        self._shape_numbers: dict[str, int] = {}

    def shape_number(self, shape: str) -> int:
        """Returns the number of a shape, starting from 1."""
        return self._shape_numbers.setdefault(shape, 1 + len(self._shape_numbers))


@THUNK_RULES.rule(opcodes.INFEED)
def _lower_infeed(context: LoweringContext, instruction: Instruction) -> None:
    data = instruction.shape.tuple_shapes[0]
    if context.builder.keeps_operands or (data.is_tuple and not data.tuple_shapes):
        context.add_host_callback(instruction, "the host checks all values, or the fed value is empty")
        return
    queues = context.builder.module_state(FeedQueues)
    _append_feed(context, instruction, queues.shape_number(data.to_text(layout=False)))


@THUNK_RULES.rule(opcodes.OUTFEED)
def _lower_outfeed(context: LoweringContext, instruction: Instruction) -> None:
    if context.builder.keeps_operands:
        context.add_host_callback(instruction, "the host checks all values")
        return
    _append_feed(context, instruction, 0)


def _append_feed(context: LoweringContext, instruction: Instruction, shape_number: int) -> None:
    offset = context.builder.module_state(FeedQueues).offsets[instruction.op]
    operands = context.slices_of(instruction.operands[0]) if instruction.op is opcodes.OUTFEED else []
    number = len(context.builder.program.host_calling_thunks)
    results = context.allocate(instruction)
    thunk = FeedThunk(
        number,
        instruction,
        operands,
        results,
        instruction.name,
        queue_offset=offset,
        shape_number=shape_number,
    )
    context.append_callback(thunk)
