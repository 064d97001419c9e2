"""Random programs for several devices: chains of operations on integers, with shardings over random meshes.

Integers make results exact, in whatever order sums are computed. Does not depend on the partitioner.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Dimensions = tuple[int, ...]
MESHES = [
    ("mesh['a'=8]", (8,)), ("mesh['a'=2,'b'=4]", (2, 4)), ("mesh['a'=4,'b'=2]", (4, 2)),
    ("mesh['a'=2,'b'=2,'c'=2]", (2, 2, 2)), ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0))", (2, 4)),
    ("mesh['a'=2,'b'=4], device_ids=(0,3,1,2,7,6,4,5)", (2, 4)),
]  # fmt: skip
SIZES = (1, 2, 3, 4, 8, 16)
HEAD = """HloModule m
sum { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
most { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] maximum(a, b) }
less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""


@dataclass
class Program:
    """A program under construction. values: names and dimensions of its arrays of s32. loops: computations of loops."""

    chance: random.Random
    mesh: str
    axes: Dimensions
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[str, Dimensions]] = field(default_factory=list[tuple[str, Dimensions]])
    loops: list[str] = field(default_factory=list[str])

    def sharding(self, dimensions: Dimensions) -> str:
        """Returns a random sharding of an array, each axis on one dimension or none."""
        given: list[list[str]] = [[] for _ in dimensions]
        for axis in self.chance.sample(range(len(self.axes)), len(self.axes)):
            if dimensions and self.chance.random() < 0.6:
                given[self.chance.randrange(len(dimensions))].append(f"'{'abc'[axis]}'")
        listed = ", ".join("{" + ", ".join(each) + "}" for each in given)
        return f"{{{self.mesh}, [{listed}]}}"

    def add(self, dimensions: Dimensions, operation: str, probability: float = 0.4) -> str:
        """Adds an operation, with a sharding or without one; returns its name."""
        name = f"v_{len(self.lines)}"
        mark = f", sharding={self.sharding(dimensions)}" if self.chance.random() < probability else ""
        self.lines.append(f"{name} = s32[{_text(dimensions)}] {operation}{mark}")
        self.values.append((name, dimensions))
        return name

    def pick(self, rank: int = 0) -> tuple[str, Dimensions]:
        """Returns a random value of at least some rank, recent ones more often."""
        fitting = [value for value in self.values if len(value[1]) >= rank] or self.values[:1]
        return fitting[-1 - min(int(self.chance.expovariate(0.5)), len(fitting) - 1)]

    def like(self, dimensions: Dimensions) -> str:
        """Returns a value with these dimensions, made from an iota if there is none."""
        found = [name for name, sizes in self.values if sizes == dimensions]
        if found:
            return self.chance.choice(found)
        if not dimensions:
            return self.add((), f"constant({self.chance.randrange(-3, 4)})", 0)
        return self.add(dimensions, f"iota(), iota_dimension={self.chance.randrange(len(dimensions))}")

    def scalar(self, value: int) -> str:
        return self.add((), f"constant({value})", 0)


def _text(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))


def _elementwise(p: Program) -> None:
    name, sizes = p.pick()
    operation = p.chance.choice(["add", "subtract", "multiply", "maximum", "minimum", "negate", "abs", "copy"])
    others = "" if operation in ("negate", "abs", "copy") else f", {p.like(sizes)}"
    p.add(sizes, f"{operation}({name}{others})")


def _transpose(p: Program) -> None:
    name, sizes = p.pick(2)
    order = p.chance.sample(range(len(sizes)), len(sizes))
    p.add(tuple(sizes[d] for d in order), f"transpose({name}), dimensions={{{_text(order)}}}")


