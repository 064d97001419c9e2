"""LLVM text that moves elements between the lanes of vector registers."""
