"""How a kernel accesses a small array: by elements with a computed index, or in vectors.

Responsible for these two questions. Does not depend on where arrays are stored.
"""

from __future__ import annotations

from xlapy.loops.ir import Buffer, Kernel, Store, Value


def buffers_stored_by_index(kernel: Kernel) -> set[Buffer]:
    """The buffers of which a kernel stores a single element whose index is computed, not that of an axis."""
    stores = [s for s in kernel.statements() if isinstance(s, Store)]
    return {
        store.location.buffer
        for store in stores
        if any(_is_computed(value) for value, _ in store.location.offset.terms if not value.block.in_vector)
    }


def buffers_loaded_in_vectors(kernel: Kernel) -> set[Buffer]:
    """The buffers of which a kernel loads vectors of neighboring elements."""
    loads = [s for s in kernel.statements() if isinstance(s, Value) and s.op == "load" and s.block.in_vector]
    return {load.attribute[0].buffer for load in loads}


def _is_computed(value: Value) -> bool:
    if value.op in ("div", "mod") and value.attribute is not None:
        return any(map(_is_computed, value.args))
    return value.op not in ("axis", "const", "affine")
