"""The execution engine: memory, arguments, launches and interruption of programs."""
