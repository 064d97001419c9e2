"""Called computations, asynchronous operations and aliases.

Codes E1600 to E1699: call, fusion, while, conditional and async operations.
"""

from xlapy.base.error_codes.code import ErrorCode

PARAMETER_COUNT = ErrorCode(
    "E1600",
    "A called computation has as many parameters as it is passed operands.",
    remedy=("Pass one operand for each parameter; while and conditional pass one value, which may be a tuple."),
)
PARAMETER_SHAPE = ErrorCode(
    "E1601",
    "An operand has the shape of the parameter that it is passed to.",
    remedy="Declare the parameter with the operand's shape, or convert, reshape or broadcast the operand.",
)
LOOP_CONDITION = ErrorCode(
    "E1602",
    "The condition of a while returns pred[].",
    remedy="Return a comparison of scalars; reduce an array of pred with `and`.",
)
LOOP_VALUE = ErrorCode(
    "E1603",
    "The body of a while returns a value with the shape of the initial value.",
    remedy="Convert or reshape what the body returns, or the initial value.",
)
BRANCH_INDEX = ErrorCode(
    "E1604",
    "The index of a conditional has the shape pred[] or s32[].",
    remedy="Convert the index to s32.",
)
BRANCH_OPERANDS = ErrorCode(
    "E1605",
    "A conditional has at least one branch, and one operand for each branch.",
    remedy="Pass an operand for each branch; an empty tuple for a branch that needs none.",
)
BRANCH_RESULTS = ErrorCode(
    "E1606",
    "All branches of a conditional return values of the same shape.",
    remedy="Convert, reshape or pad the results to one shape.",
)
ASYNC_TUPLE = ErrorCode(
    "E1610",
    "An asynchronous operation in progress has the shape ((operands...), result, context...).",
    remedy="Declare a tuple of the operands' tuple, the result and contexts such as u32[].",
)
ASYNC_OPERANDS = ErrorCode(
    "E1611",
    "The operands in the shape of an asynchronous operation are those that are bound so far: the first "
    "parameters of its computation.",
    remedy="Declare the shapes of the operands, in the order of the parameters.",
)
ASYNC_RESULT = ErrorCode(
    "E1612",
    "The result in the shape of an asynchronous operation is that of its computation, or a prefix of its tuple.",
    remedy="Declare the result that the computation returns.",
)
ALIAS_PLACE = ErrorCode(
    "E1620",
    "An alias pairs a part of the result with a part of an operand, and both exist.",
    remedy="Count operands and tuple elements from 0; `{}` stands for the whole value.",
)
ALIAS_SHAPES = ErrorCode(
    "E1621",
    "The two parts of an alias have the same shape.",
    remedy="Remove the alias: a buffer is shared only between values of the same shape.",
)
