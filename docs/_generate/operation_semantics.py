"""docs/reference/operation-semantics: the sections of XLA's "Operation semantics", one page per operation or group.

The source is `operation_semantics/*.md.in`: Markdown with fields, lines that begin with a colon.

    # AllReduce                              a page
    ## CrossReplicaSum                       a section of the same page
    :functions all_reduce, all_reduce_tuple  builder functions, whose signatures are shown
    :hlo all-reduce                          the HLO operations that they create
    :stablehlo all_reduce                    the operations of StableHLO; left out if there is none
    :departs a-reduce-of-one-element         a heading of the page on departures
    :argument operand  Its meaning.          a row of the table; lines that follow are indented

Arguments without a row take their meaning from `arguments.toml`. The table stands where the `:argument` lines are, or
else after the first paragraph. A line `{{example: domain}}` is replaced by the registered example of an HLO operation.
`{{result: domain}}` is replaced by the definition's sentence on the shape of the result.
Python blocks are run, and their output is added.

Responsible for the format of the pages. The facts come from the builder's functions, the definitions of operations, and
running the examples.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, get_overloads

from docs._generate.examples import HERE, preamble, with_output
from xlapy import ops
from xlapy.opcodes.registry import Constraint, OpDef, lookup
from xlapy.reference import definition_of
from xlapy.stablehlo.export.core.rules import RULES as STABLEHLO
from xlapy.testing.examples import examples_of
from xlapy.tools.explain_error.page import page_of

SOURCES = HERE / "operation_semantics"
OP_PAGE = "../ops/{name}.md"
"""The page of an HLO operation, from a page of the operation semantics."""
DEPARTURES = "../../explanation/departures.md"
ERRORS = "../errors"

MEANINGS: dict[str, str] = tomllib.loads((SOURCES / "arguments.toml").read_text())
"""What an argument means, for names that mean the same in all functions."""

_MAX_LINE = 78


@dataclass
class Section:
    """A section of the source: its heading, its fields, and its text with a mark where the table of arguments goes."""

    heading: str
    functions: list[str] = field(default_factory=list)
    ops: list[OpDef] = field(default_factory=list)
    stablehlo: list[str] = field(default_factory=list)
    departures: list[str] = field(default_factory=list)
    meanings: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


@dataclass
class Page:
    """A page: its first section gives the title."""

    sections: list[Section]

    @property
    def title(self) -> str:
        return self.sections[0].heading

    @property
    def file(self) -> str:
        return f"{slug(self.title)}.md"

    @property
    def headings(self) -> list[str]:
        return [section.heading for section in self.sections]


def slug(heading: str) -> str:
    """`BatchNormGrad` -> `batch-norm-grad`."""
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "-", heading).lower()


# -- reading

_ARGUMENTS = "\0arguments"
"""The line of a section's text that stands for its table of arguments."""


