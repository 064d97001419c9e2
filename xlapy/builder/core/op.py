"""`XlaOp`: a value of a computation under construction, with Python operators.

Responsible for the handle and for its operators, which call the builder functions of a table that `xlapy.builder`
provides. Does not depend on the families of builder functions or on how instructions are created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

import numpy as np

from xlapy.base.arguments.checking import checked_class
from xlapy.base.arguments.copying import not_copied
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.errors import BuilderError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.builder.core.source import located
from xlapy.hlo.instruction import Instruction

if TYPE_CHECKING:
    from xlapy.builder.core.builder import XlaBuilder


@not_copied("it is a value of its builder; build the computation and copy that")
@checked_class
class XlaOp:
    """A value of a builder: the result of an op. Functions of `xlapy.ops` and operators create new values from it.

    Operators accept another XlaOp, or a Python number or NumPy array, which becomes a constant of this op's element
    type. Scalars are broadcast; arrays of different ranks need a function with `broadcast_dimensions`. `x == y` and the
    other comparisons create ops as well: use `is` to compare identity.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> 2.0 * x - 1.0
    <XlaOp subtract = f32[2,3] subtract>
    """

    __slots__ = ("builder", "instruction")

    _functions: ClassVar[OperatorFunctions]

    __array_ufunc__ = None  # NumPy leaves `array + op` to XlaOp

    def __init__(self, builder: XlaBuilder, instruction: Instruction) -> None:
        self.builder: XlaBuilder = builder
        self.instruction: Instruction = instruction

    @property
    def shape(self) -> Shape:
        return self.instruction.shape

    @property
    def element_type(self) -> PrimitiveType:
        return self.shape.element_type

    @property
    def name(self) -> str:
        """The instruction's name in HLO text."""
        return self.instruction.name

    def __repr__(self) -> str:
        return f"<XlaOp {self.instruction.name} = {self.shape.to_text(layout=False)} {self.instruction.op.name}>"

    # -- arithmetic (`/` truncates integers toward zero; `%` has the sign of the dividend)

    def __add__(self, other: Operand) -> XlaOp:
        return self._functions.add(self, other)

    def __radd__(self, other: Operand) -> XlaOp:
        return self._functions.add(other, self)

    def __sub__(self, other: Operand) -> XlaOp:
        return self._functions.sub(self, other)

    def __rsub__(self, other: Operand) -> XlaOp:
        return self._functions.sub(other, self)

    def __mul__(self, other: Operand) -> XlaOp:
        return self._functions.mul(self, other)

    def __rmul__(self, other: Operand) -> XlaOp:
        return self._functions.mul(other, self)

    def __truediv__(self, other: Operand) -> XlaOp:
        return self._functions.div(self, other)

    def __rtruediv__(self, other: Operand) -> XlaOp:
        return self._functions.div(other, self)

    def __mod__(self, other: Operand) -> XlaOp:
        return self._functions.rem(self, other)

    def __rmod__(self, other: Operand) -> XlaOp:
        return self._functions.rem(other, self)

    def __pow__(self, other: Operand) -> XlaOp:
        return self._functions.pow(self, other)

    def __rpow__(self, other: Operand) -> XlaOp:
        return self._functions.pow(other, self)

    def __matmul__(self, other: Operand) -> XlaOp:
        return self._functions.dot(self, other)

    def __rmatmul__(self, other: Operand) -> XlaOp:
        return self._functions.dot(other, self)

    def __neg__(self) -> XlaOp:
        return self._functions.neg(self)

    def __pos__(self) -> XlaOp:
        return self

    def __abs__(self) -> XlaOp:
        return self._functions.abs(self)

    # -- bitwise and logical operators (`>>` keeps the sign of signed integers)

    def __and__(self, other: Operand) -> XlaOp:
        return self._functions.and_(self, other)

    def __rand__(self, other: Operand) -> XlaOp:
        return self._functions.and_(other, self)

    def __or__(self, other: Operand) -> XlaOp:
        return self._functions.or_(self, other)

    def __ror__(self, other: Operand) -> XlaOp:
        return self._functions.or_(other, self)

    def __xor__(self, other: Operand) -> XlaOp:
        return self._functions.xor(self, other)

    def __rxor__(self, other: Operand) -> XlaOp:
        return self._functions.xor(other, self)

    def __invert__(self) -> XlaOp:
        return self._functions.not_(self)

    def __lshift__(self, other: Operand) -> XlaOp:
        return self._functions.shift_left(self, other)

    def __rlshift__(self, other: Operand) -> XlaOp:
        return self._functions.shift_left(other, self)

    def __rshift__(self, other: Operand) -> XlaOp:
        return self._shift_right(self, other)

    def __rrshift__(self, other: Operand) -> XlaOp:
        return self._shift_right(other, self)

    def _shift_right(self, lhs: Operand, rhs: Operand) -> XlaOp:
        if self.element_type.is_unsigned:
            return self._functions.shift_right_logical(lhs, rhs)
        return self._functions.shift_right_arithmetic(lhs, rhs)

    # -- comparison

    def __eq__(self, other: object) -> XlaOp:  # type: ignore[override]
        return self._functions.eq(self, other)

    def __ne__(self, other: object) -> XlaOp:  # type: ignore[override]
        return self._functions.ne(self, other)

    def __lt__(self, other: Operand) -> XlaOp:
        return self._functions.lt(self, other)

    def __le__(self, other: Operand) -> XlaOp:
        return self._functions.le(self, other)

    def __gt__(self, other: Operand) -> XlaOp:
        return self._functions.gt(self, other)

    def __ge__(self, other: Operand) -> XlaOp:
        return self._functions.ge(self, other)

    __hash__ = object.__hash__

    # -- conversions that need the value, which is not known yet

    def __bool__(self) -> bool:
        self._unknown("truth value; use ops.select, ops.conditional or ops.while_")

    def __int__(self) -> int:
        self._unknown("int")

    def __float__(self) -> float:
        self._unknown("float")

    def __index__(self) -> int:
        self._unknown("Python index")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self._unknown("NumPy array; build the computation and run it")

    def _unknown(self, what: str) -> NoReturn:
        described = f"{self.instruction.name} {self.shape.to_text(layout=False)}"
        raise BuilderError(
            codes.RUN_TIME_VALUE, located(f"{described} has no value before the program runs, so it has no {what}")
        )

    # -- indexing and element types

    def __len__(self) -> int:
        """The size of dimension 0, or the number of elements of a tuple. Raises `BuilderError` for a scalar."""
        if self.shape.is_tuple:
            return len(self.shape.tuple_shapes)
        if not self.shape.rank:
            raise BuilderError(
                codes.LENGTH, located(f"{self.instruction.name} {self.shape.to_text(layout=False)} has no length")
            )
        return self.shape.dimensions[0]

    def __getitem__(self, index: Any) -> XlaOp:
        """NumPy's basic indexing: integers, slices (also with negative steps), `...`, None, and scalar integer XlaOps.

        An XlaOp as an index reads at a run-time position (dynamic-slice: clamped to the bounds). For a tuple, an
        integer selects an element. Raises BuilderError for an index out of bounds or of another type.
        """
        return self._functions.subscript(self, index)

    def __iter__(self) -> Iterator[XlaOp]:
        """Iterates over the slices along dimension 0, or over the elements of a tuple."""
        return iter([self[i] for i in range(len(self))])

    def astype(self, element_type: PrimitiveType) -> XlaOp:
        """Converts the elements to another type (ConvertElementType)."""
        return self._functions.convert_element_type(self, element_type)


