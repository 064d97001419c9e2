"""LLVM within limits of time and memory: it has no way to stop, and on some programs it does not end."""
