"""Programs for several devices cut up into what each of them runs.

JAX hands over one program, with shardings of the Shardy dialect; the passes of that dialect, which jaxlib has, spread
the shardings and make collectives of what must move. They take for granted that XLA's partitioner comes behind them,
and cut what no device can compute from its part alone (slices along a dimension that is cut, loops, sorts). So only the
operations known to be right are left to them. All others are given whole arrays here, or whole lines along the
dimensions that matter, and their results are cut again.

Owns: which operations are cut, the order of the passes. Must not know: what devices there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from xlapy import ops

_SPREAD = "builtin.module(sdy-propagation-pipeline)"
_CUT = (
    "builtin.module("
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true}),"
    "func.func(sdy-reshard-to-collectives),"
    "sdy-convert-global-to-local)"
)
_SHARDING = "sdy.sharding"
_MANUAL = "sdy.manual_computation"
_CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}


def partition(module: ir.Module) -> None:
    """Makes a program what each device runs. Errors of the passes go through."""
    _inline_calls(module)
    passmanager.PassManager.parse(_SPREAD).run(module.operation)
    mesh = _Mesh.of(module)
    for function in _functions(module):
        if mesh is not None:
            _even_out(function, mesh)
            _spare_operations(function, mesh)
    passmanager.PassManager.parse(_CUT).run(module.operation)
    for function in _functions(module):
        _forget_shardings(function)


def _functions(module: ir.Module) -> list[Any]:
    return [operation.operation for operation in module.body if operation.operation.name == "func.func"]


def _inside(operation: Any, spared: Sequence[str] = ()) -> Iterator[Any]:
    """The operations in the regions of one, at any depth, but not in those of operations with these names."""
    for region in operation.regions:
        for block in region:
            for inner in list(block):
                yield inner.operation
                if inner.operation.name not in spared:
                    yield from _inside(inner.operation, spared)


# -- calls


def _inline_calls(module: ir.Module) -> None:
    """Functions are cut without regard to who calls them: only the main one is left."""
    functions = {ir.StringAttr(function.attributes["sym_name"]).value: function for function in _functions(module)}
    main = functions.pop("main")
    while calls := [operation for operation in _inside(main) if operation.name in _CALLS]:
        for call in calls:
            _inline(call, functions[ir.FlatSymbolRefAttr(call.attributes[_CALLS[call.name]]).value])
    for function in functions.values():
        function.erase()


def _inline(call: Any, function: Any) -> None:
    """Puts a copy of a function's operations in the place of a call."""
    copy = function.clone(ip=ir.InsertionPoint(function))
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(operand)
    *operations, end = list(block.operations)
    for operation in operations:
        operation.operation.move_before(call)
    for result, value in zip(call.results, list(end.operands), strict=True):
        result.replace_all_uses_with(value)
    call.erase()
    copy.erase()


# -- shardings


@dataclass(frozen=True)
class _Mesh:
    """The mesh of a program, which has one besides an empty one. sizes: of its axes, by name."""

    name: str
    sizes: dict[str, int]

    @staticmethod
    def of(module: ir.Module) -> _Mesh | None:
        for operation in module.body:
            if operation.operation.name == "sdy.mesh" and (axes := sdy.MeshAttr(operation.attributes["mesh"]).axes):
                sizes = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, axes)}
                return _Mesh(ir.StringAttr(operation.attributes["sym_name"]).value, sizes)
        return None

    def parts(self, dimension: Any) -> int:
        """Into how many a dimension is cut."""
        axes = map(sdy.AxisRefAttr, sdy.DimensionShardingAttr(dimension).axes)
        return prod(self._size(axis) for axis in axes)

    def sharding(self, dimensions: Sequence[Any]) -> Any:
        return sdy.TensorShardingAttr.get(self.name, dimensions)

    def _size(self, axis: Any) -> int:
        part = axis.sub_axis_info
        return self.sizes[axis.name] if part is None else int(sdy.SubAxisInfoAttr(part).size)


