"""Rematerialization: computes values again shortly before they are read, so that a program fits a limit of memory."""
