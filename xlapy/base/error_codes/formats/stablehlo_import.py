"""Importing StableHLO.

Codes E3700 to E3739: the structure of StableHLO programs, their functions, regions, values and types.
"""

from xlapy.base.error_codes.code import ErrorCode

KNOWN_OPERATION = ErrorCode(
    "E3700",
    "An operation is one of StableHLO, CHLO, Shardy or the other dialects that are read.",
    remedy="Lower other dialects to StableHLO first; correct the name if it is misspelled.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.none"(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
OPERATION_COUNTS = ErrorCode(
    "E3701",
    "An operation has as many operands, results and regions as it takes.",
    remedy="Add or remove operands, results or regions, as the specification of the operation says.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.while"(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
REQUIRED_ATTRIBUTE = ErrorCode(
    "E3702",
    "An operation has each attribute that has no default.",
    remedy="Add the attribute that the message names.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.transpose"(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
ATTRIBUTE_KIND = ErrorCode(
    "E3703",
    "An attribute is of the kind that its operation takes: a number, a list, a string, a symbol or a struct.",
    remedy="Write the attribute in the form that the message names.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.transpose"(%x) <{permutation = "a"}> : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
ATTRIBUTE_CASE = ErrorCode(
    "E3704",
    "An enumerated attribute has one of the cases that StableHLO defines.",
    remedy="Correct the case; the specification of the operation lists all.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xi1> {
          %0 = "stablehlo.compare"(%x, %x) <{comparison_direction = "LESS"}>
            : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
          return %0 : tensor<2xi1>
        }
    """,
)
DECLARED_RESULT = ErrorCode(
    "E3705",
    "The declared type of a result is the type that the operation or function computes.",
    remedy="Declare the type that the message names.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
          %0 = stablehlo.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
          return %0 : tensor<3xf32>
        }
    """,
)
TENSOR_VALUE = ErrorCode(
    "E3706",
    "Operands and results are tensors where the operation takes tensors.",
    remedy="Take the element of a tuple with `stablehlo.get_tuple_element`, and declare results as tensors.",
    stablehlo="""
        func.func @main(%x: tuple<tensor<2xf32>>) -> tensor<2xf32> {
          %0 = "stablehlo.abs"(%x) : (tuple<tensor<2xf32>>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
REGION_BLOCK = ErrorCode(
    "E3710",
    "A region of an operation is one block that ends in a return.",
    remedy="End the region with the return of its dialect, as `stablehlo.return`.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<f32>) -> tensor<f32> {
          %0 = "stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
          }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
    """,
)
REGION_SIGNATURE = ErrorCode(
    "E3711",
    "A region takes and returns values as its operation requires.",
    remedy="Give the block arguments and the return the number and types that the message names.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<f32>) -> tensor<f32> {
          %0 = "stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<i32>):
            stablehlo.return %a : tensor<f32>
          }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
    """,
)
REDUCTION_TYPE = ErrorCode(
    "E3712",
    "A reduction computes in the element type of its operand, or in a wider type of the same kind.",
    remedy="Convert the operand first, or let the region take its element type.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<f32>) -> tensor<f32> {
          %0 = "stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
          ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
            stablehlo.return %a : tensor<bf16>
          }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
    """,
)
CAPTURED_VALUE = ErrorCode(
    "E3713",
    "A region that becomes an HLO computation reads only its arguments and constants.",
    remedy="Apply the operation to the outer value after the reduction, or pass the value as operand.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<f32>) -> tensor<f32> {
          %0 = "stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %y : tensor<f32>
            stablehlo.return %s : tensor<f32>
          }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
    """,
)
SELECTOR_TYPE = ErrorCode(
    "E3714",
    "`stablehlo.if` takes a pred[] and `stablehlo.case` an s32[] index.",
    remedy="Convert the selector, or reduce it to a scalar.",
    stablehlo="""
        func.func @main(%x: tensor<i32>) -> tensor<i32> {
          %0 = "stablehlo.if"(%x) ({
            stablehlo.return %x : tensor<i32>
          }, {
            stablehlo.return %x : tensor<i32>
          }) : (tensor<i32>) -> tensor<i32>
          return %0 : tensor<i32>
        }
    """,
)
MAIN_FUNCTION = ErrorCode(
    "E3720",
    "A program has a function @main, or only one function that can be its entry.",
    remedy="Rename the entry function to @main.",
    stablehlo="""
        func.func @f() { return }
        func.func @g() { return }
    """,
)
FUNCTION_NAME = ErrorCode(
    "E3721",
    "A function or mesh that the program names is defined in the module.",
    remedy="Define it, or correct the name.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
RECURSION = ErrorCode(
    "E3722",
    "No function calls itself, directly or through others.",
    remedy="Write the recursion as `stablehlo.while`.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = func.call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
FUNCTION_BODY = ErrorCode(
    "E3723",
    "A function that is called has a type and a body.",
    remedy="Add the body; calls of code outside the program are custom calls.",
    stablehlo="""
        func.func private @f(tensor<2xf32>) -> tensor<2xf32>
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
CALL_TYPES = ErrorCode(
    "E3724",
    "A call gives values of the types that the function declares.",
    remedy="Convert or reshape the values, or correct the type of the function.",
    stablehlo="""
        func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }
        func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
          %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<3xf32>
          return %0 : tensor<3xf32>
        }
    """,
)
PROGRAM_SIZE = ErrorCode(
    "E3725",
    "Functions and regions nest to a limited depth, and the imported module has a limited size.",
    remedy="Call functions instead of nesting regions; write repeated work as a loop.",
    python="""
        inner = 'stablehlo.return %p : tensor<i1>'
        for _ in range(150):
            inner = f'%q = "stablehlo.if"(%p) ({{ {inner} }}, {{ stablehlo.return %p : tensor<i1> }})'
            inner += ' : (tensor<i1>) -> tensor<i1>'
            inner += ' stablehlo.return %q : tensor<i1>'
        body = inner.removesuffix('stablehlo.return %q : tensor<i1>')
        xla.parse_stablehlo(f'func.func @main(%p: tensor<i1>) -> tensor<i1> {{ {body} return %q : tensor<i1> }}')
    """,
)
ARGUMENT_SHAPES = ErrorCode(
    "E3726",
    "`argument_shapes` names arguments of the program and fits their declared types.",
    remedy="Give shapes that differ from the declared types only where a size is `?`.",
    python="""
        text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
        xla.parse_stablehlo(text, [xla.Shape.parse("s32[2]")])
    """,
)
KNOWN_SIZES = ErrorCode(
    "E3727",
    "Sizes follow from the shapes of the arguments, or have bounds.",
    remedy="Pass `argument_shapes`, or declare bounds, as in `tensor<?xf32, #stablehlo.bounds<8>>`.",
    stablehlo="""
        func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
          return %x : tensor<?xf32>
        }
    """,
)
STATIC_OPERAND = ErrorCode(
    "E3728",
    "An operation whose result sizes are known only at run time takes an operand of static shape.",
    remedy="Give the shapes of the arguments, or pad the operand to its bounds.",
    stablehlo="""
        func.func @main(%x: tensor<?xf32, #stablehlo.bounds<4>>, %n: tensor<1xi32>)
            -> tensor<?xf32, #stablehlo.bounds<4>> {
          %0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0]
            : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<1xi32>) -> tensor<?xf32, #stablehlo.bounds<4>>
          return %0 : tensor<?xf32, #stablehlo.bounds<4>>
        }
    """,
)
ASSERTION = ErrorCode(
    "E3729",
    "An assertion of the program follows from the shapes of the arguments, and holds.",
    remedy="Pass `argument_shapes` that satisfy the condition in the message.",
    stablehlo="""
        func.func @main() {
          %p = arith.constant false
          cf.assert %p, "sizes are equal"
          return
        }
    """,
)
HLO_TYPE = ErrorCode(
    "E3735",
    "HLO has a shape for each type of a value, and constants are of the types of arrays.",
    remedy="Lower values of other types to tensors.",
    stablehlo="""
        func.func @main(%x: vector<2xf32>) {
          return
        }
    """,
)
HLO_ATTRIBUTE = ErrorCode(
    "E3736",
    "An attribute that HLO keeps as text is a number, a string, a list, a dictionary or elements.",
    remedy="Encode the attribute as a string.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.custom_call @f(%x) {api_version = 4 : i32, backend_config = {a = () -> ()}}
            : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
DOT_ALGORITHM = ErrorCode(
    "E3737",
    "The algorithm of a dot is one that HLO names.",
    remedy="Use the types and counts of an algorithm of `xlapy ops dot`, or leave the attribute out.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<f32> {
          %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = f16,
            rhs_precision_type = bf16, accumulation_type = f64, lhs_component_count = 1, rhs_component_count = 1,
            num_primitive_operations = 7, allow_imprecise_accumulation = false>
            : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
    """,
)
CONSTANT_ATTRIBUTE = ErrorCode(
    "E3738",
    "The attribute of a constant is a number or elements of the type of its result, with static sizes.",
    remedy="Write `dense<...>` with the type of the result.",
    stablehlo="""
        func.func @main() -> tensor<2xf32> {
          %0 = "stablehlo.constant"() <{value = 1.0 : f32}> : () -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
