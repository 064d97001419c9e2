"""Native functions as LLVM text.

Responsible for LLVM's syntax, and for how a lock and a futex are called. Must not know what functions do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from xlapy.native import futex, ir
from xlapy.native.function import ExternalFunction, Function, NativeFunction, Static
from xlapy.native.locks import acquire_lock, release_lock

_PAUSE = "call void @llvm.x86.sse2.pause()"
_PAUSE_DECLARATION = "declare void @llvm.x86.sse2.pause()"
_COUNT_ZEROS_DECLARATION = "declare i64 @llvm.ctlz.i64(i64, i1)"


def reachable(functions: Iterable[NativeFunction[Any, Any]]) -> tuple[list[Function], list[Any], list[Static[Any]]]:
    """The functions that some functions call, themselves included; the external functions; and the static memory."""
    built: dict[str, Function] = {}
    externals: dict[str, ExternalFunction[Any, Any]] = {}
    statics: dict[str, Static[Any]] = {}
    pending: list[NativeFunction[Any, Any]] = list(functions)
    while pending:
        function = pending.pop()
        body = function.built()
        if (known := built.get(function.name)) is not None:
            if known is not body:
                raise ValueError(f"two native functions have the name {function.name}")
            continue
        built[function.name] = body
        statics |= body.statics
        for called in body.called.values():
            if isinstance(called, NativeFunction):
                pending.append(called)
            else:
                externals[called.name] = called
        if any(isinstance(one, ir.AcquireLock | ir.ReleaseLock) for one in body.instructions):
            pending += [acquire_lock, release_lock]
    return list(built.values()), list(externals.values()), list(statics.values())


def library_text(
    functions: Collection[NativeFunction[Any, Any]], exports: Collection[str] = (), defined: Collection[str] = ()
) -> str:
    """LLVM text of functions and of all that they call.

    exports: names of functions visible outside of the LLVM module. defined: external functions that the rest of the
    module declares or defines.
    """
    bodies, externals, statics = reachable(functions)
    lines = [f"@{one.name} = internal global [{one.bytes} x i8] zeroinitializer, align 64" for one in statics]
    for body in bodies:
        lines += [_text(name, data) for name, data in body.texts.items()]
    own = {body.name for body in bodies} | set(defined)
    lines += [_declaration(one) for one in externals if one.name not in own]
    lines += [futex.DECLARATION] * ("syscall" not in own)
    instructions = [one for body in bodies for one in body.instructions]
    lines += [_PAUSE_DECLARATION] * any(isinstance(one, ir.Pause) for one in instructions)
    lines += [_COUNT_ZEROS_DECLARATION] * any(
        isinstance(one, ir.Compute) and one.operation == "ctlz" for one in instructions
    )
    for body in bodies:
        lines += function_text(body, body.name in exports)
    return "\n".join(lines)


def declaration_text(functions: Iterable[NativeFunction[Any, Any]]) -> str:
    """Declarations of functions that another LLVM module defines."""
    return "\n".join(map(_declaration, functions))


def function_text(function: Function, is_exported: bool = False, attributes: str = "") -> list[str]:
    """The lines of a function. attributes: those of LLVM's function."""
    result = function.result_class.llvm_type if function.result_class else "void"
    parameters = ", ".join(f"{one.llvm_type} {_operand(one.operand)}" for one in function.parameters)
    linkage = "" if is_exported else "internal "
    attributes = f"{attributes} " if attributes else ""
    lines = [
        f"define {linkage}{result} @{function.name}({parameters}) {attributes + ' ' * bool(attributes)}{{",
        "entry:",
    ]
    lines += [f"  {_slot(one)} = alloca {one.type}" for one in sorted(function.variables, key=lambda one: one.number)]
    for number, instruction in enumerate(function.instructions):
        lines += _stack_memory(instruction, number)
    for number, instruction in enumerate(function.instructions):
        lines += _instruction(instruction, number)
    return [*lines, "}"]


def _stack_memory(instruction: ir.Instruction, number: int) -> Iterator[str]:
    """Stack memory, which is allocated at the begin of the function: in a loop it would add up."""
    match instruction:
        case ir.Stack(result, size):
            yield f"  {_operand(result)} = alloca i8, i64 {size}, align 16"
        case ir.FutexWait(timeout_nanoseconds=timeout) if timeout is not None:
            yield f"  %timeout{number} = alloca {{ i64, i64 }}"


