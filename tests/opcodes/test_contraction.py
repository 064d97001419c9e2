"""Shape rules and attributes of dot, ragged-dot and scaled-dot."""

from __future__ import annotations

import itertools
import re
from typing import Any

import ml_dtypes
import pytest

from tests import xla_reference
from tests.opcodes.rules import accepts, inferred, read, refused, rewritten, written
from tests.raising import Wanted, raises
from xlapy.base.element_types import ALL_TYPES, ARRAY_TYPES, PRED, PrimitiveType
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import contraction as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ParseError, ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import (
    DOT,
    RAGGED_DOT,
    SCALED_DOT,
    Algorithm,
    DotAttributes,
    RaggedDotAttributes,
    RaggedMode,
    group_prefix,
    higher_precision_type,
    ragged_mode,
)
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes

MATMUL: dict[str, Any] = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
BATCHED: dict[str, Any] = {
    "lhs_batch_dims": (0,),
    "lhs_contracting_dims": (2,),
    "rhs_batch_dims": (0,),
    "rhs_contracting_dims": (1,),
}


# -- dot


@pytest.mark.parametrize(
    ("lhs", "rhs", "attributes", "result"),
    [
        ("f32[3]", "f32[3]", {"lhs_contracting_dims": (0,), "rhs_contracting_dims": (0,)}, "f32[]"),
        ("f32[2,3]", "f32[3]", MATMUL, "f32[2]"),
        ("f32[2,3]", "f32[3,4]", MATMUL, "f32[2,4]"),
        ("f32[2]", "f32[3]", {}, "f32[2,3]"),
        ("f32[]", "f32[]", {}, "f32[]"),
        ("f32[5,2,3]", "f32[5,3,4]", BATCHED, "f32[5,2,4]"),
        (
            "f32[2,5,3,7]",
            "f32[7,4,5,2]",
            {
                "lhs_batch_dims": (1, 0),
                "rhs_batch_dims": (2, 3),
                "lhs_contracting_dims": (3,),
                "rhs_contracting_dims": (0,),
            },
            "f32[5,2,3,4]",
        ),
        ("f32[2,3,4]", "f32[4,3,5]", {"lhs_contracting_dims": (1, 2), "rhs_contracting_dims": (1, 0)}, "f32[2,5]"),
        ("f32[0,3]", "f32[3,4]", MATMUL, "f32[0,4]"),
        ("f32[2,0]", "f32[0,4]", MATMUL, "f32[2,4]"),
        ("bf16[2,3]", "f32[3,4]", MATMUL, "f32[2,4]"),
        ("c64[2,3]", "f64[3,4]", MATMUL, "c64[2,4]"),
        ("s8[2,3]", "u8[3,4]", MATMUL, "s8[2,4]"),
        ("f32[<=2,3]", "f32[3,<=4]", MATMUL, "f32[<=2,<=4]"),
        ("f32[2,<=3]", "f32[3,4]", MATMUL, "f32[2,4]"),
        ("f32[<=5,2,3]", "f32[5,3,4]", BATCHED, "f32[<=5,2,4]"),
        ("f32[2,?]", "f32[3,?]", MATMUL, "f32[2,?]"),
    ],
)
def test_dot_infers(lhs: str, rhs: str, attributes: dict[str, Any], result: str) -> None:
    assert inferred(DOT, lhs, rhs, **attributes) == result


@pytest.mark.parametrize("element_type", ["f32", "f64", "bf16", "s32", "pred", "c64", "f8e4m3fn", "s4"])
def test_dot_takes_any_declared_element_type(element_type: str) -> None:
    assert accepts(DOT, f"{element_type}[2,4]", "bf16[2,3]", "f32[3,4]", **MATMUL)


