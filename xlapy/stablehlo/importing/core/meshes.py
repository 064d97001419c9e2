"""Imports the shardings of the `sdy` dialect, over the named axes of a mesh, as HLO's named shardings.

Responsible for the meshes of a program and for parsing `#sdy.sharding` and `#sdy.mesh`. Does not depend on operations.

| sdy | HLO |
|---|---|
| `sdy.mesh @mesh = <["x"=2, "y"=4]>` | `mesh['x'=2,'y'=4]` |
| `#sdy.sharding<@mesh, [{"x", ?}, {}p1], replicated={"y"}>` | `{mesh['x'=2,'y'=4], [{'x', ?}, {}], replicated={'y'}}` |

Priorities (`p1`) matter to sharding propagation only and are dropped.
"""

from __future__ import annotations

import re
from typing import Any

from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.codecs import int64_from_text
from xlapy.opcodes.attributes.mesh import Mesh
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import describe

_AXIS = re.compile(r'"([^"]*)"\s*=\s*(\d+)', re.ASCII)
_DEVICES = re.compile(r"device_ids\s*=\s*\[([\d,\s]*)\]", re.ASCII)
_SHARDING = re.compile(r"\s*(?:@(?:\"([^\"]+)\"|([\w$.-]+))|mesh<(.*?\])>)\s*,\s*(.*)", re.DOTALL | re.ASCII)
_PRIORITY = re.compile(r"\}\s*p\d+", re.ASCII)


class MeshTable:
    """The meshes that a module declares, by name, and the shardings that refer to them."""

    def __init__(self, root: ir.Operation) -> None:
        self._by_name: dict[str, Mesh] = {}
        self._shardings: dict[str, Sharding] = {}
        for region in root.regions:
            for block in region.blocks:
                for operation in block.operations:
                    if operation.name == "sdy.mesh":
                        name = str(operation.attributes.get("sym_name"))
                        self._by_name[name] = read_mesh(operation.attributes.get("mesh"))

    def mesh(self, name: str) -> Mesh:
        """Returns the mesh with a name. Raises `ShapeError` if there is none."""
        found = self._by_name.get(name)
        if found is None:
            raise ShapeError(operation_codes.SHARDING_MESH, f"there is no mesh @{name}")
        return found

    def sharding(self, attribute: Any) -> Sharding:
        """Returns the sharding of `#sdy.sharding<...>`, or a tuple sharding for `#sdy.sharding_per_value<[...]>`."""
        if not isinstance(attribute, ir.OpaqueAttribute) or attribute.text is None:
            raise ShapeError(
                codes.ATTRIBUTE_KIND, f"a sharding over a mesh must be #sdy.sharding<...>, but is {describe(attribute)}"
            )
        if attribute.name != "sdy.sharding_per_value":
            return self.parse_sharding(attribute.text)
        elements = tuple([self.parse_sharding(part) for part in split_angle_brackets(attribute.text)])
        return elements[0] if len(elements) == 1 else Sharding(ShardingKind.TUPLE, elements=elements)

    def shardings(self, attribute: Any) -> list[Sharding]:
        """Returns the shardings in `#sdy.sharding_per_value<[...]>`, one per value."""
        if not isinstance(attribute, ir.OpaqueAttribute) or attribute.text is None:
            raise ShapeError(
                codes.ATTRIBUTE_KIND, f"shardings must be #sdy.sharding_per_value<[...]>, but are {describe(attribute)}"
            )
        return [self.parse_sharding(part) for part in split_angle_brackets(attribute.text)]

    def parse_sharding(self, text: str) -> Sharding:
        """Parses the text inside the angle brackets of `#sdy.sharding<...>`, once for equal texts."""
        known = self._shardings.get(text)
        if known is None:
            known = self._shardings[text] = self._parse_new(text)
        return known

    def _parse_new(self, text: str) -> Sharding:
        match = _SHARDING.fullmatch(text)
        if match is None:
            raise ShapeError(
                operation_codes.SHARDING_MESH,
                f"cannot parse #sdy.sharding<{text}>: it must begin with the name of a mesh",
            )
        quoted, name, inline, rest = match.groups()
        mesh = _parse_mesh(inline) if inline is not None else self.mesh(quoted or name)
        rest = _PRIORITY.sub("}", rest).strip().replace('"', "'")
        is_one_device = mesh.devices and not mesh.axis_names
        return Sharding.over_mesh(mesh, "}" if is_one_device else f"{rest}}}")


def read_mesh(attribute: Any) -> Mesh:
    """Returns the mesh of the attribute `#sdy.mesh<["x"=2]>`."""
    if not isinstance(attribute, ir.OpaqueAttribute) or attribute.text is None:
        raise ShapeError(codes.ATTRIBUTE_KIND, f"a mesh must be #sdy.mesh<...>, but is {describe(attribute)}")
    return _parse_mesh(attribute.text)


def _parse_mesh(text: str) -> Mesh:
    axes = _AXIS.findall(text)
    devices = _DEVICES.search(text)
    ids = [int64_from_text(each.strip()) for each in devices[1].split(",") if each.strip()] if devices else None
    if not axes and ids is not None and len(ids) == 1:
        return Mesh.maximal(ids[0])
    return Mesh.make([name for name, _ in axes], [int64_from_text(size) for _, size in axes], ids)


def split_angle_brackets(text: str) -> list[str]:
    """Returns the contents of the outermost angle brackets in `[<...>, <...>]`."""
    contents: list[str] = []
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character == "<":
            depth += 1
            start = position + 1 if depth == 1 else start
        elif character == ">":
            depth -= 1
            if depth == 0:
                contents.append(text[start:position])
    return contents
