"""The IR: instructions, computations, modules and shardings; their verification, traversal and editing."""