def _instruction(instruction: ir.Instruction, number: int) -> Iterator[str]:
    match instruction:
        case ir.Label(name):
            yield f"{name}:"
        case ir.Jump(target):
            yield f"  br label %{target}"
        case ir.Branch(condition, if_true, if_false):
            yield f"  br i1 {_operand(condition)}, label %{if_true}, label %{if_false}"
        case ir.Return(value):
            yield "  ret void" if value is None else f"  ret {_typed(value)}"
        case ir.Compute():
            yield _compute(instruction)
        case ir.Assign(variable, value):
            yield f"  store {_typed(value)}, ptr {_slot(variable)}"
        case ir.Stack():
            pass  # at the begin of the function
        case ir.Load(result, address, ordering):
            atomic = f"atomic {result.type}" if ordering else result.type
            order = f" {ordering.value}" if ordering else ""
            yield f"  {_operand(result)} = load {atomic}, ptr {_operand(address)}{order}, align {_bytes(result)}"
        case ir.Store(address, value, ordering):
            atomic, order = ("atomic ", f" {ordering.value}") if ordering else ("", "")
            yield f"  store {atomic}{_typed(value)}, ptr {_operand(address)}{order}, align {_bytes(value)}"
        case ir.ReadModifyWrite(result, operation, address, value, ordering):
            yield (
                f"  {_operand(result)} = atomicrmw {operation} ptr {_operand(address)}, {_typed(value)} "
                f"{ordering.value}, align {_bytes(value)}"
            )
        case ir.CompareExchange(result, succeeded, address, expected, new, success, failure):
            yield (
                f"  %pair{number} = cmpxchg ptr {_operand(address)}, {_typed(expected)}, {_typed(new)} {success.value} "
                f"{failure.value}, align {_bytes(new)}"
            )
            pair = f"{{ {result.type}, i1 }} %pair{number}"
            yield f"  {_operand(result)} = extractvalue {pair}, 0"
            yield f"  {_operand(succeeded)} = extractvalue {pair}, 1"
        case ir.AcquireLock(address):
            yield f"  call void @{acquire_lock.name}(ptr {_operand(address)})"
        case ir.ReleaseLock(address):
            yield f"  call void @{release_lock.name}(ptr {_operand(address)})"
        case ir.FutexWait(address, expected, timeout):
            yield from _futex_wait(number, _operand(address), _operand(expected), timeout)
        case ir.FutexWake(address, count):
            yield f"  %woken{number} = {futex.wake_text(_operand(address), count=count)}"
        case ir.Call(called, target, arguments):
            given = ", ".join(map(_typed, arguments))
            begin = f"  {_operand(called)} = call {called.type}" if called else "  call void"
            yield f"{begin} {_operand(target)}({given})"
        case ir.Pause():
            yield f"  {_PAUSE}"
        case ir.Check():
            pass


def _compute(instruction: ir.Compute) -> str:
    result, operands = _operand(instruction.result), instruction.operands
    match instruction.operation:
        case "copy":
            assert isinstance(operands[0], ir.Register)
            return f"  {result} = load {instruction.result.type}, ptr {_slot(operands[0])}"
        case "offset":
            return f"  {result} = getelementptr i8, {_typed(operands[0])}, {_typed(operands[1])}"
        case "zext" | "trunc" | "ptrtoint" | "inttoptr":
            return f"  {result} = {instruction.operation} {_typed(operands[0])} to {instruction.result.type}"
        case "ctlz":
            type = instruction.result.type
            return f"  {result} = call {type} @llvm.ctlz.{type}({_typed(operands[0])}, i1 false)"
        case "select":
            return f"  {result} = select {', '.join(map(_typed, operands))}"
    return f"  {result} = {instruction.operation} {_typed(operands[0])}, {_operand(operands[1])}"


def _futex_wait(number: int, address: str, expected: str, timeout: ir.Operand | None) -> Iterator[str]:
    pointer = "null"
    if timeout is not None:
        pointer = f"%timeout{number}"
        yield f"  store i64 0, ptr {pointer}"
        yield f"  {pointer}.nanoseconds = getelementptr i8, ptr {pointer}, i64 8"
        yield f"  store {_typed(timeout)}, ptr {pointer}.nanoseconds"
    yield f"  %slept{number} = {futex.wait_text(address, expected, pointer)}"


def _text(name: str, data: bytes) -> str:
    escaped = "".join(f"\\{byte:02X}" for byte in data)
    return f'@{name} = internal constant [{len(data)} x i8] c"{escaped}"'


def _declaration(function: ExternalFunction[Any, Any] | NativeFunction[Any, Any]) -> str:
    parameters, result = function.signature()
    kind = result.llvm_type if result else "void"
    return f"declare {kind} @{function.name}({', '.join(kind.llvm_type for _, kind in parameters)})"


def _typed(operand: ir.Operand) -> str:
    return f"{operand.type} {_operand(operand)}"


def _operand(operand: ir.Operand) -> str:
    match operand:
        case ir.Register(number, _):
            return f"%r{number}"
        case ir.Symbol(name):
            return f"@{name}"
    if operand.type == "ptr":
        return "null"
    return str(operand.value)


def _slot(variable: ir.Register) -> str:
    return f"%v{variable.number}"


def _bytes(operand: ir.Operand) -> int:
    return {"i1": 1, "i8": 1, "i32": 4}.get(operand.type, 8)
