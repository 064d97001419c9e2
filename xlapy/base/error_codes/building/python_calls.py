"""Functions and objects of Python.

Codes E2700 to E2749: the arguments of any function, and what objects do not allow.
"""

from xlapy.base.error_codes.code import ErrorCode

ARGUMENT_TYPE = ErrorCode(
    "E2700",
    "An argument has the type that the function's annotation states.",
    remedy="Pass a value of the type that the message names.",
    python="xla.Shape.array('f32', [2])",
)
CALL_SIGNATURE = ErrorCode(
    "E2701",
    "A call gives the parameters that the function has, by position or by name, in one of its forms.",
    remedy="Compare with the parameters or forms that the message lists.",
    python="xla.Shape.scalar(xla.PrimitiveType.F32, 3)",
)
OBJECT_COPY = ErrorCode(
    "E2702",
    "Only objects that hold nothing but values are copied or pickled.",
    remedy="Use what the message names: a copy of the data, or the serialized form of a program.",
    python="import pickle\npickle.dumps(xla.Client('cpu'))",
)
CONSTRUCTION = ErrorCode(
    "E2703",
    "Shapes and literals are made by the static methods of their classes.",
    remedy="Call one of the functions that the message lists.",
    python="xla.Shape()",
)
USER_CODE = ErrorCode(
    "E2710",
    "A file or module of Python that is to be loaded exists.",
    remedy="Give the path of a file whose name ends with `.py`, or the name of a module on `sys.path`.",
    python="from xlapy.base.loading import load_user_code\nload_user_code('passes_that_do_not_exist.py')",
)
