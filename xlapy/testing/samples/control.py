"""Samples of operations that call computations or order other operations."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.testing.samples.sample import ELEMENT_TYPES, Sample


def _lines(text: str) -> str:
    return "\n".join(f"  {line.strip()}" for line in text.strip().splitlines())


def _computation(name: str, body: str, suffix: str = "") -> str:
    return f"{name} {{\n{_lines(body)}\n}}{suffix}\n"


def _module(name: str, computations: Sequence[str], entry: str) -> Sample:
    called = "\n".join(computations)
    return Sample(name, f"HloModule {name}\n\n{called}\nENTRY main {{\n{_lines(entry)}\n}}\n")


_NEGATED = _computation("negated", "p = f32[4] parameter(0)\nROOT r = f32[4] negate(p)")
_DOUBLED = _computation("doubled", "p = f32[4] parameter(0)\nROOT r = f32[4] add(p, p)")


def _of_type(t: str) -> Sample:
    """Returns a module that passes a value through a call, a loop of three iterations, a conditional and a barrier."""
    state = f"(s32[], {t}[2,3])"
    return _module(
        f"control_{t}",
        [
            _computation("same", f"p = {t}[2,3] parameter(0)\nROOT r = {t}[2,3] copy(p)"),
            _computation("reversed", f"p = {t}[2,3] parameter(0)\nROOT r = {t}[2,3] reverse(p), dimensions={{1}}"),
            _computation(
                "goes_on",
                f"""
                s = {state} parameter(0)
                i = s32[] get-tuple-element(s), index=0
                n = s32[] constant(3)
                ROOT r = pred[] compare(i, n), direction=LT
            """,
            ),
            _computation(
                "turn",
                f"""
                s = {state} parameter(0)
                i = s32[] get-tuple-element(s), index=0
                x = {t}[2,3] get-tuple-element(s), index=1
                one = s32[] constant(1)
                next = s32[] add(i, one)
                y = {t}[2,3] reverse(x), dimensions={{0}}
                ROOT r = {state} tuple(next, y)
            """,
            ),
        ],
        f"""
        p = {t}[2,3] parameter(0)
        b = pred[] parameter(1)
        called = {t}[2,3] call(p), to_apply=reversed
        zero = s32[] constant(0)
        s = {state} tuple(zero, called)
        w = {state} while(s), condition=goes_on, body=turn
        x = {t}[2,3] get-tuple-element(w), index=1
        c = {t}[2,3] conditional(b, x, p), true_computation=same, false_computation=reversed
        ROOT r = {t}[2,3] opt-barrier(c)
        """,
    )


_CALLS = [
    _module(
        "call_of_two",
        [
            _computation(
                "scaled",
                """
            x = f32[4] parameter(0)
            a = f32[] parameter(1)
            b = f32[4] broadcast(a), dimensions={}
            y = f32[4] multiply(x, b)
            ROOT r = (f32[4], f32[]) tuple(y, a)
        """,
            )
        ],
        """
        x = f32[4] parameter(0)
        a = f32[] parameter(1)
        ROOT r = (f32[4], f32[]) call(x, a), to_apply=scaled
        """,
    ),
    _module(
        "call_of_nothing",
        [_computation("seven", "ROOT r = s32[] constant(7)")],
        "a = s32[] call(), to_apply=seven\nb = s32[] call(), to_apply=seven\nROOT r = s32[] add(a, b)",
    ),
    _module(
        "call_in_call",
        [
            _NEGATED,
            _computation(
                "outer",
                """
            p = f32[4] parameter(0)
            q = f32[4] call(p), to_apply=negated
            ROOT r = f32[4] add(p, q)
        """,
            ),
        ],
        "p = f32[4] parameter(0)\nROOT r = f32[4] call(p), to_apply=outer",
    ),
    _module(
        "composite_call",
        [_DOUBLED],
        """
        p = f32[4] parameter(0)
        ROOT r = f32[4] call(p), to_apply=doubled, is_composite=true, \
frontend_attributes={composite.attributes="{n = 1 : i32}",composite.name="my.double",composite.version="3"}
        """,
    ),
]

_LESS = """
    i = s32[] parameter(0)
    n = s32[] constant({limit})
    ROOT r = pred[] compare(i, n), direction=LT
