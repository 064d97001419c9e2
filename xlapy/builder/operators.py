"""The builder functions that implement Python's operators, subscripts and `astype` of `XlaOp`.

Responsible for which function each operator calls. `xlapy.builder` passes the table to `XlaOp`, so that the module of
`XlaOp` does not depend on the families, whose functions take and return XlaOps.
"""

from xlapy.builder import contraction, elementwise
from xlapy.builder.core.op import OperatorFunctions
from xlapy.builder.subscript import subscript

OPERATOR_FUNCTIONS = OperatorFunctions(
    add=elementwise.add,
    sub=elementwise.sub,
    mul=elementwise.mul,
    div=elementwise.div,
    rem=elementwise.rem,
    pow=elementwise.pow,
    dot=contraction.dot,
    neg=elementwise.neg,
    abs=elementwise.abs,
    and_=elementwise.and_,
    or_=elementwise.or_,
    xor=elementwise.xor,
    not_=elementwise.not_,
    shift_left=elementwise.shift_left,
    shift_right_arithmetic=elementwise.shift_right_arithmetic,
    shift_right_logical=elementwise.shift_right_logical,
    eq=elementwise.eq,
    ne=elementwise.ne,
    lt=elementwise.lt,
    le=elementwise.le,
    gt=elementwise.gt,
    ge=elementwise.ge,
    subscript=subscript,
    convert_element_type=elementwise.convert_element_type,
)
