"""docs/reference/operation-semantics is up to date, has every section of XLA's page, and names what exists."""

from __future__ import annotations

import re

import pytest

import xlapy as xla
from docs._generate import operation_semantics
from docs._generate.operation_semantics import Page, Section
from docs._generate.pages import ROOT, pages
from tests.documents.examples import built, function
from tests.documents.test_operation_semantics_headings import HEADINGS
from xlapy import ops
from xlapy.opcodes.registry import REGISTRY, lookup
from xlapy.reference import definition_of
from xlapy.stablehlo.export import to_stablehlo
from xlapy.stablehlo.export.core.rules import RULES as EXPORT
from xlapy.testing.examples import examples_of
from xlapy.testing.samples import FAMILIES

FOLDER = ROOT / "docs" / "reference" / "operation-semantics"
PAGES = operation_semantics.read()
SECTIONS = [section for page in PAGES for section in page.sections]
PASSES = {"Async", "Domain", "Fusion", "RecvDone", "RngGetAndUpdateState", "SendDone"}
"""Sections of instructions that passes make, or that a function of another section makes."""

OLDER_HEADINGS = """
AfterAll AllGather AllReduce AllToAll BatchNormGrad BatchNormInference BatchNormTraining BitcastConvertType Broadcast
BroadcastInDim Call CompositeCall Cholesky Clamp Collapse CollectivePermute Conditional Conv ConvWithGeneralPadding
ConvertElementType CrossReplicaSum CustomCall Dot DotGeneral DynamicSlice DynamicUpdateSlice Fft Gather GetDimensionSize
SetDimensionSize GetTupleElement Infeed Iota Map OptimizationBarrier Pad Recv RecvDone Reduce ReducePrecision
ReduceScatter ReduceWindow ReplicaId Reshape Rev RngNormal RngUniform RngBitGenerator Scatter Select SelectAndScatter
Send SendDone Slice Sort TopK Transpose TriangularSolve Tuple While
"""
"""The headings of an older edition (2025) that name one operation. It groups elementwise operations."""

OLDER_GROUPS = {
    "Element-wise binary arithmetic operations": "Add Sub Mul Div Pow Rem Max Min And Or Xor ShiftLeft "
    "ShiftRightArithmetic ShiftRightLogical Atan2 Complex",
    "Element-wise comparison operations": "Eq Ne Ge Gt Le Lt",
    "Element-wise unary functions": "Abs Cbrt Ceil Clz Cos Erf Exp Expm1 Floor Imag IsFinite Log Log1p Logistic Neg "
    "Not PopulationCount Real Round RoundNearestEven Rsqrt Sign Sin Sqrt Tan Tanh",
    "Concatenate": "ConcatInDim",
    "Scheduling of channel instructions": "Recv Send",
}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
every_section = pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.heading)


def test_the_pages_are_up_to_date() -> None:
    written = {path: text for path, text in pages().items() if path.startswith("docs/reference/operation-semantics/")}
    assert {file.name for file in FOLDER.iterdir()} == {path.rpartition("/")[2] for path in written}
    assert [path for path, text in written.items() if (ROOT / path).read_text() != text] == [], "run `make docs`"


def test_sections_have_the_names_and_the_order_of_the_specification() -> None:
    assert [section.heading for section in SECTIONS] == HEADINGS.split()
    assert set(OLDER_HEADINGS.split()) <= set(HEADINGS.split())


def test_the_index_links_to_every_section() -> None:
    index = (FOLDER / "index.md").read_text()
    contents, older = index.split("Older editions")
    assert re.findall(r"\[(\w+)\]\([\w-]+\.md", contents) == HEADINGS.split()
    for group, members in OLDER_GROUPS.items():
        (line,) = re.findall(rf"^- {group}: (.*)$", older, re.MULTILINE)
        assert re.findall(r"\[(\w+)\]", line) == members.split()
    assert re.search(r"```\{toctree\}\n:hidden:\n\n([\w\n-]+)\n```", index)[1].split() == [  # type: ignore[index]
        page.file.removesuffix(".md") for page in PAGES
    ]


