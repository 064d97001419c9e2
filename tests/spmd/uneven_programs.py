"""Random programs of several operations on arrays whose dimensions do not divide evenly among the devices."""

from __future__ import annotations

import random

import numpy as np

from tests.spmd.halo_programs import Program, mesh_sharding, shape_text, values_of, window_along_dimension, window_text


class _Chain:
    """A program under construction. value: the name of the last array. sizes: its dimensions."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.devices = chance.choice([2, 4, 8])
        self.lines: list[str] = []
        self.value = "x"
        self.sizes = [chance.randint(2, 19), chance.randint(2, 11)]

    def add(self, sizes: list[int], text: str, element: str = "f32") -> None:
        """Adds an instruction on the last array, often with a sharding."""
        name = f"v{len(self.lines)}"
        sharding = f", sharding={self.sharding(len(sizes))}" if self.chance.random() < 0.6 else ""
        self.lines.append(f"{name} = {element}[{','.join(map(str, sizes))}] {text}{sharding}")
        self.value, self.sizes = name, sizes

    def sharding(self, rank: int) -> str:
        return mesh_sharding(self.chance, self.devices, rank)

    def add_random(self) -> None:
        self.chance.choice(_OPERATIONS)(self)


def _elementwise(chain: _Chain) -> None:
    x = chain.value
    chain.add(chain.sizes, chain.chance.choice([f"negate({x})", f"add({x}, {x})", f"abs({x})", f"subtract({x}, {x})"]))


def _reciprocal(chain: _Chain) -> None:
    """Turns zeros into infinities, so that elements between the end of the array and the end of a tile show."""
    chain.add(chain.sizes, f"divide({chain.value}, {chain.value})")


def _transpose(chain: _Chain) -> None:
    chain.add(chain.sizes[::-1], f"transpose({chain.value}), dimensions={{1,0}}")


def _slice(chain: _Chain) -> None:
    ranges = []
    for size in chain.sizes:
        start = chain.chance.randrange(max(1, size // 2))
        ranges.append((start, chain.chance.randint(start + 1, size), chain.chance.choice([1, 1, 2])))
    sizes = [-(-(limit - start) // stride) for start, limit, stride in ranges]
    chain.add(sizes, f"slice({chain.value}), slice={{{', '.join(f'[{a}:{b}:{c}]' for a, b, c in ranges)}}}")


def _pad(chain: _Chain) -> None:
    edges = [[chain.chance.choice([0, 1, 3, -1]), chain.chance.choice([0, 2, 5])] for _ in chain.sizes]
    inner = [chain.chance.choice([0, 0, 1]) for _ in chain.sizes]
    sizes = [low + high + size + (size - 1) * i for size, (low, high), i in zip(chain.sizes, edges, inner, strict=True)]
    if min(sizes) > 0 and max(sizes) < 40:
        padding = "x".join(f"{low}_{high}_{i}" for (low, high), i in zip(edges, inner, strict=True))
        chain.add(sizes, f"pad({chain.value}, c), padding={padding}")


def _window(chain: _Chain) -> None:
    found = [window_along_dimension(chain.chance, size, 3) for size in chain.sizes]
    if all(found):
        windows, sizes = [each[0] for each in found if each], [each[1] for each in found if each]
        if max(sizes) < 40:
            chain.add(sizes, f"reduce-window({chain.value}, z), window={window_text(windows)}, to_apply=sum")


def _reverse(chain: _Chain) -> None:
    chain.add(chain.sizes, f"reverse({chain.value}), dimensions={{{chain.chance.choice(['0', '1', '0,1'])}}}")


def _concatenate(chain: _Chain) -> None:
    dimension = chain.chance.randrange(2)
    sizes = list(chain.sizes)
    sizes[dimension] *= 2
    if sizes[dimension] < 40:
        chain.add(sizes, f"concatenate({chain.value}, {chain.value}), dimensions={{{dimension}}}")


def _rotate(chain: _Chain) -> None:
    dimension, sizes, x = chain.chance.randrange(2), list(chain.sizes), chain.value
    if sizes[dimension] < 2:
        return
    start = chain.chance.randint(1, sizes[dimension] - 1)
    names = []
    for low, high in ((start, sizes[dimension]), (0, start)):
        part, ranges = list(sizes), [f"[0:{size}]" for size in sizes]
        part[dimension], ranges[dimension] = high - low, f"[{low}:{high}]"
        names.append(f"part{len(chain.lines)}")
        chain.lines.append(f"{names[-1]} = {shape_text(part)} slice({x}), slice={{{', '.join(ranges)}}}")
    chain.add(sizes, f"concatenate({', '.join(names)}), dimensions={{{dimension}}}")


def _reduce_and_broadcast(chain: _Chain) -> None:
    dimension = chain.chance.randrange(2)
    sizes, other = list(chain.sizes), [chain.sizes[1 - dimension]]
    op, initial = chain.chance.choice([("sum", "z"), ("most", "low")])
    chain.add(other, f"reduce({chain.value}, {initial}), dimensions={{{dimension}}}, to_apply={op}")
    chain.add(sizes, f"broadcast({chain.value}), dimensions={{{1 - dimension}}}")


def _dot(chain: _Chain) -> None:
    x, (rows, columns) = chain.value, chain.sizes
    if chain.chance.random() < 0.5:
        chain.add([columns, columns], f"dot({x}, {x}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}")
    else:
        chain.add([rows, rows], f"dot({x}, {x}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}")
    chain.add(chain.sizes, f"sine({chain.value})")
    _round(chain)


def _round(chain: _Chain) -> None:
    """Keeps numbers small and sums exact."""
    big = f"c{len(chain.lines)}"
    chain.lines.append(f"{big} = {shape_text(chain.sizes)} broadcast(four), dimensions={{}}")
    chain.add(chain.sizes, f"multiply({chain.value}, {big})")
    chain.add(chain.sizes, f"floor({chain.value})")


def _reshape(chain: _Chain) -> None:
    rows, columns = chain.sizes
    if columns % 2 == 0:
        chain.add([rows, columns // 2, 2], f"reshape({chain.value})")
        chain.add([rows, columns // 2, 2], f"negate({chain.value})")
        chain.add([rows, columns], f"reshape({chain.value})")
    else:
        chain.add([columns, rows], f"reshape({chain.value})")


def _sort(chain: _Chain) -> None:
    chain.add(chain.sizes, f"sort({chain.value}), dimensions={{{chain.chance.randrange(2)}}}, to_apply=less")


def _cumulative_sum(chain: _Chain) -> None:
    dimension = chain.chance.randrange(2)
    size = chain.sizes[dimension]
    windows = ["1 1 0_0 1 1", "1 1 0_0 1 1"]
    windows[dimension] = f"{size} 1 {chain.chance.choice([f'{size - 1}_0', f'0_{size - 1}'])} 1 1"
    chain.add(chain.sizes, f"reduce-window({chain.value}, z), window={window_text(windows)}, to_apply=sum")


def _take_rows(chain: _Chain) -> None:
    count, columns = chain.chance.randint(1, 12), chain.sizes[1]
    chain.lines.append(f"g{len(chain.lines)} = s32[{count}] iota(), iota_dimension=0")
    chain.add([count, columns], f"gather({chain.value}, g{len(chain.lines) - 1}), offset_dims={{1}}, "
              f"collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, "
              f"slice_sizes={{1,{columns}}}")  # fmt: skip


def _add_to_rows(chain: _Chain) -> None:
    count, (rows, columns) = chain.chance.randint(1, 12), chain.sizes
    number = len(chain.lines)
    chain.lines.append(f"h{number} = s32[{count}] iota(), iota_dimension=0")
    chain.lines.append(f"upd{number} = {shape_text([count, columns])} broadcast(four), dimensions={{}}, "
                       f"sharding={chain.sharding(2)}")  # fmt: skip
    chain.add([rows, columns], f"scatter({chain.value}, h{number}, upd{number}), update_window_dims={{1}}, "
              "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
              "to_apply=sum")  # fmt: skip


def _slice_at_run_time(chain: _Chain) -> None:
    sizes = [chain.chance.randint(1, size) for size in chain.sizes]
    chain.add(sizes, f"dynamic-slice({chain.value}, one, one), dynamic_slice_sizes={{{sizes[0]},{sizes[1]}}}")


def _greatest_places(chain: _Chain) -> None:
    """Takes the greatest element of each row with its place, and broadcasts both."""
    dimension, number = chain.chance.randrange(2), len(chain.lines)
    sizes, other = list(chain.sizes), chain.sizes[1 - dimension]
    chain.lines.append(f"w{number} = s32[{sizes[0]},{sizes[1]}] iota(), iota_dimension={dimension}")
    chain.lines.append(f"q{number} = (f32[{other}], s32[{other}]) reduce({chain.value}, w{number}, low, zero), "
                       f"dimensions={{{dimension}}}, to_apply=greater")  # fmt: skip
    chain.lines.append(f"a{number} = s32[{other}] get-tuple-element(q{number}), index=1")
    chain.lines.append(f"b{number} = f32[{other}] convert(a{number})")
    chain.add(sizes, f"broadcast(b{number}), dimensions={{{1 - dimension}}}")


def _iota(chain: _Chain) -> None:
    name = f"i{len(chain.lines)}"
    chain.lines.append(f"{name} = {shape_text(chain.sizes)} iota(), iota_dimension={chain.chance.randrange(2)}, "
                       f"sharding={chain.sharding(2)}")  # fmt: skip
    chain.add(chain.sizes, f"add({chain.value}, {name})")


def _constrain(chain: _Chain) -> None:
    chain.lines.append(
        f'k{len(chain.lines)} = {shape_text(chain.sizes)} custom-call({chain.value}), custom_call_target="Sharding", '
        f"sharding={chain.sharding(2)}"
    )
    chain.value = f"k{len(chain.lines) - 1}"


_OPERATIONS = [
    _elementwise, _reciprocal, _transpose, _slice, _slice, _pad, _pad, _window, _reverse, _concatenate, _rotate,
    _reduce_and_broadcast, _dot, _reshape, _sort, _iota, _constrain, _cumulative_sum, _take_rows, _add_to_rows,
    _slice_at_run_time, _greatest_places,
]  # fmt: skip


def random_uneven_program(chance: random.Random) -> Program:
    """Returns a program of some operations, whose result is whole on every device."""
    chain = _Chain(chance)
    given = list(chain.sizes)
    for _ in range(chance.randint(2, 7)):
        chain.add_random()
    separator = "\n        "
    text = f"""HloModule m
      sum {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b) }}
      most {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] maximum(a, b) }}
      less {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }}
      greater {{ a = f32[] parameter(0)
        i = s32[] parameter(1)
        b = f32[] parameter(2)
        j = s32[] parameter(3)
        c = pred[] compare(a, b), direction=GE
        d = f32[] select(c, a, b)
        k = s32[] select(c, i, j)
        ROOT r = (f32[], s32[]) tuple(d, k) }}
      ENTRY e {{ x = {shape_text(given)} parameter(0)
        z = f32[] constant(0)
        c = f32[] constant(5)
        four = f32[] constant(4)
        low = f32[] constant(-inf)
        zero = s32[] constant(0)
        one = s32[] constant(1)
        {separator.join(chain.lines)}
        ROOT r = {shape_text(chain.sizes)} negate({chain.value}), sharding={{replicated}} }}"""
    return Program("uneven", text, chain.devices, [np.abs(values_of(chance, given, False)) + 1])
