"""The size of kernels as straight-line code: how many statements they have with all loops unrolled.

Responsible for counting. Does not depend on which kernels are unrolled.
"""

from __future__ import annotations

from xlapy.loops.ir import Block, For, Kernel, Statement, Store, Value, While, inner_blocks

UNBOUNDED = 1 << 20
"""The number of statements that a loop counts as whose extent is not known at compile time: more than any limit."""


def unrolled_statement_count(block: Block) -> int:
    """Counts the statements of an unrolled block, a vector operation as one.

    If the extent of a loop is not known at compile time, the count exceeds every limit.
    """
    return sum(map(_statement_count, block.statements))


def strided_access_count(kernel: Kernel, ignored_bytes: int) -> int:
    """Counts the elements that vector loops load and store one by one, because they are not contiguous.

    Arrays of at most `ignored_bytes` do not count, as they may become registers.
    """
    found = 0
    for statement in kernel.statements():
        if isinstance(statement, For) and statement.width > 1 and isinstance(statement.extent, int):
            strided = [inner for inner in statement.body.statements if _is_strided(statement, inner, ignored_bytes)]
            found += statement.extent * len(strided)
    return found


def _is_strided(vector: For, statement: Statement, ignored_bytes: int) -> bool:
    """Whether a statement in a vector loop accesses elements that are not contiguous, in an array that counts."""
    if isinstance(statement, Store):
        place, count = statement.location, 1
    elif isinstance(statement, Value) and statement.op == "load":
        place = statement.attribute[0]
        count = statement.type.byte_size // place.buffer.type.byte_size
    else:
        return False
    buffer, offset = place.buffer, place.offset
    if buffer.size * buffer.type.byte_size <= ignored_bytes:
        return False
    varies_otherwise = any(value is not vector.axis and value.block is vector.body for value, _ in offset.terms)
    return varies_otherwise or abs(offset.coefficient(vector.axis)) > count


def _statement_count(statement: Statement) -> int:
    if isinstance(statement, Value):
        is_index = statement.op == "affine" or (statement.op in ("div", "mod") and statement.attribute is not None)
        return 0 if is_index else 1
    if isinstance(statement, For):
        if not isinstance(statement.extent, int):
            return UNBOUNDED
        combined = 0 if statement.combine is None else statement.accumulators + statement.width.bit_length()
        iterations = -(-statement.extent // statement.width) + combined
        return iterations * unrolled_statement_count(statement.body)
    if isinstance(statement, While) and not statement.is_bounded:
        return UNBOUNDED  # an unrolled kernel does not poll
    return 1 + sum(map(unrolled_statement_count, inner_blocks(statement)))
