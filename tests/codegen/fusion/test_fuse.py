"""Instruction fusion: which instructions share a kernel, and the reasons it reports."""

from __future__ import annotations

import pytest

import xlapy as xla
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, decisions_text
from xlapy.codegen.fusion.fuse_instructions import Fuse
from xlapy.hlo.verify import verify

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"


def fused(body: str) -> tuple[list[list[str]], str]:
    """Returns the opcodes of each fusion, without parameters, and the reasons."""
    module = xla.parse_hlo(f"HloModule m\n{ADD}ENTRY e {{ {body} }}")
    reasons: list[Decision] = []
    Fuse(explain=reasons.append).run(module)
    verify(module)
    fusions = [i.computations[0] for i in module.entry_computation if i.op is xla.opcodes.FUSION]
    names = [[i.op.name for i in computation if i.op is not xla.opcodes.PARAMETER] for computation in fusions]
    return names, decisions_text(reasons)


def test_decisions_name_their_instructions():
    module = xla.parse_hlo(
        "HloModule m\nENTRY e { x = f32[100] parameter(0)\n one = f32[] constant(1)\n"
        "many = f32[100] broadcast(one), dimensions={}\n y = f32[100] add(x, many)\n a = f32[100] dot(y, y),"
        "lhs_contracting_dims={}, rhs_contracting_dims={}, lhs_batch_dims={0}, rhs_batch_dims={0}\n"
        "z = f32[100] sqrt(y)\n b = f32[100] sine(z)\n ROOT r = (f32[100], f32[100]) tuple(a, b) }"
    )
    decisions: list[Decision] = []
    Fuse(explain=decisions.append).run(module)
    found = {(decision.kind, decision.subjects) for decision in decisions}
    assert found == {
        (DecisionKind.KERNEL, ("a",)),
        (DecisionKind.KERNEL, ("b",)),
        (DecisionKind.FUSED, ("z",)),
        (DecisionKind.KERNEL, ("y", "a")),
        (DecisionKind.ALWAYS_DUPLICATED, ("many",)),
        (DecisionKind.ALWAYS_DUPLICATED, ("one",)),
        (DecisionKind.SEPARATE, ("y", "a")),
        (DecisionKind.MULTI_OUTPUT, ("y", "b")),
        (DecisionKind.SEPARATE, ("b", "a")),
    }


def test_a_producer_with_one_user_is_fused():
    names, why = fused("x = f32[64] parameter(0)\n y = f32[64] exponential(x)\n ROOT z = f32[64] negate(y)")
    assert names == [["exponential", "negate"]]
    assert "y (exponential) is fused into z, which alone needs it" in why


def test_a_producer_with_users_in_two_kernels_becomes_a_second_result():
    names, why = fused(
        "x = f32[100] parameter(0)\n y = f32[100] sqrt(x)\n a = f32[100] dot(y, y), lhs_contracting_dims={},"
        "rhs_contracting_dims={}, lhs_batch_dims={0}, rhs_batch_dims={0}\n"
        "b = f32[100] sine(y)\n ROOT r = (f32[100], f32[100]) tuple(a, b)"
    )
    assert names == [["sqrt", "sine", "tuple"]]
    assert "y (sqrt) gets a kernel: its users are in different kernels (a.1, b.1)" in why
    assert "y and b.1 become one kernel with 2 results" in why


def test_a_cheap_producer_is_duplicated():
    names, why = fused(
        "x = f32[100] parameter(0)\n y = f32[100] negate(x)\n a = f32[100] exponential(y)\n"
        "b = f32[100] sine(y)\n ROOT r = (f32[100], f32[100]) tuple(a, b)"
    )
    assert sorted(names) == [["negate", "exponential"], ["negate", "sine"]]
    assert "y (negate) is computed in each of a.1, b.1: that takes less memory traffic than storing it" in why


