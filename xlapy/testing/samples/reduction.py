"""Samples of operations that combine elements with a scalar computation."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.testing.samples.sample import Sample

_INTEGERS = ("s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
_FLOATS = ("f8e5m2", "f8e4m3fn", "f16", "bf16", "f32", "f64")
_REDUCERS = {
    **dict.fromkeys(_INTEGERS, ("add", "multiply", "maximum", "minimum", "and", "or", "xor")),
    **dict.fromkeys(_FLOATS, ("add", "multiply", "maximum", "minimum")),
    **dict.fromkeys(("c64", "c128"), ("add", "multiply")),
    "pred": ("and", "or", "xor"),
}


def _lines(text: str) -> str:
    return "\n".join(f"  {line.strip()}" for line in text.strip().splitlines())


def _computation(name: str, body: str) -> str:
    return f"{name} {{\n{_lines(body)}\n}}\n"


def _module(name: str, computations: Sequence[str], entry: str, note: str = "") -> Sample:
    called = "\n".join(computations)
    return Sample(name, f"HloModule {name}\n\n{called}\nENTRY main {{\n{_lines(entry)}\n}}\n", note)


def _binary(name: str, t: str, op: str) -> str:
    """Returns the text of a computation of two scalars of one type."""
    return _computation(
        name,
        f"""
        a = {t}[] parameter(0)
        b = {t}[] parameter(1)
        ROOT r = {t}[] {op}(a, b)
        """,
    )


def _compare(name: str, t: str, direction: str) -> str:
    return _computation(
        name,
        f"""
        a = {t}[] parameter(0)
        b = {t}[] parameter(1)
        ROOT r = pred[] compare(a, b), direction={direction}
        """,
    )


_ARGMAX = _computation(
    "argmax",
    """
    value = f32[] parameter(0)
    index = s32[] parameter(1)
    value.1 = f32[] parameter(2)
    index.1 = s32[] parameter(3)
    greater = pred[] compare(value, value.1), direction=GT
    unordered = pred[] compare(value, value), direction=NE
    wins = pred[] or(greater, unordered)
    equal = pred[] compare(value, value.1), direction=EQ
    before = pred[] compare(index, index.1), direction=LT
    first = pred[] and(equal, before)
    takes = pred[] or(wins, first)
    value.2 = f32[] select(wins, value, value.1)
    index.2 = s32[] select(takes, index, index.1)
    ROOT r = (f32[], s32[]) tuple(value.2, index.2)
    """,
)


# Reduce


def _reduce(name: str, operand: str, result: str, dimensions: str, op: str = "add", note: str = "") -> Sample:
    t = operand[: operand.index("[")]
    return _module(
        name,
        [_binary("combine", t, op)],
        f"""
        p = {operand} parameter(0)
        i = {t}[] parameter(1)
        ROOT r = {result} reduce(p, i), dimensions={dimensions}, to_apply=combine
        """,
        note,
    )


def _reduce_of_type(t: str) -> Sample:
    """Returns a module that contains each reducer once, along one dimension of a matrix."""
    names = _REDUCERS[t]
    steps = "\n".join(
        f"{op}.1 = {t}[5]{{0}} reduce(p, i), dimensions={{{number % 2}}}, to_apply={op}_computation"
        for number, op in enumerate(names)
    )
    results = ", ".join(f"{op}.1" for op in names)
    shapes = ", ".join([f"{t}[5]{{0}}"] * len(names))
    return _module(
        f"reduce_{t}",
        [_binary(f"{op}_computation", t, op) for op in names],
        f"""
        p = {t}[5,5]{{1,0}} parameter(0)
        i = {t}[] parameter(1)
        {steps}
        ROOT r = ({shapes}) tuple({results})
        """,
    )


_REDUCE = [
    *map(_reduce_of_type, _REDUCERS),
    _reduce("reduce_all_dimensions", "f32[4,2,3]{2,1,0}", "f32[]", "{0,1,2}"),
    _reduce("reduce_unordered_dimensions", "f32[4,2,3]{2,1,0}", "f32[2]{0}", "{2,0}"),
    _reduce("reduce_middle_dimension", "s32[4,2,3]{2,1,0}", "s32[4,3]{1,0}", "{1}", "maximum"),
    _reduce("reduce_no_dimensions", "f32[4,2]{1,0}", "f32[4,2]{1,0}", "{}"),
    _reduce("reduce_scalar", "f32[]", "f32[]", "{}"),
    _reduce("reduce_dimension_of_one", "s32[1,3]{1,0}", "s32[3]{0}", "{0}", note="the initial value is not combined"),
    _reduce("reduce_nothing", "f32[0,3]{1,0}", "f32[3]{0}", "{0}"),
    _reduce("reduce_to_nothing", "f32[3,0]{1,0}", "f32[0]{0}", "{0}"),
    _reduce("reduce_odd_size", "bf16[1001]{0}", "bf16[]", "{0}"),
    _reduce("reduce_dynamic", "f32[<=4,3]{1,0}", "f32[<=4]{0}", "{1}"),
    _reduce("reduce_column_major", "f32[4,3]{0,1}", "f32[3]{0}", "{0}"),
    _module(
        "reduce_argmax",
        [_ARGMAX],
        """
        p = f32[4,6]{1,0} parameter(0)
        i = s32[4,6]{1,0} iota(), iota_dimension=1
        low = f32[] constant(-inf)
        zero = s32[] constant(0)
        ROOT r = (f32[4]{0}, s32[4]{0}) reduce(p, i, low, zero), dimensions={1}, to_apply=argmax
        """,
    ),
    _module(
        "reduce_to_tuple_of_one",
        [
            _computation(
                "combine",
                """
                a = f32[] parameter(0)
                b = f32[] parameter(1)
                s = f32[] add(a, b)
                ROOT r = (f32[]) tuple(s)
                """,
            )
        ],
        """
        p = f32[5]{0} parameter(0)
        i = f32[] parameter(1)
        ROOT r = (f32[]) reduce(p, i), dimensions={0}, to_apply=combine
        """,
    ),
    _module(
        "reduce_not_commutative",
        [
            _computation(
                "later",
                """
                a = s32[] parameter(0)
                ROOT b = s32[] parameter(1)
                """,
            )
        ],
        """
        p = s32[7]{0} parameter(0)
        i = s32[] parameter(1)
        ROOT r = s32[] reduce(p, i), dimensions={0}, to_apply=later
        """,
        "an associative computation that takes the later argument",
    ),
]


# Windows


def _window(name: str, operand: str, result: str, window: str, op: str = "add", note: str = "") -> Sample:
    t = operand[: operand.index("[")]
    return _module(
        name,
        [_binary("combine", t, op)],
        f"""
        p = {operand} parameter(0)
        i = {t}[] parameter(1)
        ROOT r = {result} reduce-window(p, i), window={{{window}}}, to_apply=combine
        """,
        note,
    )


_REDUCE_WINDOW = [
    *(
        _window(f"reduce_window_{t}", f"{t}[6,5]{{1,0}}", f"{t}[2,6]{{1,0}}", "size=3x2 stride=3x1 pad=0_0x1_1", ops[0])
        for t, ops in _REDUCERS.items()
    ),
    _window(
        "reduce_window_max_pool",
        "f32[2,7,7,3]{3,2,1,0}",
        "f32[2,3,3,3]{3,2,1,0}",
        "size=1x3x3x1 stride=1x2x2x1",
        "maximum",
    ),
    _window("reduce_window_base_dilation", "s32[3]{0}", "s32[4]{0}", "size=2 lhs_dilate=2"),
    _window("reduce_window_window_dilation", "s32[6]{0}", "s32[2]{0}", "size=3 rhs_dilate=2"),
    _window(
        "reduce_window_both_dilations",
        "s32[3,2]{1,0}",
        "s32[2,2]{1,0}",
        "size=2x1 stride=4x1 pad=2_1x0_0 lhs_dilate=2x1 rhs_dilate=3x1",
        note="the specification's second example",
    ),
    _window("reduce_window_negative_padding", "f32[8]{0}", "f32[4]{0}", "size=2 pad=-1_-2"),
    _window("reduce_window_only_padding", "f32[2]{0}", "f32[6]{0}", "size=2 pad=3_2"),
    _window("reduce_window_too_large", "f32[2]{0}", "f32[0]{0}", "size=3"),
    _window("reduce_window_nothing", "f32[0,2]{1,0}", "f32[3,2]{1,0}", "size=1x1 pad=1_2x0_0"),
    _window("reduce_window_scalar", "f32[]", "f32[]", ""),
    _window("reduce_window_cumulative", "f32[9]{0}", "f32[9]{0}", "size=9 pad=8_0"),
    _window("reduce_window_reversed", "f32[4]{0}", "f32[3]{0}", "size=2 rhs_reversal=1"),
    _window("reduce_window_dynamic", "f32[<=6,4]{1,0}", "f32[<=5,4]{1,0}", "size=2x1"),
    _module(
        "reduce_window_argmax",
        [_ARGMAX],
        """
        p = f32[4,6]{1,0} parameter(0)
        i = s32[4,6]{1,0} iota(), iota_dimension=1
        low = f32[] constant(-inf)
        zero = s32[] constant(0)
        ROOT r = (f32[4,5]{1,0}, s32[4,5]{1,0}) reduce-window(p, i, low, zero), window={size=1x2}, to_apply=argmax
        """,
    ),
]


def _select_and_scatter(name: str, operand: str, source: str, window: str, note: str = "") -> Sample:
    t = operand[: operand.index("[")]
    return _module(
        name,
        [_compare("greater_or_equal", t, "GE"), _binary("combine", t, "add")],
        f"""
        p = {operand} parameter(0)
        s = {source} parameter(1)
        i = {t}[] parameter(2)
        ROOT r = {operand} select-and-scatter(p, s, i), window={{{window}}}, select=greater_or_equal, scatter=combine
        """,
        note,
    )


_SELECT_AND_SCATTER = [
    *(
        _select_and_scatter(f"select_and_scatter_{t}", f"{t}[4,6]{{1,0}}", f"{t}[2,2]{{1,0}}", "size=2x3 stride=2x3")
        for t in ("s8", "s32", "u64", "bf16", "f16", "f32", "f64")
    ),
    _select_and_scatter("select_and_scatter_overlapping", "f32[5,5]{1,0}", "f32[2,2]{1,0}", "size=3x3 stride=2x2"),
    _select_and_scatter("select_and_scatter_padded", "f32[5]{0}", "f32[3]{0}", "size=3 stride=2 pad=1_1"),
    _select_and_scatter("select_and_scatter_cropped", "f32[7]{0}", "f32[2]{0}", "size=2 stride=2 pad=-1_-2"),
    _select_and_scatter("select_and_scatter_dilated", "s32[4]{0}", "s32[5]{0}", "size=2 lhs_dilate=2 rhs_dilate=2"),
    _select_and_scatter("select_and_scatter_no_windows", "f32[2]{0}", "f32[0]{0}", "size=3"),
]


# Map

_MAP = [
    _module(
        "map_two_operands",
        [
            _computation(
                "scaled",
                """
                a = f32[] parameter(0)
                n = s32[] parameter(1)
                b = f32[] convert(n)
                ROOT r = f32[] multiply(a, b)
                """,
            )
        ],
        """
        p = f32[2,3]{1,0} parameter(0)
        n = s32[2,3]{1,0} parameter(1)
        ROOT r = f32[2,3]{1,0} map(p, n), dimensions={0,1}, to_apply=scaled
        """,
    ),
    _module(
        "map_without_dimensions",
        [_computation("negated", "a = s8[] parameter(0)\nROOT r = s8[] negate(a)")],
        "p = s8[2,3]{1,0} parameter(0)\nROOT r = s8[2,3]{1,0} map(p), to_apply=negated",
    ),
    _module(
        "map_scalar",
        [_computation("tested", "a = f64[] parameter(0)\nROOT r = pred[] is-finite(a)")],
        "p = f64[] parameter(0)\nROOT r = pred[] map(p), dimensions={}, to_apply=tested",
    ),
    _module(
        "map_constant",
        [_computation("seven", "a = f32[] parameter(0)\nROOT r = s32[] constant(7)")],
        "p = f32[3]{0} parameter(0)\nROOT r = s32[3]{0} map(p), dimensions={0}, to_apply=seven",
    ),
    _module(
        "map_with_branches",
        [
            _computation("doubled", "a = f32[] parameter(0)\nROOT r = f32[] add(a, a)"),
            _computation("halved", "a = f32[] parameter(0)\nh = f32[] constant(0.5)\nROOT r = f32[] multiply(a, h)"),
            _computation(
                "chosen",
                """
                a = f32[] parameter(0)
                z = f32[] constant(0)
                positive = pred[] compare(a, z), direction=GT
                ROOT r = f32[] conditional(positive, a, a), true_computation=doubled, false_computation=halved
                """,
            ),
        ],
        "p = f32[5]{0} parameter(0)\nROOT r = f32[5]{0} map(p), dimensions={0}, to_apply=chosen",
    ),
    _module(
        "map_with_loop",
        [
            _computation(
                "divide_and_count",
                """
                s = (u32[], s32[]) parameter(0)
                x = u32[] get-tuple-element(s), index=0
                n = s32[] get-tuple-element(s), index=1
                two = u32[] constant(2)
                one = s32[] constant(1)
                y = u32[] divide(x, two)
                m = s32[] add(n, one)
                ROOT t = (u32[], s32[]) tuple(y, m)
                """,
            ),
            _computation(
                "is_positive",
                """
                s = (u32[], s32[]) parameter(0)
                x = u32[] get-tuple-element(s), index=0
                z = u32[] constant(0)
                ROOT r = pred[] compare(x, z), direction=GT
                """,
            ),
            _computation(
                "bits",
                """
                x = u32[] parameter(0)
                z = s32[] constant(0)
                s = (u32[], s32[]) tuple(x, z)
                w = (u32[], s32[]) while(s), condition=is_positive, body=divide_and_count
                ROOT r = s32[] get-tuple-element(w), index=1
                """,
            ),
        ],
        "p = u32[6]{0} parameter(0)\nROOT r = s32[6]{0} map(p), dimensions={0}, to_apply=bits",
        "aborts XLA:CPU of jaxlib 0.10.2, which cannot emit a loop in a map",
    ),
    _module(
        "map_with_arrays",
        [
            _computation(
                "norm",
                """
                x = f32[] parameter(0)
                y = f32[] parameter(1)
                a = f32[1]{0} reshape(x)
                b = f32[1]{0} reshape(y)
                v = f32[2]{0} concatenate(a, b), dimensions={0}
                ROOT r = f32[] dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
                """,
            )
        ],
        """
        p = f32[4]{0} parameter(0)
        q = f32[4]{0} parameter(1)
        ROOT r = f32[4]{0} map(p, q), dimensions={0}, to_apply=norm
        """,
        "a body with arrays inside",
    ),
]


# Scan

_RUNNING_SUM = _computation(
    "step",
    """
    x = f32[] parameter(0)
    c = f32[] parameter(1)
    s = f32[] add(x, c)
    ROOT r = (f32[], f32[]) tuple(s, s)
    """,
)


def _scan(name: str, options: str) -> Sample:
    return _module(
        name,
        [_RUNNING_SUM],
        f"""
        p = f32[5]{{0}} parameter(0)
        i = f32[] parameter(1)
        ROOT r = (f32[5]{{0}}, f32[]) scan(p, i), dimensions={{0}}, num_carries=1{options}, to_apply=step
        """,
    )


_SCAN = [
    _scan("scan_unspecified", ""),
    _scan("scan_associative", ", is_associative=true"),
    _scan("scan_reverse", ", is_reverse=true, is_associative=false"),
    _module(
        "scan_middle_dimension",
        [
            _computation(
                "step",
                """
                x = f32[2,4]{1,0} parameter(0)
                c = f32[2,4]{1,0} parameter(1)
                n = s32[] parameter(2)
                s = f32[2,4]{1,0} add(x, c)
                one = s32[] constant(1)
                m = s32[] add(n, one)
                ROOT r = (f32[2,4]{1,0}, f32[2,4]{1,0}, s32[]) tuple(s, x, m)
                """,
            )
        ],
        """
        p = f32[2,3,4]{2,1,0} parameter(0)
        i = f32[2,4]{1,0} parameter(1)
        n = s32[] parameter(2)
        ROOT r = (f32[2,3,4]{2,1,0}, f32[2,4]{1,0}, s32[]) scan(p, i, n), dimensions={1}, num_carries=2, to_apply=step
        """,
    ),
    _module(
        "scan_without_inputs",
        [
            _computation(
                "step",
                """
                c = s32[] parameter(0)
                two = s32[] constant(2)
                d = s32[] multiply(c, two)
                ROOT r = (s32[], s32[]) tuple(c, d)
                """,
            )
        ],
        """
        i = s32[] parameter(0)
        ROOT r = (s32[6]{0}, s32[]) scan(i), dimensions={0}, num_carries=1, is_associative=false, to_apply=step
        """,
    ),
    _module(
        "scan_without_carries",
        [_computation("step", "x = f32[2]{0} parameter(0)\nROOT r = f32[2]{0} negate(x)")],
        """
        p = f32[3,2]{1,0} parameter(0)
        ROOT r = f32[3,2]{1,0} scan(p), dimensions={0}, num_carries=0, to_apply=step
        """,
    ),
]

SAMPLES: list[Sample] = [*_REDUCE, *_REDUCE_WINDOW, *_SELECT_AND_SCATTER, *_MAP, *_SCAN]
