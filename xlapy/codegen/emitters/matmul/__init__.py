"""Matrix products in register tiles: packed GEMM, GEMV, and dot in terms of them."""