Operand: TypeAlias = XlaOp | Literal | bool | int | float | complex | np.ndarray[Any, Any] | np.generic | list[Any]
"""The values that operators and functions accept: an XlaOp, or a value that becomes a constant, as of nested lists."""

UnaryFunction: TypeAlias = Callable[[XlaOp], XlaOp]
BinaryFunction: TypeAlias = Callable[[Operand, Operand], XlaOp]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFunctions:
    """The builder functions that the operators of `XlaOp` call, under their names in `xlapy.ops`."""

    add: BinaryFunction
    sub: BinaryFunction
    mul: BinaryFunction
    div: BinaryFunction
    rem: BinaryFunction
    pow: BinaryFunction
    dot: BinaryFunction
    neg: UnaryFunction
    abs: UnaryFunction
    and_: BinaryFunction
    or_: BinaryFunction
    xor: BinaryFunction
    not_: UnaryFunction
    shift_left: BinaryFunction
    shift_right_arithmetic: BinaryFunction
    shift_right_logical: BinaryFunction
    eq: Callable[[Any, Any], XlaOp]
    ne: Callable[[Any, Any], XlaOp]
    lt: BinaryFunction
    le: BinaryFunction
    gt: BinaryFunction
    ge: BinaryFunction
    subscript: Callable[[XlaOp, Any], XlaOp]
    convert_element_type: Callable[[XlaOp, PrimitiveType], XlaOp]


def define_operators(functions: OperatorFunctions) -> None:
    """Sets the functions that the operators of every XlaOp call."""
    XlaOp._functions = functions
