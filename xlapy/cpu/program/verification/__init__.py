"""Verification of buffer assignment: every read of a program's thunks finds the array value that is meant."""
