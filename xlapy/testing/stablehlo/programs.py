"""StableHLO programs, each of which uses the operations of one family. Both xlapy and XLA:CPU run them."""

from __future__ import annotations


def function(signature: str, results: str, body: str) -> str:
    """Returns a program with one function: its signature, its result types and its body with the return."""
    return f"func.func @main({signature}) -> ({results}) {{\n{body}\n}}"


def _unary(names: str, type_: str, dialect: str = "stablehlo") -> str:
    listed = names.split()
    form = f"{type_} -> {type_}" if dialect == "chlo" else type_
    body = "\n".join(f"%{i} = {dialect}.{name} %x : {form}" for i, name in enumerate(listed))
    values = ", ".join(f"%{i}" for i in range(len(listed)))
    types = ", ".join([type_] * len(listed))
    return function(f"%x: {type_}", types, f"{body}\nreturn {values} : {types}")


def _binary(names: str, type_: str) -> str:
    listed = names.split()
    body = "\n".join(f"%{i} = stablehlo.{name} %x, %y : {type_}" for i, name in enumerate(listed))
    values = ", ".join(f"%{i}" for i in range(len(listed)))
    types = ", ".join([type_] * len(listed))
    return function(f"%x: {type_}, %y: {type_}", types, f"{body}\nreturn {values} : {types}")