"""
_NEXT = "i = s32[] parameter(0)\none = s32[] constant(1)\nROOT r = s32[] add(i, one)"

_LOOPS = [
    _module(
        "while_scalar",
        [_computation("less", _LESS.format(limit=200)), _computation("next", _NEXT)],
        "i = s32[] parameter(0)\nROOT w = s32[] while(i), condition=less, body=next",
    ),
    _module(
        "while_never",
        [_computation("less", _LESS.format(limit=-1000000)), _computation("next", _NEXT)],
        "i = s32[] constant(3)\nROOT w = s32[] while(i), condition=less, body=next",
    ),
    _module(
        "while_nested",
        [
            _computation("less", _LESS.format(limit=4)),
            _computation("next", _NEXT),
            _computation(
                "goes_on",
                """
                s = (s32[], (s32[], token[])) parameter(0)
                i = s32[] get-tuple-element(s), index=0
                n = s32[] constant(3)
                ROOT r = pred[] compare(i, n), direction=LT
            """,
            ),
            _computation(
                "turn",
                """
                s = (s32[], (s32[], token[])) parameter(0)
                i = s32[] get-tuple-element(s), index=0
                t = (s32[], token[]) get-tuple-element(s), index=1
                total = s32[] get-tuple-element(t), index=0
                k = token[] get-tuple-element(t), index=1
                four = s32[] while(i), condition=less, body=next
                sum = s32[] add(total, four)
                one = s32[] constant(1)
                j = s32[] add(i, one)
                u = (s32[], token[]) tuple(sum, k)
                ROOT r = (s32[], (s32[], token[])) tuple(j, u)
            """,
            ),
        ],
        """
        zero = s32[] constant(0)
        k = token[] after-all()
        t = (s32[], token[]) tuple(zero, k)
        s = (s32[], (s32[], token[])) tuple(zero, t)
        ROOT w = (s32[], (s32[], token[])) while(s), condition=goes_on, body=turn
        """,
    ),
    _module(
        "while_dynamic",
        [
            _computation(
                "goes_on",
                """
                s = (pred[], f32[<=4]) parameter(0)
                ROOT r = pred[] get-tuple-element(s), index=0
            """,
            ),
            _computation(
                "turn",
                """
                s = (pred[], f32[<=4]) parameter(0)
                x = f32[<=4] get-tuple-element(s), index=1
                no = pred[] constant(false)
                y = f32[<=4] negate(x)
                ROOT r = (pred[], f32[<=4]) tuple(no, y)
            """,
            ),
        ],
        "s = (pred[], f32[<=4]) parameter(0)\nROOT w = (pred[], f32[<=4]) while(s), condition=goes_on, body=turn",
    ),
]

_PICKED = _computation("picked", "t = (f32[4], s32[]) parameter(0)\nROOT r = f32[4] get-tuple-element(t), index=0")
_SPREAD = _computation("spread", "s = f32[] parameter(0)\nROOT r = f32[4] broadcast(s), dimensions={}")

_BRANCHES = [
    _module(
        "conditional_on_predicate",
        [_PICKED, _SPREAD],
        """
        b = pred[] parameter(0)
        x = f32[4] parameter(1)
        n = s32[] constant(1)
        s = f32[] parameter(2)
        t = (f32[4], s32[]) tuple(x, n)
        ROOT r = f32[4] conditional(b, t, s), true_computation=picked, false_computation=spread
        """,
    ),
    _module(
        "conditional_on_index",
        [_NEGATED, _DOUBLED, _SPREAD],
        """
        i = s32[] parameter(0)
        x = f32[4] parameter(1)
        s = f32[] parameter(2)
        ROOT r = f32[4] conditional(i, x, x, s), branch_computations={negated, doubled, spread}
        """,
    ),
    _module(
        "conditional_of_one_branch",
        [_NEGATED],
        """
        i = s32[] parameter(0)
        x = f32[4] parameter(1)
        ROOT r = f32[4] conditional(i, x), branch_computations={negated}
        """,
    ),
    _module(
        "conditional_index_out_of_range",
        [_NEGATED, _DOUBLED],
        """
        i = s32[] constant(-7)
        x = f32[4] parameter(0)
        ROOT r = f32[4] conditional(i, x, x), branch_computations={negated, doubled}
        """,
    ),
    _module(
        "conditional_nested",
        [
            _NEGATED,
            _DOUBLED,
            _computation(
                "either",
                """
            t = (pred[], f32[4]) parameter(0)
            b = pred[] get-tuple-element(t), index=0
            x = f32[4] get-tuple-element(t), index=1
            y = f32[4] conditional(b, x, x), true_computation=negated, false_computation=doubled
            ROOT r = (f32[4], pred[]) tuple(y, b)
        """,
            ),
            _computation("neither", "ROOT t = (f32[4], pred[]) parameter(0)"),
        ],
        """
        b = pred[] parameter(0)
        x = f32[4] parameter(1)
        t = (pred[], f32[4]) tuple(b, x)
        u = (f32[4], pred[]) tuple(x, b)
        ROOT r = (f32[4], pred[]) conditional(b, t, u), true_computation=either, false_computation=neither
        """,
    ),
]


def _fusion(kind: str) -> Sample:
    return _module(
        f"fusion_{kind}",
        [
            _computation(
                "fused",
                """
            x = f32[4] parameter(0)
            y = f32[4] parameter(1)
            s = f32[4] add(x, y)
            ROOT r = f32[4] multiply(s, s)
        """,
            )
        ],
        f"x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT f = f32[4] fusion(x, y), kind={kind}, calls=fused",
    )


_FUSIONS = [
    *map(_fusion, ("kLoop", "kInput", "kOutput", "kCustom")),
    _module(
        "fusion_of_two_results",
        [
            _computation(
                "fused",
                """
            x = f32[4] parameter(0)
            n = f32[4] negate(x)
            e = f32[4] exponential(n)
            ROOT r = (f32[4], f32[4]) tuple(n, e)
        """,
            )
        ],
        """
        x = f32[4] parameter(0)
        y = f32[4] copy(x)
        ROOT f = (f32[4], f32[4]) fusion(y), kind=kLoop, output_to_operand_aliasing={{0}: (0, {})}, calls=fused
        """,
    ),
]

_ORDER = [
    _module("after_all_of_none", [], "ROOT k = token[] after-all()"),
    _module(
        "after_all_of_some",
        [],
        """
        x = f32[4] parameter(0)
        a = token[] after-all()
        b = token[] after-all()
        c = token[] after-all(a, b, a)
        n = f32[4] negate(x)
        ROOT r = f32[4] add-dependency(n, c)
        """,
    ),
    _module(
        "opt_barrier_of_tuple",
        [],
        """
        x = f32[4] parameter(0)
        k = token[] after-all()
        t = (f32[4], (token[])) tuple(x, (token[]) tuple(k))
        ROOT r = (f32[4], (token[])) opt-barrier(t)
        """,
    ),
    _module(
        "domain_of_sharding",
        [],
        """
        x = f32[4] parameter(0)
        d = f32[4] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={devices=[2]0,1}}
        n = f32[4] negate(d)
        ROOT r = f32[4] domain(n), domain={kind="sharding", entry={replicated}, exit={devices=[2]<=[2]}}
        """,
    ),
    _module(
        "control_predecessors",
        [],
        """
        x = f32[4] parameter(0)
        a = f32[4] negate(x)
        b = f32[4] exponential(x), control-predecessors={a}
        ROOT r = f32[4] add(a, b)
        """,
    ),
]

_WORK = """
    p = f32[4] parameter(0)
    q = f32[4] exponential(p)
    ROOT r = f32[4] negate(q)
