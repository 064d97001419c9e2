"""Functions that all programs of the process call, in LLVM text: compiled once, at the first need.

    i32 @xlapy_call_back(ptr table, i64 index, i64 number)
    i32 @xlapy_look(ptr table, i64 shared, i64 asking)
    void @xlapy_taskN(ptr block, i64 begin, i64 end)

The first calls the host's function, whose place in the table is given, in the host's own mode of floating-point
numbers. The second is told of in `looks`. The last calls a kernel with N buffers from a block of their addresses.

Loaded programs bring the object files along, so that processes need not compile them.

Owns: these functions, the object files. Must not know: programs, what the host does.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from xlapy.cpu.llvm import safepoints
from xlapy.cpu.llvm.jit import Code, compile_text, link_object

CALL_BACK, LOOK = "xlapy_call_back", "xlapy_look"

DECLARATIONS: Mapping[str, str] = {
    CALL_BACK: f"declare i32 @{CALL_BACK}(ptr, i64, i64)",
    LOOK: f"declare i32 @{LOOK}(ptr, i64, i64)",
}

_TASK = re.compile(r"xlapy_task([1-9][0-9]{0,4})")

_HOST = "host"
"""The object file of the functions that ask the host."""

_objects: dict[str, bytes] = {}
"""The object files that are known, by name."""


def task_name(buffers: int) -> str:
    """The function that calls kernels of so many buffers."""
    return f"xlapy_task{buffers}"


def object_name(function: str) -> str | None:
    """The object file that has a function of this module; None for another function."""
    if function in DECLARATIONS:
        return _HOST
    return function if _TASK.fullmatch(function) else None


def function_address(function: str) -> int:
    """Where a function of this module lies."""
    return _code(object_name(function) or function).addresses[function]


@functools.cache
def _code(name: str) -> Code:
    if name == _HOST:
        return compile_shared_object(
            name, f"{RESET_MXCSR_FUNCTION}\n{_CALL_BACK}\n{safepoints.LOOK_TEXT}\n{_REST}", list(DECLARATIONS)
        )
    task = _TASK.fullmatch(name)
    assert task is not None, f"there is no shared code {name}"
    return compile_shared_object(name, _task_text(int(task[1])), [name])


def compile_shared_object(
    name: str, text: str, exports: Sequence[str], imports: Mapping[str, int] | None = None
) -> Code:
    """Code of the whole process, from its object file if that is known."""
    image, imports = _objects.get(name), imports or {}
    code = compile_text(text, list(exports), imports) if image is None else link_object(image, exports, imports)
    _objects[name] = code.image
    return code


def compiled_objects(names: Sequence[str]) -> dict[str, bytes]:
    """The object files of these names that were compiled or learned."""
    return {name: _objects[name] for name in names if name in _objects}


def register_objects(objects: Mapping[str, bytes]) -> None:
    """Spares compiling what this compiler has compiled before for such a processor."""
    for name, image in objects.items():
        _objects.setdefault(name, image)


def _task_text(buffers: int) -> str:
    head = f"define void @{task_name(buffers)}(ptr %block, i64 %begin, i64 %end) #0 {{"
    return "\n".join([head, "entry:", *task_head(buffers), f"  {task_call(buffers)}", "  ret void", "}", ATTRIBUTES])


def task_head(buffers: int) -> list[str]:
    """Loads a kernel and its buffers from a block."""
    lines: list[str] = []
    for number in range(buffers + 1):
        lines.append(f"  %p{number} = getelementptr inbounds ptr, ptr %block, i64 {number}")
        lines.append(f"  %a{number} = load ptr, ptr %p{number}")
    return lines


def task_call(buffers: int) -> str:
    """The call of that kernel."""
    arguments = [*(f"ptr %a{number}" for number in range(1, buffers + 1)), "i64 %begin", "i64 %end"]
    return f"call void %a0({', '.join(arguments)})"


ATTRIBUTES = 'attributes #0 = { nounwind "no-builtins" }'

FLUSH_DENORMALS = 0x8040

MODE = frozenset({"declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)"})

RESET_MXCSR_FUNCTION = f"""define internal void @reset_mxcsr(ptr %old) #0 {{
entry:
  %new = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %old)
  %mode = load i32, ptr %old
  %plain = and i32 %mode, {~FLUSH_DENORMALS}
  store i32 %plain, ptr %new
  call void @llvm.x86.sse.ldmxcsr(ptr %new)
  ret void
}}"""
"""Lets the caller compute as the host does; the mode of before goes to where `old` points."""

_CALL_BACK = f"""define i32 @{CALL_BACK}(ptr %table, i64 %index, i64 %number) #0 {{
entry:
  %old = alloca i32
  call void @reset_mxcsr(ptr %old)
  %place = getelementptr inbounds ptr, ptr %table, i64 %index
  %host = load ptr, ptr %place
  %status = call i32 %host(i64 %number)
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  ret i32 %status
}}"""

_REST = "\n".join([*sorted(MODE), *safepoints.DECLARATIONS, ATTRIBUTES])
