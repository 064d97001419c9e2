"""The C API of PJRT: its entries, structures, element types, and the native library that implements them."""