@pytest.mark.parametrize(
    ("shape", "operands", "attributes", "wanted"),
    [
        (None, ("f32[2,3]", "token[]"), MATMUL, (shared.ARRAY_OPERAND, "operand 1", "token[]")),
        (
            None,
            ("f32[2,3]", "f32[2,4]"),
            MATMUL,
            (
                codes.DOT_PAIR_SIZES,
                "contracting pair 0",
                "sizes 3",
                "lhs dimension 1",
                "f32[2,3]",
                "rhs dimension 0",
                "f32[2,4]",
            ),
        ),
        (
            None,
            ("f32[5,2,3]", "f32[6,3,4]"),
            BATCHED,
            (
                codes.DOT_PAIR_SIZES,
                "batch pair 0",
                "sizes 5",
                "lhs dimension 0",
                "f32[5,2,3]",
                "rhs dimension 0",
                "f32[6,3,4]",
            ),
        ),
        (
            None,
            ("f32[2,3]", "f32[3,4]"),
            {"lhs_contracting_dims": (1,)},
            (codes.DOT_PAIRED_DIMENSIONS, "[1]", "lhs", "f32[2,3]", "[]", "rhs", "f32[3,4]"),
        ),
        (
            None,
            ("f32[2,3]", "f32[3,4]"),
            {"lhs_batch_dims": (1,)},
            (codes.DOT_PAIRED_DIMENSIONS, "[1]", "lhs", "f32[2,3]", "[]", "rhs", "f32[3,4]"),
        ),
        (
            None,
            ("f32[2,3]", "f32[3,4]"),
            {"lhs_contracting_dims": (2,), "rhs_contracting_dims": (0,)},
            (shared.DIMENSION_NUMBER, "lhs contracting dimension 2", "f32[2,3]", "rank 2"),
        ),
        (
            None,
            ("f32[2,3]", "f32[3,4]"),
            {"lhs_batch_dims": (0,), "rhs_batch_dims": (-1,)},
            (shared.DIMENSION_NUMBER, "rhs batch dimension -1", "f32[3,4]", "rank 2"),
        ),
        (
            None,
            ("f32[3,3]", "f32[3,3]"),
            {"lhs_contracting_dims": (0, 0), "rhs_contracting_dims": (0, 1)},
            (codes.DOT_DISTINCT_DIMENSIONS, "lhs", "[]", "[0, 0]", "f32[3,3]"),
        ),
        (
            None,
            ("f32[3,3]", "f32[3,3]"),
            {
                "lhs_batch_dims": (0,),
                "lhs_contracting_dims": (1,),
                "rhs_batch_dims": (1,),
                "rhs_contracting_dims": (1,),
            },
            (codes.DOT_DISTINCT_DIMENSIONS, "rhs", "[1]", "f32[3,3]"),
        ),
        (
            None,
            ("f8e4m3[3]", "f8e4m3fnuz[3]"),
            {},
            (codes.DOT_PRECISION_ORDER, "f8e4m3", "f8e4m3fnuz"),
        ),
        ("f32[4,2]", ("f32[2,3]", "f32[3,4]"), MATMUL, (shared.RESULT_SHAPE, "f32[2,4]", "f32[4,2]")),
        ("(f32[2,4])", ("f32[2,3]", "f32[3,4]"), MATMUL, (codes.DOT_ARRAY_RESULT, "(f32[2,4])")),
        (
            "f32[2,4]",
            ("c64[2,3]", "f32[3,4]"),
            MATMUL,
            (codes.DOT_COMPLEX_RESULT, "c64[2,3]", "f32[2,4]"),
        ),
    ],
)
def test_dot_refuses(shape: str | None, operands: tuple[str, ...], attributes: dict[str, Any], wanted: Wanted) -> None:
    refused(wanted, DOT, shape, *operands, **attributes)


def test_dot_takes_two_operands() -> None:
    refused((shared.OPERAND_COUNT, "2", "1"), DOT, None, "f32[2]")


def test_declared_element_type_settles_a_tie_of_types() -> None:
    assert accepts(DOT, "f32[3,3]", "f8e4m3[3]", "f8e4m3fnuz[3]")


def test_dynamic_flags_may_differ_in_a_declared_shape() -> None:
    assert accepts(DOT, "f32[2,4]", "f32[<=2,3]", "f32[3,4]", **MATMUL)


# -- attributes


def test_dot_prints_its_attributes_in_order() -> None:
    assert written(DOT, DotAttributes.make(**MATMUL)) == ["lhs_contracting_dims", "rhs_contracting_dims"]
    everything = DotAttributes.make(
        **BATCHED, operand_precision=(Precision.HIGH, Precision.DEFAULT), algorithm=Algorithm.DOT_F32_F32_F32
    )
    assert written(DOT, everything) == [
        "lhs_batch_dims",
        "lhs_contracting_dims",
        "rhs_batch_dims",
        "rhs_contracting_dims",
        "operand_precision",
        "algorithm",
    ]
    assert written(RAGGED_DOT, RaggedDotAttributes.make(lhs_ragged_dims=(0,), rhs_group_dims=(0,))) == [
        "lhs_contracting_dims",
        "rhs_contracting_dims",
        "lhs_ragged_dims",
        "rhs_group_dims",
    ]


def test_contracting_dimensions_print_even_if_there_are_none() -> None:
    assert written(DOT, DotAttributes.make()) == ["lhs_contracting_dims", "rhs_contracting_dims"]


