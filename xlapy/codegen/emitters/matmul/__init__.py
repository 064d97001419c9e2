"""Matrix multiplications: packed GEMM, GEMV and skinny GEMM, and dots in terms of them."""
