"""Arguments and results of calls.

Codes E6000 to E6199: arguments of executables, buffers, donation, and values that the host takes from a device.
"""

from xlapy.base.error_codes.code import ErrorCode

ARGUMENT_COUNT = ErrorCode(
    "E6000",
    "A call gives one argument for each parameter of the program.",
    remedy="Give the arguments in the order of the parameters that the message shows.",
    python="""
        program = xla.Client().compile("HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }")
        program()
    """,
)
ARGUMENT_SHAPE = ErrorCode(
    "E6001",
    "An argument has the element type and the sizes of its parameter; a dynamic dimension takes smaller sizes too.",
    remedy="Convert the array with `.astype`, reshape it, or compile the program for other shapes.",
    python="""
        program = xla.Client().compile("HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }")
        program(np.zeros(3, np.float32))
    """,
)
ARGUMENT_ARRAY = ErrorCode(
    "E6002",
    "An argument for an array is a number, a list of numbers, a buffer, or an object that NumPy reads as an array.",
    remedy="Convert the argument to a NumPy array.",
    python="""
        program = xla.Client().compile("HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }")
        program("1, 2")
    """,
)
ARGUMENT_VALUE = ErrorCode(
    "E6003",
    "The element type of a parameter represents the Python numbers that are given for it.",
    remedy="Give numbers in the range of the element type, or a NumPy array that has this type.",
    python="""
        program = xla.Client().compile("HloModule m ENTRY e { ROOT x = s8[2] parameter(0) }")
        program([1, 1000])
    """,
)
ARGUMENT_TUPLE = ErrorCode(
    "E6004",
    "An argument for a tuple is a list or tuple with as many elements.",
    remedy="Give the elements as a tuple.",
    python="""
        program = xla.Client().compile("HloModule m ENTRY e { ROOT x = (f32[2], s32[]) parameter(0) }")
        program((np.zeros(2, np.float32),))
    """,
)
OPAQUE_ARGUMENT = ErrorCode(
    "E6005",
    "The parameters of a program that is called are arrays, tokens, and tuples of them.",
    remedy="Remove the parameter from the entry computation.",
    python="""
        text = "HloModule m ENTRY e { x = opaque[] parameter(0) ROOT y = f32[] constant(1) }"
        program = xla.Client("interpreter").compile(text)
        program(None)
    """,
)
DEVICE_ARGUMENTS = ErrorCode(
    "E6006",
    "The arguments of a program on several devices are a list that has, for each device, the list of its arguments.",
    remedy="Call `execute_sharded([[...], [...]])`, with one list of arguments per device.",
    python="""
        text = "HloModule m, replica_count=2 ENTRY e { ROOT x = f32[2] parameter(0) }"
        program = xla.Client(devices=2).compile(text)
        program(np.zeros(2, np.float32))
    """,
)
DELETED_BUFFER = ErrorCode(
    "E6007",
    "A buffer is used only before it is deleted or donated.",
    remedy="Use the result that reuses the memory of the donated buffer, or do not donate the buffer.",
    python="""
        buffer = xla.Client().device_put(np.zeros(2, np.float32))
        buffer.delete()
        np.asarray(buffer)
    """,
)
BUFFER_INDEX = ErrorCode(
    "E6008",
    "An index of a buffer is within its sizes.",
    remedy="Use indices from 0 to the size less 1 of each dimension.",
    python="""
        buffer = xla.Client().device_put(np.zeros(2, np.float32))
        buffer[5]
    """,
)
DONATED_PARAMETER = ErrorCode(
    "E6009",
    "`donate` names parameters of the program that are arrays, each of them once.",
    remedy="Give the numbers of parameters, which count from 0.",
    python="""
        xla.Client().compile("HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }", donate=[1])
    """,
)
DONATED_ARGUMENT = ErrorCode(
    "E6010",
    "The buffer that a call gives for a donated parameter is not given for another parameter.",
    remedy="Copy the buffer for the other parameter, or do not donate it.",
    python="""
        client = xla.Client()
        text = "HloModule m ENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT z = f32[2] add(x, y) }"
        program = client.compile(text, donate=[0])
        buffer = client.device_put(np.zeros(2, np.float32))
        program(buffer, buffer)
    """,
)
OUTFEED_SHAPE = ErrorCode(
    "E6011",
    "A value that the host takes from a device has the shape that the host expects.",
    remedy="Expect the shape that the program sends.",
    python="""
        client = xla.Client()
        text = "x = f32[2] constant({1, 2}) t = token[] after-all() ROOT o = token[] outfeed(x, t)"
        client.compile("HloModule m ENTRY e { " + text + ", outfeed_shape=f32[2] }")()
        client.devices[0].transfer_from_outfeed(xla.Shape.parse("f32[3]"))
    """,
)
TIMEOUT_RANGE = ErrorCode(
    "E6012",
    "A timeout is at least 0 seconds.",
    remedy="Leave `timeout` out for the time of the flag `collective_timeout`.",
    python="xla.Client().devices[0].transfer_from_outfeed(timeout=-1)",
)
NAME_PATTERN = ErrorCode(
    "E6013",
    "The pattern of an observer is a regular expression.",
    remedy="Escape parentheses, brackets and other special characters in names with a backslash.",
    python="xla.runtime.engine.observe.trace(print, pattern='(')",
)
OBSERVED_PLATFORM = ErrorCode(
    "E6014",
    "The platform interpreter observes instructions one by one; other platforms run whole programs.",
    remedy="Run the program on the platform interpreter.",
    python="""
        program = xla.Client("cpu").compile("HloModule m ENTRY e { ROOT x = f32[] constant(1) }")
        program(observer=print)
    """,
)
PROGRAM_TYPE = ErrorCode(
    "E6015",
    "`compile` takes an XlaComputation, a Module, a text or a serialized program.",
    remedy="Build the program with XlaBuilder, or give its text.",
    python="xla.Client().compile(len)",
)
