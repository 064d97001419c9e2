"""Prints loop IR as text, for dumps and tests. Does not depend on HLO or LLVM."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy.loops.ir import (
    AxisKind,
    Block,
    Carry,
    Combiner,
    For,
    If,
    Kernel,
    MatrixProduct,
    Prefetch,
    Scan,
    SelectPositions,
    Statement,
    Store,
    TransposeStatement,
    Value,
    While,
)

_INDENT = "  "


def print_kernel(kernel: Kernel) -> str:
    """The kernel's signature and its statements, one per line; the bodies of loops and branches are indented."""
    buffers = ", ".join(f"{b}: {b.type}[{b.size}]{' written' if b.written else ''}" for b in kernel.buffers)
    lines = [f"kernel {kernel.name}({buffers})"]
    lines += [f"{_INDENT}scratch {b}: {b.type}[{b.size}]" for b in kernel.scratch]
    lines += [_INDENT + line for line in _block(kernel.body)]
    return "\n".join(lines) + "\n"


def _block(block: Block) -> Iterator[str]:
    for statement in block.statements:
        yield from _statement(statement)


def _statement(statement: Statement) -> Iterator[str]:
    if isinstance(statement, Value):
        yield f"{statement} = {describe(statement)}"
    elif isinstance(statement, Store):
        mask = f" where {statement.mask}" if statement.mask is not None else ""
        yield f"store {statement.location}, {statement.value}{mask}"
    elif isinstance(statement, Prefetch):
        yield f"prefetch {statement.location}{' to write' if statement.for_write else ''}"
    elif isinstance(statement, TransposeStatement):
        yield _transpose(statement)
    elif isinstance(statement, MatrixProduct):
        yield _matrix_product(statement)
    elif isinstance(statement, SelectPositions):
        values = f"{statement.source} below {statement.count} from {statement.first} for {statement.extent}"
        yield f"{statement.result} = select positions of {values} to {statement.target}"
    elif isinstance(statement, If):
        yield f"if {statement.condition}"
        yield from _indented(statement.then)
    elif isinstance(statement, While):
        yield from _while(statement)
    elif isinstance(statement, Scan):
        yield from _scan(statement)
    else:
        yield from _for(statement)


def describe(value: Value) -> str:
    """The operation that computes a value, without the value's name."""
    args = ", ".join(map(str, value.args))
    if value.op == "load":
        location, masked = value.attribute
        wide = "" if value.type is location.buffer.type else f" {value.type}"
        return f"load{wide} {location}" + (f" where {value.args[-2]} else {value.args[-1]}" if masked else "")
    if value.op == "affine":
        return f"affine {value.attribute}"
    if value.op in ("div", "mod") and value.attribute is not None:
        dividend, divisor = value.attribute
        return f"{value.op} ({dividend}), {divisor}"
    if value.op == "convert":
        return f"{value.attribute} {args} to {value.type}"
    if value.op in ("compare", "dot"):
        return f"{value.op} {value.attribute} {args}"
    return f"{value.op} {value.type} {args}"


def _transpose(statement: TransposeStatement) -> str:
    parts = f" of {statement.parts} values" if statement.parts > 1 else ""
    source = f"{statement.source} pitch {statement.source_pitch}"
    target = f"{statement.target} pitch {statement.target_pitch}"
    return f"transpose {statement.rows} x {statement.columns}{parts} from {source} to {target}"


def _matrix_product(statement: MatrixProduct) -> str:
    size = f"{statement.rows} x {statement.columns} x {statement.groups}"
    factors = f"{statement.left} pitch {statement.left_pitch}, {statement.right} pitch {statement.right_pitch}"
    sums = f"{statement.sums} pitch {statement.sums_pitch}"
    return f"matrix product {statement.instruction} {size} of {factors} to {sums}, adding if {statement.accumulates}"


def _for(loop: For) -> Iterator[str]:
    kind = f" {loop.kind.value}" if loop.kind is not AxisKind.SERIAL else ""
    width = f"({loop.width}{f' x {loop.accumulators}' if loop.accumulators > 1 else ''})" if loop.width > 1 else ""
    yield f"for {loop.axis} in {loop.extent}{kind}{width}{_carried(loop.carries)}"
    yield from _indented(loop.body)
    yield from _next(loop.carries)
    if loop.combine is not None:
        yield from _combiner(loop.combine)


def _while(loop: While) -> Iterator[str]:
    yield f"while{_carried(loop.carries)}"
    yield from _indented(loop.test)
    yield f"{_INDENT}test {loop.condition}"
    yield from _indented(loop.body)
    yield from _next(loop.carries)


def _scan(scan: Scan) -> Iterator[str]:
    results, carried, inputs = (
        ", ".join(map(str, values)) for values in (scan.results, [c.variable for c in scan.carries], scan.inputs)
    )
    yield f"{results} = scan of {carried} with {inputs}"
    yield from _combiner(scan.combine)


def _carried(carries: list[Carry]) -> str:
    parts = [f"{c.result} = {c.variable} from {c.initial}" for c in carries]
    return f" carrying {', '.join(parts)}" if parts else ""


def _next(carries: list[Carry]) -> Iterator[str]:
    if carries:
        yield f"{_INDENT}next {', '.join(str(c.next) for c in carries)}"


def _combiner(combiner: Combiner) -> Iterator[str]:
    yield f"{_INDENT}combine {', '.join(map(str, combiner.parameters))}"
    yield from (_INDENT + line for line in _indented(combiner.block))
    yield f"{_INDENT * 2}to {', '.join(map(str, combiner.results))}"


def _indented(block: Block) -> Iterator[str]:
    return (_INDENT + line for line in _block(block))
