"""The codes of all errors, one module per part of the system; each code belongs to one rule."""