def test_default_precisions_are_dropped() -> None:
    computation = edit.add_computation(Module("m"), "e", entry=True)
    x = edit.create(computation, PARAMETER, attributes=ParameterAttributes.make(number=0), shape=Shape.parse("f32[3]"))
    plain = DotAttributes.make(operand_precision=(Precision.DEFAULT, Precision.DEFAULT))
    assert edit.create(computation, DOT, (x, x), plain).attributes == DotAttributes.make()
    stated = DotAttributes.make(operand_precision=(Precision.DEFAULT, Precision.HIGHEST))
    assert edit.create(computation, DOT, (x, x), stated).attributes is stated


@pytest.mark.parametrize("algorithm", Algorithm)
def test_every_algorithm_is_read_and_known_to_xla(algorithm: Algorithm) -> None:
    assert rewritten(DOT, "algorithm", algorithm.value) == algorithm.value
    body = f"dot(a, a), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, algorithm={algorithm.value}"
    assert xla_reference.accepts(f"HloModule m\nENTRY e {{\n a = f32[2] parameter(0)\n ROOT d = f32[] {body}\n}}")


def test_precision_list() -> None:
    assert read(DOT, "operand_precision", "{high, highest}") == (Precision.HIGH, Precision.HIGHEST)
    assert rewritten(DOT, "operand_precision", "{ default,high }") == "{default,high}"
    with raises(ParseError, attributes_codes.ATTRIBUTE_WORD, "'low'"):
        read(DOT, "operand_precision", "{low}")


# -- the element type of mixed operands


def test_table_of_floating_types_agrees_with_their_formats() -> None:
    for t in ARRAY_TYPES:
        if t.is_floating:
            info = ml_dtypes.finfo(t.dtype)
            assert (t.float_format.overflow_exponent, t.float_format.precision) == (info.maxexp, info.nmant + 1), t


XLA_TYPES = [t for t in ARRAY_TYPES if t.text not in ("f6e3m2fn", "f6e2m3fn")]


def test_higher_precision_type_is_that_of_xla() -> None:
    """XLA infers the type if the text omits the shape; on a tie its parser would crash the process."""
    parameters = [f"  p{i} = {t.text}[] parameter({i})" for i, t in enumerate(XLA_TYPES)]
    dots: list[str] = []
    expected: list[PrimitiveType] = []
    for (i, a), (j, b) in itertools.product(enumerate(XLA_TYPES), repeat=2):
        try:
            expected.append(higher_precision_type(a, b))
        except ShapeError:
            continue
        dots.append(f"  d{len(dots)} = dot(p{i}, p{j})")
    text = "\n".join(["HloModule m", "ENTRY e {", *parameters, *dots, "  ROOT r = () tuple()", "}"])
    found = re.findall(r"%?d\d+ = (\w+)\[\]", xla_reference.parse_and_print(text))
    assert found == [t.text for t in expected]
    assert len(found) > 500


@pytest.mark.parametrize(("a", "b"), [("f8e4m3", "f8e4m3fnuz"), ("f8e5m2", "f8e5m2fnuz"), ("pred", "u1")])
def test_types_of_equal_rank(a: str, b: str) -> None:
    with raises(ShapeError, codes.DOT_PRECISION_ORDER, f"{a}", f"{b}"):
        higher_precision_type(PrimitiveType.from_text(a), PrimitiveType.from_text(b))


def test_equal_types() -> None:
    assert all(higher_precision_type(t, t) is t for t in ALL_TYPES)
    assert higher_precision_type(PRED, PrimitiveType.S1) is PrimitiveType.S1


# -- ragged dot

FREE: dict[str, Any] = {
    "lhs_contracting_dims": (2,),
    "rhs_contracting_dims": (2,),
    "lhs_batch_dims": (0,),
    "rhs_batch_dims": (1,),
    "lhs_ragged_dims": (1,),
    "rhs_group_dims": (0,),
}
CONTRACTING = BATCHED | {"lhs_ragged_dims": (2,)}
BATCH = BATCHED | {"lhs_ragged_dims": (0,)}


