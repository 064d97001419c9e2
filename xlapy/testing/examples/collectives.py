"""Worked examples and refusals of operations that exchange data among replicas and partitions.

Values of several devices are separated by `|`, in the order of the devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.testing.examples.example import NO_MLIR, Example, Refusal, Violation
from xlapy.testing.samples.sample import NEWER_THAN_JAXLIB

_SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"

_GATHER_START_AND_DONE = """
        x = f32[2] {1, 2.5} | {3, 5.25}
        s = (f32[2], f32[4]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}
        y = f32[4] all-gather-done(s)
        => f32[4] {1, 2.5, 3, 5.25}
        """
_REDUCE_START_AND_DONE = f"""
        {_SUM}
        x = f32[2] {{1, 2.5}} | {{3, 5.25}}
        s = f32[2] all-reduce-start(x), replica_groups={{{{0,1}}}}, to_apply=sum
        y = f32[2] all-reduce-done(s)
        => f32[2] {{4, 7.75}}
        """
_PERMUTE_START_AND_DONE = """
        x = f32[2] {1, 2} | {3, 4}
        s = (f32[2], f32[2]) collective-permute-start(x), source_target_pairs={{0,1}}
        y = f32[2] collective-permute-done(s)
        => f32[2] {0, 0} | {1, 2}
        """

EXAMPLES = [
    Example(
        "all-gather",
        """
        x = f32[2] {1, 2.5} | {3, 5.25}
        y = f32[4] all-gather(x), replica_groups={{0,1}}, dimensions={0}
        => f32[4] {1, 2.5, 3, 5.25}
        """,
        replicas=2,
    ),
    *(
        Example(op, _GATHER_START_AND_DONE, replicas=2, xla_cpu=NO_MLIR)
        for op in ("all-gather-start", "all-gather-done")
    ),
    Example(
        "all-reduce",
        f"""
        {_SUM}
        x = f32[2] {{1, 2.5}} | {{3, 5.25}}
        y = f32[2] all-reduce(x), replica_groups={{{{0,1}}}}, to_apply=sum
        => f32[2] {{4, 7.75}}
        """,
        replicas=2,
    ),
    *(
        Example(op, _REDUCE_START_AND_DONE, replicas=2, xla_cpu=NO_MLIR)
        for op in ("all-reduce-start", "all-reduce-done")
    ),
    Example(
        "reduce-scatter",
        f"""
        {_SUM}
        x = f32[4] {{1, 2, 3, 4}} | {{10, 20, 30, 40}}
        y = f32[2] reduce-scatter(x), replica_groups={{{{0,1}}}}, dimensions={{0}}, to_apply=sum
        => f32[2] {{11, 22}} | {{33, 44}}
        """,
        replicas=2,
    ),
    Example(
        "collective-reduce",
        f"""
        {_SUM}
        x = f32[2] {{1, 2.5}} | {{3, 5.25}}
        root = s32[1] {{1}}
        y = f32[2] collective-reduce(x, root), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, \
has_dynamic_root=true, to_apply=sum
        => f32[2] {{0, 0}} | {{4, 7.75}}
        """,
        replicas=2,
        xla_cpu=NEWER_THAN_JAXLIB,
    ),
    Example(
        "all-to-all",
        """
        x = s32[1,4] {{0, 1, 2, 3}} | {{10, 11, 12, 13}}
        blocks = s32[1,4] all-to-all(x), replica_groups={{0,1}}, dimensions={1}
        => s32[1,4] {{0, 1, 10, 11}} | {{2, 3, 12, 13}}
        """,
        replicas=2,
    ),
    Example(
        "ragged-all-to-all",
        """
        input = s32[3] {1, 2, 3} | {10, 20, 30}
        output = s32[4] {0, 0, 0, 0}
        input_offsets = s32[2] {0, 1}
        send_sizes = s32[2] {1, 2} | {1, 2}
        output_offsets = s32[2] {0, 0} | {1, 2}
        recv_sizes = s32[2] {1, 1} | {2, 2}
        y = s32[4] ragged-all-to-all(input, output, input_offsets, send_sizes, output_offsets, recv_sizes), \
