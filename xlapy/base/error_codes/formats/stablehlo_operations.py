"""Operations of StableHLO.

Codes E3740 to E3799: constraints of operations that HLO does not have in this form, and annotations.
"""

from xlapy.base.error_codes.code import ErrorCode

BROADCAST_DIMENSIONS = ErrorCode(
    "E3740",
    "`broadcast_dimensions` gives each dimension of the operand another dimension of the result.",
    remedy="List one dimension of the result for each dimension of the operand.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2x2xf32> {
          %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<2xf32>) -> tensor<2x2xf32>
          return %0 : tensor<2x2xf32>
        }
    """,
)
BROADCAST_SHAPES = ErrorCode(
    "E3741",
    "Shapes that are broadcast to each other have equal sizes, or size 1, in each dimension from the last on.",
    remedy="Reshape the operands so that equal dimensions are aligned at the end.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
          %0 = chlo.broadcast_add %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
SAME_SHAPES = ErrorCode(
    "E3742",
    "Operands of an elementwise CHLO operation have the same shape.",
    remedy="Broadcast the operands first.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
          %0 = "chlo.zeta"(%x, %y) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
LIST_LENGTHS = ErrorCode(
    "E3743",
    "Lists of an operation that belong together have the same length, one entry per dimension.",
    remedy="Give each dimension an entry in each of the lists.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<1xf32> {
          %0 = "stablehlo.slice"(%x) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1, 1>,
            strides = array<i64: 1>}> : (tensor<2xf32>) -> tensor<1xf32>
          return %0 : tensor<1xf32>
        }
    """,
)
SIZE_VECTOR = ErrorCode(
    "E3744",
    "Sizes and indices that are operands are integers: a vector with one for each dimension, or a scalar for one "
    "dimension.",
    remedy="Concatenate the sizes to a vector, or reshape the single size to a scalar.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %n: tensor<1xi32>) -> tensor<2xf32> {
          %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
BATCHING_DIMENSIONS = ErrorCode(
    "E3745",
    "Batching dimensions of a gather or scatter are not indexed, and have the same size in operand and indices.",
    remedy="Remove them from the indexed dimensions, or correct their sizes.",
    stablehlo="""
        func.func @main(%x: tensor<4x9xi32>, %i: tensor<5xi32>) -> tensor<5x8xi32> {
          %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
            operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1],
            index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}>
            : (tensor<4x9xi32>, tensor<5xi32>) -> tensor<5x8xi32>
          return %0 : tensor<5x8xi32>
        }
    """,
)
EINSUM_LABELS = ErrorCode(
    "E3746",
    "An einsum has a label for each operand, a letter for each dimension, and equal sizes for equal letters.",
    remedy="Correct `einsum_config`, as `ij,jk->ik` for a matrix product.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.einsum"(%x, %x) <{einsum_config = "ij,j->i"}>
            : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
DOT_RANKS = ErrorCode(
    "E3747",
    "`stablehlo.dot` takes vectors and matrices.",
    remedy="Use `stablehlo.dot_general` for other ranks.",
    stablehlo="""
        func.func @main(%x: tensor<2x2x2xf32>) -> tensor<2x2x2xf32> {
          %0 = "stablehlo.dot"(%x, %x) : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
          return %0 : tensor<2x2x2xf32>
        }
    """,
)
INTEGER_OPERANDS = ErrorCode(
    "E3750",
    "Operations of arith on integers take integers.",
    remedy="Use the operation for floating-point numbers, as `arith.addf`.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "arith.divui"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
BITCAST_SIZES = ErrorCode(
    "E3751",
    "A bitcast of booleans to numbers takes as many booleans in the last dimension as a number has bits.",
    remedy="Reshape the operand so that its last dimension has the bits of one number.",
    stablehlo="""
        func.func @main(%x: tensor<3xi1>) -> tensor<i8> {
          %0 = stablehlo.bitcast_convert %x : (tensor<3xi1>) -> tensor<i8>
          return %0 : tensor<i8>
        }
    """,
)
QUANTIZED_SHAPE = ErrorCode(
    "E3752",
    "Scales and zero points of a quantized tensor fit its quantized dimensions.",
    remedy="Give one scale and zero point for each position, or each block, of the dimension.",
    stablehlo="""
        func.func @main(%x: tensor<3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<3xf32> {
          %0 = stablehlo.uniform_dequantize %x
            : (tensor<3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<3xf32>
          return %0 : tensor<3xf32>
        }
    """,
)
REASSOCIATION = ErrorCode(
    "E3753",
    "The groups of a collapsed or expanded shape hold all dimensions in order.",
    remedy="Correct `reassociation`, as `[[0, 1], [2]]` to merge the first two of three dimensions.",
    stablehlo="""
        func.func @main(%x: tensor<2x2xf32>) -> tensor<4xf32> {
          %0 = "tensor.collapse_shape"(%x) <{reassociation = [[1, 0]]}> : (tensor<2x2xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
    """,
)
SPLIT_COUNT = ErrorCode(
    "E3761",
    "An all_to_all splits a dimension into a positive number of equal blocks.",
    remedy="Correct `split_count`, or pad the dimension to a multiple of it.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 0 : i64,
            split_count = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>
            : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
SHARDING_MESH = ErrorCode(
    "E3763",
    "A sharding begins with its mesh, which is a name that the module defines or a mesh itself.",
    remedy='Define the mesh with `sdy.mesh`, and write `#sdy.sharding<@mesh, [{"x"}, {}]>`.',
    stablehlo="""
        func.func @main(%x: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<2xf32> {
          return %x : tensor<2xf32>
        }
    """,
)
SHARDING_COUNT = ErrorCode(
    "E3764",
    "There is one sharding for each operand and result that has shardings.",
    remedy="Give as many shardings as values.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0:2 = stablehlo.custom_call @f(%x) {mhlo.sharding = "{{replicated}, {replicated}, {replicated}}"}
            : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
          return %0#0 : tensor<2xf32>
        }
    """,
)
MANUAL_SHAPES = ErrorCode(
    "E3765",
    "Values of a manual computation have static shapes.",
    remedy="Give the shapes of the arguments, so that all sizes are known.",
    stablehlo="""
        func.func @main(%x: tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<?xf32, #stablehlo.bounds<4>> {
          %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]
            manual_axes={"x"} (%p: tensor<?xf32>) {
            sdy.return %p : tensor<?xf32>
          } : (tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<?xf32, #stablehlo.bounds<4>>
          return %0 : tensor<?xf32, #stablehlo.bounds<4>>
        }
        sdy.mesh @mesh = <["x"=2]>
    """,
)
ALIASED_RESULT = ErrorCode(
    "E3766",
    "An alias names an argument and a result of the program, and is may_alias or must_alias.",
    remedy="Correct the numbers, which count from 0.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 3 : i32}) -> tensor<2xf32> {
          return %x : tensor<2xf32>
        }
    """,
)
REDUCER_FUNCTION = ErrorCode(
    "E3768",
    "A custom call of a dynamic reduction names its reducer.",
    remedy="Give one function in `called_computations`.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<f32>, %n: tensor<1xi64>) -> tensor<2xf32> {
          %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %y, %n, %n, %n, %n, %n)
            {called_computations = []}
            : (tensor<2xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)
            -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
