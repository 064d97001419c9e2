"""`exchanges.py` with messages that are split at 50,000 bytes, as those above 1 GiB are."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from xlapy.runtime.collectives.mpi import records

records.CHUNK_BYTES = 50_000  # type: ignore[misc]

if __name__ == "__main__":
    sys.argv[1:] = ["sizes", "strides", "order"]
    runpy.run_path(str(Path(__file__).parent / "exchanges.py"), run_name="__main__")
