"""The parts of the verifier (`xlapy/hlo/verify.py`)."""
