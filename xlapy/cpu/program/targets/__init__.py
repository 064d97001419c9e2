"""Calls of custom-call targets while a native program runs: native targets, and Python functions."""
