"""MLIR programs that use every assembly format of the operations of StableHLO, CHLO and func, by topic."""

from __future__ import annotations


def _function(signature: str, body: str) -> str:
    return f"func.func @main({signature}) {{\n{body}\nreturn\n}}"


FORMS: dict[str, str] = {
    "functions": """
        module @"two words" attributes {mhlo.num_replicas = 2 : i32, x.y} {
          func.func public @main(%a: tensor<2xf32> {mhlo.sharding = "{replicated}", jax.arg_info = "x"},
              %b: tensor<f32>) -> (tensor<2xf32> {jax.result_info = "[0]"}, tensor<f32>) attributes {x.z = 1 : i64} {
            %0:2 = call @swap(%b, %a) : (tensor<f32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>)
            func.call @nothing() {x.w = 2 : i8} : () -> ()
            return %0#0, %0#1 : tensor<2xf32>, tensor<f32>
          }
          func.func private @swap(%a: tensor<f32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
            return %b, %a : tensor<2xf32>, tensor<f32>
          }
          func.func private @nothing() { return }
          func.func private @outside(tensor<2xf32> {x.v = 1 : i8}, i32) -> tensor<2xf32>
        }""",
    "elementwise": _function(
        "%a: tensor<4xf32>, %b: tensor<4xf32>, %i: tensor<4xi32>, %p: tensor<4xi1>, %c: tensor<4xcomplex<f32>>, "
        "%s: tensor<f32>, %d: tensor<?xf32>",
        """
        %0 = stablehlo.add %a, %b {x.y = 1 : i64} : tensor<4xf32>
        %1 = stablehlo.exponential %a {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode =
            #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
        %2 = stablehlo.abs %c : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
        %3 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xi8>
        %4 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
        %5 = stablehlo.compare NE, %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
        %6 = stablehlo.select %p, %a, %b : tensor<4xi1>, tensor<4xf32>
        %7 = stablehlo.select %p, %d, %b : (tensor<4xi1>, tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
        %8 = stablehlo.clamp %s, %a, %s : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %9 = stablehlo.clamp %a, %a, %b : tensor<4xf32>
        %10 = stablehlo.complex %a, %b : tensor<4xcomplex<f32>>
        %11 = stablehlo.is_finite %a : (tensor<4xf32>) -> tensor<4xi1>
        %12 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4xf32>
        %13 = stablehlo.popcnt %i : tensor<4xi32>
        %14 = stablehlo.not %p : tensor<4xi1>
        %15 = stablehlo.multiply %a, %d : (tensor<4xf32>, tensor<?xf32>) -> tensor<4xf32>
        %16 = stablehlo.round_nearest_even %a : tensor<4xf32>
        %17 = stablehlo.shift_right_arithmetic %i, %i : tensor<4xi32>
        """,
    ),
    "sources": _function(
        "%n: tensor<1xi64>, %t: !stablehlo.token, %s: tensor<4xui64>",
        """
        %0 = stablehlo.constant dense<[[1.0, 0x7FC00000], [-3.5, 4.0]]> : tensor<2x2xf32>
        %1 = stablehlo.constant {x.y = "z"} dense<true> : tensor<3xi1>
        %2 = stablehlo.constant() <{value = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
        %3 = stablehlo.iota dim = 1 : tensor<2x3xi32>
        %4 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>
        %5 = stablehlo.create_token : !stablehlo.token
        %6 = stablehlo.after_all %t, %5 : !stablehlo.token
        %7 = stablehlo.after_all : !stablehlo.token
        %8 = stablehlo.replica_id : tensor<ui32>
        %9 = stablehlo.partition_id {x.y = "z"} : tensor<ui32>
        %10 = stablehlo.constant dense<0.0> : tensor<f32>
        %11 = stablehlo.rng %10, %10, %n, distribution = NORMAL
            : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
        %12:2 = stablehlo.rng_bit_generator %s, algorithm = PHILOX
            : (tensor<4xui64>) -> (tensor<4xui64>, tensor<2xui32>)
        %13 = stablehlo.tuple %0, %t : tuple<tensor<2x2xf32>, !stablehlo.token>
        %14 = stablehlo.get_tuple_element %13[0] : (tuple<tensor<2x2xf32>, !stablehlo.token>) -> tensor<2x2xf32>
        %15 = stablehlo.tuple : tuple<>
        %16:2 = stablehlo.optimization_barrier %0, %t : tensor<2x2xf32>, !stablehlo.token
        stablehlo.optimization_barrier ()
        %17:2 = "stablehlo.infeed"(%t) <{infeed_config = "c", layout = [[0, 1]]}> : (!stablehlo.token)
            -> (tensor<2x2xf32>, !stablehlo.token)
        %18 = "stablehlo.send"(%0, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>,
            is_host_transfer = true}> : (tensor<2x2xf32>, !stablehlo.token) -> !stablehlo.token
        """,
    ),
    "movement": _function(
        "%a: tensor<4x6xf32>, %b: tensor<2x6xf32>, %i: tensor<i32>, %z: tensor<f32>, %n: tensor<2xi64>",
        """
        %0 = stablehlo.slice %a [0:4:2, 1:3] : (tensor<4x6xf32>) -> tensor<2x2xf32>
        %1 = stablehlo.slice %z [] : (tensor<f32>) -> tensor<f32>
        %2 = stablehlo.dynamic_slice %a, %i, %i, sizes = [2, 3]
            : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
        %3 = stablehlo.dynamic_update_slice %a, %b, %i, %i
            : (tensor<4x6xf32>, tensor<2x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
        %4 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<4x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
        %5 = stablehlo.pad %a, %z, low = [1, -1], high = [0, 2], interior = [0, 1]
            : (tensor<4x6xf32>, tensor<f32>) -> tensor<5x12xf32>
        %6 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %7 = stablehlo.reverse %a, dims = [0] : tensor<4x6xf32>
        %8 = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
        %9 = stablehlo.broadcast %z, sizes = [4] : (tensor<f32>) -> tensor<4xf32>
        %10 = stablehlo.dynamic_broadcast_in_dim %z, %n, dims = []
            : (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
        %11 = stablehlo.reshape %a : (tensor<4x6xf32>) -> tensor<24xf32>
        %12 = stablehlo.dynamic_reshape %a, %n : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
        %13 = stablehlo.bitcast_convert %a : (tensor<4x6xf32>) -> tensor<4x6xi32>
        %14 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<4x6xf32>) -> tensor<i32>
        %15 = stablehlo.set_dimension_size %a, %14, dim = 1
            : (tensor<4x6xf32>, tensor<i32>) -> tensor<4x?xf32, #stablehlo.bounds<?, 6>>
        %16 = stablehlo.real_dynamic_slice %a, %n, %n, %n
            : (tensor<4x6xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
        %17 = stablehlo.dynamic_pad %a, %z, %n, %n, %n
            : (tensor<4x6xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
        """,
    ),
    "products": _function(
        "%a: tensor<2x4x6xf32>, %b: tensor<2x6x5xf32>, %m: tensor<4x6xf32>, %n: tensor<6x3xf32>, "
        "%x: tensor<1x8x8x2xf32>, %k: tensor<3x3x2x4xf32>, %q: tensor<4x4xf32>, %c: tensor<8xcomplex<f32>>",
        """
        %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1],
            precision = [HIGH, DEFAULT] : (tensor<2x4x6xf32>, tensor<2x6x5xf32>) -> tensor<2x4x5xf32>
        %1 = stablehlo.dot_general %m, %n, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32,
            rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
            num_primitive_operations = 1, allow_imprecise_accumulation = false>
            : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
        %2 = stablehlo.dot_general %m, %n, contracting_dims = [] x []
            : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x6x6x3xf32>
        %3 = stablehlo.dot %m, %n, precision = [HIGHEST, HIGHEST]
            : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
        %4 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
            window = {stride = [2, 2], pad = [[0, 1], [1, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1],
            reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x4x4x4xf32>
        %5 = stablehlo.convolution(%x, %k) dim_numbers = [b, 1, 0, f]x[1, 0, i, o]->[f, 0, b, 1], window = {}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<4x6x1x6xf32>
        %6 = stablehlo.cholesky %q, lower = true : tensor<4x4xf32>
        %7 = stablehlo.fft %c, type = FFT, length = [8] : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
        %8 = stablehlo.einsum %m, %n, config = "ab,bc->ac" : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
        %9 = stablehlo.unary_einsum %m, config = "ab->ba" : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %10:2 = stablehlo.custom_call @"odd name"(%m, %n) {backend_config = {a = 1 : i64, b = "c"}, api_version = 4
            : i32,
            operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>],
            result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<> : tensor<0xindex>],
            output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0,
            operand_tuple_indices = []>]} : (tensor<4x6xf32>, tensor<6x3xf32>) -> (tensor<4x6xf32>, tensor<f32>)
        stablehlo.custom_call @plain() {has_side_effect = true} : () -> ()
        """,
    ),
    "regions": _function(
        "%a: tensor<4x6xf32>, %z: tensor<f32>, %i: tensor<4x6xi32>, %j: tensor<i32>, %p: tensor<i1>",
        """
        %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1]
            : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
        %1:2 = stablehlo.reduce(%a init: %z), (%i init: %j) across dimensions = [1] {x.y = 1 : i64}
            : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
          reducer(%x: tensor<f32>, %y: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>) {
            %c = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %v = stablehlo.select %c, %x, %y : tensor<i1>, tensor<f32>
            %w = stablehlo.select %c, %k, %l : tensor<i1>, tensor<i32>
            stablehlo.return %v, %w : tensor<f32>, tensor<i32>
          }
        %2:2 = stablehlo.while(%x = %j, %y = %a) : tensor<i32>, tensor<4x6xf32> attributes {x.y = "z"}
          cond {
            %c = stablehlo.compare LT, %x, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %s = stablehlo.add %x, %j : tensor<i32>
            stablehlo.return %s, %y : tensor<i32>, tensor<4x6xf32>
          }
        %3 = "stablehlo.if"(%p) ({
            stablehlo.return %a : tensor<4x6xf32>
          }, {
            %n = stablehlo.negate %a : tensor<4x6xf32>
            stablehlo.return %n : tensor<4x6xf32>
          }) {x.y = "z"} : (tensor<i1>) -> tensor<4x6xf32>
        %4 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %c = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
        %5 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
            collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 6>,
            indices_are_sorted = true}> : (tensor<4x6xf32>, tensor<4x6xi32>) -> tensor<4x6x6xf32>
        """,
    ),
    "chlo": _function(
        "%a: tensor<4xf32>, %b: tensor<?xf32>, %i: tensor<4xi32>, %p: tensor<4xi1>",
        """
        %0 = chlo.erf_inv %a : tensor<4xf32> -> tensor<4xf32>
        %1 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0>}
            : (tensor<4xf32>, tensor<?xf32>) -> tensor<4xf32>
        %2 = chlo.next_after %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
        %3:2 = chlo.top_k(%a, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
        %4 = chlo.broadcast_select %p, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<?xf32>) -> tensor<4xf32>
        %5 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction EQ>}
            : (tensor<4xf32>, tensor<?xf32>) -> tensor<4xi1>
        %6 = chlo.constant dense<1> : tensor<2xi32>
        %7 = "chlo.constant_like"(%a) <{value = 1.0 : f32}> : (tensor<4xf32>) -> tensor<4xf32>
        """,
    ),
    "constants of arith": _function(
        "%a: tensor<2x4xf32>",
        """
        %0 = arith.constant dense<[1, 2]> : tensor<2xi32>
        %1 = arith.constant {x.y = 1 : i64} 2.5 : f32
        %2 = arith.constant -3 : i8
        %3 = arith.constant true
        %4 = arith.constant 7 : index""",
    ),
    "arith and math": _function(
        "%i: index, %n: i32, %p: i1, %x: f32, %t: tensor<2xf32>, %m: tensor<2xi1>",
        """
        %0 = arith.addi %i, %i overflow<nsw, nuw> : index
        %1 = arith.cmpi slt, %i, %0 : index
        %2 = arith.cmpf une, %t, %t : tensor<2xf32>
        %3 = arith.select %m, %t, %t : tensor<2xi1>, tensor<2xf32>
        %4 = arith.select %p, %n, %n : i32
        %5 = arith.index_cast %n : i32 to index
        %6 = arith.extui %p : i1 to i32
        %7 = arith.mulf %x, %x fastmath<nnan,contract> : f32
        %8 = arith.divsi %n, %n exact : i32
        %9 = arith.negf %t : tensor<2xf32>
        %10 = math.exp %x fastmath<fast> {x.y = 1 : i64} : f32
        %11 = math.powf %t, %t : tensor<2xf32>
        %12 = arith.sitofp %n : i32 to f32
        cf.assert %1, "less\\n"
        """,
    ),
    "shape and tensor": _function(
        "%x: tensor<?x3xf32>, %y: tensor<3xf32>, %i: index, %p: i1, %s: tensor<2xindex>, %z: !shape.size",
        """
        %0 = shape.shape_of %x : tensor<?x3xf32> -> tensor<2xindex>
        %1 = shape.const_shape [4, 3] : tensor<2xindex>
        %2 = shape.const_shape [] : !shape.shape
        %3 = shape.broadcast %0, %1 : tensor<2xindex>, tensor<2xindex> -> tensor<2xindex>
        %4 = shape.num_elements %0 : tensor<2xindex> -> index
        %5 = shape.get_extent %0, %i : tensor<2xindex>, index -> index
        %6 = shape.const_size 10
        %7 = shape.size_to_index %6 : !shape.size
        %8 = shape.index_to_size %i
        %9 = shape.from_extents %i, %z : index, !shape.size
        %10 = shape.to_extent_tensor %9 : !shape.shape -> tensor<2xindex>
        %11 = shape.cstr_broadcastable %0, %1 : tensor<2xindex>, tensor<2xindex>
        %12 = shape.cstr_require %p, "sure"
        %13 = shape.assuming_all %11, %12
        %14 = shape.const_witness true
        %15:2 = shape.assuming %13 -> (tensor<3xf32>, index) {
          %30 = stablehlo.add %y, %y : tensor<3xf32>
          shape.assuming_yield %30, %i : tensor<3xf32>, index
        }
        shape.assuming %14 {
          shape.assuming_yield
        }
        %16 = shape.shape_eq %0, %1 : tensor<2xindex>, tensor<2xindex>
        %17 = tensor.dim %x, %i : tensor<?x3xf32>
        %18 = tensor.extract %x[%i, %i] : tensor<?x3xf32>
        %19 = tensor.from_elements %i, %17 : tensor<2xindex>
        %20 = tensor.cast %x : tensor<?x3xf32> to tensor<4x3xf32>
        %21 = tensor.reshape %20(%s) : (tensor<4x3xf32>, tensor<2xindex>) -> tensor<?x?xf32>
        %22 = tensor.collapse_shape %20 [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>
        %23 = tensor.rank %x : tensor<?x3xf32>
        %24 = tensor.splat %18 : tensor<2xf32>
        %25 = shape.rank %2 : !shape.shape -> !shape.size""",
    ),
    "sdy": """
        sdy.mesh @mesh = <["x"=2, "y"=2]>
        sdy.mesh @empty = <[]>
        sdy.mesh @ids = <["x"=4], device_ids=[3,2,1,0]>
        func.func @f(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %p: tensor<i1>)
            -> tensor<8x8xf32> {
         %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {"y"}]> : tensor<8x8xf32>
         %1 = sdy.reshard %0 <@mesh, [{}, {"y"}]> : tensor<8x8xf32>
         sdy.sharding_group %1 group_id=3 : tensor<8x8xf32>
         %2 = sdy.propagation_barrier %1 allowed_direction=NONE : tensor<8x8xf32>
         %3 = sdy.constant dense<1.0> : tensor<8x8xf32>
         %4 = sdy.all_gather [{"x"}, {}] %0 out_sharding=<@mesh, [{}, {"y"}]> : tensor<8x8xf32>
         %5 = sdy.named_computation<"foo">(%a) (%arg1: tensor<8x8xf32>) {
           sdy.return %arg1 : tensor<8x8xf32>
         } : (tensor<8x8xf32>) -> tensor<8x8xf32>
         %6 = sdy.named_computation<"foo">(%a)
            in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] (%arg1: tensor<8x8xf32>) {
           sdy.return %arg1 : tensor<8x8xf32>
         } : (tensor<8x8xf32>) -> tensor<8x8xf32>
         %7 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>]
            out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg1: tensor<4x8xf32>) {
           sdy.return %arg1 : tensor<4x8xf32>
         } : (tensor<8x8xf32>) -> tensor<8x8xf32>
         sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={} () {
           sdy.return
         } : () -> ()
         %8 = stablehlo.add %a, %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
         %9 = sdy.data_flow_edge %8 sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
         %80 = stablehlo.add %a, %a : tensor<8x8xf32>
         %10 = sdy.data_flow_edge %80 : tensor<8x8xf32>
         %11 = sdy.all_slice [{}, {"x"}] %4 out_sharding=<@mesh, [{}, {"y", "x"}]> : tensor<8x8xf32>
         %12 = sdy.all_reduce {"x"} %4 out_sharding=<@mesh, [{}, {"y"}]> : tensor<8x8xf32>
         %13 = sdy.all_to_all [{"x"}: 0->1] %0 out_sharding=<@mesh, [{}, {"y", "x"}]> : tensor<8x8xf32>
         %14 = sdy.collective_permute %0 out_sharding=<@mesh, [{"y"}, {"x"}]> : tensor<8x8xf32>
         %15 = sdy.reduce_scatter [{"x"}, {}] %4 out_sharding=<@mesh, [{"x"}, {"y"}]> : tensor<8x8xf32>
         %16 = sdy.replicated_to_unreduced {"x"} %4 out_sharding=<@mesh, [{}, {"y"}], unreduced={"x"}> : tensor<8x8xf32>
         %17 = sdy.sharded_to_unreduced [{"x"}, {}] %0 out_sharding=<@mesh, [{}, {"y"}], unreduced={"x"}>
            : tensor<8x8xf32>
         return %a : tensor<8x8xf32>
        }""",
    "dynamic": _function(
        "%c: tensor<?x?xf32, #stablehlo.bounds<?, 4>>, %d: tensor<*xf32>",
        """
        %0 = stablehlo.negate %c : tensor<?x?xf32, #stablehlo.bounds<?, 4>>
        %1 = "x.y"(%d) : (tensor<*xf32>) -> tensor<?xf32>
        """,
    ),
}
"""jaxlib parses each of these programs."""
