"""Shape rules of reduce, reduce-window, select-and-scatter, map and scan."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, read, refused, rewritten, written
from tests.raising import Wanted, raises
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.base.errors import ParseError
from xlapy.base.shape import Shape
from xlapy.opcodes import MAP, REDUCE, REDUCE_WINDOW, SCAN, SELECT_AND_SCATTER
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import MapAttributes, ReduceAttributes, ScanAttributes

ADD = "(a: f32[], b: f32[]) -> f32[]"
ARGMAX = "(a: f32[], b: s32[], c: f32[], d: s32[]) -> (f32[], s32[])"
SELECT = "(a: f32[], b: f32[]) -> pred[]"


def window(*sizes: int, **columns: list[int]) -> Window:
    return Window.make(sizes, **columns)


class TestReduce:
    @pytest.mark.parametrize(
        ("dimensions", "shape"),
        [((), "f32[4,2,3]"), ((0,), "f32[2,3]"), ((2, 0), "f32[2]"), ((0, 1, 2), "f32[]")],
    )
    def test_the_other_dimensions_remain(self, dimensions: tuple[int, ...], shape: str):
        assert inferred(REDUCE, "f32[4,2,3]", "f32[]", calls=[ADD], dimensions=dimensions) == shape

    def test_several_arrays_make_a_tuple(self):
        operands = ["f32[4,6]", "s32[4,6]", "f32[]", "s32[]"]
        assert inferred(REDUCE, *operands, calls=[ARGMAX], dimensions=(1,)) == "(f32[4], s32[4])"

    def test_a_reducer_may_return_a_tuple_of_one(self):
        boxed = "(a: f32[], b: f32[]) -> (f32[])"
        assert inferred(REDUCE, "f32[4]", "f32[]", calls=[boxed], dimensions=(0,)) == "(f32[])"

    def test_dynamic_dimensions_remain_dynamic(self):
        assert inferred(REDUCE, "f32[<=4,3]", "f32[]", calls=[ADD], dimensions=(1,)) == "f32[<=4]"
        assert inferred(REDUCE, "f32[<=4,3]", "f32[]", calls=[ADD], dimensions=(0,)) == "f32[3]"

    def test_every_element_type(self):
        for t in ("pred", "s2", "u4", "s64", "f8e5m2", "bf16", "f64", "c128"):
            assert (
                inferred(REDUCE, f"{t}[2,3]", f"{t}[]", calls=[f"(a: {t}[], b: {t}[]) -> {t}[]"], dimensions=(0,))
                == f"{t}[3]"
            )

    @pytest.mark.parametrize(
        ("operands", "calls", "dimensions", "wanted"),
        [
            (["f32[4]"], [ADD], (0,), (shared.OPERAND_COUNT, "1")),
            (
                ["f32[4]", "f32[]", "f32[]"],
                [ADD],
                (0,),
                (shared.OPERAND_COUNT, "3"),
            ),
            (["f32[4]", "f32[]"], [], (0,), (shared.CALLED_COMPUTATIONS, "0")),
            (["(f32[4])", "f32[]"], [ADD], (0,), (shared.ARRAY_OPERAND, "operand 0", "(f32[4])")),
            (["f32[4]", "f32[]"], [ADD], (1,), (shared.DIMENSION_NUMBER, "dimension 1", "f32[4]", "rank 1")),
            (["f32[4]", "f32[]"], [ADD], (-1,), (shared.DIMENSION_NUMBER, "dimension -1", "f32[4]", "rank 1")),
            (["f32[4,2]", "f32[]"], [ADD], (0, 0), (shared.DISTINCT_DIMENSIONS, "[0, 0]")),
            (
                ["f32[4]", "s32[5]", "f32[]", "s32[]"],
                [ARGMAX],
                (0,),
                (shared.SAME_DIMENSIONS, "operand 1", "s32[5]", "operand 0", "f32[4]"),
            ),
            (
                ["f32[4]", "f32[]"],
                ["(a: f32[]) -> f32[]"],
                (0,),
                (codes.REDUCER_COUNT, "2"),
            ),
            (
                ["f32[4]", "s32[4]", "f32[]", "s32[]"],
                ["(a: f32[], b: s32[], c: f32[], d: s32[]) -> f32[]"],
                (0,),
                (codes.REDUCER_COUNT,),
            ),
            (
                ["f32[4]", "f32[]"],
                ["(a: f32[], b: f32[]) -> f32[1]"],
                (0,),
                (codes.REDUCER_SCALARS, "result 0", "f32[1]"),
            ),
            (
                ["f32[4]", "f32[]"],
                ["(a: s32[], b: f32[]) -> f32[]"],
                (0,),
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "parameter 0", "s32[]"),
            ),
            (
                ["f32[4]", "s32[]"],
                [ADD],
                (0,),
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "initial value 0", "s32[]"),
            ),
            (
                ["f32[4]", "f32[1]"],
                [ADD],
                (0,),
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "initial value 0", "f32[1]"),
            ),
            (
                ["f32[4]", "f32[]"],
                ["(a: f32[], b: s32[]) -> f32[]"],
                (0,),
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "parameter 1", "value 0", "s32[]"),
            ),
            (
                ["bf16[4]", "f32[]"],
                [ADD],
                (0,),
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "operand 0", "bf16[4]"),
            ),
        ],
    )
    def test_refusals(self, operands: list[str], calls: list[str], dimensions: tuple[int, ...], wanted: Wanted):
        refused(wanted, REDUCE, None, *operands, calls=calls, dimensions=dimensions)

    def test_the_declared_shape_must_be_the_inferred_one(self):
        refused(
            (shared.RESULT_SHAPE, "(f32[4,2], f32[])", "f32[2]", "f32[4]"),
            REDUCE,
            "f32[4]",
            "f32[4,2]",
            "f32[]",
            calls=[ADD],
            dimensions=(0,),
        )

    def test_dimensions_are_always_printed(self):
        assert written(REDUCE, ReduceAttributes.make(dimensions=())) == ["dimensions"]
        assert rewritten(REDUCE, "dimensions", "{1, 0}") == "{1,0}"


class TestReduceWindow:
    @pytest.mark.parametrize(
        ("operand", "columns", "shape"),
        [
            ("f32[4,6]", {"strides": [2, 3]}, "f32[2,2]"),
            ("f32[4,6]", {}, "f32[3,4]"),
            ("f32[4,6]", {"padding": [(1, 0), (2, 2)]}, "f32[4,8]"),
            ("f32[4,6]", {"padding": [(-1, -1), (0, 0)]}, "f32[1,4]"),
            ("f32[4,6]", {"base_dilations": [2, 3]}, "f32[6,14]"),
            ("f32[4,6]", {"window_dilations": [3, 2]}, "f32[1,2]"),
            ("f32[1,6]", {}, "f32[0,4]"),
            ("f32[0,6]", {"padding": [(1, 1), (0, 0)]}, "f32[1,4]"),
            ("f32[<=4,6]", {}, "f32[<=3,4]"),
            ("f32[?,6]", {}, "f32[?,4]"),
        ],
    )
    def test_one_element_a_window_position(self, operand: str, columns: dict[str, list[int]], shape: str):
        assert inferred(REDUCE_WINDOW, operand, "f32[]", calls=[ADD], window=window(2, 3, **columns)) == shape

    def test_padding_and_dilation_of_the_specification(self):
        """The second example: 3 rows, dilated by 2 and padded by 2 and 1, are 8; windows have 4 rows at a stride of
        4."""
        dilated = Window.make([2, 1], [4, 1], [(2, 1), (0, 0)], [2, 1], [3, 1])
        assert (
            inferred(REDUCE_WINDOW, "s32[3,2]", "s32[]", calls=["(a: s32[], b: s32[]) -> s32[]"], window=dilated)
            == "s32[2,2]"
        )

    def test_rank_zero(self):
        assert inferred(REDUCE_WINDOW, "f32[]", "f32[]", calls=[ADD], window=Window()) == "f32[]"

    def test_several_arrays_make_a_tuple(self):
        operands = ["f32[4,6]", "s32[4,6]", "f32[]", "s32[]"]
        assert inferred(REDUCE_WINDOW, *operands, calls=[ARGMAX], window=window(1, 2)) == "(f32[4,5], s32[4,5])"

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("{size=2}", (shared.ENTRY_PER_DIMENSION, "f32[4,6]")),
            ("{size=0x1}", (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
            ("{size=1x1 stride=1x0}", (attributes_codes.WINDOW_POSITIVE, "window dimension 1")),
            ("{size=1x1 lhs_dilate=0x1}", (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
            ("{size=1x1 rhs_dilate=1x-1}", (attributes_codes.WINDOW_POSITIVE, "window dimension 1")),
        ],
    )
    def test_refused_windows(self, text: str, wanted: Wanted):
        given = read(REDUCE_WINDOW, "window", text)
        refused(wanted, REDUCE_WINDOW, None, "f32[4,6]", "f32[]", calls=[ADD], window=given)

    @pytest.mark.parametrize("text", ["{size=2x2 stride=1_2x1}", "{size=2_-2}", "{size=2 rhs_dilate=1_0}"])
    def test_only_padding_has_pairs(self, text: str):
        with raises(ParseError, attributes_codes.ATTRIBUTE_FORM, "1_2"):
            read(REDUCE_WINDOW, "window", text)

    def test_the_reducer_is_judged_as_that_of_reduce(self):
        refused(
            (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "initial value 0", "s32[]"),
            REDUCE_WINDOW,
            None,
            "f32[4]",
            "s32[]",
            calls=[ADD],
            window=window(2),
        )

    def test_operands_have_equal_dimensions(self):
        operands = ["f32[4]", "s32[5]", "f32[]", "s32[]"]
        refused(
            (shared.SAME_DIMENSIONS, "operand 1", "s32[5]", "operand 0", "f32[4]"),
            REDUCE_WINDOW,
            None,
            *operands,
            calls=[ARGMAX],
            window=window(2),
        )


class TestSelectAndScatter:
    def test_the_result_is_like_the_operand(self):
        given = window(2, 3, strides=[2, 3])
        operands = ["f32[4,6]", "f32[2,2]", "f32[]"]
        assert inferred(SELECT_AND_SCATTER, *operands, calls=[SELECT, ADD], window=given) == "f32[4,6]"

    @pytest.mark.parametrize(
        ("operands", "calls", "wanted"),
        [
            (["f32[4]", "f32[3]"], [SELECT, ADD], (shared.OPERAND_COUNT, "3", "2")),
            (["f32[4]", "f32[3]", "f32[]"], [SELECT], (shared.CALLED_COMPUTATIONS, "1")),
            (
                ["f32[4]", "f32[4]", "f32[]"],
                [SELECT, ADD],
                (codes.SOURCE_POSITIONS, "f32[4]", "f32[3]"),
            ),
            (
                ["f32[4]", "f32[3]", "f32[]"],
                ["(a: f32[]) -> pred[]", ADD],
                (codes.SELECT_COMPUTATION, "f32[]"),
            ),
            (
                ["f32[4]", "f32[3]", "f32[]"],
                ["(a: f32[], b: s32[]) -> pred[]", ADD],
                (codes.SELECT_COMPUTATION, "f32[]"),
            ),
            (["f32[4]", "f32[3]", "f32[]"], [ADD, ADD], (codes.SELECT_COMPUTATION, "pred[]")),
            (
                ["f32[4]", "f32[3]", "s32[]"],
                [SELECT, ADD],
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "initial value 0", "s32[]"),
            ),
            (
                ["f32[4,2]", "f32[3]", "f32[]"],
                [SELECT, ADD],
                (shared.ENTRY_PER_DIMENSION, "f32[4,2]"),
            ),
        ],
    )
    def test_refusals(self, operands: list[str], calls: list[str], wanted: Wanted):
        refused(wanted, SELECT_AND_SCATTER, None, *operands, calls=calls, window=window(2))


class TestMap:
    def test_the_element_type_is_that_of_the_computation(self):
        calls = ["(a: f32[], b: s32[]) -> pred[]"]
        assert inferred(MAP, "f32[2,3]", "s32[2,3]", calls=calls, dimensions=(0, 1)) == "pred[2,3]"

    def test_scalars_of_the_same_type_go_with_arrays(self):
        assert inferred(MAP, "f32[2]", "f32[]", calls=[ADD], dimensions=(0,)) == "f32[2]"
        assert inferred(MAP, "f32[]", "f32[2]", calls=[ADD], dimensions=(0,)) == "f32[2]"
        assert inferred(MAP, "f32[]", "f32[]", calls=[ADD], dimensions=()) == "f32[]"

    def test_dynamic_dimensions(self):
        assert inferred(MAP, "f32[<=4]", "f32[<=4]", calls=[ADD], dimensions=(0,)) == "f32[<=4]"

    @pytest.mark.parametrize(
        ("operands", "calls", "dimensions", "wanted"),
        [
            ([], [ADD], (), (shared.OPERAND_COUNT, "0")),
            (["f32[2]", "f32[2]"], [], (0,), (shared.CALLED_COMPUTATIONS, "0")),
            (
                ["f32[2]", "f32[3]"],
                [ADD],
                (0,),
                (shared.SAME_DIMENSIONS, "operand 1", "f32[3]", "f32[2]"),
            ),
            (
                ["f32[2]", "s32[]"],
                [ADD],
                (0,),
                (shared.SAME_DIMENSIONS, "operand 1", "s32[]", "f32[2]"),
            ),
            (["f32[2]", "f32[2]"], [ADD], (1,), (codes.MAP_DIMENSIONS, "rank-1", "f32[2]", "[1]")),
            (["f32[2,2]", "f32[2,2]"], [ADD], (1, 0), (codes.MAP_DIMENSIONS, "rank-1", "f32[2,2]", "[1, 0]")),
            (["f32[2]"], [ADD], (0,), (codes.MAP_COMPUTATION,)),
            (["f32[2]", "s32[2]"], [ADD], (0,), (codes.MAP_COMPUTATION, "parameter 1", "f32[]", "operand 1", "s32[2]")),
            (["f32[2]"], ["(a: f32[]) -> (f32[])"], (0,), (codes.MAP_COMPUTATION,)),
            (["token[]"], ["(a: token[]) -> f32[]"], (), (shared.ARRAY_OPERAND, "operand 0", "token[]")),
        ],
    )
    def test_refusals(self, operands: list[str], calls: list[str], dimensions: tuple[int, ...], wanted: Wanted):
        refused(wanted, MAP, None, *operands, calls=calls, dimensions=dimensions)

    def test_dimensions_left_out_are_all(self):
        assert MAP.canonicalize_attributes is not None
        operands = [Shape.parse("f32[]"), Shape.parse("f32[2,3]")]
        assert MAP.canonicalize_attributes(MapAttributes.make(), operands, operands[1]).dimensions == (0, 1)
        assert MAP.canonicalize_attributes(MapAttributes.make(), operands[:1], operands[0]).dimensions == ()


BODY = "(a: f32[4], b: f32[]) -> (s32[4], f32[])"


class TestScan:
    def test_outputs_have_the_dimension_and_carries_do_not(self):
        attributes = {"dimensions": (1,), "num_carries": 1}
        assert inferred(SCAN, "f32[4,3]", "f32[]", calls=[BODY], **attributes) == "(s32[4,3], f32[])"
        assert accepts(SCAN, "(s32[4,3], f32[])", "f32[4,3]", "f32[]", calls=[BODY], **attributes)

    def test_one_result_needs_no_tuple(self):
        negate = "(a: f32[2]) -> f32[2]"
        assert inferred(SCAN, "f32[3,2]", calls=[negate], dimensions=(0,), num_carries=0) == "f32[3,2]"

    def test_without_inputs_the_shape_is_declared(self):
        body = "(a: s32[]) -> (s32[], s32[])"
        attributes = {"dimensions": (0,), "num_carries": 1}
        assert accepts(SCAN, "(s32[6], s32[])", "s32[]", calls=[body], **attributes)
        refused((codes.SCAN_SIZE_GIVEN, "dimension's"), SCAN, None, "s32[]", calls=[body], **attributes)

    @pytest.mark.parametrize(
        ("shape", "operands", "body", "dimensions", "carries", "wanted"),
        [
            (
                "(s32[4,3], f32[])",
                ["f32[4,3]", "f32[]"],
                BODY,
                (0, 1),
                1,
                (codes.SCAN_DIMENSION, "[0, 1]"),
            ),
            (
                "(s32[4,3], f32[])",
                ["f32[4,3]", "f32[]"],
                BODY,
                (1,),
                3,
                (codes.SCAN_CARRIES, "3"),
            ),
            (
                "(f32[])",
                ["f32[]"],
                "(a: f32[]) -> (f32[])",
                (0,),
                1,
                (codes.SCAN_CARRIES,),
            ),
            ("(s32[4,3], f32[])", ["f32[4,3]"], BODY, (1,), 1, (codes.SCAN_BODY_COUNTS, "1")),
            ("f32[4,3]", ["f32[4,3]", "f32[]"], BODY, (1,), 1, (codes.SCAN_BODY_COUNTS, "2")),
            (
                "(s32[4,3], f32[])",
                ["f32[4,3]", "f32[]"],
                BODY,
                (2,),
                1,
                (shared.DIMENSION_NUMBER, "dimension 2", "f32[4,3]", "rank 2"),
            ),
            (
                "(s32[3,4], f32[])",
                ["f32[3,4]", "f32[]"],
                BODY,
                (1,),
                1,
                (codes.SCAN_BODY_SHAPES, "parameter 0", "f32[4]", "operand 0", "f32[3]"),
            ),
            (
                "(s32[4,5], f32[])",
                ["f32[4,3]", "f32[]"],
                BODY,
                (1,),
                1,
                (codes.SCAN_SIZE, "result 0", "s32[4,5]", "dimension 1", "size 3"),
            ),
            (
                "(f32[4,3], f32[])",
                ["f32[4,3]", "f32[]"],
                BODY,
                (1,),
                1,
                (codes.SCAN_BODY_SHAPES, "result 0", "s32[4]", "f32[4]"),
            ),
            (
                "(s32[4,3], s32[])",
                ["f32[4,3]", "f32[]"],
                "(a: f32[4], b: f32[]) -> (s32[4], s32[])",
                (1,),
                1,
                (codes.SCAN_BODY_SHAPES, "carry 0", "f32[]", "s32[]"),
            ),
            (
                "(s32[4,3], f32[])",
                ["(f32[4,3])", "f32[]"],
                BODY,
                (1,),
                1,
                (shared.ARRAY_OPERAND, "operand 0", "(f32[4,3])"),
            ),
        ],
    )
    def test_refusals(
        self, shape: str, operands: list[str], body: str, dimensions: tuple[int, ...], carries: int, wanted: Wanted
    ):
        refused(wanted, SCAN, shape, *operands, calls=[body], dimensions=dimensions, num_carries=carries)

    def test_is_associative_is_always_printed(self):
        attributes = ScanAttributes.make(dimensions=(0,), num_carries=1)
        assert attributes.is_associative is False
        assert written(SCAN, attributes) == ["dimensions", "num_carries", "is_associative"]
        backwards = ScanAttributes.make(dimensions=(0,), num_carries=1, is_reverse=True)
        assert written(SCAN, backwards) == ["dimensions", "num_carries", "is_reverse", "is_associative"]
