"""docs/reference/ops.md is the output of `make docs`, and each section has the facts that readers look up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlapy import opcodes, ops
from xlapy.base.element_types import F32, F64, S32, U4, U8, U16, U32, U64
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.testing.accepted_types import accepted_types, describe, operand_names
from xlapy.tools.ops.ops_page import builders, page, section

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "ops.md"
every_op = pytest.mark.parametrize("op", sorted(REGISTRY.values(), key=lambda op: op.name), ids=lambda op: op.name)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_links_lead_to_sections() -> None:
    text = PAGE.read_text()
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) - headings == set()
    assert headings >= REGISTRY.keys()


@every_op
def test_a_definition_has_a_summary(op: OpDef) -> None:
    assert op.summary.endswith(".")
    assert all(constraint.endswith(".") for constraint in op.constraints)
    names = op.operands.split()
    if any(name.endswith("*") for name in names):
        assert op.arity.maximum < 0
    else:
        assert op.arity.accepts(len(names))


@every_op
def test_a_section_has_all_parts(op: OpDef) -> None:
    text = section(op)
    assert text.startswith(f"### {op.name}\n\n{op.summary}\n")
    assert "Runs on: " in text
    assert "\n```text\n" in text
    for field in op.attributes.fields:
        assert f"| `{field.key}=" in text
    assert not re.search(r"\| nothing \|", text)


def test_a_section() -> None:
    assert (
        section(opcodes.POPCNT)
        == '''\
### popcnt

The number of one bits.

|  | element types |
|---|---|
| `operand` | integer |

Constraints:

1. The operand is an array.
2. Its elements are integer.

Definition (`xlapy/reference/elementwise.py`):

```python
@elementwise(opcodes.POPCNT)
def popcnt(t: PrimitiveType, a: int) -> int:
    """The number of bits that are set."""
    return _unsigned(t, a).bit_count()
```

Made by `ops.population_count`.

Runs on: cpu; interpreter; reference.

Example:

```text
x = s8[3] {7, 0, -1}
y = s8[3] popcnt(x)
=> s8[3] {3, 0, 8}
```
'''
    )


def test_sections_show_attributes_and_devices() -> None:
    assert "| `direction=EQ\\|NE\\|GE\\|GT\\|LE\\|LT` | required |" in section(opcodes.COMPARE)
    assert "| `replica_groups={{0,1},{2,3}}` | `{}` |" in section(opcodes.ALL_REDUCE)
    assert "Example on 2 devices:" in section(opcodes.ALL_REDUCE)
    assert "Calls `to_apply`. Attributes may make it a side effect" in section(opcodes.ALL_REDUCE)
    assert "not compared with XLA:CPU: " in section(opcodes.ATAN)
    assert "No builder function makes it" in section(opcodes.FUSION)


def test_a_section_names_the_creators_of_an_operation() -> None:
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
