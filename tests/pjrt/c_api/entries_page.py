"""Writes docs/reference/pjrt-entries.md: `python -m tests.pjrt.c_api.entries_page`."""

from __future__ import annotations

from pathlib import Path

from xlapy.pjrt.c_api.entries import registered_entries
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import API_VERSION, ENTRIES, EXTENSIONS
from xlapy.pjrt.native.implementations import REFUSED, Implementation, implementation_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "pjrt-entries.md"

HEAD = """# Entries of PJRT's C API

Every entry of the function table of PJRT's C API, and how the plugin implements it.

`JAX_PLATFORMS=xlapy` is a plugin for PJRT's C API, version {version} ([jax.md](../explanation/jax.md)). This page lists
every entry of the function table `PJRT_Api` and of the layouts extension, and how it is implemented: as a copy of
fields of a record, in native code, or in Python (native code calls Python in rare cases, too). No entry is missing: one
that is not supported returns the error `UNIMPLEMENTED` with a reason. Every entry checks `struct_size`, and returns
`INVALID_ARGUMENT` if the caller's structure is smaller than that of this version.

{counts}.

| entry | implementation |
|---|---|
"""


def page() -> str:
    """The text of the page."""
    native()  # imports the modules that register entries
    python = registered_entries()
    names = [*ENTRIES, *(name for names in EXTENSIONS.values() for name in names)]
    kinds = {name: implementation_of(name, python) for name in names}
    counts = ", ".join(f"{sum(found is kind for found in kinds.values())} {kind.value}" for kind in Implementation)
    rows = [
        f"| `PJRT_{name}` | {kind.value}{': ' + REFUSED[name] if kind is Implementation.REFUSED else ''} |"
        for name, kind in kinds.items()
    ]
    version = ".".join(map(str, API_VERSION))
    return HEAD.format(version=version, counts=f"Of {len(names)} entries: {counts}") + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
