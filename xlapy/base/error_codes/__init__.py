"""The codes of all errors: a folder per part of the system, a module per family of rules."""
