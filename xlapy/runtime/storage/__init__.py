"""Compiled programs that outlive a process: the compile cache and serialized executables."""
