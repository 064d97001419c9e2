"""The pages on several processes print what they show. They start processes with the mpirun of this environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.lessons.checking import check_page

AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PYTHONUNBUFFERED": "",  # else a line is written in two pieces, and mpirun may join lines of two processes
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""What Open MPI needs to start more processes than there are processors, and as root. MPICH always does."""

SHOWN = {"tutorials/from-one-process-to-two-machines.md": 7, "how-to/when-a-process-fails.md": 2}
"""The number of outputs that each page shows."""


@pytest.mark.slow
@pytest.mark.parametrize("page", SHOWN)
def test_the_page_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    assert check_page(page, tmp_path, **AS_ROOT) == SHOWN[page]
