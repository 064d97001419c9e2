"""The checker of interleavings: native functions run under all schedules of a few threads."""
