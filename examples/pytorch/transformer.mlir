module @IrToHlo.217 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<50xf32>, %arg1: tensor<50x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16x32xf32>, %arg5: tensor<32xf32>, %arg6: tensor<32x16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16xf32>, %arg9: tensor<16x16xf32>, %arg10: tensor<48xf32>, %arg11: tensor<48x16xf32>, %arg12: tensor<2x7xi64>, %arg13: tensor<50x16xf32>, %arg14: tensor<16xf32>, %arg15: tensor<16xf32>) -> tensor<2x7x50xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x7x32xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<14xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<14xf32>
    %cst_2 = stablehlo.constant dense<0.707106769> : tensor<2x4x4x7xf32>
    %cst_3 = stablehlo.constant dense<0.707106769> : tensor<2x4x7x4xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg12 : (tensor<2x7xi64>) -> tensor<14xi64>
    %1 = stablehlo.convert %0 : (tensor<14xi64>) -> tensor<14xui32>
    %2 = "stablehlo.gather"(%arg13, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<50x16xf32>, tensor<14xui32>) -> tensor<14x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<14x16xf32>) -> tensor<2x7x16xf32>
    %4 = stablehlo.transpose %3, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[7,2,16]{2,0,1}"} : (tensor<2x7x16xf32>) -> tensor<7x2x16xf32>
    %5 = stablehlo.transpose %arg11, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,48]{0,1}"} : (tensor<48x16xf32>) -> tensor<16x48xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1, 2] : (tensor<16x48xf32>) -> tensor<7x16x48xf32>
    %7 = stablehlo.dot_general %4, %6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<7x2x16xf32>, tensor<7x16x48xf32>) -> tensor<7x2x48xf32>
    %8 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<48xf32>) -> tensor<7x2x48xf32>
    %9 = stablehlo.add %7, %8 : tensor<7x2x48xf32>
    %10 = stablehlo.reshape %9 : (tensor<7x2x48xf32>) -> tensor<1x7x2x3x16xf32>
    %11 = stablehlo.transpose %10, dims = [3, 1, 2, 0, 4] {result_layout = dense<[4, 0, 2, 1, 3]> : tensor<5xindex>, xla_shape = "f32[3,7,2,1,16]{4,0,2,1,3}"} : (tensor<1x7x2x3x16xf32>) -> tensor<3x7x2x1x16xf32>
    %12 = stablehlo.reshape %11 : (tensor<3x7x2x1x16xf32>) -> tensor<3x7x2x16xf32>
    %13 = stablehlo.slice %12 [0:1, 0:7, 0:2, 0:16] : (tensor<3x7x2x16xf32>) -> tensor<1x7x2x16xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x7x2x16xf32>) -> tensor<7x8x4xf32>
    %15 = stablehlo.transpose %14, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[8,7,4]{2,0,1}"} : (tensor<7x8x4xf32>) -> tensor<8x7x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<8x7x4xf32>) -> tensor<2x4x7x4xf32>
    %17 = stablehlo.multiply %16, %cst_3 : tensor<2x4x7x4xf32>
    %18 = stablehlo.reshape %17 : (tensor<2x4x7x4xf32>) -> tensor<8x7x4xf32>
    %19 = stablehlo.slice %12 [1:2, 0:7, 0:2, 0:16] : (tensor<3x7x2x16xf32>) -> tensor<1x7x2x16xf32>
    %20 = stablehlo.reshape %19 : (tensor<1x7x2x16xf32>) -> tensor<7x8x4xf32>
    %21 = stablehlo.transpose %20, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[8,7,4]{2,0,1}"} : (tensor<7x8x4xf32>) -> tensor<8x7x4xf32>
    %22 = stablehlo.reshape %21 : (tensor<8x7x4xf32>) -> tensor<2x4x7x4xf32>
    %23 = stablehlo.transpose %22, dims = [0, 1, 3, 2] {result_layout = dense<[2, 3, 1, 0]> : tensor<4xindex>, xla_shape = "f32[2,4,4,7]{2,3,1,0}"} : (tensor<2x4x7x4xf32>) -> tensor<2x4x4x7xf32>
    %24 = stablehlo.multiply %23, %cst_2 : tensor<2x4x4x7xf32>
    %25 = stablehlo.reshape %24 : (tensor<2x4x4x7xf32>) -> tensor<8x4x7xf32>
    %26 = stablehlo.dot_general %18, %25, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x7x4xf32>, tensor<8x4x7xf32>) -> tensor<8x7x7xf32>
    %27 = stablehlo.reshape %26 : (tensor<8x7x7xf32>) -> tensor<2x4x7x7xf32>
    %28 = stablehlo.reduce(%27 init: %cst_4) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x7x7xf32>, tensor<f32>) -> tensor<2x4x7xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<2x4x7xf32>) -> tensor<2x4x7x7xf32>
    %30 = stablehlo.subtract %27, %29 : tensor<2x4x7x7xf32>
    %31 = stablehlo.exponential %30 : tensor<2x4x7x7xf32>
    %32 = stablehlo.reduce(%31 init: %cst_5) applies stablehlo.add across dimensions = [3] : (tensor<2x4x7x7xf32>, tensor<f32>) -> tensor<2x4x7xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<2x4x7xf32>) -> tensor<2x4x7x7xf32>
    %34 = stablehlo.divide %31, %33 : tensor<2x4x7x7xf32>
    %35 = stablehlo.reshape %34 : (tensor<2x4x7x7xf32>) -> tensor<8x7x7xf32>
    %36 = stablehlo.slice %12 [2:3, 0:7, 0:2, 0:16] : (tensor<3x7x2x16xf32>) -> tensor<1x7x2x16xf32>
    %37 = stablehlo.reshape %36 : (tensor<1x7x2x16xf32>) -> tensor<7x8x4xf32>
    %38 = stablehlo.transpose %37, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[8,7,4]{2,0,1}"} : (tensor<7x8x4xf32>) -> tensor<8x7x4xf32>
    %39 = stablehlo.dot_general %35, %38, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x7x7xf32>, tensor<8x7x4xf32>) -> tensor<8x7x4xf32>
    %40 = stablehlo.reshape %39 : (tensor<8x7x4xf32>) -> tensor<2x4x7x4xf32>
    %41 = stablehlo.transpose %40, dims = [2, 0, 1, 3] {result_layout = dense<[3, 0, 2, 1]> : tensor<4xindex>, xla_shape = "f32[7,2,4,4]{3,0,2,1}"} : (tensor<2x4x7x4xf32>) -> tensor<7x2x4x4xf32>
    %42 = stablehlo.reshape %41 : (tensor<7x2x4x4xf32>) -> tensor<14x16xf32>
    %43 = stablehlo.transpose %arg9, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %44 = stablehlo.dot_general %42, %43, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<14x16xf32>, tensor<16x16xf32>) -> tensor<14x16xf32>
    %45 = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<16xf32>) -> tensor<14x16xf32>
    %46 = stablehlo.add %44, %45 : tensor<14x16xf32>
    %47 = stablehlo.reshape %46 : (tensor<14x16xf32>) -> tensor<7x2x16xf32>
    %48 = stablehlo.transpose %47, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[2,7,16]{2,0,1}"} : (tensor<7x2x16xf32>) -> tensor<2x7x16xf32>
    %49 = stablehlo.add %3, %48 : tensor<2x7x16xf32>
    %50 = stablehlo.reshape %49 : (tensor<2x7x16xf32>) -> tensor<1x14x16xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%50, %cst_1, %cst_0) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x14x16xf32>, tensor<14xf32>, tensor<14xf32>) -> (tensor<1x14x16xf32>, tensor<14xf32>, tensor<14xf32>)
    %51 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<16xf32>) -> tensor<2x7x16xf32>
    %52 = stablehlo.reshape %output : (tensor<1x14x16xf32>) -> tensor<2x7x16xf32>
    %53 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<16xf32>) -> tensor<2x7x16xf32>
    %54 = stablehlo.multiply %52, %53 : tensor<2x7x16xf32>
    %55 = stablehlo.add %51, %54 : tensor<2x7x16xf32>
    %56 = stablehlo.reshape %55 : (tensor<2x7x16xf32>) -> tensor<14x16xf32>
    %57 = stablehlo.transpose %arg6, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,32]{0,1}"} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %58 = stablehlo.dot_general %56, %57, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<14x16xf32>, tensor<16x32xf32>) -> tensor<14x32xf32>
    %59 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<32xf32>) -> tensor<14x32xf32>
    %60 = stablehlo.add %58, %59 : tensor<14x32xf32>
    %61 = stablehlo.reshape %60 : (tensor<14x32xf32>) -> tensor<2x7x32xf32>
    %62 = stablehlo.maximum %61, %cst : tensor<2x7x32xf32>
    %63 = stablehlo.reshape %62 : (tensor<2x7x32xf32>) -> tensor<14x32xf32>
    %64 = stablehlo.transpose %arg4, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,16]{0,1}"} : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %65 = stablehlo.dot_general %63, %64, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<14x32xf32>, tensor<32x16xf32>) -> tensor<14x16xf32>
    %66 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<16xf32>) -> tensor<14x16xf32>
    %67 = stablehlo.add %65, %66 : tensor<14x16xf32>
    %68 = stablehlo.reshape %67 : (tensor<14x16xf32>) -> tensor<2x7x16xf32>
    %69 = stablehlo.add %55, %68 : tensor<2x7x16xf32>
    %70 = stablehlo.reshape %69 : (tensor<2x7x16xf32>) -> tensor<1x14x16xf32>
    %output_6, %batch_mean_7, %batch_var_8 = "stablehlo.batch_norm_training"(%70, %cst_1, %cst_0) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x14x16xf32>, tensor<14xf32>, tensor<14xf32>) -> (tensor<1x14x16xf32>, tensor<14xf32>, tensor<14xf32>)
    %71 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<16xf32>) -> tensor<2x7x16xf32>
    %72 = stablehlo.reshape %output_6 : (tensor<1x14x16xf32>) -> tensor<2x7x16xf32>
    %73 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<2x7x16xf32>
    %74 = stablehlo.multiply %72, %73 : tensor<2x7x16xf32>
    %75 = stablehlo.add %71, %74 : tensor<2x7x16xf32>
    %76 = stablehlo.reshape %75 : (tensor<2x7x16xf32>) -> tensor<14x16xf32>
    %77 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,50]{0,1}"} : (tensor<50x16xf32>) -> tensor<16x50xf32>
    %78 = stablehlo.dot_general %76, %77, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<14x16xf32>, tensor<16x50xf32>) -> tensor<14x50xf32>
    %79 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<50xf32>) -> tensor<14x50xf32>
    %80 = stablehlo.add %78, %79 : tensor<14x50xf32>
    %81 = stablehlo.reshape %80 : (tensor<14x50xf32>) -> tensor<2x7x50xf32>
    return %81 : tensor<2x7x50xf32>
  }
}
