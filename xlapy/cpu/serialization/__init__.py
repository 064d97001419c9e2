"""Compiled programs as bytes, and back."""
