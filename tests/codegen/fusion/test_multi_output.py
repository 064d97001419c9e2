"""Multi-output fusion: which groups are merged, and that programs still compute the same results."""

from __future__ import annotations

import random
import sys
from types import FrameType

import pytest

from tests.codegen.emitters.test_row_reduction import assert_same, kernels
from tests.codegen.fusion.test_fuse import ADD, fused
from xlapy.codegen.fusion import multi_output
from xlapy.codegen.fusion.exchanges import PendingExchanges
from xlapy.codegen.fusion.fuse_instructions import Fuse
from xlapy.text import parse_hlo


def test_readers_of_one_array_become_one_kernel():
    names, why = fused(
        "x = f32[2048] parameter(0)\n a = f32[2048] exponential(x)\n b = f32[2048] sine(x)\n"
        "ROOT r = (f32[2048], f32[2048]) tuple(a, b)"
    )
    assert names == [["exponential", "sine", "tuple"]]
    assert "b.1 and a.1 become one kernel with 2 results" in why


def test_readers_of_a_small_array_are_separate_kernels():
    names, _ = fused(
        "x = f32[20] parameter(0)\n a = f32[20] exponential(x)\n b = f32[20] sine(x)\n"
        "ROOT r = (f32[20], f32[20]) tuple(a, b)"
    )
    assert names == []


def test_readers_at_other_positions_are_separate_kernels():
    names, _ = fused(
        "x = f32[64,64] parameter(0)\n a = f32[64,64] exponential(x)\n y = f32[64,64] transpose(x), dimensions={1,0}\n"
        "b = f32[64,64] sine(y)\n ROOT r = (f32[64,64], f32[64,64]) tuple(a, b)"
    )
    assert names == [["transpose", "sine"]]


def test_kernels_with_a_dependence_through_a_third_are_not_merged():
    """b depends on a through the decomposition d, so a and b are not one kernel."""
    text = (
        "x = f32[64,64] parameter(0)\n a = f32[64,64] tanh(x)\n"
        "d = f32[64,64] cholesky(a)\n b = f32[64,64] multiply(d, a)\n c = f32[64,64] negate(b)\n"
        "ROOT r = (f32[64,64], f32[64,64]) tuple(b, c)"
    )
    names, why = fused(text)
    assert names == [["multiply", "negate", "tuple"]]
    assert "a and b become" not in why
    assert_same(f"HloModule m\nENTRY e {{ {text} }}")


def test_readers_of_an_array_that_is_updated_in_place_are_not_merged():
    names, why = fused(
        "x = f32[2048] parameter(0)\n i = s32[] parameter(1)\n u = f32[1] parameter(2)\n"
        "a = f32[2048] exponential(x)\n n = f32[2048] dynamic-update-slice(x, u, i)\n b = f32[2048] add(x, n)\n"
        "ROOT r = (f32[2048], f32[2048]) tuple(a, b)"
    )
    assert names == []
    assert "stay separate kernels: an operand is updated in place" in why


def test_row_and_column_reductions_share_their_loads():
    for dimension, length in ((0, 48), (1, 32)):
        text = (
            f"HloModule m\n{ADD}ENTRY e {{ x = f32[32,48] parameter(0)\n zero = f32[] constant(0)\n"
            f"y = f32[32,48] multiply(x, x)\n"
            f"a = f32[{length}] reduce(x, zero), dimensions={{{dimension}}}, to_apply=add\n"
            f"b = f32[{length}] reduce(y, zero), dimensions={{{dimension}}}, to_apply=add\n"
            f"ROOT r = (f32[{length}], f32[{length}]) tuple(a, b) }}"
        )
        (kernel,) = kernels(text)
        loads = [s for s in kernel.statements() if getattr(s, "op", "") == "load"]
        assert len(loads) == 1
        assert_same(text)


def test_rows_and_their_sums_are_results_of_one_kernel():
    text = (
        f"HloModule m\n{ADD}ENTRY e {{ x = f32[6,40] parameter(0)\n zero = f32[] constant(0)\n"
        "y = f32[6,40] exponential(x)\n s = f32[6] reduce(y, zero), dimensions={1}, to_apply=add\n"
        "sb = f32[6,40] broadcast(s), dimensions={0}\n q = f32[6,40] divide(y, sb)\n"
        "ROOT r = (f32[6,40], f32[6], f32[6,40]) tuple(q, s, y) }"
    )
    (kernel,) = kernels(text)
    assert sum(buffer.written for buffer in kernel.buffers) == 3
    assert not kernel.scratch  # y is stored to its result, from which later loops load it
    assert_same(text)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int):
    assert_same(random_program(random.Random(seed)))


