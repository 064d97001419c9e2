"""Worked examples and refusals of operations that exchange data among replicas and partitions.

Values of several devices are separated by `|`, in the order of the devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy.testing.examples.example import NO_MLIR, Example, Refusal
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

    def refusal(attributes: str, message: str, operand: str = "f32[4]") -> Refusal:
        declared = result.replace("(f32[4]", f"({operand}")
        return Refusal(op, number, f"{declared} {op}({operand}), {attributes}{more}", f"{op}{message}")

    yield refusal("replica_groups={{0,1}}", " takes arrays, operand 0 is token[]", "token[]")
    if mode:
        number += 1
        yield refusal(
            "replica_groups={{0,1}}, use_global_device_ids=true", ": use_global_device_ids=true needs a channel"
        )
        yield refusal("channel_id=1, replica_groups={}, use_global_device_ids=true", " with use_global_device_ids=true")
    number += 1
    yield refusal("replica_groups={{0,2}}", ": replica_groups {{0,2}} must hold each id from 0 to 1 once")
    yield refusal("replica_groups={{0,1},{}}", ": replica_groups {{0,1},{}} have an empty group")
    if uniform:
        number += 1
        yield refusal("replica_groups={{0,1},{2}}", ": replica_groups {{0,1},{2}} must all have the same size")


def _of_reducer(op: str, constraint: int, result: str, more: str) -> Iterator[Refusal]:
    for program, message in (
        ("f32[2], f32[2] -> f32[2]", "the reducer must take and return scalars"),
        ("f32[] -> f32[]", "needs a reducer of two scalars"),
    ):
        yield Refusal(
            op, constraint, f"{result} {op}(f32[4]), replica_groups={{{{0,1}}}}{more}, to_apply=({program})", message
        )


def _of_gather(op: str, result: str, wrong: str, first: int) -> Iterator[Refusal]:
    yield Refusal(
        op, first, f"{result} {op}(f32[4]), replica_groups={{{{0,1}}}}, dimensions={{1}}", "dimension 1 is out of"
    )
    last = first + 1 if op == "all-gather" else first + 2
    text = f"{wrong} {op}(f32[4]), replica_groups={{{{0,1}}}}, dimensions={{0}}"
    yield Refusal(op, last, text, "the shapes imply 3 shards, but replica_groups {{0,1}} have 2 members")


def _of_permute(op: str, result: str) -> Iterator[Refusal]:
    yield Refusal(
        op, 1, f"{result} {op}(token[]), source_target_pairs={{{{0,1}}}}", "takes arrays, operand 0 is token[]"
    )
    yield Refusal(op, 2, f"{result} {op}(f32[4]), source_target_pairs={{{{0,1,2}}}}", "must be pairs of ids from 0 on")
    yield Refusal(op, 2, f"{result} {op}(f32[4]), source_target_pairs={{{{0,1}},{{0,2}}}}", "source 0 appears 2 times")
    sliced = "source_target_pairs={{0,1}}, slice_sizes={{2}}"
    yield Refusal(op, 3, f"{result} {op}(f32[4]), {sliced}", "4 operands, given 1")
    for operands, message in (
        ("f32[4], (f32[4]), (s32[]), (s32[])", "must have the same number of buffers"),
        ("f32[4], f32[4], s32[], (s32[])", "must be a tuple of 1 scalars"),
        ("(f32[4]), (f32[4]), ((s32[]), (s32[])), ((s32[]))", "must hold one entry for each buffer"),
    ):
        yield Refusal(op, 3, f"{result} {op}({operands}), {sliced}", message)


_DONE = "takes (operands, results, ...), given (f32[4])"
_RAGGED = "s32[4], s32[4], s32[2], s32[2], s32[2]"

REFUSALS = [
    *_of_groups("all-gather", "f32[8]", ", dimensions={0}"),
    *_of_gather("all-gather", "f32[8]", "f32[12]", 5),
    Refusal(
        "all-gather", 6, "(f32[8]) all-gather(f32[4]), replica_groups={{0,1}}, dimensions={0}", "returns as many arrays"
    ),
    *_of_groups("all-gather-start", "(f32[4], f32[8])", ", dimensions={0}"),
    *_of_gather("all-gather-start", "(f32[4], f32[8])", "(f32[4], f32[12])", 5),
    Refusal(
        "all-gather-start", 6, "f32[8] all-gather-start(f32[4]), replica_groups={{0,1}}, dimensions={0}", "has shape"
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
        "out of",
    ),
    Refusal(
        "reduce-scatter",
        7,
        f"f32[2] reduce-scatter(f32[5]), replica_groups={{{{0,1}}}}, dimensions={{0}}{_ADD}",
        "must be",
    ),
    *_of_groups("collective-reduce", "f32[4]", f", has_dynamic_root=false{_ADD}"),
    *_of_reducer("collective-reduce", 5, "f32[4]", ", has_dynamic_root=false"),
    Refusal(
        "collective-reduce",
        6,
        f"f32[4] collective-reduce(f32[4], s32[2]), replica_groups={{{{0,1}}}}, has_dynamic_root=true{_ADD}",
        "the root of 1 data operands must be s32[1], given s32[2]",
    ),
    Refusal(
        "collective-broadcast",
        1,
        "f32[4] collective-broadcast(token[]), replica_groups={{0,1}}",
        "takes arrays, operand 0 is token[]",
    ),
    Refusal(
        "collective-broadcast",
        2,
        "s32[1] collective-broadcast(s32[1]), replica_groups={{0,1}}, has_dynamic_root=true",
        "takes data operands before the root, given only s32[1]",
    ),
    *_of_groups("all-to-all", "f32[4]", ", dimensions={0}", mode=False),
    Refusal(
        "all-to-all", 4, "f32[5] all-to-all(f32[5]), replica_groups={{0,1}}, dimensions={0}", "must be divisible by"
    ),
    Refusal(
        "all-to-all", 4, "f32[4] all-to-all(f32[4], f32[4]), replica_groups={{0,1}}, dimensions={0}", "takes one oper"
    ),
    Refusal("all-to-all", 5, "(f32[4]) all-to-all(f32[4]), replica_groups={{0,1}}", "takes one operand per member"),
    Refusal(
        "all-to-all",
        5,
        "(f32[4], f32[5]) all-to-all(f32[4], f32[5]), replica_groups={{0,1}}",
        "operand 0 is f32[4], operand 1 is f32[5]",
    ),
    Refusal(
        "all-to-all",
        5,
        "(f32[4,2], f32[4,2]) all-to-all(f32[4,2]{1,0}, f32[4,2]{0,1}), replica_groups={{0,1}}",
        "operand 0 has the layout of f32[4,2]{1,0}, operand 1 that of f32[4,2]{0,1}",
    ),
    Refusal(
        "ragged-all-to-all", 1, f"s32[4] ragged-all-to-all(token[], {_RAGGED}), replica_groups={{{{0,1}}}}", "arrays"
    ),
    Refusal(
        "ragged-all-to-all", 2, f"s32[4] ragged-all-to-all(s32[4], {_RAGGED}), replica_groups={{{{0,2}}}}", "each id"
    ),
    Refusal(
        "ragged-all-to-all", 3, f"s32[4] ragged-all-to-all(s32[4], {_RAGGED}), replica_groups={{{{0,1}},{{2}}}}", "size"
    ),
    Refusal(
        "ragged-all-to-all",
        4,
        "s32[4] ragged-all-to-all(s32[4], s32[4], s32[], s32[], s32[], s32[]), replica_groups={{0,1}}",
        "input_offsets must have rank 1 or 2, given s32[]",
    ),
    Refusal(
        "ragged-all-to-all",
        4,
        "s32[4] ragged-all-to-all(s32[4], s32[4], s32[2], s32[3], s32[2], s32[2]), replica_groups={{0,1}}",
        "send_sizes must have the shape of input_offsets s32[2]",
    ),
    *_of_permute("collective-permute", "f32[4]"),
    *_of_permute("collective-permute-start", "(f32[4], f32[4])"),
    Refusal(
        "collective-permute-start",
        4,
        "(f32[4]) collective-permute-start(f32[4]), source_target_pairs={{0,1}}",
        "has shape (operands, results, ...), declared (f32[4])",
    ),
    Refusal("collective-permute-done", 1, "f32[4] collective-permute-done((f32[4]))", _DONE),
]
