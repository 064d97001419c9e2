"""Instructions in the trace of a schedule.

Responsible for their wording. Must not know what they do.
"""

from __future__ import annotations

from xlapy.native import ir


def describe(instruction: ir.Instruction) -> str:
    """An instruction in a trace."""
    match instruction:
        case ir.Load(_, _, ordering, place) if ordering:
            return f"load {place} ({ordering.name.lower()})"
        case ir.Store(_, _, ordering, place) if ordering:
            return f"store {place} ({ordering.name.lower()})"
        case ir.ReadModifyWrite(_, operation, _, _, ordering, place):
            return f"{operation} {place} ({ordering.name.lower()})"
        case ir.CompareExchange(success=success, place=place):
            return f"compare-exchange {place} ({success.name.lower()})"
        case ir.AcquireLock(_, place):
            return f"acquire {place}"
        case ir.FutexWait(place=place):
            return f"wait for {place}"
        case ir.FutexWake(place=place):
            return f"wake {place}"
        case ir.Call(function=function):
            return f"call {function}"
    return type(instruction).__name__
