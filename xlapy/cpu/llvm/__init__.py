"""LLVM: the only package that imports llvmlite."""