PROGRAMS: dict[str, str] = {
    "functions of reals": _unary(
        "abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate "
        "round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh",
        "tensor<2x3xf32>",
    ),
    "functions of complex numbers": _unary(
        "cosine exponential exponential_minus_one log log_plus_one negate sine sqrt tanh", "tensor<3xcomplex<f32>>"
    ),
    "functions of CHLO": _unary(
        "acos asin asinh atan atanh cosh sinh tan erf erfc erf_inv lgamma digamma bessel_i1e square conj",
        "tensor<4xf32>",
        "chlo",
    ),
    "operations on reals": _binary(
        "add atan2 divide maximum minimum multiply power remainder subtract", "tensor<2x3xf64>"
    ),
    "operations on integers": _binary(
        "add and divide maximum minimum multiply or remainder shift_left shift_right_arithmetic shift_right_logical "
        "subtract xor",
        "tensor<5xi32>",
    ),
    "operations on small integers": _binary("add multiply shift_right_logical subtract", "tensor<5xui8>"),
    "operations on booleans": _binary("and or xor", "tensor<5xi1>"),
    "comparison and choice": function(
        "%x: tensor<4xf32>, %y: tensor<4xf32>, %p: tensor<i1>, %low: tensor<f32>, %c: tensor<4xcomplex<f32>>",
        "tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xf32>",
        """
        %0 = stablehlo.compare LT, %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
        %1 = stablehlo.compare GE, %x, %y, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
        %2 = stablehlo.select %0, %x, %y : tensor<4xi1>, tensor<4xf32>
        %3 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<4xf32>
        %4 = stablehlo.clamp %low, %x, %low : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %5 = stablehlo.compare EQ, %c, %c : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xi1>
        %6 = stablehlo.reduce_precision %x, format = e5m4 : tensor<4xf32>
        return %0, %1, %2, %3, %4, %5, %6 :
          tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xf32>
        """,
    ),
    "conversion": function(
        "%x: tensor<4xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<2xi32>",
        "tensor<4xi8>, tensor<4xi1>, tensor<2xf64>, tensor<4xi32>, tensor<2x4xui8>, tensor<2xf32>, tensor<4xbf16>",
        """
        %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi8>
        %1 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi1>
        %2 = stablehlo.convert %c : (tensor<2xcomplex<f32>>) -> tensor<2xf64>
        %3 = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4xi32>
        %4 = stablehlo.bitcast_convert %i : (tensor<2xi32>) -> tensor<2x4xui8>
        %5 = stablehlo.imag %c : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
        %6 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xbf16>
        return %0, %1, %2, %3, %4, %5, %6 :
          tensor<4xi8>, tensor<4xi1>, tensor<2xf64>, tensor<4xi32>, tensor<2x4xui8>, tensor<2xf32>, tensor<4xbf16>
        """,
    ),
    "movement": function(
        "%x: tensor<2x3xf32>, %v: tensor<f32>, %i: tensor<i32>, %n: tensor<1x3xf32>",
        "tensor<3x2xf32>, tensor<6xf32>, tensor<4x2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>, tensor<4x3xf32>, "
        "tensor<1x2xf32>, tensor<5x6xf32>, tensor<1x2xf32>, tensor<2x3xf32>, tensor<2x4x3xf32>, tensor<3x2x2xf32>",
        """
        %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %1 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
        %2 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
        %3 = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %4 = stablehlo.reverse %x, dims = [0, 1] : tensor<2x3xf32>
        %5 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
        %6 = stablehlo.slice %x [1:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<1x2xf32>
        %7 = stablehlo.pad %x, %v, low = [1, 0], high = [1, 1], interior = [1, 1] :
          (tensor<2x3xf32>, tensor<f32>) -> tensor<5x6xf32>
        %8 = stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 2] :
          (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
        %9 = stablehlo.dynamic_update_slice %x, %8, %i, %i :
          (tensor<2x3xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
        %10 = stablehlo.broadcast_in_dim %n, dims = [1, 2] : (tensor<1x3xf32>) -> tensor<2x4x3xf32>
        %11 = "stablehlo.broadcast"(%0) <{broadcast_sizes = array<i64: 3>}> : (tensor<3x2xf32>) -> tensor<3x3x2xf32>
        %12 = stablehlo.slice %11 [0:3, 0:2, 0:2] : (tensor<3x3x2xf32>) -> tensor<3x2x2xf32>
        return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %12 : tensor<3x2xf32>, tensor<6xf32>, tensor<4x2x3xf32>,
          tensor<3x2xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<1x2xf32>, tensor<5x6xf32>, tensor<1x2xf32>,
          tensor<2x3xf32>, tensor<2x4x3xf32>, tensor<3x2x2xf32>
        """,
    ),
    "sources": function(
        "%x: tensor<2xf32>",
        "tensor<2x2xf32>, tensor<3x2xi32>, tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<3xi1>, tensor<4xi8>",
        """
        %0 = stablehlo.constant dense<[[1.5, -2.0], [0x7FC00000, 0x7F800000]]> : tensor<2x2xf32>
        %1 = stablehlo.iota dim = 1 : tensor<3x2xi32>
        %2 = stablehlo.constant dense<(1.0, -2.5)> : tensor<2xcomplex<f32>>
        %3 = "chlo.constant_like"(%x) <{value = 2.5 : f32}> : (tensor<2xf32>) -> tensor<2xf32>
        %4 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
        %5 = stablehlo.constant dense<[-128, 127, 0, -1]> : tensor<4xi8>
        return %0, %1, %2, %3, %4, %5 :
          tensor<2x2xf32>, tensor<3x2xi32>, tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<3xi1>, tensor<4xi8>
        """,
    ),
    "contraction": function(
        "%x: tensor<4x2x3xf32>, %y: tensor<4x3x5xf32>, %m: tensor<2x3xf32>, %v: tensor<3xf32>, %b: tensor<2x3xbf16>",
        "tensor<4x2x5xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<5x2xf32>",
        """
        %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1],
          precision = [HIGHEST, DEFAULT] : (tensor<4x2x3xf32>, tensor<4x3x5xf32>) -> tensor<4x2x5xf32>
        %1 = stablehlo.dot %m, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
        %2 = stablehlo.dot_general %b, %b, contracting_dims = [1] x [1] :
          (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x2xf32>
        %3 = stablehlo.einsum %x, %y, config = "aij,ajk->ki" :
          (tensor<4x2x3xf32>, tensor<4x3x5xf32>) -> tensor<5x2xf32>
        return %0, %1, %2, %3 : tensor<4x2x5xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<5x2xf32>
        """,
    ),
    "convolution": function(
        "%x: tensor<1x6x6x4xf32>, %k: tensor<3x3x2x6xf32>",
        "tensor<1x3x6x6xf32>",
        """
        %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
          window = {stride = [2, 1], pad = [[1, 1], [2, 2]], rhs_dilate = [1, 2], reverse = [true, false]}
          {batch_group_count = 1 : i64, feature_group_count = 2 : i64} :
          (tensor<1x6x6x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x3x6x6xf32>
        return %0 : tensor<1x3x6x6xf32>
        """,
    ),
    "reduction": function(
        "%x: tensor<4x6xf32>, %i: tensor<4x6xi32>, %z: tensor<f32>",
        "tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<4x6xf32>",
        """
        %c0 = stablehlo.constant dense<0> : tensor<i32>
        %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] :
          (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
        %1:2 = "stablehlo.reduce"(%x, %i, %z, %c0) <{dimensions = array<i64: 1>}> ({
        ^bb0(%a: tensor<f32>, %k: tensor<i32>, %c: tensor<f32>, %l: tensor<i32>):
          %p = stablehlo.compare GT, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %q = stablehlo.select %p, %a, %c : tensor<i1>, tensor<f32>
          %r = stablehlo.select %p, %k, %l : tensor<i1>, tensor<i32>
          stablehlo.return %q, %r : tensor<f32>, tensor<i32>
        }) : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
        %2 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2, 2>,
          window_strides = array<i64: 2, 2>}> ({
        ^bb0(%a: tensor<f32>, %c: tensor<f32>):
          %p = stablehlo.maximum %a, %c : tensor<f32>
          stablehlo.return %p : tensor<f32>
        }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<2x3xf32>
        %3 = "stablehlo.select_and_scatter"(%x, %2, %z) <{window_dimensions = array<i64: 2, 2>,
          window_strides = array<i64: 2, 2>, padding = dense<0> : tensor<2x2xi64>}> ({
        ^bb0(%a: tensor<f32>, %c: tensor<f32>):
          %p = stablehlo.compare GE, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }, {
        ^bb0(%a: tensor<f32>, %c: tensor<f32>):
          %p = stablehlo.add %a, %c : tensor<f32>
          stablehlo.return %p : tensor<f32>
        }) : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>
        %4 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0, 1>}> ({
        ^bb0(%a: tensor<f32>, %c: tensor<f32>):
          %p = stablehlo.multiply %a, %c : tensor<f32>
          stablehlo.return %p : tensor<f32>
        }) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
        return %0, %1#0, %1#1, %2, %3, %4 :
          tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<4x6xf32>
        """,
    ),
    "indexing": function(
        "%x: tensor<4x6xf32>, %i: tensor<3x1xi32>, %u: tensor<3x6xf32>, %j: tensor<4x2xi32>",
        "tensor<3x6xf32>, tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>",
        """
        %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
          collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
          slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>
        %1 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %c: tensor<f32>):
          %p = stablehlo.add %a, %c : tensor<f32>
          stablehlo.return %p : tensor<f32>
        }) : (tensor<4x6xf32>, tensor<3x1xi32>, tensor<3x6xf32>) -> tensor<4x6xf32>
        %2 = "stablehlo.torch_index_select"(%x, %j) <{dim = 1 : i64, batch_dims = 1 : i64}> :
          (tensor<4x6xf32>, tensor<4x2xi32>) -> tensor<4x2xf32>
        %3:2 = "stablehlo.scatter"(%x, %x, %i, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
          %p = stablehlo.maximum %a, %c : tensor<f32>
          %q = stablehlo.minimum %b, %d : tensor<f32>
          stablehlo.return %p, %q : tensor<f32>, tensor<f32>
        }) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x1xi32>, tensor<3x6xf32>, tensor<3x6xf32>) ->
          (tensor<4x6xf32>, tensor<4x6xf32>)
        return %0, %1, %2, %3#0, %3#1 :
          tensor<3x6xf32>, tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>
        """,
    ),
    "sorting": function(
        "%x: tensor<3x5xf32>, %i: tensor<3x5xi32>",
        "tensor<3x5xf32>, tensor<3x5xi32>, tensor<3x2xf32>, tensor<3x2xi32>",
        """
        %0:2 = "stablehlo.sort"(%x, %i) <{dimension = -1 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
          %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }) : (tensor<3x5xf32>, tensor<3x5xi32>) -> (tensor<3x5xf32>, tensor<3x5xi32>)
        %1:2 = chlo.top_k(%x, k = 2) : tensor<3x5xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
        return %0#0, %0#1, %1#0, %1#1 : tensor<3x5xf32>, tensor<3x5xi32>, tensor<3x2xf32>, tensor<3x2xi32>
        """,
    ),
    "loops and branches": function(
        "%x: tensor<3xf32>, %n: tensor<i32>, %p: tensor<i1>",
        "tensor<3xf32>, tensor<i32>, tensor<3xf32>, tensor<f32>, tensor<i32>",
        """
        %c0 = stablehlo.constant dense<0> : tensor<i32>
        %c1 = stablehlo.constant dense<1> : tensor<i32>
        %half = stablehlo.constant dense<0.5> : tensor<f32>
        %wide = stablehlo.broadcast_in_dim %half, dims = [] : (tensor<f32>) -> tensor<3xf32>
        %0:2 = stablehlo.while(%a = %x, %k = %c0) : tensor<3xf32>, tensor<i32>
          cond {
            %q = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %q : tensor<i1>
          } do {
            %b = stablehlo.multiply %a, %wide : tensor<3xf32>
            %d = stablehlo.add %b, %x : tensor<3xf32>
            %l = stablehlo.add %k, %c1 : tensor<i32>
            stablehlo.return %d, %l : tensor<3xf32>, tensor<i32>
          }
        %1:2 = "stablehlo.if"(%p) ({
          stablehlo.return %x, %half : tensor<3xf32>, tensor<f32>
        }, {
          %y = stablehlo.negate %0#0 : tensor<3xf32>
          stablehlo.return %y, %half : tensor<3xf32>, tensor<f32>
        }) : (tensor<i1>) -> (tensor<3xf32>, tensor<f32>)
        %2 = "stablehlo.case"(%n) ({
          stablehlo.return %n : tensor<i32>
        }, {
          stablehlo.return %c1 : tensor<i32>
        }, {
          %m = stablehlo.add %n, %n : tensor<i32>
          stablehlo.return %m : tensor<i32>
        }) : (tensor<i32>) -> tensor<i32>
        return %0#0, %0#1, %1#0, %1#1, %2 : tensor<3xf32>, tensor<i32>, tensor<3xf32>, tensor<f32>, tensor<i32>
        """,
    ),
    "one value in a loop": function(
        "%n: tensor<i32>",
        "tensor<i32>",
        """
        %0 = stablehlo.while(%k = %n) : tensor<i32>
          cond {
            %c = stablehlo.constant dense<100> : tensor<i32>
            %q = stablehlo.compare LT, %k, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %q : tensor<i1>
          } do {
            %c = stablehlo.constant dense<7> : tensor<i32>
            %l = stablehlo.add %k, %c : tensor<i32>
            stablehlo.return %l : tensor<i32>
          }
        return %0 : tensor<i32>
        """,
    ),
    "functions, barriers and tuples": """
        module @calls {
          func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
            %0:2 = call @two(%x) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
            %1:2 = call @two(%0#1) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
            %2:2 = stablehlo.optimization_barrier %1#0, %1#1 : tensor<3xf32>, tensor<3xf32>
            %3 = stablehlo.tuple %2#0, %x : tuple<tensor<3xf32>, tensor<3xf32>>
            %4 = stablehlo.get_tuple_element %3[0] : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>
            return %0#0, %2#1, %4 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
          }
          func.func private @two(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
            %0 = stablehlo.add %x, %x : tensor<3xf32>
            %1 = func.call @one(%0) : (tensor<3xf32>) -> tensor<3xf32>
            return %0, %1 : tensor<3xf32>, tensor<3xf32>
          }
          func.func private @one(%x: tensor<3xf32>) -> tensor<3xf32> {
            %0 = stablehlo.sine %x : tensor<3xf32>
            return %0 : tensor<3xf32>
          }
        }""",
    "linear algebra": function(
        "%x: tensor<3x3xf32>, %b: tensor<3x2xf32>, %v: tensor<2x8xf32>",
        "tensor<3x3xf32>, tensor<3x2xf32>, tensor<2x5xcomplex<f32>>, tensor<2x8xf32>",
        """
        %e = stablehlo.constant dense<[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]> : tensor<3x3xf32>
        %s = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] :
          (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
        %p = stablehlo.add %s, %e : tensor<3x3xf32>
        %0 = stablehlo.cholesky %p, lower = true : tensor<3x3xf32>
        %1 = "stablehlo.triangular_solve"(%0, %b) <{left_side = true, lower = true,
          transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> :
          (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
        %2 = stablehlo.fft %v, type = RFFT, length = [8] : (tensor<2x8xf32>) -> tensor<2x5xcomplex<f32>>
        %3 = stablehlo.fft %2, type = IRFFT, length = [8] : (tensor<2x5xcomplex<f32>>) -> tensor<2x8xf32>
        return %0, %1, %2, %3 : tensor<3x3xf32>, tensor<3x2xf32>, tensor<2x5xcomplex<f32>>, tensor<2x8xf32>
        """,
    ),
    "normalization": function(
        "%x: tensor<4x3xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>, %g: tensor<4x3xf32>",
        "tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>",
        """
        %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> :
          (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
        %1 = "stablehlo.batch_norm_inference"(%x, %s, %o, %0#1, %0#2)
          <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> :
          (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
        %2:3 = "stablehlo.batch_norm_grad"(%x, %s, %0#1, %0#2, %g)
          <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> :
          (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>) ->
          (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
        return %0#0, %0#1, %0#2, %1, %2#0, %2#1, %2#2 :
          tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>
        """,
    ),
    "random bits": function(
        "%s: tensor<2xui64>",
        "tensor<2xui64>, tensor<3x2xui32>",
        """
        %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY :
          (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x2xui32>)
        return %0, %1 : tensor<2xui64>, tensor<3x2xui32>
        """,
    ),
}
