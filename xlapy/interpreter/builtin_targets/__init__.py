"""Meaning of the custom-call targets that XLA, JAX and xlapy define themselves."""
