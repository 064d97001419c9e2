"""The pages of docs/reference/ops are the output of `make docs`, and each has the facts that readers look up."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from xlapy import opcodes, ops, parse_hlo
from xlapy.base.element_types import F32, F64, PRED, S32, U4, U8, U16, U32, U64
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.opcodes.requirements import compatible_ignoring_dynamic, one_or_tuple
from xlapy.testing.accepted_types import accepted_types, describe, operand_names
from xlapy.testing.samples import all_samples
from xlapy.tools.explain_error.page import page_of
from xlapy.tools.ops.ops_page import builders, index, page

every_op = pytest.mark.parametrize("op", sorted(REGISTRY.values(), key=lambda op: op.name), ids=lambda op: op.name)


def test_the_index_links_to_the_page_of_every_operation() -> None:
    rows = re.findall(r"^\| \[(.+)\]\((.+)\.md\) \| (.+) \|$", index(), re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == sorted(REGISTRY)
    assert all(name == file for name, file, _ in rows)
    assert ("popcnt", "popcnt", "The number of one bits.") in rows


@every_op
def test_a_definition_has_a_summary(op: OpDef) -> None:
    assert op.summary.endswith(".")
    assert op.result.endswith(".")
    assert all(constraint.text.endswith(".") for constraint in op.constraints)
    names = op.operands.split()
    if any(name.endswith("*") for name in names):
        assert op.arity.maximum < 0
    else:
        assert op.arity.accepts(len(names))


@every_op
def test_a_page_has_all_parts(op: OpDef) -> None:
    text = page(op)
    assert text.startswith(f"# {op.name}\n\n{op.summary}\n\n- HLO text: `{op.name}(")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Shape rule", "Definition", "Examples", "Platforms"]
    assert f"## Shape rule\n\n**Result.** {op.result}\n\n" in text
    assert re.search(r"\[E\d{4}\]\(\.\./errors/", text)
    for number, constraint in enumerate(op.constraints, 1):
        assert f"\n{number}. {constraint.text} [" in text
        assert all(f"[{code}](../errors/{page_of(code)}#{code.lower()})" in text for code in constraint.codes)
    assert "\nRuns on: " in text
    assert "\n```text\n" in text
    for field in op.attributes.fields:
        assert f"| `{field.key}=" in text
    assert not re.search(r"\| nothing \|", text)


_SHAPES: dict[str, Callable[[Instruction], Shape]] = {
    "The shape of the operand.": lambda i: i.operands[0].shape,
    "The shape of operand 0.": lambda i: i.operands[0].shape,
    "The shape of `operand`.": lambda i: i.operands[1].shape,
    "The shape of `a`.": lambda i: i.operands[0].shape,
    "The shape of `b`.": lambda i: i.operands[1].shape,
    "The shape of `on_true`.": lambda i: i.operands[1].shape,
    "The shape of `output`.": lambda i: i.operands[1].shape,
    "The shape of the initial value.": lambda i: i.operands[0].shape,
    "The shape of element `index` of the operand.": lambda i: i.operands[0].shape.tuple_shapes[i.attributes.index],
    "The second element of the operand's tuple.": lambda i: i.operands[0].shape.tuple_shapes[1],
    "The first element of the operand's tuple, the destination.": lambda i: i.operands[0].shape.tuple_shapes[0],
    "The tuple of the operands' shapes.": lambda i: Shape.tuple(o.shape for o in i.operands),
    "The dimensions of the operand, with `pred` elements.": lambda i: i.operands[0].shape.with_element_type(PRED),
    "The dimensions of the operands, with `pred` elements.": lambda i: i.operands[0].shape.with_element_type(PRED),
    "The dimensions of the operand, with real elements for complex ones.": lambda i: i.operands[
        0
    ].shape.with_element_type(i.operands[0].shape.element_type.component_type),
    "The shape of the operand. N operands give a tuple of N.": lambda i: one_or_tuple(
        [o.shape for o in i.operands[: max(1, len(i.shape.tuple_shapes))]]
    ),
    "The sizes `dynamic_slice_sizes`, with the operand's element type.": lambda i: Shape.array(
        i.operands[0].shape.element_type, i.attributes.dynamic_slice_sizes
    ),
    "The result of the computation.": lambda i: i.computations[0].root_instruction.shape,
}
"""The shape that a sentence means, for sentences that give it in full."""


def _stated(op: OpDef) -> Callable[[Instruction], Shape] | None:
    if match := re.fullmatch(r"`(\w+\[\d*\])`\.", op.result):
        return lambda _: Shape.parse(match[1])
    return _SHAPES.get(op.result)


def test_the_stated_result_is_the_shape_in_samples() -> None:
    seen: set[str] = set()
    for sample in all_samples():
        for instruction in parse_hlo(sample.text).instructions():
            shape = _stated(instruction.op)
            if shape is not None:
                seen.add(instruction.op.name)
                assert compatible_ignoring_dynamic(instruction.shape, shape(instruction)), instruction
    assert len(seen) > 70
    assert {op.name for op in REGISTRY.values() if _stated(op)} - seen == set()


def test_a_page() -> None:
    assert (
        page(opcodes.POPCNT)
        == '''\
# popcnt

The number of one bits.

- HLO text: `popcnt(operand)`
- Python: `ops.population_count(operand)`

| operand | element types |
|---|---|
| `operand` | integer |

## Shape rule

**Result.** The shape of the operand.

The shape is inferred from the operands and the attributes. The rule is in `xlapy/opcodes/elementwise.py`.

Constraints:

1. The operand is an array. [E1001](../errors/operands.md#e1001)
2. Its elements are integer. [E1013](../errors/operands.md#e1013)

It takes 1 operand ([E1000](../errors/operands.md#e1000)). A declared shape must be the inferred one \
([E1003](../errors/operands.md#e1003)).

## Definition

From `xlapy/reference/elementwise.py`:

```python excerpt
@elementwise(opcodes.POPCNT)
def popcnt(t: PrimitiveType, a: int) -> int:
    """The number of bits that are set."""
    return _unsigned(t, a).bit_count()
```

## Examples

```text
x = s8[3] {7, 0, -1}
y = s8[3] popcnt(x)
=> s8[3] {3, 0, 8}
```

## Platforms

Runs on: cpu; interpreter; reference.
'''
    )


def test_a_page_shows_how_text_and_python_write_an_operation() -> None:
    assert "- HLO text: `compare(lhs, rhs), direction=EQ|NE|GE|GT|LE|LT`" in page(opcodes.COMPARE)
    assert "\n- Python:\n  - `ops.compare(lhs, rhs, broadcast_dimensions=(), *, direction, type=None)`\n" in page(
        opcodes.COMPARE
    )
    assert "- HLO text: `sort(operands...), to_apply=computation, dimensions={0}`" in page(opcodes.SORT)
    assert "- HLO text: `conditional(branch_index, branch_operands...), branch_computations={computations}`" in page(
        opcodes.CONDITIONAL
    )
    assert "- HLO text: `parameter(number)`\n" in page(opcodes.PARAMETER)
    assert "- Python: no builder function makes it" in page(opcodes.FUSION)


def test_pages_show_attributes_and_devices() -> None:
    assert "| `direction=EQ\\|NE\\|GE\\|GT\\|LE\\|LT` | required |" in page(opcodes.COMPARE)
    assert "| `replica_groups={{0,1},{2,3}}` | `{}` |" in page(opcodes.ALL_REDUCE)
    assert "On 2 devices:\n\n```text\n" in page(opcodes.ALL_REDUCE)
    assert "Calls `to_apply`. Attributes may make it a side effect" in page(opcodes.ALL_REDUCE)
    assert "\n\nNot compared with XLA:CPU: " in page(opcodes.ATAN)


def test_a_page_names_the_creators_of_an_operation() -> None:
    made = builders()
    assert made["SORT"] == ["sort"]
    assert {"compare", "lt", "lt_total_order"} <= set(made["COMPARE"])
    assert made["BROADCAST"] == ["broadcast_in_dim", "broadcast"]
    assert {name for names in made.values() for name in names} <= set(ops.__all__)


def test_element_types_are_derived_from_the_shape_rules() -> None:
    types = {name: accepted.types for name, accepted in accepted_types(opcodes.STOCHASTIC_CONVERT).items()}
    assert types["random"] == {U4, U8, U16, U32, U64}
    assert {F32, F64} <= types["operand"] and S32 not in types["operand"]
    shown = {name: describe(accepted) for name, accepted in accepted_types(opcodes.GATHER).items()}
    assert shown == {"operand": "any", "start_indices": "integer"}
    assert describe(accepted_types(opcodes.CONDITIONAL)["branch_index"]) == "pred, s32"
    assert describe(accepted_types(opcodes.WHILE)["init"]) == "any, tuple"
    assert describe(accepted_types(opcodes.FFT)["operand"]) == "f32, f64, complex"


def test_operand_names() -> None:
    assert operand_names(opcodes.SCATTER, 5) == ["operands", "operands", "scatter_indices", "updates", "updates"]
    assert operand_names(opcodes.DYNAMIC_SLICE, 3) == ["operand", "start_indices", "start_indices"]
    assert operand_names(opcodes.SCAN, 3) == ["inputs", "inputs", "carries"]