def random_program(rng: random.Random) -> str:
    """Generates a program of elementwise operations, sums along either dimension, broadcasts and transposes."""
    shapes = {"m": "f32[24,32]", "r": "f32[24]", "c": "f32[32]"}
    known = {"m": ["m0", "m1"], "r": ["r0"], "c": ["c0"]}
    lines = ["m0 = f32[24,32] parameter(0)", "m1 = f32[24,32] parameter(1)", "r0 = f32[24] parameter(2)"]
    lines += ["c0 = f32[32] parameter(3)", "zero = f32[] constant(0)"]
    for number in range(40):
        kind = rng.choice("mmmmrc")
        a, b = (rng.choice(known[kind][-6:]) for _ in range(2))
        forms = [f"add({a}, {b})", f"maximum({a}, {b})", f"tanh({a})", f"negate({a})", f"sine({b})"]
        matrix = rng.choice(known["m"][-4:])
        if kind == "m":
            forms += [f"broadcast({rng.choice(known['r'])}), dimensions={{0}}"] * 2
            forms += [f"broadcast({rng.choice(known['c'])}), dimensions={{1}}"]
            forms += [f"copy({a})"]
        else:
            sizes = 32 if kind == "r" else 24
            lines.append(f"n{number}_ = f32[] constant({1 / sizes})")
            lines.append(f"w{number}_ = f32[24,32] broadcast(n{number}_), dimensions={{}}")
            lines.append(f"s{number}_ = f32[24,32] multiply({matrix}, w{number}_)")
            forms += [f"reduce(s{number}_, zero), dimensions={{{int(kind == 'r')}}}, to_apply=add"] * 4
        lines.append(f"{kind}{number + 2} = {shapes[kind]} {rng.choice(forms)}")
        known[kind].append(f"{kind}{number + 2}")
    results = [*rng.sample(known["m"], 2), known["m"][-1], known["r"][-1], known["c"][-1]]
    types = ", ".join(shapes[name[0]] for name in results)
    body = "\n".join([*lines, f"ROOT result = ({types}) tuple({', '.join(results)})"])
    return f"HloModule m\n{ADD}ENTRY e {{ {body} }}"


def sums_and_products(length: int) -> str:
    """Returns a chain of instructions that all read one array."""
    lines = ["HloModule m ENTRY e {", "x0 = f32[64] parameter(0)", "y = f32[64] parameter(1)"]
    for n in range(length):
        op, other = ("add", "multiply", "subtract")[n % 3], "y" if n % 4 else f"x{max(0, n - 7)}"
        lines.append(f"x{n + 1} = f32[64] {op}(x{n}, {other})")
    return "\n".join([*lines, f"ROOT r = f32[64] sine(x{length}) }}"])


def python_calls_of_fusion(text: str) -> int:
    """Returns the number of Python calls in fusing a program: a measure of time that is the same on every machine."""
    module, calls = parse_hlo(text), 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        Fuse().run(module)
    finally:
        sys.setprofile(None)
    return calls


def test_time_is_linear_in_the_program_also_if_all_instructions_read_one_array():
    short, long = (python_calls_of_fusion(sums_and_products(length)) for length in (1000, 2000))
    assert long < 2.4 * short


def test_the_readers_near_a_node_are_the_same_for_few_and_many_readers(monkeypatch):
    monkeypatch.setattr(multi_output, "MAX_DISTANCE", 10)
    fuser = multi_output._MultiOutputFuser([], {}, None, 1, lambda _: None, PendingExchanges([]))
    nodes = [multi_output._Node(None, position) for position in range(100)]
    fuser.execution_order = [node if node.position % 7 else None for node in nodes]
    readers = {node for node in fuser.execution_order if node is not None and node.position % 2}
    for node in (nodes[1], nodes[50], nodes[99]):
        expected = sorted(n.position for n in readers - {node} if abs(n.position - node.position) <= 10)
        few = {n for n in readers if abs(n.position - node.position) < 10 or n.position % 40 == 1}
        assert len(few) <= 20 < len(readers)
        assert [n.position for n in fuser.near(node, readers)] == expected
        assert [n.position for n in fuser.near(node, few)] == [p for p in expected if nodes[p] in few]


def test_readers_of_weights_are_not_compared_with_each_other(monkeypatch):
    """A product for each of many time steps reads the same weights, and none of them in the order of its result."""
    compared = []
    original = multi_output._MultiOutputFuser._read_alike

    def read_alike(self, *arguments):
        compared.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(multi_output._MultiOutputFuser, "_read_alike", read_alike)
    lines = ["w = f32[64,64] parameter(0)", "h0 = f32[4,64] parameter(1)"]
    for n in range(40):
        lines.append(f"d{n} = f32[4,64] dot(h{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
        lines.append(f"h{n + 1} = f32[4,64] tanh(d{n})")
    names, _ = fused("\n".join([*lines[:-1], f"ROOT {lines[-1]}"]))
    assert names == [["dot", "tanh"]] * 40
    assert not compared
