"""Attributes of Shardy (the dialect `sdy`) in bytecode: meshes and shardings over their axes.

Owns the numbers that tell them apart and the order of their parts. They become the text inside `#sdy.sharding<...>`,
which is what the reader of MLIR text keeps of them. Must not know: what a sharding means.
Source: Shardy's bytecode.td, attrs.td, printers.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.entries import EntryStream


def read_attribute(stream: EntryStream) -> ir.OpaqueAttribute:
    """An attribute of Shardy."""
    code = stream.number()
    if code >= len(_ATTRIBUTES):
        raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: sdy attribute {code} is not known here")
    name, decoder = _ATTRIBUTES[code]
    return ir.OpaqueAttribute(f"sdy.{name}", decoder(stream))


def _part(stream: EntryStream) -> str:
    """The text of an attribute inside another."""
    return stream.attribute_of(ir.OpaqueAttribute).text or ""


def _parts(stream: EntryStream) -> list[str]:
    return [_part(stream) for _ in range(stream.count())]


def _set(parts: Iterable[str]) -> str:
    return f"{{{', '.join(parts)}}}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _manual_axes(stream: EntryStream) -> str:
    return _set(_quoted(stream.attribute_of(str)) for _ in range(stream.count()))


def _mesh_axis(stream: EntryStream) -> str:
    return f"{_quoted(stream.text())}={stream.signed()}"


def _mesh(stream: EntryStream) -> str:
    axes, devices = _parts(stream), stream.signed_numbers()
    named = f", device_ids=[{', '.join(map(str, devices))}]" if devices else ""
    return f"[{', '.join(axes)}]{named}"


def _sub_axis(stream: EntryStream) -> str:
    return f"({stream.signed()}){stream.signed()}"


def _axis(stream: EntryStream) -> str:
    name, part = _quoted(stream.text()), stream.optional_attribute()
    return f"{name}:{part.text}" if isinstance(part, ir.OpaqueAttribute) else name


def _dimension(stream: EntryStream) -> str:
    """The axes that cut a dimension; `?` where more may be added; its priority."""
    axes, is_closed = _parts(stream), stream.byte()
    priority, has_priority = stream.flagged()
    return _set(axes if is_closed else [*axes, "?"]) + (f"p{priority}" if has_priority else "")


def _sharding(has_unreduced: bool, has_reduction: bool = False) -> Callable[[EntryStream], str]:
    def decode(stream: EntryStream) -> str:
        mesh = stream.attribute()
        if not isinstance(mesh, ir.SymbolReference | ir.OpaqueAttribute):
            raise stream.fail(f"a mesh or the name of one stands where {mesh!r} is")
        place = f"@{mesh.root}" if isinstance(mesh, ir.SymbolReference) else f"mesh<{mesh.text}>"
        dimensions, replicated = _parts(stream), _parts(stream)
        unreduced = _parts(stream) if has_unreduced else []
        if has_reduction and stream.signed():
            raise UnsupportedError(
                f"MLIR bytecode, byte {stream.position}: axes that are reduced otherwise than by sums"
            )
        text = f"{place}, [{', '.join(dimensions)}]"
        text += f", replicated={_set(replicated)}" if replicated else ""
        return text + (f", unreduced={_set(unreduced)}" if unreduced else "")

    return decode


def _shardings(stream: EntryStream) -> str:
    return f"[{', '.join(f'<{part}>' for part in _parts(stream))}]"


def _list(stream: EntryStream) -> str:
    return f"[{', '.join(_parts(stream))}]"


def _axes(stream: EntryStream) -> str:
    return _set(_parts(stream))


def _exchange(stream: EntryStream) -> str:
    return f"{_set(_parts(stream))}: {stream.signed()}->{stream.signed()}"


def _skip(stream: EntryStream) -> str:
    """Rules by which shardings spread, which no program's meaning depends on."""
    stream.position = stream.end
    return ""


_ATTRIBUTES: tuple[tuple[str, Callable[[EntryStream], str]], ...] = (
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
    ("all_to_all_param", _exchange),
    ("all_to_all_param_list", _list),
    ("sharding", _sharding(True)),
    ("sharding_per_value", _shardings),
    ("sharding", _sharding(True, True)),
)
"""The name in the text, and what gives the text, by the number of the attribute."""
