"""Builds LLVM's textual IR: types, literals, and an instruction builder.

Responsible for the syntax. Does not depend on the structure of loop IR or on HLO.
"""

from __future__ import annotations

import struct

from xlapy.loops import F16, F32, F64, ScalarType

_FLOAT_NAMES = {F16.name: "half", F32.name: "float", F64.name: "double"}


def llvm_type(type: ScalarType, lanes: int = 1) -> str:
    """Returns the name of a scalar type, or of a vector type with that many lanes."""
    name = type.name
    scalar = _FLOAT_NAMES.get(name, name)
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def suffix(type: ScalarType, lanes: int = 1) -> str:
    """Returns the suffix of intrinsics for a type: f32, v16f32, i64."""
    return type.name if lanes == 1 else f"v{lanes}{type.name}"


def literal(type: ScalarType, value: float, lanes: int = 1) -> str:
    """Returns a number of a type as a literal, the same in every lane."""
    if type.is_integer:
        text = ("true" if value else "false") if type.bits == 1 else str(int(value))
    elif type is F16:
        text = f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    else:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return text if lanes == 1 else f"splat ({llvm_type(type)} {text})"


def lane_mask(lanes: int, active: int) -> str:
    """A vector of conditions of which the first `active` are true."""
    return f"<{', '.join('i1 true' if lane < active else 'i1 false' for lane in range(lanes))}>"


class IrBuilder:
    """Builds the instructions of one function, with fresh names for registers and labels."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._count = 0
        self.label = "entry"
        """The name of the current basic block."""

    def fresh_name(self, prefix: str = "t") -> str:
        self._count += 1
        return f"%{prefix}{self._count}"

    def assign(self, code: str, prefix: str = "t") -> str:
        """Emits `%name = code`; returns the name."""
        name = self.fresh_name(prefix)
        self.lines.append(f"  {name} = {code}")
        return name

    def emit(self, code: str) -> None:
        self.lines.append(f"  {code}")

    def insert(self, line: int, code: str) -> None:
        """Inserts an instruction before that of an earlier line, after those inserted there before."""
        *before, last = self.lines[line].rsplit("\n", 1)
        self.lines[line] = "\n".join([*before, f"  {code}", last])

    def new_label(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def start_block(self, label: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def br(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def cond_br(self, condition: str, on_true: str, on_false: str) -> None:
        self.emit(f"br i1 {condition}, label %{on_true}, label %{on_false}")

    def phi(self, type: str, incoming: str, label: str) -> tuple[str, int]:
        """Emits a phi with one incoming value. Returns its name, and the line to which `add_incoming` adds the other
        value."""
        name = self.fresh_name("p")
        self.lines.append(f"  {name} = phi {type} [ {incoming}, %{label} ]")
        return name, len(self.lines) - 1

    def next_index(self, index: str, step: int | str) -> str:
        """Emits the index of the next iteration of a loop, and hides from LLVM how it follows from that of this one.

        Addresses in loops are reduced before (`addresses`). LLVM's strength reduction, which is always part of code
        generation, would take two thirds of its time for the loops of a convolution, and gain nothing.
        `llvm.expect` becomes no instruction.
        """
        following = self.assign(f"add nsw i64 {index}, {step}")
        return self.call("i64", "llvm.expect.i64", [("i64", following), ("i64", "0")])

    def add_incoming(self, line: int, incoming: str, label: str) -> None:
        self.lines[line] += f", [ {incoming}, %{label} ]"

    def call(self, result: str, function: str, arguments: list[tuple[str, str]]) -> str:
        """Emits a call of an external function or intrinsic, and declares it with the types of the arguments."""
        types = ", ".join(type for type, _ in arguments)
        self.declarations.add(f"declare {result} @{function}({types})")
        given = ", ".join(f"{type} {value}" for type, value in arguments)
        if result == "void":
            self.emit(f"call void @{function}({given})")
            return ""
        return self.assign(f"call {result} @{function}({given})")
