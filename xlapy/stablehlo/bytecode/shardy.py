"""Decodes the attributes of Shardy (the dialect `sdy`): meshes and shardings over their axes.

Responsible for their codes and the order of their fields. An attribute becomes the text inside `#sdy.sharding<...>`, as
the parser of MLIR text keeps it. Does not depend on what a sharding means.

Source: Shardy's bytecode.td, attrs.td, printers.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlapy.base.error_codes.compilation.partitioner import UNREDUCED_SUMS
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.attribute_type_reader import DialectReader


def read_attribute(reader: DialectReader) -> ir.OpaqueAttribute:
    """Decodes an attribute of Shardy."""
    code = reader.varint()
    if code >= len(_ATTRIBUTES):
        raise UnsupportedError(
            codes.BYTECODE_ENCODING, f"MLIR bytecode, byte {reader.position}: unknown sdy attribute {code}"
        )
    name, decoder = _ATTRIBUTES[code]
    return ir.OpaqueAttribute(f"sdy.{name}", decoder(reader))


def _attribute_text(reader: DialectReader) -> str:
    """Reads a reference to an attribute and returns its text, which the text of the referring one will contain."""
    return reader.attribute_of(ir.OpaqueAttribute).text or ""


def _attribute_texts(reader: DialectReader) -> list[str]:
    return [_attribute_text(reader) for _ in range(reader.count())]


def _set(parts: Iterable[str]) -> str:
    return f"{{{', '.join(parts)}}}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _manual_axes(reader: DialectReader) -> str:
    return _set(_quoted(reader.attribute_of(str)) for _ in range(reader.count()))


def _mesh_axis(reader: DialectReader) -> str:
    return f"{_quoted(reader.text())}={reader.signed_varint()}"


def _mesh(reader: DialectReader) -> str:
    axes, devices = _attribute_texts(reader), reader.signed_varint_list()
    named = f", device_ids=[{', '.join(map(str, devices))}]" if devices else ""
    return f"[{', '.join(axes)}]{named}"


def _sub_axis(reader: DialectReader) -> str:
    return f"({reader.signed_varint()}){reader.signed_varint()}"


def _axis(reader: DialectReader) -> str:
    name, part = _quoted(reader.text()), reader.optional_attribute()
    return f"{name}:{part.text}" if isinstance(part, ir.OpaqueAttribute) else name


def _dimension(reader: DialectReader) -> str:
    """Decodes the sharding of a dimension: its axes, `?` if it is open, and its priority."""
    axes, is_closed = _attribute_texts(reader), reader.byte()
    priority, has_priority = reader.varint_with_flag()
    return _set(axes if is_closed else [*axes, "?"]) + (f"p{priority}" if has_priority else "")


def _sharding(has_unreduced: bool, has_reduction: bool = False) -> Callable[[DialectReader], str]:
    def decode(reader: DialectReader) -> str:
        mesh = reader.attribute()
        if not isinstance(mesh, ir.SymbolReference | ir.OpaqueAttribute):
            raise reader.fail(codes.BYTECODE_KIND, f"expected a mesh or its name, found {mesh!r}")
        mesh_text = f"@{mesh.root}" if isinstance(mesh, ir.SymbolReference) else f"mesh<{mesh.text}>"
        dimensions, replicated = _attribute_texts(reader), _attribute_texts(reader)
        unreduced = _attribute_texts(reader) if has_unreduced else []
        if has_reduction and reader.signed_varint():
            raise UnsupportedError(
                UNREDUCED_SUMS,
                f"MLIR bytecode, byte {reader.position}: unreduced axes are supported for sums only",
            )
        text = f"{mesh_text}, [{', '.join(dimensions)}]"
        text += f", replicated={_set(replicated)}" if replicated else ""
        return text + (f", unreduced={_set(unreduced)}" if unreduced else "")

    return decode


def _shardings(reader: DialectReader) -> str:
    return f"[{', '.join(f'<{part}>' for part in _attribute_texts(reader))}]"


def _list(reader: DialectReader) -> str:
    return f"[{', '.join(_attribute_texts(reader))}]"


def _axes(reader: DialectReader) -> str:
    return _set(_attribute_texts(reader))


def _all_to_all_param(reader: DialectReader) -> str:
    return f"{_set(_attribute_texts(reader))}: {reader.signed_varint()}->{reader.signed_varint()}"


def _skip(reader: DialectReader) -> str:
    """Skips sharding rules, which matter to sharding propagation only."""
    reader.position = reader.end
    return ""


_ATTRIBUTES: tuple[tuple[str, Callable[[DialectReader], str]], ...] = (
    ("manual_axes", _manual_axes),
    ("mesh_axis", _mesh_axis),
    ("mesh", _mesh),
    ("sub_axis_info", _sub_axis),
    ("axis_ref", _axis),
    ("dimension_sharding", _dimension),
    ("sharding", _sharding(False)),
    ("sharding_per_value", _shardings),
    ("dim_mapping", _skip),
    ("tensor_mapping", _skip),
    ("op_sharding_rule", _skip),
    ("axis_ref_list", _axes),
    ("list_of_axis_ref_lists", _list),
    ("all_to_all_param", _all_to_all_param),
    ("all_to_all_param_list", _list),
    ("sharding", _sharding(True)),
    ("sharding_per_value", _shardings),
    ("sharding", _sharding(True, True)),
)
"""The name of each attribute and the decoder of its text, by code."""