def test_the_difference_from_a_mean_is_computed_again_by_its_users():
    """The mean, one number for each of the columns, is not cheap, so it is stored."""
    names, why = fused(
        "p = f32[64,8] parameter(0)\n q = f32[8,32] parameter(1)\n n = f32[32] parameter(2)\n"
        "x = f32[64,32] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n zero = f32[] constant(0)\n"
        "sum = f32[32] reduce(x, zero), dimensions={0}, to_apply=add\n root = f32[32] sine(sum)\n"
        "mean = f32[32] divide(root, n)\n"
        "m = f32[64,32] broadcast(mean), dimensions={1}\n d = f32[64,32] subtract(x, m)\n"
        "a = f32[64,32] exponential(d)\n t = f32[32,64] transpose(d), dimensions={1,0}\n b = f32[32,64] sine(t)\n"
        "ROOT r = (f32[64,32], f32[32,64]) tuple(a, b)"
    )
    assert ["broadcast", "subtract", "exponential"] in names and ["broadcast", "subtract", "transpose", "sine"] in names
    assert "d (subtract) is computed in each of" in why


@pytest.mark.parametrize("op", ["exponential", "negate"])
def test_an_expensive_producer_is_not_recomputed_for_every_row(op):
    names, why = fused(
        f"x = f32[40,50] parameter(0)\n v = f32[50] parameter(1)\n y = f32[50] {op}(v)\n"
        "b = f32[40,50] broadcast(y), dimensions={1}\n ROOT z = f32[40,50] add(x, b)"
    )
    assert names == ([["broadcast", "add"]] if op == "exponential" else [[op, "broadcast", "add"]])
    assert ("z would compute each element of y 40 times" in why) is (op == "exponential")


@pytest.mark.parametrize("dimensions", ["0", "1"])
def test_a_consumer_of_a_reduction_is_fused_with_it(dimensions):
    names, _ = fused(
        "x = f32[40,40] parameter(0)\n zero = f32[] constant(0)\n"
        f"s = f32[40] reduce(x, zero), dimensions={{{dimensions}}}, to_apply=add\n ROOT z = f32[40] sqrt(s)"
    )
    assert [set(n) for n in names] == [{"constant", "reduce", "sqrt"}]


def test_reductions_of_different_rows_are_separate_kernels():
    _, why = fused(
        "x = f32[8,40,40] parameter(0)\n zero = f32[] constant(0)\n"
        "s = f32[8,40] reduce(x, zero), dimensions={2}, to_apply=add\n"
        "t = f32[8] reduce(x, zero), dimensions={1,2}, to_apply=add\n"
        "sb = f32[8,40,40] broadcast(s), dimensions={0,1}\n tb = f32[8,40,40] broadcast(t), dimensions={0}\n"
        "ROOT z = f32[8,40,40] add(sb, tb)"
    )
    assert "z iterates over 8 rows of 1600, s over 320 rows of 40" in why


def test_an_expensive_producer_stays_a_kernel_in_multi_output_fusion():
    names, why = fused(
        "x = f32[40,50] parameter(0)\n v = f32[50] parameter(1)\n y = f32[50] exponential(v)\n"
        "zero = f32[] constant(0)\n b = f32[40,50] broadcast(y), dimensions={1}\n z = f32[40,50] multiply(x, b)\n"
        "ROOT s = f32[50] reduce(z, zero), dimensions={0}, to_apply=add"
    )
    assert [set(n) for n in names] == [{"broadcast", "multiply", "constant", "reduce"}]
    assert "y and s stay separate kernels: s would compute each element of y 40 times" in why


@pytest.mark.parametrize("op", ["power", "exponential"])
def test_few_elements_are_recomputed_if_that_is_cheap(op):
    names, _ = fused(
        f"v = f64[3] parameter(0)\n y = f64[3] {op}({'v, v' if op == 'power' else 'v'})\n"
        "b = f64[7,3] broadcast(y), dimensions={1}\n c = f64[7,3] parameter(1)\n ROOT z = f64[7,3] add(c, b)"
    )
    assert names == ([["broadcast", "add"]] if op == "power" else [[op, "broadcast", "add"]])


@pytest.mark.parametrize("steps", [2, 12])
def test_a_long_chain_with_two_users_gets_a_kernel(steps):
    chain = "\n".join(f"c{n + 1} = f32[100,90] subtract(c{n}, y)" for n in range(steps))
    names, why = fused(
        f"c0 = f32[100,90] parameter(0)\n y = f32[100,90] parameter(1)\n {chain}\n"
        f"t = f32[100,90] reverse(c{steps}), dimensions={{0}}\n ROOT z = f32[100,90] add(c{steps}, t)"
    )
    last = ["reverse", "add"]
    assert sorted(names) == ([["subtract"] * 2 + last] if steps == 2 else [last, ["subtract"] * 12])
    assert (f"z would compute each element of c{steps} 2 times" in why) is (steps == 12)


