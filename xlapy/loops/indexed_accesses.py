"""How a kernel accesses a small array: by elements with a computed index, or in vectors.

Responsible for these two questions. Does not depend on where arrays are stored.
"""

from __future__ import annotations

from collections.abc import Collection

from xlapy.loops.ir import Buffer, Kernel, Store, Value


def stores_by_index(kernel: Kernel, buffers: Collection[Buffer]) -> bool:
    """Whether a kernel stores a single element of one of the buffers whose index is computed, not that of an axis."""
    stores = (s for s in kernel.statements() if isinstance(s, Store) and s.location.buffer in buffers)
    return any(_is_computed(v) for store in stores for v, _ in store.location.offset.terms if not v.block.in_vector)


def loads_vectors(kernel: Kernel, buffers: Collection[Buffer]) -> bool:
    """Whether a kernel loads vectors of neighboring elements of one of the buffers."""
    loads = (s for s in kernel.statements() if isinstance(s, Value) and s.op == "load" and s.block.in_vector)
    return any(load.attribute[0].buffer in buffers for load in loads)


def _is_computed(value: Value) -> bool:
    if value.op in ("div", "mod") and value.attribute is not None:
        return any(map(_is_computed, value.args))
    return value.op not in ("axis", "const", "affine")