def _rank(value: Any) -> int:
    return int(value.type.rank) if isinstance(value.type, ir.RankedTensorType) else 0


def _whole_dimension() -> Any:
    return sdy.DimensionShardingAttr.get([], True)


def _dimensions_of(value: Any) -> list[Any]:
    """How the dimensions of a value are cut."""
    sharding = _sharding_of(value)
    if sharding is None:
        return [_whole_dimension()] * _rank(value)
    return list(sdy.TensorShardingAttr(sharding).dimension_shardings)


def _sharding_of(value: Any) -> Any:
    owner = value.owner
    if isinstance(owner, ir.Block):
        function = owner.owner
        if function.operation.name != "func.func" or "arg_attrs" not in function.attributes:
            return None
        attributes = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[ir.BlockArgument(value).arg_number])
        return next((named.attr for named in attributes if named.name == _SHARDING), None)
    for name in (_SHARDING, "out_shardings"):
        if name in owner.attributes:
            found = owner.attributes[name]
            if sdy.TensorShardingAttr.isinstance(found):
                return found
            return sdy.TensorShardingPerValueAttr(found).shardings[ir.OpResult(value).result_number]
    return None


def _is_cut(value: Any) -> bool:
    return any(sdy.DimensionShardingAttr(dimension).axes for dimension in _dimensions_of(value))


# -- what is spared


def _even_out(function: Any, mesh: _Mesh) -> None:
    """Cuts no dimension into parts of different sizes, which the passes do not know."""
    for operation in _inside(function, (_MANUAL,)):
        if _SHARDING not in operation.attributes or sdy.TensorShardingAttr.isinstance(operation.attributes[_SHARDING]):
            continue
        targets = [mesh.sharding(_even_dimensions(result, mesh)) for result in operation.results]
        operation.attributes[_SHARDING] = sdy.TensorShardingPerValueAttr.get(targets)


def _even_dimensions(value: Any, mesh: _Mesh) -> list[Any]:
    dimensions = _dimensions_of(value)
    return [
        _whole_dimension() if size % mesh.parts(dimension) else dimension
        for size, dimension in zip(_shape(value) if dimensions else [], dimensions, strict=True)
    ]


def _spare_operations(function: Any, mesh: _Mesh) -> None:
    """Gives whole arrays to the operations that are not to be cut."""
    for operation in list(_inside(function, (_MANUAL, *_WITH_REGIONS))):
        if operation.name in _LEFT or not any(map(_is_cut, [*operation.operands, *operation.results])):
            continue
        whole = _RULES.get(operation.name, _everywhere)(operation)
        if whole is None:
            _strip(operation)
        if whole is None or whole:
            _make_whole(operation, whole, mesh)


def _strip(operation: Any) -> None:
    """What is in a loop or a conditional is not cut, as all comes in and goes out whole."""
    for inner in list(_inside(operation, (_MANUAL,))):
        if inner.name in ("sdy.sharding_constraint", "sdy.reshard"):
            inner.results[0].replace_all_uses_with(inner.operands[0])
            inner.erase()
    _forget_shardings(operation)


def _forget_shardings(operation: Any) -> None:
    for inner in _inside(operation, (_MANUAL,)):
        if _SHARDING in inner.attributes:
            del inner.attributes[_SHARDING]


