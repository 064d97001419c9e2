"""Infeeds and outfeeds as messages in the memory that devices share: the host is at the other end.

What is fed in or out has a message each; where that is not so (the host has not joined the run, or fed in something
that is no array of the shape), the interpreter's rule carries the instruction out.

Owns: which messages these are. Must not know: what the host does, how a device waits.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.cpu.program.builder import THUNK_RULES, Scope
from xlapy.cpu.program.thunks import QUEUE_BYTES, FeedThunk, NativeProgram
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module


class Feeds:
    """Where the messages of all devices are, and the shapes that are fed in."""

    def __init__(self, module: Module, program: NativeProgram) -> None:
        devices = program.replica_count * program.partition_count
        self.places = {op: program.share(QUEUE_BYTES * devices) for op in (opcodes.INFEED, opcodes.OUTFEED)}
        self._kinds: dict[str, int] = {}

    def kind(self, brief: str) -> int:
        """The number of a shape, from 1 on."""
        return self._kinds.setdefault(brief, 1 + len(self._kinds))


@THUNK_RULES.rule(opcodes.INFEED)
def _infeed(scope: Scope, instruction: Instruction) -> None:
    data = instruction.shape.tuple_shapes[0]
    if scope.maker.watched or (data.is_tuple and not data.tuple_shapes):
        scope.callback(instruction)
        return
    feeds = scope.maker.kept(Feeds)
    _feed(scope, instruction, feeds.kind(data.to_text(layout=False)))


@THUNK_RULES.rule(opcodes.OUTFEED)
def _outfeed(scope: Scope, instruction: Instruction) -> None:
    if scope.maker.watched:
        scope.callback(instruction)
        return
    _feed(scope, instruction, 0)


def _feed(scope: Scope, instruction: Instruction, kind: int) -> None:
    place = scope.maker.kept(Feeds).places[instruction.op]
    operands = scope.slices_of(instruction.operands[0]) if instruction.op is opcodes.OUTFEED else []
    callbacks = scope.maker.program.callbacks
    results = scope.fresh(instruction)
    thunk = FeedThunk(len(callbacks), instruction, operands, results, instruction.name, place=place, kind=kind)
    callbacks.append(thunk)
    scope.thunks.append(thunk)