def read() -> list[Page]:
    """Returns the pages in the order of the specification."""
    pages: list[Page] = []
    for file in sorted(SOURCES.glob("*.md.in")):
        if file.name == "index.md.in":
            continue
        for kind, text in _split(file.read_text()):
            section = _section(text)
            if kind == "#":
                pages.append(Page([section]))
            else:
                pages[-1].sections.append(section)
    return pages


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Yields the level of each heading, and the heading with the text up to the next one; `#` in code is no heading."""
    kind, lines, in_code = "", list[str](), False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        if not in_code and (match := re.match(r"(##?) ", line)):
            if kind:
                yield kind, "\n".join(lines)
            kind, lines = match[1], []
        lines.append(line)
    yield kind, "\n".join(lines)


def _section(text: str) -> Section:
    heading, *lines = text.splitlines()
    section = Section(heading.lstrip("# "))
    argument = ""
    for line in lines:
        if match := re.match(r":argument (\w+) +(.+)", line):
            argument = match[1]
            if not section.meanings:
                section.lines.append(_ARGUMENTS)
            section.meanings[argument] = match[2]
        elif argument and line.startswith("  ") and section.lines[-1] == _ARGUMENTS:
            section.meanings[argument] += f" {line.strip()}"
        elif match := re.match(r":(\w+) (.+)", line):
            _set_field(section, match[1], match[2])
        else:
            section.lines.append(line)
    if _ARGUMENTS not in section.lines:
        section.lines = _with_table_after_first_paragraph(section.lines)
    return section


def _set_field(section: Section, name: str, value: str) -> None:
    values = value.split(", ")
    if name == "hlo":
        section.ops = [lookup(op) for op in values]
    elif name in ("functions", "stablehlo"):
        setattr(section, name, values)
    elif name == "departs":
        section.departures.append(value)
    else:
        raise ValueError(f"{section.heading}: unknown field {name!r}")


def _with_table_after_first_paragraph(lines: list[str]) -> list[str]:
    text = "\n".join(lines).strip("\n")
    first, _, rest = text.partition("\n\n")
    return [*first.splitlines(), "", _ARGUMENTS, "", *rest.splitlines()]


# -- writing


def pages() -> dict[str, str]:
    """Returns the text of each file of the folder."""
    read_pages = read()
    return {"index.md": _index(read_pages), **{page.file: _page(page) for page in read_pages}}


def _page(page: Page) -> str:
    first, *others = page.sections
    parts = [f"# {first.heading}", _text(first)]
    for section in others:
        parts += [f"## {section.heading}", _text(section)]
    operations = list(dict.fromkeys(op for section in page.sections for op in section.ops))
    departures = list(dict.fromkeys(anchor for section in page.sections for anchor in section.departures))
    parts += [_constraints(operations), _departures(departures), _definitions(operations)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(section: Section) -> str:
    body = "\n".join(section.lines).strip("\n") + "\n"
    body = re.sub(r"^\{\{example: ([\w-]+)\}\}$", _registered_example, body, flags=re.MULTILINE)
    body = re.sub(r"\{\{result: ([\w-]+)\}\}", lambda match: lookup(match[1]).result, body)
    arguments = f"\n{_arguments(section)}\n" if section.functions else ""
    text = f"{_names(section)}\n\n{with_output(body)}".replace(_ARGUMENTS, arguments).strip()
    return re.sub(r"\n{3,}", "\n\n", text)


def _names(section: Section) -> str:
    """Returns the line with the names in HLO and StableHLO."""
    if not section.ops:
        return ""
    hlo = ", ".join(f"[`{op.name}`]({OP_PAGE.format(name=op.name)})" for op in section.ops)
    return f"HLO: {hlo}. StableHLO: {_stablehlo(section)}."


def _stablehlo(section: Section) -> str:
    if section.stablehlo and section.stablehlo != ["none"]:
        return ", ".join(f"`{name}`" for name in section.stablehlo)
    reasons = dict.fromkeys(STABLEHLO.refusals[op] for op in section.ops if op in STABLEHLO.refusals)
    return "".join(["none", *(f"; {reason}" for reason in reasons)])


def _registered_example(match: re.Match[str]) -> str:
    op = lookup(match[1])
    example = next(example for example in examples_of(op.family) if example.op == op.name)
    return "\n".join(["```text", *example.lines, "```"])


# -- signatures and arguments


def _arguments(section: Section) -> str:
    """Returns the signatures of the functions, and the table of their arguments."""
    forms = [(name, form) for name in section.functions for form in _forms(getattr(ops, name))]
    code = "\n".join(signature(name, form) for name, form in forms)
    types: dict[str, str] = {}
    for _, form in forms:
        for parameter in inspect.signature(form).parameters.values():
            types.setdefault(parameter.name, str(parameter.annotation))
    unknown = section.meanings.keys() - types.keys()
    if unknown:
        raise ValueError(f"{section.heading}: no function has the arguments {', '.join(sorted(unknown))}")
    rows = [(f"`{name}`", _type(annotation), _meaning(section, name)) for name, annotation in types.items()]
    return f"```python\n{code}\n```\n\n{_table(('argument', 'type', 'meaning'), rows)}\n\n{_result(section)}"


def _result(section: Section) -> str:
    """Returns the shape of the result of an elementwise operation, if the text of the section does not give it."""
    (op, *_) = section.ops
    if not op.elementwise or any(line.startswith("**Result.**") for line in section.lines):
        return ""
    note = " Operands are [broadcast](../broadcasting.md) first." if op.arity.maximum > 1 else ""
    return f"**Result.** {op.result}{note}"


def _forms(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    return list(get_overloads(function)) or [function]


def signature(name: str, function: Callable[..., Any]) -> str:
    """Returns a call as code, without types: one line, or one line per argument if it would be too long."""
    parameters = inspect.signature(function).parameters.values()
    shown = [_parameter(p) for p in parameters]
    if any(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters):
        shown.insert(next(i for i, p in enumerate(parameters) if p.kind is inspect.Parameter.KEYWORD_ONLY), "*")
    line = f"ops.{name}({', '.join(shown)})"
    if len(line) <= _MAX_LINE:
        return line
    return "\n".join([f"ops.{name}(", *(f"    {parameter}," for parameter in shown), ")"])


def _parameter(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={f'{type(default).__name__}.{default.name}' if isinstance(default, Enum) else default!r}"


_ALIASES = {
    "Operand": "`XlaOp`, array or number",
    "Arrays": "`XlaOp`, or a list",
    "InitValues": "`XlaOp` or number, or a list",
    "Index": "`XlaOp` or `int`",
    "Groups": "lists of `int`",
    "Pairs": "pairs of `int`",
    "Channel": "`int` or `ChannelHandle`",
    "ElementType": "`PrimitiveType` or its name",
    "PaddingLike": "`SAME`, `VALID`, or pairs of `int`",
    "DimensionNumbers": "`ConvDimensions` or its text",
    "Alias": "`OutputAlias`",
    "Any": "array or number",
}
"""The names that annotations give to several types, in words."""


def _type(annotation: str) -> str:
    """Returns a type in words: `Sequence[int] | None` is "list of `int`"."""
    alternatives = [part for part in annotation.split(" | ") if part != "None"]
    return " or ".join(map(_alternative, alternatives))


def _alternative(name: str) -> str:
    if match := re.fullmatch(r"(?:Sequence|Iterable)\[(.+)\]", name):
        return f"list of {_type(match[1])}"
    return _ALIASES.get(name) or f"`{name}`"


def _meaning(section: Section, name: str) -> str:
    try:
        return section.meanings.get(name) or MEANINGS[name]
    except KeyError:
        raise ValueError(f"{section.heading}: no meaning of the argument {name!r}") from None


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join([f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {line} |" for line in lines)])


# -- constraints, departures, definitions


def _constraint(constraint: Constraint) -> str:
    """Returns the line of a constraint, with links to the codes of its errors."""
    links = [f"[{code}]({ERRORS}/{page_of(code)}#{code.lower()})" for code in constraint.codes]
    return f"- {constraint.text} {', '.join(links)}"


def _constraints(operations: list[OpDef]) -> str:
    """Returns the requirements of the shape rules."""
    parts = []
    for op in operations:
        if op.constraints:
            title = f"`{op.name}`:\n\n" if len(operations) > 1 else ""
            parts.append(title + "\n".join(_constraint(constraint) for constraint in op.constraints))
    return "\n\n".join(["## Constraints", *parts]) if parts else ""


def _departures(anchors: list[str]) -> str:
    if not anchors:
        return ""
    links = [f"- [{anchor.replace('-', ' ').capitalize()}]({DEPARTURES}#{anchor})" for anchor in anchors]
    return "\n\n".join(["## Where XLA departs from the text", "\n".join(links)])


def _definitions(operations: list[OpDef]) -> str:
    """Returns the functions that define the operations, collapsed."""
    if not operations:
        return ""
    shown: dict[str, list[str]] = {}
    for op in operations:
        shown.setdefault(inspect.getsource(definition_of(op)).rstrip(), []).append(op.name)
    blocks = [
        f"<details>\n<summary>The function that defines {', '.join(f'<code>{name}</code>' for name in names)}</summary>"
        f"\n\n```python\n{source}\n```\n\n</details>"
        for source, names in shown.items()
    ]
    return "\n\n".join(["## Definition", *blocks])


# -- the index


def _index(read_pages: list[Page]) -> str:
    links = {heading: link for page in read_pages for heading, link in _links(page)}
    found = {
        "contents": _contents(read_pages),
        "toctree": "\n".join(["```{toctree}", ":hidden:", "", *(page.file[:-3] for page in read_pages), "```"]),
        "others": _functions_without_section(read_pages),
        "preamble": f"```python\n{preamble()}```",
    }
    text = (SOURCES / "index.md.in").read_text()
    text = re.sub(r"\{\{links: ([\w ]+)\}\}", lambda match: ", ".join(links[name] for name in match[1].split()), text)
    return re.sub(r"\{\{(\w+)\}\}", lambda match: found[match[1]], text)


def _functions_without_section(read_pages: list[Page]) -> str:
    shown = {name for page in read_pages for section in page.sections for name in section.functions}
    return ", ".join(f"`{name}`" for name in ops.__all__ if name not in shown)


def _contents(read_pages: list[Page]) -> str:
    """Returns one paragraph of links for each first letter, in the order of the specification."""
    letters: dict[str, list[str]] = {}
    for page in read_pages:
        letters.setdefault(page.title[0], []).extend(link for _, link in _links(page))
    return "\n\n".join(f"**{letter}**: {', '.join(links)}" for letter, links in letters.items())


def _links(page: Page) -> Iterator[tuple[str, str]]:
    first, *others = page.headings
    yield first, f"[{first}]({page.file})"
    for other in others:
        yield other, f"[{other}]({page.file}#{other.lower()})"
