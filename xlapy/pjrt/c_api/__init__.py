"""The C API of PJRT as tables: entries, structures and element types."""
