"""The version of xlapy. The package's metadata (`pyproject.toml`) reads it from here."""

VERSION = "0.1.0"
"""The version, as `xlapy.__version__` and package indexes have it."""