def _make_whole(operation: Any, whole: Sequence[int] | None, mesh: _Mesh) -> None:
    """Has an operation take and make whole arrays, or, of arrays of the same rank, whole lines in some dimensions."""
    before = [_dimensions_of(result) for result in operation.results]
    kept = before[0] if whole is not None else []

    def target(value: Any) -> Any:
        rank = _rank(value)
        dimensions = [
            _whole_dimension() if whole is None or number in whole or rank != len(kept) else kept[number]
            for number in range(rank)
        ]
        return mesh.sharding(dimensions)

    with operation.location:
        for number, operand in enumerate(list(operation.operands)):
            if _rank(operand):
                operation.operands[number] = sdy.ReshardOp(
                    operand, target(operand), ip=ir.InsertionPoint(operation)
                ).result
        operation.attributes[_SHARDING] = sdy.TensorShardingPerValueAttr.get([target(one) for one in operation.results])
        for result, dimensions in zip(operation.results, before, strict=True):
            if any(sdy.DimensionShardingAttr(dimension).axes for dimension in dimensions):
                cut = sdy.ReshardOp(result, mesh.sharding(dimensions), ip=ir.InsertionPoint.after(operation))
                result.replace_all_uses_except(cut.result, cut.operation)


# -- which operations


def _shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _differing(one: Any, other: Any) -> list[int]:
    pairs = zip(_shape(one), _shape(other), strict=True)
    return [number for number, (first, second) in enumerate(pairs) if first != second]


def _numbers(operation: Any, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


def _everywhere(_: Any) -> None:
    return None


def _padded(operation: Any) -> list[int]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    rows = zip(*(_numbers(operation, name) for name in names), strict=True)
    return [number for number, row in enumerate(rows) if any(row)]


def _one_line(operation: Any) -> list[int]:
    return [ir.IntegerAttr(operation.attributes["dimension"]).value]


def _windows(operation: Any) -> list[int]:
    return [number for number, size in enumerate(_numbers(operation, "window_dimensions")) if size > 1]


def _cut_dimensions(value: Any) -> list[int]:
    dimensions = map(sdy.DimensionShardingAttr, _dimensions_of(value))
    return [number for number, dimension in enumerate(dimensions) if dimension.axes]


def _reduced(operation: Any) -> Sequence[int] | None:
    """Parts of sums and the like are put together; those of several arrays at once are not."""
    operands = operation.operands
    reduced = _numbers(operation, "dimensions")
    apart = len(operands) == 2 or not any(number in reduced for one in operands for number in _cut_dimensions(one))
    return () if apart else None


def _looked_up(operation: Any) -> Sequence[int] | None:
    """Indices may be cut, what they point into may not."""
    return None if _is_cut(operation.operands[0]) else ()


_RULES: dict[str, Callable[[Any], Sequence[int] | None]] = {
    "stablehlo.concatenate": _one_line,
    "stablehlo.dynamic_slice": lambda operation: _differing(operation.operands[0], operation.results[0]),
    "stablehlo.dynamic_update_slice": lambda operation: _differing(operation.operands[0], operation.operands[1]),
    "stablehlo.gather": _looked_up,
    "stablehlo.pad": _padded,
    "stablehlo.reduce": _reduced,
    "stablehlo.reduce_window": _windows,
    "stablehlo.reverse": lambda operation: _numbers(operation, "dimensions"),
    "stablehlo.slice": lambda operation: _differing(operation.operands[0], operation.results[0]),
    "stablehlo.sort": _one_line,
}
"""Dimensions along which an operation needs whole lines, operands and results alike; None: it needs whole arrays."""

_WITH_REGIONS = ("stablehlo.while", "stablehlo.case", "stablehlo.if")

_LEFT = frozenset({
    "func.return", "sdy.all_gather", "sdy.constant", "sdy.manual_computation", "sdy.reshard", "sdy.return",
    "sdy.sharding_constraint", "stablehlo.broadcast_in_dim", "stablehlo.constant", "stablehlo.dot_general",
    "stablehlo.iota", "stablehlo.optimization_barrier", "stablehlo.reshape", "stablehlo.return", "stablehlo.transpose",
    *(f"stablehlo.{op.name.replace('-', '_')}" for op in ops.REGISTRY.values() if op.family == "elementwise"),
    *(f"stablehlo.{name}" for name in ("count_leading_zeros", "popcnt", "round_nearest_afz")),
})  # fmt: skip
"""What the passes cut as it should be."""