@pytest.mark.parametrize(
    ("operands", "attributes", "result"),
    [
        (("f32[5,2,3]", "f32[7,5,3,4]", "s32[5,7]"), FREE, "f32[5,2,4]"),
        (("f32[5,2,3]", "f32[7,5,3,4]", "s64[7]"), FREE, "f32[5,2,4]"),
        (("f32[5,2,3]", "f32[5,3,4]", "s32[5,7]"), CONTRACTING, "f32[7,5,2,4]"),
        (("f32[5,2,3]", "f32[5,3,4]", "s32[7]"), CONTRACTING, "f32[7,5,2,4]"),
        (("f32[5,2,3]", "f32[5,3,4]", "s32[<=7]"), CONTRACTING, "f32[<=7,5,2,4]"),
        (("f32[5,2,3]", "f32[5,3,4]", "s32[7]"), BATCH, "f32[5,2,4]"),
        (("bf16[5,2,3]", "f32[5,3,4]", "u8[7]"), BATCH, "f32[5,2,4]"),
    ],
)
def test_ragged_dot_infers(operands: tuple[str, ...], attributes: dict[str, Any], result: str) -> None:
    assert inferred(RAGGED_DOT, *operands, **attributes) == result
    assert accepts(RAGGED_DOT, result.replace("f32", "f64"), *operands, **attributes)


def test_ragged_modes_and_prefixes() -> None:
    free, contracting, batch = (RaggedDotAttributes.make(**a) for a in (FREE, CONTRACTING, BATCH))
    assert [ragged_mode(a) for a in (free, contracting, batch)] == [
        RaggedMode.FREE,
        RaggedMode.CONTRACTING,
        RaggedMode.BATCH,
    ]
    assert group_prefix(free, 3) == (0,)
    assert group_prefix(contracting, 3) == (0,)
    assert group_prefix(batch, 3) == ()
    several = RaggedDotAttributes.make(
        lhs_batch_dims=(4, 0),
        rhs_batch_dims=(0, 1),
        lhs_contracting_dims=(3, 1),
        rhs_contracting_dims=(2, 3),
        lhs_ragged_dims=(1,),
    )
    assert group_prefix(several, 5) == (4, 0, 3)
    assert group_prefix(several.replace(lhs_ragged_dims=(0,)), 5) == (4,)
    assert group_prefix(several.replace(lhs_ragged_dims=(2,)), 5) == (4, 0)


@pytest.mark.parametrize(
    ("operands", "attributes", "wanted"),
    [
        (("f32[5,2,3]", "f32[5,3,4]", "s32[7]"), BATCHED, (codes.RAGGED_DIMENSION, "lhs", "[]")),
        (
            ("f32[5,2,3]", "f32[5,3,4]", "s32[7]"),
            BATCHED | {"lhs_ragged_dims": (0, 1)},
            (codes.RAGGED_DIMENSION, "lhs", "[0, 1]"),
        ),
        (
            ("f32[5,2,3]", "f32[5,3,4]", "s32[7]"),
            BATCHED | {"lhs_ragged_dims": (3,)},
            (shared.DIMENSION_NUMBER, "lhs ragged dimension 3", "f32[5,2,3]", "rank 3"),
        ),
        (("f32[5,2,3]", "f32[7,5,3,4]", "f32[7]"), FREE, (codes.GROUP_SIZES_TYPE, "f32[7]")),
        (
            ("f32[5,2,3]", "f32[7,5,3,4]", "s32[4,7]"),
            FREE,
            (codes.GROUP_SIZES_DIMENSIONS, "[g]", "[5,g]", "lhs", "f32[5,2,3]", "s32[4,7]"),
        ),
        (
            ("f32[5,2,3]", "f32[7,5,3,4]", "s32[]"),
            FREE,
            (codes.GROUP_SIZES_DIMENSIONS, "[g]", "[5,g]", "lhs", "f32[5,2,3]", "s32[]"),
        ),
        (
            ("f32[5,2,3]", "f32[7,5,3,4]", "s32[6]"),
            FREE,
            (codes.GROUP_COUNT, "(s32[6])", "rhs dimension 0", "f32[7,5,3,4]", "size 7"),
        ),
        (
            ("f32[5,2,3]", "f32[7,5,3,4]", "s32[7]"),
            FREE | {"rhs_group_dims": ()},
            (codes.GROUP_DIMENSION, "rhs", "[]"),
        ),
        (
            ("f32[5,2,3]", "f32[7,5,3,4]", "s32[7]"),
            FREE | {"rhs_group_dims": (4,)},
            (shared.DIMENSION_NUMBER, "rhs group dimension 4", "f32[7,5,3,4]", "rank 4"),
        ),
        (
            ("f32[5,2,3]", "f32[7,5,3,4]", "s32[7]"),
            FREE | {"rhs_group_dims": (1,)},
            (codes.GROUP_DIMENSION_FREE, "rhs group dimension 1", "f32[7,5,3,4]"),
        ),
        (
            ("f32[5,2,3]", "f32[5,3,4]", "s32[7]"),
            CONTRACTING | {"rhs_group_dims": (2,)},
            (codes.GROUP_DIMENSION, "rhs", "[2]"),
        ),
        (
            ("f32[5,2,3]", "f32[5,3,4]", "s32[7]"),
            BATCH | {"rhs_group_dims": (2,)},
            (codes.GROUP_DIMENSION, "rhs", "[2]"),
        ),
        (
            ("f32[5,2,3]", "f32[5,4,4]", "s32[7]"),
            BATCH,
            (
                codes.DOT_PAIR_SIZES,
                "contracting pair 0",
                "sizes 3",
                "lhs dimension 2",
                "f32[5,2,3]",
                "rhs dimension 1",
                "f32[5,4,4]",
            ),
        ),
    ],
)
def test_ragged_dot_refuses(operands: tuple[str, ...], attributes: dict[str, Any], wanted: Wanted) -> None:
    refused(wanted, RAGGED_DOT, None, *operands, **attributes)


