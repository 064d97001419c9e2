"""NumPy kernels that interpreter rules are built of."""
