"""Shardings over the named axes of a mesh (the dialect `sdy`) as HLO's named shardings.

Owns: the meshes of a program, the text of `#sdy.sharding` and its like. Must not know: operations.

| sdy | HLO |
|---|---|
| `sdy.mesh @mesh = <["x"=2, "y"=4]>` | `mesh['x'=2,'y'=4]` |
| `#sdy.sharding<@mesh, [{"x", ?}, {}p1], replicated={"y"}>` | `{mesh['x'=2,'y'=4], [{'x', ?}, {}], replicated={'y'}}` |

Priorities (`p1`) steer propagation only and have no place in HLO.
"""

from __future__ import annotations

import re
from typing import Any

from xlapy.base.errors import ShapeError
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.mesh import Mesh
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import shown

_AXIS = re.compile(r'"([^"]*)"\s*=\s*(\d+)')
_DEVICES = re.compile(r"device_ids\s*=\s*\[([\d,\s]*)\]")
_SHARDING = re.compile(r"\s*(?:@(?:\"([^\"]+)\"|([\w$.-]+))|mesh<(.*?\])>)\s*,\s*(.*)", re.DOTALL)
_PRIORITY = re.compile(r"\}\s*p\d+")


class Meshes:
    """The meshes that a module declares."""

    def __init__(self, root: ir.Operation) -> None:
        self._by_name: dict[str, Mesh] = {}
        for region in root.regions:
            for block in region.blocks:
                for operation in block.operations:
                    if operation.name == "sdy.mesh":
                        name = str(operation.attributes.get("sym_name"))
                        self._by_name[name] = read_mesh(operation.attributes.get("mesh"))

    def mesh(self, name: str) -> Mesh:
        found = self._by_name.get(name)
        if found is None:
            raise ShapeError(f"there is no mesh @{name}")
        return found

    def sharding(self, attribute: Any) -> Sharding:
        """The sharding of `#sdy.sharding<...>`, or the tuple of those of `#sdy.sharding_per_value<[...]>`."""
        if not isinstance(attribute, ir.OpaqueAttribute) or attribute.text is None:
            raise ShapeError(f"a sharding over a mesh must be #sdy.sharding<...>, it is {shown(attribute)}")
        if attribute.name != "sdy.sharding_per_value":
            return self.sharding_of(attribute.text)
        elements = tuple([self.sharding_of(part) for part in parts_of(attribute.text)])
        return elements[0] if len(elements) == 1 else Sharding(ShardingKind.TUPLE, elements=elements)

    def shardings(self, attribute: Any) -> list[Sharding]:
        """One sharding a value, of `#sdy.sharding_per_value<[...]>`."""
        if not isinstance(attribute, ir.OpaqueAttribute) or attribute.text is None:
            raise ShapeError(f"shardings must be #sdy.sharding_per_value<[...]>, they are {shown(attribute)}")
        return [self.sharding_of(part) for part in parts_of(attribute.text)]

    def sharding_of(self, text: str) -> Sharding:
        """The sharding of what stands inside the angle brackets."""
        match = _SHARDING.fullmatch(text)
        if match is None:
            raise ShapeError(f"#sdy.sharding<{text}> is not understood; it begins with the name of a mesh")
        quoted, name, inline, rest = match.groups()
        mesh = _mesh_of_text(inline) if inline is not None else self.mesh(quoted or name)
        rest = _PRIORITY.sub("}", rest).strip().replace('"', "'")
        if mesh.devices and not mesh.axis_names:
            return Sharding.parse(f"{{{mesh.to_text()}}}")
        return Sharding.parse(f"{{{mesh.to_text()}, {rest}}}")


def read_mesh(attribute: Any) -> Mesh:
    """The mesh of `#sdy.mesh<["x"=2]>`."""
    if not isinstance(attribute, ir.OpaqueAttribute) or attribute.text is None:
        raise ShapeError(f"a mesh must be #sdy.mesh<...>, it is {shown(attribute)}")
    return _mesh_of_text(attribute.text)


def _mesh_of_text(text: str) -> Mesh:
    axes = _AXIS.findall(text)
    devices = _DEVICES.search(text)
    ids = [int(each) for each in devices[1].split(",") if each.strip()] if devices else None
    if not axes and ids is not None and len(ids) == 1:
        return Mesh.maximal(ids[0])
    return Mesh.make([name for name, _ in axes], [int(size) for _, size in axes], ids)


def parts_of(text: str) -> list[str]:
    """The texts in the angle brackets of `[<...>, <...>]`."""
    parts: list[str] = []
    depth, start = 0, 0
    for place, character in enumerate(text):
        if character == "<":
            depth += 1
            start = place + 1 if depth == 1 else start
        elif character == ">":
            depth -= 1
            if depth == 0:
                parts.append(text[start:place])
    return parts
