"""Random programs of one operation along dimensions that are cut: windows, pads, slices, convolutions and so on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.opcodes.attributes.dimensions import dilated

REDUCERS = {"add": "0", "maximum": "-inf", "minimum": "inf", "multiply": "1"}


@dataclass
class Program:
    """A program with shardings. kind: its operation. arguments: the values of its parameters."""

    kind: str
    text: str
    devices: int
    arguments: list[Any]


_PARAMETER = re.compile(r"(\w+) = (\S+) parameter\((\d)\), sharding=")
"""A parameter with a sharding. Its negation may have one that does not divide evenly."""


def random_program(chance: random.Random, kind: str | None = None) -> Program:
    """Returns a program of one of `KINDS`, or of the given kind."""
    kind = kind or chance.choice(list(KINDS))
    while True:
        found = KINDS[kind](chance, kind)
        if found is not None:
            found.text = _PARAMETER.sub(r"in\1 = \2 parameter(\3)\n        \1 = \2 negate(in\1), sharding=", found.text)
            return found


def mesh_sharding(chance: random.Random, devices: int, rank: int) -> str:
    """Returns a random sharding of an array."""
    sizes, left = [], devices
    for _ in range(rank):
        sizes.append(chance.choice([n for n in (1, 2, 4, 8) if n <= left]))
        left //= sizes[-1]
    if chance.random() < 0.5:
        chance.shuffle(sizes)
    order = f"[{devices}]"
    if devices > 2 and chance.random() < 0.3:
        order = f"[{devices // 2},2]T(1,0)"
    if left == 1:
        return f"{{devices=[{','.join(map(str, sizes))}]<={order}}}"
    return f"{{devices=[{','.join(map(str, [*sizes, left]))}]<={order} last_tile_dim_replicate}}"


class _Mesh:
    """A mesh of 2, 4 or 8 devices, and shardings of arrays with two dimensions that matter."""

    def __init__(self, chance: random.Random) -> None:
        self.devices = chance.choice([2, 4, 8])
        self.first = chance.choice([n for n in (1, 2, 4, 8) if n <= self.devices])
        self.second = self.devices // self.first if chance.random() < 0.5 else 1
        self.is_turned = chance.random() < 0.3

    def sharding(self, before: int, after: int, first: bool = True, second: bool = True) -> str:
        """Returns a sharding of `before` whole dimensions, the two that are cut and `after` whole dimensions."""
        counts = [self.first if first else 1, self.second if second else 1]
        rest = self.devices // (counts[0] * counts[1])
        sizes = [*[1] * before, *counts, *[1] * after]
        order = f"[{self.devices}]"
        if self.is_turned and self.devices > 2:
            order = f"[{self.devices // 2},2]T(1,0)"
        if rest == 1:
            return f"{{devices=[{','.join(map(str, sizes))}]<={order}}}"
        return f"{{devices=[{','.join(map(str, [*sizes, rest]))}]<={order} last_tile_dim_replicate}}"


def values_of(chance: random.Random, sizes: list[int], special: bool = True) -> Any:
    """Returns multiples of a half between -3 and 3, whose sums and products are exact, with some NaN or infinities."""
    generator = np.random.default_rng(chance.randrange(1 << 30))
    array = (generator.integers(-6, 7, sizes) * 0.5).astype(np.float32)
    if special and chance.random() < 0.3:
        array[generator.random(sizes) < 0.1] = chance.choice([np.nan, np.inf, -np.inf])
    return array


def shape_text(sizes: list[int]) -> str:
    """Returns the shape of an array of f32."""
    return f"f32[{','.join(map(str, sizes))}]"


def window_along_dimension(
    chance: random.Random, size: int, most: int = 5, dilates: bool = True
) -> tuple[str, int] | None:
    """Returns the text of a window dimension and the size of the result."""
    window, stride = chance.randint(1, most), chance.choice([1, 1, 1, 2, 3])
    low, high = chance.choice([0, 0, 1, 1, 2, 5, -1]), chance.choice([0, 0, 1, 1, 2, 5, -1])
    base, step = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 2])
    total = dilated(size, base) + low + high - dilated(window, step)
    if total < 0:
        return None
    return f"{window} {stride} {low}_{high} {base} {step}", total // stride + 1


def window_text(dimensions: list[str]) -> str:
    """Returns the text of a window of some dimensions."""
    columns = list(zip(*[each.split() for each in dimensions], strict=True))
    names = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate")
    return "{" + " ".join(f"{name}={'x'.join(column)}" for name, column in zip(names, columns, strict=True)) + "}"


def _size(chance: random.Random, tiles: int) -> int:
    return tiles * chance.randint(1, 6) if chance.random() < 0.5 else chance.randint(2, 24)


def _reduce_window(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [_size(chance, mesh.first), _size(chance, mesh.second)]
    found = [window_along_dimension(chance, size) for size in sizes]
    if None in found:
        return None
    windows, results = [each[0] for each in found if each], [each[1] for each in found if each]
    op = chance.choice(list(REDUCERS))
    initial = chance.choice([REDUCERS[op], REDUCERS[op], "2"])
    text = f"""HloModule m
      f {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] {op}(a, b) }}
      ENTRY e {{ x = {shape_text(sizes)} parameter(0), sharding={mesh.sharding(0, 0)}
        z = f32[] constant({initial})
        ROOT r = {shape_text(results)} reduce-window(x, z), window={window_text(windows)}, to_apply=f,
          sharding={mesh.sharding(0, 0)} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, sizes, op in ("maximum", "minimum", "add"))])