replica_groups={{0,1}}
        => s32[4] {1, 10, 0, 0} | {2, 3, 20, 30}
        """,
        replicas=2,
        xla_cpu="XLA:CPU of jaxlib 0.10.2 crashes",
    ),
    Example(
        "collective-broadcast",
        """
        x = f32[2] {1, 2} | {3, 4}
        y = f32[2] collective-broadcast(x), replica_groups={{1,0}}
        => f32[2] {3, 4}
        """,
        replicas=2,
        xla_cpu="XLA:CPU does not run collective-broadcast",
    ),
    Example(
        "collective-permute",
        """
        x = f32[2] {1, 2} | {3, 4}
        y = f32[2] collective-permute(x), source_target_pairs={{0,1}}
        => f32[2] {0, 0} | {1, 2}
        """,
        replicas=2,
    ),
    *(
        Example(op, _PERMUTE_START_AND_DONE, replicas=2, xla_cpu=NO_MLIR)
        for op in ("collective-permute-start", "collective-permute-done")
    ),
    Example(
        "replica-id",
        """
        y = u32[] replica-id()
        => u32[] 0 | 1
        """,
        replicas=2,
    ),
    Example(
        "partition-id",
        """
        y = u32[] partition-id()
        => u32[] 0 | 1
        """,
        partitions=2,
        xla_cpu="XLA refuses partition-id in a program that its partitioner processes",
    ),
]

_ADD = ", to_apply=(f32[], f32[] -> f32[])"


def _of_groups(op: str, result: str, more: str, *, mode: bool = True, uniform: bool = True) -> Iterator[Refusal]:
    """Yields refusals for the constraints on replica groups. `mode`: the op has use_global_device_ids."""
    number = 1

    def refusal(attributes: str, violation: Violation, operand: str = "f32[4]") -> Refusal:
        declared = result.replace("(f32[4]", f"({operand}")
        return Refusal(op, number, f"{declared} {op}({operand}), {attributes}{more}", violation)

    yield refusal("replica_groups={{0,1}}", (shared.ARRAY_OPERAND, "operand 0", "token[]"), "token[]")
    if mode:
        number += 1
        yield refusal(
            "replica_groups={{0,1}}, use_global_device_ids=true", (codes.CHANNEL_GIVEN, "use_global_device_ids=true")
        )
        yield refusal(
            "channel_id=1, replica_groups={}, use_global_device_ids=true",
            (codes.GROUPS_GIVEN, "use_global_device_ids=true"),
        )
    number += 1
    yield refusal("replica_groups={{0,2}}", (codes.GROUP_IDS, "replica_groups", "{{0,2}}"))
    yield refusal("replica_groups={{0,1},{}}", (codes.EMPTY_GROUP, "replica_groups", "{{0,1},{}}"))
    if uniform:
        number += 1
        yield refusal("replica_groups={{0,1},{2}}", (codes.GROUP_SIZES, "replica_groups", "{{0,1},{2}}"))


def _of_reducer(op: str, constraint: int, result: str, more: str) -> Iterator[Refusal]:
    for program, violation in (
        ("f32[2], f32[2] -> f32[2]", (codes.COLLECTIVE_REDUCER, op, "-> f32[2]")),
        ("f32[] -> f32[]", (codes.COLLECTIVE_REDUCER, op, "f32[]) -> f32[]")),
    ):
        yield Refusal(
            op, constraint, f"{result} {op}(f32[4]), replica_groups={{{{0,1}}}}{more}, to_apply=({program})", violation
        )


def _of_gather(op: str, result: str, wrong: str, first: int) -> Iterator[Refusal]:
    yield Refusal(
        op,
        first,
        f"{result} {op}(f32[4]), replica_groups={{{{0,1}}}}, dimensions={{1}}",
        (shared.DIMENSION_NUMBER, "dimension 1"),
    )
    last = first + 1 if op == "all-gather" else first + 2
    text = f"{wrong} {op}(f32[4]), replica_groups={{{{0,1}}}}, dimensions={{0}}"
    yield Refusal(op, last, text, (codes.SHARD_COUNT, "3 shards", "{{0,1}}"))


def _of_permute(op: str, result: str) -> Iterator[Refusal]:
    yield Refusal(
        op,
        1,
        f"{result} {op}(token[]), source_target_pairs={{{{0,1}}}}",
        (shared.ARRAY_OPERAND, "operand 0", "token[]"),
    )
    yield Refusal(
        op, 2, f"{result} {op}(f32[4]), source_target_pairs={{{{0,1,2}}}}", (codes.PERMUTATION_PAIRS, "[0, 1, 2]")
    )
    yield Refusal(
        op, 2, f"{result} {op}(f32[4]), source_target_pairs={{{{0,1}},{{0,2}}}}", (codes.PERMUTATION_ONCE, "source 0")
    )
    sliced = "source_target_pairs={{0,1}}, slice_sizes={{2}}"
    yield Refusal(op, 3, f"{result} {op}(f32[4]), {sliced}", (codes.PERMUTATION_BUFFERS, "1"))
    for operands, violation in (
        ("f32[4], (f32[4]), (s32[]), (s32[])", (codes.PERMUTATION_BUFFERS, "f32[4]", "(f32[4])")),
        ("f32[4], f32[4], s32[], (s32[])", (codes.PERMUTATION_OFFSETS, "f32[4]", "s32[]")),
        ("(f32[4]), (f32[4]), ((s32[]), (s32[])), ((s32[]))", (codes.PERMUTATION_OFFSETS, "((s32[]), (s32[]))")),
    ):
        yield Refusal(op, 3, f"{result} {op}({operands}), {sliced}", violation)


_DONE = (codes.DONE_OPERAND, "(f32[4])")
_RAGGED = "s32[4], s32[4], s32[2], s32[2], s32[2]"

REFUSALS = [
    *_of_groups("all-gather", "f32[8]", ", dimensions={0}"),
    *_of_gather("all-gather", "f32[8]", "f32[12]", 5),
    Refusal(
        "all-gather",
        6,
        "(f32[8]) all-gather(f32[4]), replica_groups={{0,1}}, dimensions={0}",
        (codes.COLLECTIVE_RESULTS, "(f32[8])"),
    ),
    *_of_groups("all-gather-start", "(f32[4], f32[8])", ", dimensions={0}"),
    *_of_gather("all-gather-start", "(f32[4], f32[8])", "(f32[4], f32[12])", 5),
    Refusal(
        "all-gather-start",
        6,
        "f32[8] all-gather-start(f32[4]), replica_groups={{0,1}}, dimensions={0}",
        (codes.START_SHAPE, "f32[8]"),
    ),
    Refusal("all-gather-done", 1, "f32[8] all-gather-done((f32[4]))", _DONE),
    *_of_groups("all-reduce", "f32[4]", _ADD, uniform=False),
    *_of_reducer("all-reduce", 4, "f32[4]", ""),
    *_of_groups("all-reduce-start", "f32[4]", _ADD, uniform=False),
    *_of_reducer("all-reduce-start", 4, "f32[4]", ""),
    *_of_groups("reduce-scatter", "f32[2]", f", dimensions={{0}}{_ADD}"),
    *_of_reducer("reduce-scatter", 5, "f32[2]", ", dimensions={0}"),
    Refusal(
        "reduce-scatter",
        6,
        f"f32[2] reduce-scatter(f32[4]), replica_groups={{{{0,1}}}}, dimensions={{1}}{_ADD}",
        (shared.DIMENSION_NUMBER, "dimension 1", "f32[4]", "rank 1"),
    ),
    Refusal(
        "reduce-scatter",
        7,
        f"f32[2] reduce-scatter(f32[5]), replica_groups={{{{0,1}}}}, dimensions={{0}}{_ADD}",
        (codes.GROUP_SIZE_DIVIDES, "dimension 0", "f32[5]"),
    ),
    *_of_groups("collective-reduce", "f32[4]", f", has_dynamic_root=false{_ADD}"),
    *_of_reducer("collective-reduce", 5, "f32[4]", ", has_dynamic_root=false"),
    Refusal(
        "collective-reduce",
        6,
        f"f32[4] collective-reduce(f32[4], s32[2]), replica_groups={{{{0,1}}}}, has_dynamic_root=true{_ADD}",
        (codes.ROOT_OPERAND, "s32[1]", "s32[2]"),
    ),
    Refusal(
        "collective-broadcast",
        1,
        "f32[4] collective-broadcast(token[]), replica_groups={{0,1}}",
        (shared.ARRAY_OPERAND, "operand 0", "token[]"),
    ),
    Refusal(
        "collective-broadcast",
        2,
        "s32[1] collective-broadcast(s32[1]), replica_groups={{0,1}}, has_dynamic_root=true",
        (codes.ROOT_OPERAND, "s32[1]"),
    ),
    *_of_groups("all-to-all", "f32[4]", ", dimensions={0}", mode=False),
    Refusal(
        "all-to-all",
        4,
        "f32[5] all-to-all(f32[5]), replica_groups={{0,1}}, dimensions={0}",
        (codes.GROUP_SIZE_DIVIDES, "dimension 0", "f32[5]"),
    ),
    Refusal(
        "all-to-all",
        4,
        "f32[4] all-to-all(f32[4], f32[4]), replica_groups={{0,1}}, dimensions={0}",
        (codes.EXCHANGED_OPERANDS, "2"),
    ),
    Refusal(
        "all-to-all",
        5,
        "(f32[4]) all-to-all(f32[4]), replica_groups={{0,1}}",
        (codes.EXCHANGED_OPERANDS, "replica_groups", "{{0,1}}"),
    ),
    Refusal(
        "all-to-all",
        5,
        "(f32[4], f32[5]) all-to-all(f32[4], f32[5]), replica_groups={{0,1}}",
        (codes.EXCHANGED_SHAPES, "operand 0", "f32[4]", "operand 1", "f32[5]"),
    ),
    Refusal(
        "all-to-all",
        5,
        "(f32[4,2], f32[4,2]) all-to-all(f32[4,2]{1,0}, f32[4,2]{0,1}), replica_groups={{0,1}}",
        (codes.EXCHANGED_SHAPES, "operand 0", "f32[4,2]{1,0}", "operand 1", "f32[4,2]{0,1}"),
    ),
    Refusal(
        "ragged-all-to-all",
        1,
        f"s32[4] ragged-all-to-all(token[], {_RAGGED}), replica_groups={{{{0,1}}}}",
        (shared.ARRAY_OPERAND, "operand 0", "token[]"),
    ),
    Refusal(
        "ragged-all-to-all",
        2,
        f"s32[4] ragged-all-to-all(s32[4], {_RAGGED}), replica_groups={{{{0,2}}}}",
        (codes.GROUP_IDS, "replica_groups", "{{0,2}}"),
    ),
    Refusal(
        "ragged-all-to-all",
        3,
        f"s32[4] ragged-all-to-all(s32[4], {_RAGGED}), replica_groups={{{{0,1}},{{2}}}}",
        (codes.GROUP_SIZES, "replica_groups", "{{0,1},{2}}"),
    ),
    Refusal(
        "ragged-all-to-all",
        4,
        "s32[4] ragged-all-to-all(s32[4], s32[4], s32[], s32[], s32[], s32[]), replica_groups={{0,1}}",
        (codes.RAGGED_OFFSETS, "input_offsets", "rank 1", "s32[]"),
    ),
    Refusal(
        "ragged-all-to-all",
        4,
        "s32[4] ragged-all-to-all(s32[4], s32[4], s32[2], s32[3], s32[2], s32[2]), replica_groups={{0,1}}",
        (codes.RAGGED_OFFSETS, "send_sizes", "input_offsets", "s32[2]"),
    ),
    *_of_permute("collective-permute", "f32[4]"),
    *_of_permute("collective-permute-start", "(f32[4], f32[4])"),
    Refusal(
        "collective-permute-start",
        4,
        "(f32[4]) collective-permute-start(f32[4]), source_target_pairs={{0,1}}",
        (codes.START_SHAPE, "(f32[4])"),
    ),
    Refusal("collective-permute-done", 1, "f32[4] collective-permute-done((f32[4]))", _DONE),
]
