"""The files of add-a-backend.md make a platform outside of the package, which its entry point declares."""

from __future__ import annotations

from pathlib import Path

from tests.documents.guides import GuideFollower

PROGRAM = """
import numpy as np
import xlapy as xla
from xlapy.runtime import platform_names

assert "eager" in platform_names()
client = xla.Client("eager")
text = "HloModule m ENTRY e { x = f32[2,3] parameter(0)  ROOT b = f32[3,1,2] broadcast(x), dimensions={2,0} }"
x = np.float32([[1, 2, 3], [4, 5, 6]])
assert np.asarray(client.compile(text)(x)).tolist() == x.T[:, None, :].tolist()

program = client.compile(open("gate.hlo").read())
assert program.memory_analysis().argument_size_in_bytes == 12
for refused, message in (
    (lambda: client.compile(text, check_nans=True), "eager does not check for NaN"),
    (lambda: client.compile(text, tuning_file="plans.json"), "eager has no plans of kernels that plans.json could set"),
    (program.serialize, "programs of this platform are not serialized"),
):
    try:
        refused()
    except xla.errors.UnsupportedError as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)
print("done")
"""


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    with GuideFollower(tmp_path) as guide:
        guide.follow("add-a-backend.md")
        assert (len(guide.files), guide.shown) == (6, 4)
        assert guide.run_program(PROGRAM) == "done\n"