def _convolution(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [_size(chance, mesh.first), _size(chance, mesh.second)]
    found = [window_along_dimension(chance, size) for size in sizes]
    if None in found:
        return None
    windows, results = [each[0] for each in found if each], [each[1] for each in found if each]
    kernel = [int(each.split()[0]) for each in windows]
    groups, batch_groups = chance.choice([(1, 1), (1, 1), (2, 1), (4, 1), (1, 2)])
    batch, features, outputs = 2, 2 * groups, 4 * groups * batch_groups
    window = window_text(windows)[:-1] + chance.choice(["", " rhs_reversal=1x0", " rhs_reversal=1x1"]) + "}"
    lhs, rhs = [batch, *sizes, features], [*kernel, features // groups, outputs]
    text = f"""HloModule m
      ENTRY e {{ x = {shape_text(lhs)} parameter(0), sharding={mesh.sharding(1, 1)}
        k = {shape_text(rhs)} parameter(1)
        ROOT r = {shape_text([batch // batch_groups, *results, outputs])} convolution(x, k), window={window},
          dim_labels=b01f_01io->b01f, feature_group_count={groups}, batch_group_count={batch_groups},
          sharding={mesh.sharding(1, 1)} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, lhs), values_of(chance, rhs, False)])


def _kernel_gradient(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [_size(chance, mesh.first), _size(chance, mesh.second)]
    steps, dilations = [chance.choice([1, 2, 3]) for _ in sizes], [chance.choice([1, 1, 2]) for _ in sizes]
    kernel = [_size(chance, tiles) for tiles in (mesh.first, mesh.second)]
    windows, results = [], []
    for size, step, count, base in zip(sizes, steps, kernel, dilations, strict=True):
        low, high = chance.choice([0, 1, 2, -1]), chance.choice([0, 1, 2, 4, -1])
        total = dilated(size, base) + low + high - dilated(count, step)
        if not 0 <= total < 6:
            return None
        stride = chance.choice([1, 1, 2])
        windows.append(f"{count} {stride} {low}_{high} {base} {step}")
        results.append(total // stride + 1)
    window = window_text(windows)[:-1] + chance.choice(["", " rhs_reversal=1x0", " rhs_reversal=1x1"]) + "}"
    lhs, rhs = [2, *sizes, 3], [*kernel, 3, 2]
    text = f"""HloModule m
      ENTRY e {{ x = {shape_text(lhs)} parameter(0), sharding={mesh.sharding(1, 1)}
        g = {shape_text(rhs)} parameter(1), sharding={mesh.sharding(0, 2)}
        ROOT r = {shape_text([2, *results, 2])} convolution(x, g), window={window}, dim_labels=b01f_01io->b01f,
          sharding={{replicated}} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, lhs, False), values_of(chance, rhs, False)])


def _grouped_features(chance: random.Random, kind: str) -> Program | None:
    devices = chance.choice([2, 4])
    groups = devices * chance.choice([1, 2])
    is_batch = chance.random() < 0.5
    lhs = [2 * groups, 5, 3] if is_batch else [2, 5, 3 * groups]
    rhs, result = [3, 3, 2 * groups], [2, 5, 2 * groups]
    cut = f"{{devices=[{devices},1,1]<=[{devices}]}}" if is_batch else f"{{devices=[1,1,{devices}]<=[{devices}]}}"
    name = "batch_group_count" if is_batch else "feature_group_count"
    text = f"""HloModule m
      ENTRY e {{ x = {shape_text(lhs)} parameter(0), sharding={cut}
        k = {shape_text(rhs)} parameter(1), sharding={{devices=[1,1,{devices}]<=[{devices}]}}
        ROOT r = {shape_text(result)} convolution(x, k), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f,
          {name}={groups}, sharding={{devices=[1,1,{devices}]<=[{devices}]}} }}"""
    return Program(kind, text, devices, [values_of(chance, lhs), values_of(chance, rhs, False)])


def _pad(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [_size(chance, mesh.first), _size(chance, mesh.second)]
    edges = [[chance.choice([0, 1, 3, 9, -1, -2]) for _ in range(2)] + [chance.choice([0, 0, 1, 2])] for _ in sizes]
    results = [low + high + dilated(size, inner + 1) for size, (low, high, inner) in zip(sizes, edges, strict=True)]
    if min(results) < 1:
        return None
    padding = "x".join(f"{low}_{high}_{inner}" for low, high, inner in edges)
    text = f"""HloModule m
      ENTRY e {{ x = {shape_text(sizes)} parameter(0), sharding={mesh.sharding(0, 0, chance.random() < 0.8)}
        z = f32[] constant({chance.choice(["0", "-0", "7", "nan"])})
        ROOT r = {shape_text(results)} pad(x, z), padding={padding}, sharding={mesh.sharding(0, 0)} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, sizes)])


def _slice(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [_size(chance, mesh.first), _size(chance, mesh.second)]
    ranges = []
    for size in sizes:
        start = chance.randrange(size)
        ranges.append((start, chance.randint(start + 1, size), chance.choice([1, 1, 2, 3])))
    results = [-(-(limit - start) // stride) for start, limit, stride in ranges]
    text = f"""HloModule m
      ENTRY e {{ x = {shape_text(sizes)} parameter(0), sharding={mesh.sharding(0, 0, chance.random() < 0.8)}
        ROOT r = {shape_text(results)} slice(x), slice={{{", ".join(f"[{a}:{b}:{c}]" for a, b, c in ranges)}}},
          sharding={mesh.sharding(0, 0)} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, sizes)])


def _reverse(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [_size(chance, mesh.first), _size(chance, mesh.second)]
    text = f"""HloModule m
      ENTRY e {{ x = {shape_text(sizes)} parameter(0), sharding={mesh.sharding(0, 0)}
        ROOT r = {shape_text(sizes)} reverse(x), dimensions={{{chance.choice(["0", "1", "0,1"])}}},
          sharding={mesh.sharding(0, 0)} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, sizes)])


def _concatenate(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    dimension = chance.choice([0, 1])
    parts = [[_size(chance, mesh.first), _size(chance, mesh.second)] for _ in range(chance.randint(2, 3))]
    for part in parts:
        part[1 - dimension] = parts[0][1 - dimension]
    result = list(parts[0])
    result[dimension] = sum(part[dimension] for part in parts)
    lines = [
        f"p{number} = {shape_text(part)} parameter({number}), sharding={mesh.sharding(0, 0, chance.random() < 0.8)}"
        for number, part in enumerate(parts)
    ]
    names = ", ".join(f"p{number}" for number in range(len(parts)))
    separator = "\n        "
    text = f"""HloModule m
      ENTRY e {{ {separator.join(lines)}
        ROOT r = {shape_text(result)} concatenate({names}), dimensions={{{dimension}}},
          sharding={mesh.sharding(0, 0)} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, part) for part in parts])


def _rotation(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [_size(chance, mesh.first), _size(chance, mesh.second)]
    dimension = chance.choice([0, 1])
    size = sizes[dimension]
    if size < 2:
        return None
    start = chance.randint(1, size - 1)
    ranges = [[f"[0:{each}]" for each in sizes] for _ in range(2)]
    ranges[0][dimension], ranges[1][dimension] = f"[{start}:{size}]", f"[0:{start}]"
    parts = [list(sizes), list(sizes)]
    parts[0][dimension], parts[1][dimension] = size - start, start
    text = f"""HloModule m
      ENTRY e {{ x = {shape_text(sizes)} parameter(0), sharding={mesh.sharding(0, 0)}
        a = {shape_text(parts[0])} slice(x), slice={{{", ".join(ranges[0])}}}
        b = {shape_text(parts[1])} slice(x), slice={{{", ".join(ranges[1])}}}
        ROOT r = {shape_text(sizes)} concatenate(a, b), dimensions={{{dimension}}},
          sharding={mesh.sharding(0, 0, chance.random() < 0.8)} }}"""
    return Program(kind, text, mesh.devices, [values_of(chance, sizes)])


def _select_and_scatter(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [chance.randint(2, 20), chance.randint(2, 12)]
    windows, results = [], []
    for size in sizes:
        window, stride = chance.randint(1, 4), chance.choice([1, 1, 2, 2, 3])
        low, high = chance.choice([0, 0, 1, 2, -1]), chance.choice([0, 0, 1, 2, -1])
        if min(low, high) < 0 and chance.random() < 0.7:
            low = high = 0
        if size + low + high < window or max(low, high) >= window:
            return None
        windows.append(f"{window} {stride} {low}_{high} 1 1")
        results.append((size + low + high - window) // stride + 1)
    text = f"""HloModule m
      choose {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = pred[] compare(a, b), direction={chance.choice(["GE", "GE", "GT", "LE"])} }}
      add {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b) }}
      ENTRY e {{ x = {shape_text(sizes)} parameter(0)
        s = {shape_text(results)} parameter(1)
        y = {shape_text(sizes)} negate(x), sharding={mesh.sharding(0, 0)}
        t = {shape_text(results)} negate(s), sharding={mesh.sharding(0, 0)}
        z = f32[] constant({chance.choice(["0", "0", "0", "-0", "3"])})
        ROOT r = {shape_text(sizes)} select-and-scatter(y, t, z), window={window_text(windows)}, select=choose,
          scatter=add, sharding={mesh.sharding(0, 0)} }}"""
    given = [values_of(chance, sizes), values_of(chance, results, False)]
    return Program(kind, text, mesh.devices, given)


def _dynamic_slice(chance: random.Random, kind: str) -> Program | None:
    mesh = _Mesh(chance)
    sizes = [chance.randint(2, 20), chance.randint(2, 12)]
    taken = [chance.randint(1, size) for size in sizes]
    starts = [chance.randint(-3, size + 3) for size in sizes]
    head = f"""HloModule m
      ENTRY e {{ x = {shape_text(sizes)} parameter(0)
        u = {shape_text(taken)} parameter(1)
        i = s32[] parameter(2)
        j = s32[] parameter(3)
        y = {shape_text(sizes)} add(x, x), sharding={mesh.sharding(0, 0)}"""
    given = [np.abs(values_of(chance, sizes)) + 1, values_of(chance, taken), *np.asarray(starts, np.int32)]
    if chance.random() < 0.5:
        body = f"""ROOT r = {shape_text(taken)} dynamic-slice(y, i, j), dynamic_slice_sizes={{{taken[0]},{taken[1]}}},
          sharding={chance.choice([mesh.sharding(0, 0), "{replicated}"])} }}"""
    else:
        body = f"""ROOT r = {shape_text(sizes)} dynamic-update-slice(y, u, i, j), sharding={mesh.sharding(0, 0)} }}"""
    return Program(kind, f"{head}\n        {body}", mesh.devices, given)


KINDS: dict[str, Callable[[random.Random, str], Program | None]] = {
    "reduce-window": _reduce_window,
    "convolution": _convolution,
    "kernel gradient": _kernel_gradient,
    "grouped features": _grouped_features,
    "pad": _pad,
    "slice": _slice,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "rotation": _rotation,
    "select-and-scatter": _select_and_scatter,
    "dynamic slice": _dynamic_slice,
}
