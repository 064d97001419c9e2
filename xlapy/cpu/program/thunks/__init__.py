"""Thunks: the units of execution of a native program. Each one reads and writes buffer slices.

The thunks of a sequence run one after the other. Loops, conditionals and outlined functions contain sequences of their
own.
"""

from xlapy.cpu.program.thunks.communication import (
    HOST_THUNKS,
    CollectiveThunk,
    RendezvousPart,
    RendezvousParticipant,
    TransferThunk,
)
from xlapy.cpu.program.thunks.compute import CopyThunk, KernelThunk, LibraryArray, LibraryCallThunk, LibraryScratch
from xlapy.cpu.program.thunks.emitter import ThunkEmitter
from xlapy.cpu.program.thunks.host import (
    BoundsThunk,
    CallbackThunk,
    CallingConvention,
    FeedThunk,
    HostThunk,
    IterationThunk,
    ValueCheckThunk,
)
from xlapy.cpu.program.thunks.remote_reads import Block, RemoteRead, merged
from xlapy.cpu.program.thunks.thunk import (
    ConcurrentThunk,
    ConditionalThunk,
    OutlinedThunk,
    Thunk,
    ThunkVisitor,
    WhileThunk,
    walk_thunks,
)

__all__ = [
    "HOST_THUNKS",
    "Block",
    "BoundsThunk",
    "CallbackThunk",
    "CallingConvention",
    "CollectiveThunk",
    "ConcurrentThunk",
    "ConditionalThunk",
    "CopyThunk",
    "FeedThunk",
    "HostThunk",
    "IterationThunk",
    "KernelThunk",
    "LibraryArray",
    "LibraryCallThunk",
    "LibraryScratch",
    "OutlinedThunk",
    "RemoteRead",
    "RendezvousPart",
    "RendezvousParticipant",
    "Thunk",
    "ThunkEmitter",
    "ThunkVisitor",
    "TransferThunk",
    "ValueCheckThunk",
    "WhileThunk",
    "merged",
    "walk_thunks",
]
