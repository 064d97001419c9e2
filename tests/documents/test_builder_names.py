"""docs/reference/builder.md lists every name of xla_builder.h once, and the page is up to date."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from xlapy import XlaBuilder, ops
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.tools.command_line import cli
from xlapy.tools.ops.builder_page import markdown, sections

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "builder.md"

_LIST = (HERE / "xla_builder_names.txt").read_text()
NAMES = {group: text.split() for group, text in re.findall(r"^\[(\w+)\]$([^\[]*)", _LIST, re.M)}
"""The public names of XLA's xla_builder.h, grouped by the class they belong to."""


def test_the_table_of_names_is_complete() -> None:
    assert {group: len(names) for group, names in NAMES.items()} == {
        "functions": 178,
        "XlaBuilder": 40,
        "XlaOp": 16,
        "XlaComputationId": 2,
        "scopes": 4,
        "XlaBuilderFriend": 25,
    }


def test_every_name_has_a_counterpart_or_a_reason() -> None:
    assert {group: sorted(names) for group, names in sections().items()} == {
        group: sorted(names) for group, names in NAMES.items()
    }
    texts = [given for names in sections().values() for given in names.values() if isinstance(given, str)]
    assert all(len(text) > 3 for text in texts)


def test_the_texts_name_existing_functions() -> None:
    builder = XlaBuilder("b")
    homes = {
        "ops": ops,
        "XlaBuilder": builder,
        "XlaBuilder.annotations": builder.annotations,
        "XlaOp": ops.replica_id(builder),
        "Computation": Computation("c"),
        "xlapy.hlo.edit": edit,
    }
    texts = "\n".join(given for names in sections().values() for given in names.values() if isinstance(given, str))
    named = re.findall(r"`([\w.]+)\.(\w+)`", texts)
    assert ("ops", "send_to_host") in named
    for home, name in named:
        assert hasattr(homes[home], name), f"{home}.{name}"


def test_only_two_functions_have_no_counterpart() -> None:
    given = sections()["functions"]
    without = [name for name in given if isinstance(given[name], str)]
    assert without == ["MhloDynamicBroadcastInDim", "MhloDynamicReshape"]


def test_every_builder_function_is_on_the_page() -> None:
    page = markdown()
    assert [name for name in ops.__all__ if f"`{name}(" not in page] == []


def test_signatures() -> None:
    page = markdown()
    assert "| `Add` | `add(lhs, rhs, broadcast_dimensions=())` |" in page
    assert "| `Iota` | `iota(builder, shape, iota_dimension)`<br>`iota(builder, type, size, /)` |" in page
    assert "schedule=CustomCallSchedule.NONE, api_version=CustomCallApiVersion.ORIGINAL)" in page
    assert "| `Build` | `XlaBuilder.build(root=None, remove_dynamic_dimensions=False)` |" in page
    assert "| `SetSharding` | `XlaBuilder.set_sharding(sharding)` |" in page
    assert "| `CreateDefaultConvDimensionNumbers` | `ConvDimensions.default(spatial)` |" in page
    assert "| `operator\\|` | `x \\| y` |" in page


def test_the_page_is_up_to_date() -> None:
    result = CliRunner().invoke(cli, ["ops", "--builder"])
    assert result.output == PAGE.read_text(), "run `make docs`"