@pytest.mark.parametrize("dimension", [0, 1])
def test_concatenated_gather_indices_are_fused(dimension):
    half, whole = ("s32[40,1]", "s32[40,2]") if dimension else ("s32[1,40]", "s32[2,40]")
    names, _ = fused(
        f"x = f32[9,9] parameter(0)\n i = {half} parameter(1)\n j = {half} parameter(2)\n"
        f"k = {whole} concatenate(i, j), dimensions={{{dimension}}}\n"
        "g = f32[40] gather(x, k), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},"
        f"index_vector_dim={dimension}, slice_sizes={{1,1}}\n ROOT r = f32[40] negate(g)"
    )
    assert names == [["concatenate", "gather", "negate"]]


def test_gather_indices_concatenated_along_another_dimension_get_a_kernel():
    names, _ = fused(
        "x = f32[99] parameter(0)\n i = s32[20,1] parameter(1)\n j = s32[20,1] parameter(2)\n"
        "k = s32[40,1] concatenate(i, j), dimensions={0}\n"
        "g = f32[40] gather(x, k), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},"
        "index_vector_dim=1, slice_sizes={1}\n ROOT r = f32[40] negate(g)"
    )
    assert names == [["gather", "negate"]]


@pytest.mark.parametrize(
    ("given", "made", "alone"),
    [
        ("f32", "s8", True),
        ("f32", "f8e4m3fn", True),
        ("f32", "bf16", True),
        ("s8", "s32", False),
        ("bf16", "f32", False),
    ],
)
def test_a_dot_fuses_widening_converts_and_not_narrowing_ones(given, made, alone):
    names, why = fused(
        f"x = {given}[64,64] parameter(0)\n y = {given}[64,64] parameter(1)\n s = {given}[64,64] add(x, y)\n"
        f"n = {made}[64,64] convert(s)\n w = {made}[64,64] parameter(2)\n"
        f"ROOT r = {made}[64,64] dot(n, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )
    assert (["add", "convert"] in names) == alone
    about = next(line for line in why.splitlines() if line.startswith("n (convert)"))
    assert ("gets a kernel" in about) == alone


@pytest.mark.parametrize(
    ("convolution", "is_fused"),
    [
        ("f32[3,3,8,8] convolution(t, u), window={size=9x9 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf", False),
        (
            "f32[2,9,9,8] convolution(t, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f,"
            " feature_group_count=8",
            False,
        ),
        ("f32[2,9,9,8] convolution(t, l), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", True),
    ],
    ids=["gradient of a kernel", "depthwise", "dense"],
)
def test_convolutions_that_read_vectors_do_not_read_them_across_a_transpose(convolution: str, is_fused: bool):
    names, _ = fused(
        "x = f32[2,8,9,9] parameter(0)\n k = f32[3,3,1,8] parameter(1)\n l = f32[3,3,8,8] parameter(2)\n"
        " y = f32[2,8,9,9] parameter(3)\n t = f32[2,9,9,8] transpose(x), dimensions={0,2,3,1}\n"
        f" u = f32[2,9,9,8] transpose(y), dimensions={{0,2,3,1}}\n ROOT r = {convolution}"
    )
    assert names == ([["transpose", "convolution"]] if is_fused else [])


def test_a_concatenation_reads_slices_where_they_lie():
    names, why = fused(
        "x = f32[70,100] parameter(0)\n high = f32[30,100] slice(x), slice={[40:70], [0:100]}\n"
        "low = f32[40,100] slice(x), slice={[0:40], [0:100]}\n"
        "ROOT rolled = f32[70,100] concatenate(high, low), dimensions={0}"
    )
    assert names == [["slice", "slice", "concatenate"]]
    assert "low (slice) is fused into rolled, which alone needs it" in why


def test_a_reduction_that_a_dot_depends_on_is_complete_before_it():
    _, why = fused(
        "x = f32[64,256] parameter(0)\n v = f32[256,32] parameter(1)\n zero = f32[] constant(0)\n"
        "m = f32[64] reduce(x, zero), dimensions={1}, to_apply=add\n"
        "b = f32[64,256] broadcast(m), dimensions={0}\n n = f32[64,256] subtract(x, b)\n"
        "ROOT g = f32[64,32] dot(n, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert "n and g stay separate kernels: m (reduce) must be complete before g (dot) begins" in why
