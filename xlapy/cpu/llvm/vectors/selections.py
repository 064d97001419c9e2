"""The function that lists the positions of the integers in a range, for one size of integers.

    i64 @xlapy_select_positions_BITS_BYTES(ptr source, i64 count, i64 first, i64 extent, ptr target)

stores the positions p below `count` with first <= source[p] < first + extent to `target`, and returns their number.
BYTES is the size of a register. Registers of 64 bytes belong to AVX-512, which moves chosen lanes together: a vector of
positions is stored after those before it, with lanes behind the chosen ones that the next vector overwrites. Otherwise,
and for the last positions, each position is stored, and the next one after it if it is chosen: there is no branch.

Responsible for the text. Does not depend on what the integers mean.
"""

from __future__ import annotations


def selection_name(bits: int, vector_bytes: int) -> str:
    return f"xlapy_select_positions_{bits}_{vector_bytes}"


def selection_declaration(name: str) -> str:
    return f"declare i64 @{name}(ptr, i64, i64, i64, ptr)"


def emit_selection(bits: int, vector_bytes: int) -> tuple[str, set[str]]:
    """Returns the function and its declarations."""
    name, integer = selection_name(bits, vector_bytes), f"i{bits}"
    narrow = ["first", "extent"] if bits < 64 else []
    lines = [
        f"define i64 @{name}(ptr %source, i64 %count, i64 %wide.first, i64 %wide.extent, ptr %target) #0 {{",
        "entry:",
        *(
            f"  %{value} = trunc i64 %wide.{value} to {integer}" if narrow else f"  %{value} = add i64 %wide.{value}, 0"
            for value in ("first", "extent")
        ),
    ]
    declarations: set[str] = set()
    if vector_bytes == 64:
        lines += _vectors(512 // bits, integer)
        declarations = _declarations(512 // bits)
    else:
        lines += ["  br label %single"]
    start = "%whole, %vectors.end" if vector_bytes == 64 else "0, %entry"
    stored = "%all, %vectors.end" if vector_bytes == 64 else "0, %entry"
    lines += [
        "single:",
        f"  %p = phi i64 [ {start} ], [ %p.next, %one ]",
        f"  %n = phi i64 [ {stored} ], [ %n.next, %one ]",
        "  %is.left = icmp slt i64 %p, %count",
        "  br i1 %is.left, label %one, label %done",
        "one:",
        f"  %at = getelementptr inbounds {integer}, ptr %source, i64 %p",
        f"  %value = load {integer}, ptr %at",
        f"  %offset = sub {integer} %value, %first",
        f"  %chosen = icmp ult {integer} %offset, %extent",
        "  %to = getelementptr inbounds i32, ptr %target, i64 %n",
        "  %p.narrow = trunc i64 %p to i32",
        "  store i32 %p.narrow, ptr %to",
        "  %step = zext i1 %chosen to i64",
        "  %n.next = add i64 %n, %step",
        "  %p.next = add i64 %p, 1",
        "  br label %single",
        "done:",
        "  ret i64 %n",
        "}",
    ]
    return "\n".join(lines), declarations


def _declarations(lanes: int) -> set[str]:
    vector = f"<{lanes} x i32>"
    return {
        f"declare {vector} @llvm.experimental.vector.compress.v{lanes}i32({vector}, <{lanes} x i1>, {vector})",
        f"declare i{lanes} @llvm.ctpop.i{lanes}(i{lanes})",
    }


def _vectors(lanes: int, integer: str) -> list[str]:
    """The loop over whole vectors."""
    vector, positions, bits = f"<{lanes} x {integer}>", f"<{lanes} x i32>", f"<{lanes} x i1>"
    numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
    splats: list[str] = []
    for value in ("first", "extent"):
        splats.append(f"  %one.{value} = insertelement {vector} poison, {integer} %{value}, i64 0")
        splats.append(
            f"  %all.{value} = shufflevector {vector} %one.{value}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )
    return [
        *splats,
        f"  %whole = and i64 %count, {-lanes}",
        "  br label %vectors",
        "vectors:",
        "  %base = phi i64 [ 0, %entry ], [ %base.next, %vector ]",
        "  %all = phi i64 [ 0, %entry ], [ %all.next, %vector ]",
        f"  %numbers = phi {positions} [ <{numbers}>, %entry ], [ %numbers.next, %vector ]",
        "  %more = icmp slt i64 %base, %whole",
        "  br i1 %more, label %vector, label %vectors.end",
        "vector:",
        f"  %from = getelementptr inbounds {integer}, ptr %source, i64 %base",
        f"  %values = load {vector}, ptr %from, align {int(integer[1:]) // 8}",
        f"  %offsets = sub {vector} %values, %all.first",
        f"  %are.chosen = icmp ult {vector} %offsets, %all.extent",
        f"  %found = call {positions} @llvm.experimental.vector.compress.v{lanes}i32("
        f"{positions} %numbers, {bits} %are.chosen, {positions} poison)",
        "  %behind = getelementptr inbounds i32, ptr %target, i64 %all",
        f"  store {positions} %found, ptr %behind, align 4",
        f"  %word = bitcast {bits} %are.chosen to i{lanes}",
        f"  %several = call i{lanes} @llvm.ctpop.i{lanes}(i{lanes} %word)",
        f"  %several.wide = zext i{lanes} %several to i64",
        "  %all.next = add i64 %all, %several.wide",
        f"  %base.next = add i64 %base, {lanes}",
        f"  %numbers.next = add {positions} %numbers, <{', '.join([f'i32 {lanes}'] * lanes)}>",
        "  br label %vectors",
        "vectors.end:",
        "  br label %single",
    ]