"""

_ASYNC = [
    _module(
        "async_chain",
        [_computation("work", _WORK, ', execution_thread="host"')],
        """
        p = f32[4] parameter(0)
        s = ((f32[4]), f32[4], u32[]) async-start(p), calls=work, async_execution_thread="host"
        u = ((f32[4]), f32[4], u32[]) async-update(s)
        v = ((f32[4]), f32[4], u32[]) async-update(u)
        ROOT d = f32[4] async-done(v)
        """,
    ),
    _module(
        "async_aliased",
        [_computation("work", _WORK)],
        """
        p = f32[4] parameter(0)
        c = f32[4] copy(p)
        s = ((f32[4]), f32[4], u32[]) async-start(c), calls=work, async_execution_thread="host",
            output_to_operand_aliasing={{1}: (0, {})}
        ROOT d = f32[4] async-done(s)
        """,
    ),
    _module(
        "async_short_forms",
        [_computation("work", _WORK)],
        """
        p = f32[4] parameter(0)
        s = ((f32[4], f32[4]), f32[4], s32[]) add-start(p, p), async_execution_thread="side"
        u = ((f32[4], f32[4]), f32[4], s32[]) add-update(s)
        d = f32[4] add-done(u)
        c = ((f32[4]), f32[4], s32[]) call-start(d), to_apply=work
        ROOT e = f32[4] call-done(c)
        """,
    ),
]

SAMPLES = [
    *map(_of_type, ELEMENT_TYPES),
    *_CALLS,
    *_LOOPS,
    *_BRANCHES,
    *_FUSIONS,
    *_ORDER,
    *_ASYNC,
]