@every_page
def test_a_page_has_its_headings(page: Page) -> None:
    text = re.sub(r"^```.*?^```$", "", (FOLDER / page.file).read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    parts = ["Constraints", "Where XLA departs from the text", "Definition"]
    assert headings[: len(page.sections)] == page.headings
    assert headings[len(page.sections) :] == [part for part in parts if f"\n## {part}\n" in text]
    assert headings[-1] == "Definition"


@every_section
def test_a_section_shows_functions_that_make_its_operations(section: Section) -> None:
    assert section.ops
    assert bool(section.functions) == (section.heading not in PASSES)
    assert set(section.functions) <= set(ops.__all__)
    assert "```python\n" in "\n".join(section.lines) or "{{example: " in "\n".join(section.lines)


FLATTENED = {"stablehlo.tuple", "stablehlo.get_tuple_element"}
"""Operations that are imported, but not exported: an exported function has the elements of a tuple as values."""


@every_section
def test_the_names_in_stablehlo_are_those_of_exported_examples(section: Section) -> None:
    names = {op.name for op in section.ops}
    examples = [example.module for op in section.ops for example in examples_of(op.family) if example.op in names]
    if not section.stablehlo or set(section.stablehlo) <= FLATTENED:
        return
    if section.heading == "CompositeCall":  # no registered example is a composite
        f, x = function(ops.neg, "f32[]"), "f32[]"
        root = built(lambda x: ops.composite_call(x.builder, f, [x], "a.b"), x)
        examples = [root.builder.build(root).as_hlo_text()]
    exported = "\n".join(str(to_stablehlo(xla.parse_hlo(text))) for text in examples)
    assert [name for name in section.stablehlo if not re.search(rf"\b{re.escape(name)}\b", exported)] == []


@pytest.mark.parametrize("op", ["ragged-all-to-all", "scaled-dot"])
def test_a_section_says_why_stablehlo_has_no_operation(op: str) -> None:
    texts = [operation_semantics._names(section) for section in SECTIONS if lookup(op) in section.ops]
    assert [text for text in texts if f"StableHLO: none; {EXPORT.refusals[lookup(op)]}." in text] == texts != []


def test_every_departure_has_a_section() -> None:
    (file,) = (ROOT / "docs").rglob("departures.md")
    anchors = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^## (.+)$", file.read_text(), re.MULTILINE)
    }
    assert {anchor for section in SECTIONS for anchor in section.departures} == anchors
    departing = {op.name for op in REGISTRY.values() if "Departure" in (definition_of(op).__doc__ or "")}
    assert departing <= {op.name for section in SECTIONS if section.departures for op in section.ops}


@every_page
def test_code_and_outputs_are_narrow(page: Page) -> None:
    """Readers on phones see 80 columns at most; registered examples and definitions are as wide as their sources."""
    registered = {line for family in FAMILIES for example in examples_of(family) for line in example.lines}
    text, _, _ = (FOLDER / page.file).read_text().partition("\n## Definition\n")
    blocks = re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = {line for block in blocks for line in block.splitlines()}
    assert sorted(line for line in lines - registered if len(line) > 80) == []


def test_a_message_and_a_result_are_shown() -> None:
    text = (FOLDER / "clamp.md").read_text()
    assert "show(ops.clamp(0, x, 6))\n```\n\n```text\ns32[3] {0, 5, 6}\n```\n" in text
    assert "\n```python\nops.clamp(min, operand, max)\n```\n" in text
    link = "[E1102](../errors/elementwise.md#e1102)"
    assert f"- Each bound is a scalar or has the dimensions of the operand. {link}\n" in text
    assert "<code>clamp</code></summary>\n\n```python\n@" in text
    assert "example.py:4: get-tuple-element: index 2 is out of bounds" in (FOLDER / "get-tuple-element.md").read_text()


def test_an_unknown_argument_is_an_error() -> None:
    section = operation_semantics._section("# X\n:functions add\n:hlo add\n\nText.\n:argument base  Its meaning.\n")
    with pytest.raises(ValueError, match="X: no function has the arguments base"):
        operation_semantics._text(section)
    section = operation_semantics._section(
        "# X\n:functions reduce\n:hlo reduce\n\nText.\n:argument operands  Arrays.\n"
    )
    with pytest.raises(ValueError, match="X: no meaning of the argument 'init_values'"):
        operation_semantics._text(section)


def test_every_shared_meaning_is_used() -> None:
    table = "\n".join((FOLDER / page.file).read_text() for page in PAGES)
    for name, meaning in operation_semantics.MEANINGS.items():
        assert re.search(rf"^\| `{name}` \| [^|]+ \| {re.escape(meaning)} \|$", table, re.MULTILINE), name


PLAIN_TYPES = {"int", "bool", "float", "str", "SAME", "VALID"}


def test_types_are_written_in_words() -> None:
    assert operation_semantics._type("Sequence[int] | None") == "list of `int`"
    assert operation_semantics._type("XlaOp | Sequence[XlaOp]") == "`XlaOp` or list of `XlaOp`"
    assert operation_semantics._type("Channel | None") == "`int` or `ChannelHandle`"
    rows = "\n".join((FOLDER / page.file).read_text() for page in PAGES)
    types = {
        name
        for row in re.findall(r"^\| `\w+` \| ([^|]+) \| [^|]+ \|$", rows, re.MULTILINE)
        for name in row.split("`")[1::2]
    }
    assert {name for name in types if not (hasattr(xla, name) or name in PLAIN_TYPES)} == set()
