"""The codes of errors in the command line, files and the C API."""