def _reshape(p: Program) -> None:
    name, sizes = p.pick(1)
    merged = list(sizes)
    at = p.chance.randrange(len(merged))
    if p.chance.random() < 0.5 and at + 1 < len(merged):
        merged[at : at + 2] = [merged[at] * merged[at + 1]]
    else:
        factor = p.chance.choice([n for n in (1, 2, 4) if merged[at] % n == 0])
        merged[at : at + 1] = [factor, merged[at] // factor]
    if len(merged) <= 4:
        p.add(tuple(merged), f"reshape({name})")


def _reduce(p: Program) -> None:
    name, sizes = p.pick(1)
    reduced = sorted(p.chance.sample(range(len(sizes)), p.chance.randint(1, len(sizes))))
    reducer, start = p.chance.choice([("sum", 0), ("most", -(2**31))])  # others are undefined for one element
    rest = tuple(size for d, size in enumerate(sizes) if d not in reduced)
    p.add(rest, f"reduce({name}, {p.scalar(start)}), dimensions={{{_text(reduced)}}}, to_apply={reducer}")


def _broadcast(p: Program) -> None:
    name, sizes = p.pick()
    if len(sizes) > 2:
        return
    at, size = p.chance.randint(0, len(sizes)), p.chance.choice(SIZES[2:])
    kept = [d for d in range(len(sizes) + 1) if d != at]
    p.add((*sizes[:at], size, *sizes[at:]), f"broadcast({name}), dimensions={{{_text(kept)}}}")


def _dot(p: Program) -> None:
    name, sizes = p.pick(2)
    contracted = p.chance.randrange(len(sizes))
    free = p.chance.choice(SIZES)
    if p.chance.random() < 0.5:
        other, dimensions, number = p.like((sizes[contracted], free)), (sizes[contracted], free), 0
    else:
        other, dimensions, number = p.like((free, sizes[contracted])), (free, sizes[contracted]), 1
    rest = (*[size for d, size in enumerate(sizes) if d != contracted], dimensions[1 - number])
    dims = f"lhs_contracting_dims={{{contracted}}}, rhs_contracting_dims={{{number}}}"
    p.add(rest, f"dot({name}, {other}), {dims}")


def _batched_dot(p: Program) -> None:
    name, sizes = p.pick(3)
    if len(sizes) != 3:
        return
    dims = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}"
    p.add((sizes[0], sizes[1], sizes[1]), f"dot({name}, {p.like(sizes)}), {dims}")


def _slice(p: Program) -> None:
    name, sizes = p.pick(1)
    starts = [p.chance.randrange(size) if p.chance.random() < 0.5 else 0 for size in sizes]
    limits = [p.chance.randint(s + 1, size) if s else size for s, size in zip(starts, sizes, strict=True)]
    ranges = ",".join(f"[{s}:{e}]" for s, e in zip(starts, limits, strict=True))
    p.add(tuple(e - s for s, e in zip(starts, limits, strict=True)), f"slice({name}), slice={{{ranges}}}")


def _pad(p: Program) -> None:
    name, sizes = p.pick(1)
    edges = [(p.chance.choice([0, 0, 1, 2]), p.chance.choice([0, 0, 1])) for _ in sizes]
    padding = "x".join(f"{low}_{high}" for low, high in edges)
    wide = tuple(size + low + high for size, (low, high) in zip(sizes, edges, strict=True))
    p.add(wide, f"pad({name}, {p.scalar(p.chance.choice([0, 7]))}), padding={padding}")


def _concatenate(p: Program) -> None:
    name, sizes = p.pick(1)
    at = p.chance.randrange(len(sizes))
    wide = (*sizes[:at], 2 * sizes[at], *sizes[at + 1 :])
    p.add(wide, f"concatenate({name}, {p.like(sizes)}), dimensions={{{at}}}")


def _reverse_or_sort(p: Program) -> None:
    name, sizes = p.pick(1)
    at = p.chance.randrange(len(sizes))
    rest = ", to_apply=less" if (operation := p.chance.choice(["reverse", "sort"])) == "sort" else ""
    p.add(sizes, f"{operation}({name}), dimensions={{{at}}}{rest}")


def _gather(p: Program) -> None:
    name, sizes = p.pick(2)
    count, rest = p.chance.choice(SIZES[2:]), sizes[1:]
    indices = p.like((count,))
    p.add(
        (count, *rest),
        f"gather({name}, {indices}), offset_dims={{{_text(range(1, len(sizes)))}}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{{_text((1, *rest))}}}",
    )


