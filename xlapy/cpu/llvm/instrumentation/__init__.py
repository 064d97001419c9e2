"""Code that only some programs contain: profiling counters, and checks of the bounds of accesses."""