def test_ragged_dot_judges_the_declared_shape() -> None:
    operands = ("f32[5,2,3]", "f32[5,3,4]", "s32[7]")
    refused((shared.RESULT_SHAPE, "f32[7,5,2,4]", "f32[5,2,4]"), RAGGED_DOT, "f32[5,2,4]", *operands, **CONTRACTING)


# -- scaled dot


@pytest.mark.parametrize(
    ("operands", "result"),
    [
        (("f8e4m3fn[4,32]", "f8e5m2[32,5]", "f8e8m0fnu[4,1]", "f8e8m0fnu[1,5]"), "f8e5m2[4,5]"),
        (("f8e4m3fn[4,32]", "f8e4m3fn[32,5]", "f8e8m0fnu[2,4]", "f8e8m0fnu[32,1]"), "f8e4m3fn[4,5]"),
        (("bf16[4,32]", "f4e2m1fn[32,5]", "bf16[1,1]", "f8e8m0fnu[1,5]"), "bf16[4,5]"),
        (("bf16[4,32]", "f4e2m1fn[32,5]", "bf16[]", "f8e8m0fnu[1,5]"), "bf16[4,5]"),
    ],
)
def test_scaled_dot_infers(operands: tuple[str, ...], result: str) -> None:
    assert inferred(SCALED_DOT, *operands, **MATMUL) == result
    assert accepts(SCALED_DOT, "f32[4,5]", *operands, **MATMUL)


@pytest.mark.parametrize(
    ("operands", "attributes", "wanted"),
    [
        (
            ("f32[4,32]", "f32[32,5]", "f32[]", "f32[]"),
            MATMUL,
            (codes.SCALE_GIVEN, "f32[]"),
        ),
        (
            ("f32[4,32]", "f32[32,5]", "f32[4]", "f32[1,5]"),
            MATMUL,
            (codes.SCALE_RANK, "lhs", "f32[4,32]", "f32[4]"),
        ),
        (
            ("f32[4,32]", "f32[32,5]", "f32[4,1]", "f32[]"),
            MATMUL,
            (codes.SCALE_RANK, "rhs", "f32[32,5]", "f32[]"),
        ),
        (
            ("f32[4,32]", "f32[32,5]", "f32[4,3]", "f32[1,5]"),
            MATMUL,
            (codes.SCALE_BLOCKS, "lhs dimension 1", "f32[4,32]", "size 32", "size 3", "f32[4,3]"),
        ),
        (
            ("f32[4,32]", "f32[32,5]", "f32[4,1]", "f32[0,5]"),
            MATMUL,
            (codes.SCALE_BLOCKS, "rhs dimension 0", "f32[32,5]", "size 32", "size 0", "f32[0,5]"),
        ),
        (
            ("f32[4,2,2]", "f32[2,2,5]", "f32[1,1,1]", "f32[1,1,1]"),
            {"lhs_contracting_dims": (1, 2), "rhs_contracting_dims": (0, 1)},
            (codes.SCALED_CONTRACTION, "lhs", "[1, 2]", "f32[4,2,2]"),
        ),
        (
            ("f32[4,31]", "f32[32,5]", "f32[4,1]", "f32[1,5]"),
            MATMUL,
            (
                codes.DOT_PAIR_SIZES,
                "contracting pair 0",
                "sizes 31",
                "lhs dimension 1",
                "f32[4,31]",
                "32",
                "rhs dimension 0",
                "f32[32,5]",
            ),
        ),
    ],
)
def test_scaled_dot_refuses(operands: tuple[str, ...], attributes: dict[str, Any], wanted: Wanted) -> None:
    refused(wanted, SCALED_DOT, None, *operands, **attributes)