def _scatter(p: Program) -> None:
    name, sizes = p.pick(2)
    count, rest = p.chance.choice(SIZES[2:]), sizes[1:]
    indices, updates = p.like((count,)), p.like((count, *rest))
    p.add(
        sizes,
        f"scatter({name}, {indices}, {updates}), update_window_dims={{{_text(range(1, len(sizes)))}}}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
    )


def _dynamic_slice(p: Program) -> None:
    name, sizes = p.pick(1)
    taken = tuple(size if p.chance.random() < 0.5 else 1 for size in sizes)
    starts = [p.scalar(p.chance.randrange(-2, 6)) for _ in sizes]
    given = f"{name}, {', '.join(starts)}"
    if p.chance.random() < 0.5:
        p.add(taken, f"dynamic-slice({given}), dynamic_slice_sizes={{{_text(taken)}}}")
    else:
        p.add(sizes, f"dynamic-update-slice({name}, {p.like(taken)}, {', '.join(starts)})")


def _constraint(p: Program) -> None:
    name, sizes = p.pick(1)
    mark = f'custom-call({name}), custom_call_target="Sharding", sharding={p.sharding(sizes)}'
    p.add(sizes, mark, 0)


def _loop(p: Program) -> None:
    """Adds a loop whose state is two arrays, one of which takes the sums of the other's rows."""
    name, sizes = p.pick(1)
    number, text = len(p.loops), _text(sizes)
    state = f"(s32[], s32[{text}], s32[{text}])"
    kept = _text(range(1, len(sizes)))
    rows, dims = _text(sizes[1:]), "{" + kept + "}"
    p.loops.append(f"""body_{number} {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = s32[{text}] get-tuple-element(s), index=1
        y = s32[{text}] get-tuple-element(s), index=2
        one = s32[] constant(1)
        zero = s32[] constant(0)
        j = s32[] add(i, one)
        r = s32[{rows}] reduce(x, zero), dimensions={{0}}, to_apply=sum
        b = s32[{text}] broadcast(r), dimensions={dims}
        z = s32[{text}] subtract(y, b)
        ROOT t = {state} tuple(j, z, x) }}
      condition_{number} {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        limit = s32[] constant(3)
        ROOT p = pred[] compare(i, limit), direction=LT }}""")
    mark = f", sharding={{{{replicated}}, {p.sharding(sizes)}, {p.sharding(sizes)}}}" if p.chance.random() < 0.5 else ""
    start = p.scalar(0)
    p.lines += [
        f"t_{number} = {state} tuple({start}, {name}, {p.like(sizes)})",
        f"w_{number} = {state} while(t_{number}), body=body_{number}, condition=condition_{number}{mark}",
    ]
    p.add(sizes, f"get-tuple-element(w_{number}), index={p.chance.choice([1, 2])}", 0)


OPERATIONS: list[Callable[[Program], None]] = [
    _elementwise, _elementwise, _transpose, _reshape, _reduce, _broadcast, _dot, _dot, _batched_dot, _slice, _pad,
    _concatenate, _reverse_or_sort, _gather, _scatter, _dynamic_slice, _constraint, _loop,
]  # fmt: skip


def random_program(seed: int, operations: int = 12) -> str:
    """Returns the text of a program with two parameters and up to three results."""
    chance = random.Random(seed)
    mesh, axes = chance.choice(MESHES)
    p = Program(chance, mesh, axes)
    for number in range(2):
        sizes = tuple(chance.choice(SIZES[2:]) for _ in range(chance.randint(1, 3)))
        p.add(sizes, f"parameter({number})", 0.8)
    while len(p.lines) < operations + 2:
        chance.choice(OPERATIONS)(p)
    results = list(dict.fromkeys([p.values[-1], p.pick(1), p.pick(1)]))
    shapes = ", ".join(f"s32[{_text(sizes)}]" for _, sizes in results)
    shardings = ", ".join(p.sharding(sizes) if sizes else "{replicated}" for _, sizes in results)
    names = ", ".join(name for name, _ in results)
    body = "\n        ".join([*p.lines, f"ROOT r = ({shapes}) tuple({names}), sharding={{{shardings}}}"])
    return HEAD + "\n      ".join(p.loops) + f"\n      ENTRY e {{\n        {body} }}"
