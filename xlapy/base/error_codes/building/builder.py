"""Building computations.

Codes E4000 to E4999: builders, their ops, broadcasting, indexing and the arguments of the functions in `xlapy.ops`.
"""

from xlapy.base.error_codes.code import ErrorCode

OPEN_BUILDER = ErrorCode(
    "E4000",
    "A builder takes no more ops after `build`.",
    remedy="Create another builder, or add the op before `build`.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        b.build(x)
        ops.neg(x)
    """,
)
OWN_OPERANDS = ErrorCode(
    "E4001",
    "The operands of an op are values of its builder.",
    remedy=("Pass the value as a parameter of the computation, or as an operand of while, conditional or call."),
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        other = xla.XlaBuilder("other")
        y = ops.parameter(other, 0, x.shape, "y")
        x + y
    """,
)
OPERAND_KIND = ErrorCode(
    "E4002",
    "The operands of a function are values of a builder (XlaOp), and its computations are built (XlaComputation).",
    remedy="Create a constant with `ops.constant`, and a computation with `build`.",
    python="""
        b = xla.XlaBuilder("m")
        ops.neg(1)
    """,
)
LIST_OF_INTEGERS = ErrorCode(
    "E4003",
    "Sizes, dimensions and indices that are known when the program is built are lists of integers.",
    remedy="Convert the numbers with `int`.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.transpose(x, [1.0, 0.0])
    """,
)
NAMED_CHOICE = ErrorCode(
    "E4004",
    "A choice that is given by name is one of the names that the function takes.",
    remedy="Use a name that the message lists, or the enum's member.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.compare(x, x, direction="ABOVE")
    """,
)
BUILT_ROOT = ErrorCode(
    "E4006",
    "A computation that is built has a root.",
    remedy="Add an op before `build`.",
    python="""
        b = xla.XlaBuilder("m")
        b.build()
    """,
)
CONSTANT_VALUE = ErrorCode(
    "E4010",
    "A constant subgraph has a root whose value is the same in every run.",
    remedy=("Make the parameters that the value depends on constants; `is_constant` says whether a value is one."),
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        b.build_constant_sub_graph(x)
    """,
)
RUN_TIME_VALUE = ErrorCode(
    "E4011",
    "The value of an XlaOp is computed when the program runs: it has no truth value, and is no Python or NumPy number.",
    remedy=(
        "Use `ops.select`, `ops.conditional` or `ops.while_` in place of Python's `if` and `while`, and `is` "
        "to compare identity."
    ),
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        bool(x)
    """,
)
LENGTH = ErrorCode(
    "E4012",
    "Only arrays with dimensions and tuples have a length.",
    remedy="Use `ops.reshape` to add a dimension.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[]"), "x")
        len(x)
    """,
)
STATIC_DIMENSIONS = ErrorCode(
    "E4013",
    "A function that computes with sizes takes dimensions whose sizes are known when the program is built.",
    remedy="Use the instruction itself, or `ops.set_dimension_size` on an array of static size.",
    python="""
        b = xla.XlaBuilder("m")
        ops.iota(b, xla.Shape.parse("f32[<=4]"), 0)
    """,
)
FRONTEND_ATTRIBUTES = ErrorCode(
    "E4020",
    "Frontend attributes map strings to strings that HLO text represents.",
    remedy="Convert the values to strings; leave out characters that HLO text does not read back.",
    python="""
        b = xla.XlaBuilder("m")
        b.set_frontend_attributes({"key": 1})
    """,
)
SHARDING_ARGUMENT = ErrorCode(
    "E4021",
    "A sharding is a Sharding or its HLO text.",
    remedy='Pass `xla.Sharding.parse("{devices=[2,1]0,1}")`, or the text.',
    python="""
        b = xla.XlaBuilder("m")
        b.set_sharding(2)
    """,
)
MANUAL_SHARDING = ErrorCode(
    "E4022",
    "Partitioning by hand takes a sharding with tile counts, and a `single_dim` that is a dimension or -1.",
    remedy="Give the sharding as `{devices=[2,1]0,1}`.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.convert_spmd_full_to_shard_shape(b, x, 2, "{devices=[2,1]0,1}")
    """,
)
SHARD_SHAPE = ErrorCode(
    "E4023",
    "The input of the end of partitioning by hand has the shape of one tile of the whole array.",
    remedy="Give the shape that the message names, or another whole shape.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.convert_spmd_shard_to_full_shape(b, x, xla.Shape.parse("f32[8,3]"), -1, "{devices=[2,1]0,1}")
    """,
)
COMPATIBLE_SIZES = ErrorCode(
    "E4030",
    "Dimensions that are matched by broadcasting have equal sizes, or one of the two sizes is 1.",
    remedy="Slice or pad an operand, or match other dimensions with `broadcast_dimensions`.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        x + ops.broadcast(x[0, 0], [2, 4])
    """,
)
REPEATED_DIMENSION = ErrorCode(
    "E4031",
    "A dimension of size 1 is repeated only if it is static.",
    remedy="Set the size of the dimension, or broadcast the other operand.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[<=1,3]"), "x")
        x + ops.broadcast(x[0, 0], [4, 3])
    """,
)
BROADCAST_DIMENSIONS = ErrorCode(
    "E4032",
    "Operands of different rank are matched by `broadcast_dimensions`, one for each dimension of the "
    "operand of lower rank; operands of equal rank need none.",
    remedy="Name, for each dimension of the operand of lower rank, the dimension of the other one.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.add(x, ops.broadcast(x[0, 0], [3]))
    """,
)
ASCENDING_BROADCAST = ErrorCode(
    "E4033",
    "`broadcast_dimensions` are strictly ascending.",
    remedy="Transpose the operand first.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.broadcast_in_dim(x, [3, 2], [1, 0])
    """,
)
COLLAPSED_DIMENSIONS = ErrorCode(
    "E4034",
    "The dimensions that `collapse` merges are consecutive and ascending.",
    remedy="Transpose the array first.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3,4]"), "x")
        ops.collapse(x, [0, 2])
    """,
)
PADDING_FORM = ErrorCode(
    "E4035",
    "Padding is SAME, VALID, or one tuple of low and high padding for each dimension; a pad has interior padding too.",
    remedy="Write a list such as `[(1, 1), (0, 0)]`.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.pad(x, 0.0, [(1,), (0, 0)])
    """,
)
TUPLE_SELECTION = ErrorCode(
    "E4036",
    "A select of tuples takes two tuples of the same shape and a scalar predicate.",
    remedy="Select the elements one by one.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.select(ops.eq(x, x), ops.tuple(b, [x]), ops.tuple(b, [x]))
    """,
)
INDEX_KIND = ErrorCode(
    "E4040",
    "An index is an integer, a slice of integers, `...`, None, or an XlaOp that is a scalar integer.",
    remedy=("Use `ops.gather` for arrays of indices, and `ops.dynamic_slice` for slices at run-time positions."),
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        x[1.5]
    """,
)
INDEX_COUNT = ErrorCode(
    "E4041",
    "There are at most as many indices as dimensions, and at most one `...`.",
    remedy="Remove an index; trailing dimensions are taken whole.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        x[0, 0, 0]
    """,
)
INDEX_RANGE = ErrorCode(
    "E4042",
    "An integer index is less than the size, and at least minus the size.",
    remedy="Count from 0, or from -1 backward.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        x[2]
    """,
)
TUPLE_ELEMENT = ErrorCode(
    "E4043",
    "A tuple is indexed by one integer, which is less than the number of elements and at least minus that number.",
    remedy="Take one element, then index it.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.tuple(b, [x])[1]
    """,
)
INITIAL_VALUES = ErrorCode(
    "E4050",
    "A reduction takes one initial value for each array.",
    remedy="Pass a list of as many initial values as arrays.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        inner = xla.XlaBuilder("sum")
        scalar = xla.Shape.parse("f32[]")
        ops.add(ops.parameter(inner, 0, scalar, "a"), ops.parameter(inner, 1, scalar, "b"))
        ops.reduce([x], [], inner.build(), [0])
    """,
)
DOT_ALGORITHM = ErrorCode(
    "E4051",
    "An algorithm is given only for products that have one: dot and static convolutions.",
    remedy="Pass a precision in place of the algorithm.",
    python="""
        from xlapy.opcodes.contraction import Algorithm

        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        config = xla.PrecisionConfig(algorithm=Algorithm.DOT_F32_F32_F32)
        ops.ragged_dot(x, x, x, xla.RaggedDotDimensionNumbers(), config)
    """,
)
COLLECTIVE_OPERANDS = ErrorCode(
    "E4060",
    "A collective takes an array, or a tuple of at least one array.",
    remedy="Leave out the collective if there is nothing to exchange.",
    python="""
        b = xla.XlaBuilder("m")
        ops.all_reduce(ops.tuple(b, []), None)
    """,
)
POSITIVE_COUNT = ErrorCode(
    "E4061",
    "Numbers of shards and splits are at least 1.",
    remedy="Give the number of participants.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.all_gather(x, 0, 0)
    """,
)
SPLIT_COUNT = ErrorCode(
    "E4062",
    "The `split_count` of an all-to-all is the number of members of its groups.",
    remedy="Give the size of the replica groups.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.all_to_all(x, 0, 1, 2, [[0, 1, 2]])
    """,
)
CHANNEL_HANDLE = ErrorCode(
    "E4063",
    "A channel has a number of at least 1, and connects the ends that the transfer needs.",
    remedy="Number the channels of a program from 1, and give the handle the type that the message names.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.send(x, 0)
    """,
)
HOST_LAYOUT = ErrorCode(
    "E4064",
    "The shape that the host exchanges has a layout.",
    remedy="Use `with_default_layout()` for the row-major layout.",
    python="""
        b = xla.XlaBuilder("m")
        ops.infeed(b, xla.Shape.parse("f32[2,3]").without_layout())
    """,
)
CUSTOM_TARGET = ErrorCode(
    "E4070",
    "The target of a custom call does not start with $, which marks internal targets.",
    remedy="Choose another name.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
        ops.custom_call(b, "$f", [x], x.shape)
    """,
)
ACCURACY = ErrorCode(
    "E4071",
    "A result accuracy is either highest or has tolerances of at least 0.",
    remedy="Leave out `highest`, or the tolerances.",
    python="xla.ResultAccuracy(rtol=-1.0).to_text()",
)
