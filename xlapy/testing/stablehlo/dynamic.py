"""StableHLO programs whose sizes follow from constants, and calls of the targets that stand for such operations."""

from __future__ import annotations

from xlapy.testing.stablehlo.programs import function

_F, _I = "tensor<f32>", "tensor<i64>"
_REDUCER = f"""
func.func private @sum(%a: {_F}, %b: {_F}) -> {_F} {{
  %0 = stablehlo.add %a, %b : {_F}
  return %0 : {_F}
}}"""

DYNAMIC: dict[str, str] = {
    "sizes of arrays": function(
        "%x: tensor<4xf32>, %c: tensor<f32>",
        "tensor<2x3xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xi32>",
        """
        %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
        %0 = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
        %1 = stablehlo.dynamic_reshape %x, %t : (tensor<4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
        %l = stablehlo.constant dense<1> : tensor<1xi64>
        %2 = stablehlo.dynamic_pad %x, %c, %l, %l, %z
          : (tensor<4xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
        %h = stablehlo.constant dense<3> : tensor<1xi64>
        %3 = stablehlo.real_dynamic_slice %x, %l, %h, %l
          : (tensor<4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
        %n = stablehlo.constant dense<5> : tensor<1xi64>
        %4 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>
        %5 = stablehlo.convert %0 : (tensor<?x?xf32>) -> tensor<2x3xf32>
        return %5, %1, %2, %3, %4 : tensor<2x3xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xi32>
        """.replace(
            "%1 =",
            "%t = stablehlo.constant dense<2> : tensor<2xi64>\n%z = stablehlo.constant dense<0> : tensor<1xi64>\n%1 =",
            1,
        ),
    ),
    "shapes": function(
        "%x: tensor<4x2xf32>, %c: tensor<f32>",
        "tensor<?xf32>",
        """
        %s = shape.shape_of %x : tensor<4x2xf32> -> tensor<2xindex>
        %n = shape.num_elements %s : tensor<2xindex> -> index
        %i = arith.constant 1 : index
        %d = tensor.dim %x, %i : tensor<4x2xf32>
        %e = arith.muli %d, %n : index
        %f = arith.divsi %e, %d : index
        %b = shape.broadcast %s, %s : tensor<2xindex>, tensor<2xindex> -> tensor<2xindex>
        %v = tensor.from_elements %f : tensor<1xindex>
        %w = arith.index_cast %v : tensor<1xindex> to tensor<1xi64>
        %p = arith.cmpi eq, %e, %f : index
        %m = arith.select %p, %e, %f : index
        %q = "shape.get_extent"(%b, %i) : (tensor<2xindex>, index) -> index
        %h:2 = "shape.split_at"(%b, %i) : (tensor<2xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
        %0 = stablehlo.dynamic_broadcast_in_dim %c, %w, dims = [] : (tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
        return %0 : tensor<?xf32>
        """,
    ),
    "functions of unknown sizes": function(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        """
        %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<?xf32>
        %1 = call @f(%0) : (tensor<?xf32>) -> tensor<?xf32>
        %2 = stablehlo.convert %1 : (tensor<?xf32>) -> tensor<4xf32>
        return %2 : tensor<4xf32>
        """,
    )
    + "\nfunc.func private @f(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
    + "%0 = call @g(%a) : (tensor<?xf32>) -> tensor<?xf32>"
    + "\nreturn %0 : tensor<?xf32>\n}\nfunc.func private @g(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
    + "%0 = stablehlo.negate %a : tensor<?xf32>\nreturn %0 : tensor<?xf32>\n}",
    "custom calls": function(
        "%x: tensor<4xf32>, %c: tensor<f32>, %r: tensor<4xui64>",
        "tensor<2xf32>, tensor<3xf32>, tensor<?xui32>",
        """
        %k = stablehlo.constant dense<2> : tensor<i64>
        %0:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k)
          : (tensor<4xf32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xi32>)
        %w = stablehlo.constant dense<2> : tensor<1xi64>
        %o = stablehlo.constant dense<1> : tensor<1xi64>
        %p = stablehlo.constant dense<0> : tensor<1x2xi64>
        %1 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %c, %w, %o, %o, %o, %p)
          {called_computations = [@sum]}
          : (tensor<4xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1x2xi64>)
          -> tensor<3xf32>
        %s = stablehlo.constant dense<3> : tensor<1xi64>
        %2:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%r, %s) {rng_algorithm =
          #stablehlo<rng_algorithm THREE_FRY>} : (tensor<4xui64>, tensor<1xi64>) -> (tensor<4xui64>, tensor<?xui32>)
        %3:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}}
          : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
        %t = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.custom_call @shape_assertion(%t) {error_message = "sizes"} : (tensor<i1>) -> ()
        %4 = stablehlo.custom_call @mhlo.erf(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0#0, %1, %2#1 : tensor<2xf32>, tensor<3xf32>, tensor<?xui32>
        """,
    )
    + _REDUCER,
    "groups over a mesh": function(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        """
        %0 = "stablehlo.all_reduce"(%x) <{replica_groups = #stablehlo.replica_group_mesh_axes<
          mesh = #stablehlo.mesh<axes = [<name = "x", size = 2>, <name = "y", size = 4>]>,
          axes = [#stablehlo.axis_ref<name = "y", sub_axis_info = (1)2>]>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
        """,
    ),
    "nested regions": function(
        "%x: tensor<4xf32>, %i: tensor<i32>, %p: tensor<i1>",
        "tensor<4xf32>",
        """
        %c = stablehlo.constant dense<2.0> : tensor<4xf32>
        %0 = "stablehlo.case"(%i) ({
          %1 = "stablehlo.if"(%p) ({
            %2 = stablehlo.add %x, %c : tensor<4xf32>
            stablehlo.return %2 : tensor<4xf32>
          }, { stablehlo.return %x : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
          stablehlo.return %1 : tensor<4xf32>
        }, { stablehlo.return %c : tensor<4xf32> }) : (tensor<i32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
        """,
    ),
}
