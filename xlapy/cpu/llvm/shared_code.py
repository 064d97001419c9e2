"""Functions that all programs of the process share, as LLVM text. They are compiled when they are first needed.

    i32 @xlapy_host_callback(ptr table, i64 index, i64 number)
    i32 @xlapy_poll(ptr table, i64 shared, i64 poll)
    i32 @xlapy_python_callback(i64 number, ptr place, ptr table)
    void @xlapy_taskN(ptr block, i64 begin, i64 end)
    void @xlapy_matrix_product_NAME(...)
    i64 @xlapy_select_positions_BITS_BYTES(ptr source, i64 count, i64 first, i64 extent, ptr target)
    void @xlapy_transpose_BITS_PARTS_BYTES(ptr source, i64 source_pitch, ptr target, i64 target_pitch, i64, i64)

The first calls the host function at an entry of the address table, in the default floating-point mode. The second is
described in `safepoints`. The third is such a host function: it calls a Python function, whose address is in the next
entry, and returns the status that this function stores in the entry after it. The fourth calls a kernel with N buffers,
whose addresses it loads from a block. The last three are described in `matrix_products`, `selections` and
`transposes`.

Serialized programs contain the object files, so that a process that loads one need not compile them.

Responsible for these functions and their object files. Does not depend on programs or on what the host does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm import safepoints
from xlapy.cpu.llvm.jit import Code, Symbol, compile_text, link_objects
from xlapy.cpu.llvm.vectors.matrix_products import TILED, emit_matrix_product
from xlapy.cpu.llvm.vectors.selections import emit_selection
from xlapy.cpu.llvm.vectors.transposes import emit_transpose

HOST_CALLBACK, POLL, PYTHON_CALLBACK = "xlapy_host_callback", "xlapy_poll", "xlapy_python_callback"

DECLARATIONS: Mapping[str, str] = {
    HOST_CALLBACK: f"declare i32 @{HOST_CALLBACK}(ptr, i64, i64)",
    POLL: f"declare i32 @{POLL}(ptr, i64, i64)",
    PYTHON_CALLBACK: f"declare i32 @{PYTHON_CALLBACK}(i64, ptr, ptr)",
}

_TASK = re.compile(r"xlapy_task([1-9][0-9]{0,4})")
_TRANSPOSE = re.compile(r"xlapy_transpose_(8|16|32|64)_([12])_(16|32|64)")
_MATRIX_PRODUCT = re.compile(r"xlapy_matrix_product_(\w+)")
_SELECTION = re.compile(r"xlapy_select_positions_(32|64)_(16|32|64)")
_DECLARED = re.compile(r"declare \w+ @(\w+)\(")

_HOST = "host"
"""The name of the object file with the functions that call the host."""

_objects: dict[str, bytes] = {}
"""The object files that were compiled or registered, by name."""


def task_name(buffers: int) -> str:
    """Returns the name of the function that calls kernels with a number of buffers."""
    return f"xlapy_task{buffers}"


def object_name(function: str) -> str | None:
    """Returns the object file with a shared function; None if the function is not one of this module."""
    if function in DECLARATIONS:
        return _HOST
    patterns = (_TASK, _TRANSPOSE, _MATRIX_PRODUCT, _SELECTION)
    return function if any(pattern.fullmatch(function) for pattern in patterns) else None


def declared_functions(declarations: Iterable[str]) -> set[str]:
    """Returns the shared functions among declared ones."""
    found = (_DECLARED.match(line) for line in declarations)
    return {match[1] for match in found if match is not None and object_name(match[1]) is not None}


def shared_function(function: str) -> Symbol:
    """Returns a shared function."""
    return _code(object_name(function) or function).symbol(function)


@SingleFlight
def _code(name: str) -> Code:
    if name == _HOST:
        return compile_shared_object(name, _host_text, list(DECLARATIONS))
    transpose = _TRANSPOSE.fullmatch(name)
    if transpose is not None:
        return compile_shared_object(name, lambda: _transpose_text(*map(int, transpose.groups())), [name])
    product = _MATRIX_PRODUCT.fullmatch(name)
    if product is not None:
        return compile_shared_object(name, lambda: _matrix_product_text(product[1]), [name])
    selection = _SELECTION.fullmatch(name)
    if selection is not None:
        return compile_shared_object(name, lambda: _selection_text(*map(int, selection.groups())), [name])
    task = _TASK.fullmatch(name)
    assert task is not None, f"there is no shared object file {name}"
    return compile_shared_object(name, lambda: _task_text(int(task[1])), [name])


def compile_shared_object(
    name: str, text: Callable[[], str], exports: Sequence[str], imports: Mapping[str, Symbol] | None = None
) -> Code:
    """Links the object file of a name if it is known; else compiles the text and remembers its object file."""
    image, imports = _objects.get(name), imports or {}
    code = compile_text(text(), list(exports), imports) if image is None else link_objects([image], exports, imports)
    (_objects[name],) = code.images
    return code


def compiled_objects(names: Sequence[str]) -> dict[str, bytes]:
    """Returns the object files of these names that were compiled or registered."""
    return {name: _objects[name] for name in names if name in _objects}


def register_objects(objects: Mapping[str, bytes]) -> None:
    """Adds object files that the same compiler has produced for this processor, so that they need not be compiled."""
    for name, image in objects.items():
        _objects.setdefault(name, image)


def _host_text() -> str:
    functions = [RESET_MXCSR_FUNCTION, _HOST_CALLBACK_FUNCTION, safepoints.poll_text(), _PYTHON_CALLBACK_FUNCTION]
    return "\n".join([*functions, _DECLARATIONS_AND_ATTRIBUTES])


def _transpose_text(bits: int, parts: int, vector_bytes: int) -> str:
    text, declarations = emit_transpose(bits, parts, vector_bytes)
    return "\n".join([*sorted(declarations), text, ATTRIBUTES])


def _matrix_product_text(instruction: str) -> str:
    text, declarations = emit_matrix_product(TILED[instruction])
    return "\n".join([*sorted(declarations), text, ATTRIBUTES])


def _selection_text(bits: int, vector_bytes: int) -> str:
    text, declarations = emit_selection(bits, vector_bytes)
    return "\n".join([*sorted(declarations), text, ATTRIBUTES])


def _task_text(buffers: int) -> str:
    head = f"define void @{task_name(buffers)}(ptr %block, i64 %begin, i64 %end) #0 {{"
    return "\n".join(
        [head, "entry:", *task_prologue(buffers), f"  {task_call(buffers)}", "  ret void", "}", ATTRIBUTES]
    )


def task_prologue(buffers: int) -> list[str]:
    """Returns instructions that load a kernel and its buffers from a block."""
    lines: list[str] = []
    for number in range(buffers + 1):
        lines.append(f"  %p{number} = getelementptr inbounds ptr, ptr %block, i64 {number}")
        lines.append(f"  %a{number} = load ptr, ptr %p{number}")
    return lines


def task_call(buffers: int) -> str:
    """Returns the call of that kernel."""
    arguments = [*(f"ptr %a{number}" for number in range(1, buffers + 1)), "i64 %begin", "i64 %end"]
    return f"call void %a0({', '.join(arguments)})"


ATTRIBUTES = 'attributes #0 = { nounwind "no-builtins" }'

FLUSH_DENORMALS_BITS = 0x8040
"""The bits FTZ and DAZ of MXCSR: denormal results and operands become zeros."""

MXCSR_DECLARATIONS = frozenset({"declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)"})

RESET_MXCSR_FUNCTION = f"""define internal void @reset_mxcsr(ptr %old) #0 {{
entry:
  %new = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %old)
  %mode = load i32, ptr %old
  %plain = and i32 %mode, {~FLUSH_DENORMALS_BITS}
  store i32 %plain, ptr %new
  call void @llvm.x86.sse.ldmxcsr(ptr %new)
  ret void
}}"""
"""The function that sets the default floating-point mode, in which denormals are kept. It stores the old mode."""

_HOST_CALLBACK_FUNCTION = f"""define i32 @{HOST_CALLBACK}(ptr %table, i64 %index, i64 %number) #0 {{
entry:
  %old = alloca i32
  call void @reset_mxcsr(ptr %old)
  %place = getelementptr inbounds ptr, ptr %table, i64 %index
  %host = load ptr, ptr %place
  %status = call i32 %host(i64 %number, ptr %place, ptr %table)
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  ret i32 %status
}}"""

_PYTHON_CALLBACK_FUNCTION = f"""define i32 @{PYTHON_CALLBACK}(i64 %number, ptr %place, ptr %table) #0 {{
entry:
  %next = getelementptr inbounds ptr, ptr %place, i64 1
  %function = load ptr, ptr %next
  %status.at = getelementptr inbounds ptr, ptr %place, i64 2
  store i64 1, ptr %status.at
  call void %function(i64 %number, ptr %table)
  %status = load i64, ptr %status.at
  %result = trunc i64 %status to i32
  ret i32 %result
}}"""
"""The Python function stores 0 to its status if it succeeds. Its return value would be undefined if an exception, such
as that of a signal handler, left it."""

_DECLARATIONS_AND_ATTRIBUTES = "\n".join([*sorted(MXCSR_DECLARATIONS), *safepoints.DECLARATIONS, ATTRIBUTES])
