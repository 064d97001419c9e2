"""Modules as HTML in notebooks: what is shown, what folds, and that no text of a module becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import xlapy as xla
from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.text.html import MAX_INSTRUCTIONS, MAX_LINE_LENGTH, escape, module_to_html

ROWS = """HloModule rows

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }

ENTRY main {
  x = f32[2,3] parameter(0)
  zero = f32[] constant(0)
  e = f32[2,3] exponential(x), metadata={source_file="model.py" source_line=7}
  ROOT s = f32[2] reduce(e, zero), dimensions={1}, to_apply=add
}
"""

HOSTILE = "<script>alert('x')</script>\"&amp;"


class Elements(HTMLParser):
    """The elements of HTML with their attributes, the text outside of the style sheet, and whether all are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def elements(shown: Any) -> Elements:
    found = Elements(shown._repr_html_())
    assert found.open == []
    return found


def test_computations_fold_and_the_entry_is_open() -> None:
    found = elements(xla.parse_hlo(ROWS))
    assert ["open" in details for details in found.of("details")] == [True, False]
    assert "add (a: f32[], b: f32[]) -> f32[] to_apply of reduce, 3 instructions" in found.text
    assert found.text.startswith("rows 2 computations, 7 instructions")


def test_lines_are_those_of_the_text() -> None:
    lines = elements(xla.parse_hlo(ROWS)).text.splitlines()
    assert "e = f32[2,3]{1,0} exponential(x)" in lines
    assert any(line.startswith("ROOT s = f32[2]{0} reduce(e, zero), dimensions={1}, to_apply=add") for line in lines)


def test_the_source_line_is_a_tooltip() -> None:
    assert {"title": "model.py:7"} in elements(xla.parse_hlo(ROWS)).of("span")


def test_names_and_texts_are_escaped() -> None:
    module = xla.parse_hlo(
        ROWS.replace("model.py", "'onmouseover='alert(1)' <b>").replace(
            "metadata=", 'frontend_attributes={k="<img src=x onerror=alert(1)>"}, metadata='
        )
    )
    module.name = HOSTILE
    e = module.entry_computation.find("e")
    e.name = HOSTILE
    module.entry_computation.name = "</pre></details><iframe>"
    found = elements(module)
    assert found.tags() == {"div", "style", "b", "span", "details", "summary", "pre"}
    assert found.text.count(HOSTILE) >= 3  # the module, the instruction and its user
    assert "</pre></details><iframe>" in found.text
    assert all(attributes.keys() <= {"class", "title"} for attributes in found.of("span"))
    assert {"title": "'onmouseover='alert(1)' <b>:7"} in found.of("span")


def test_bytes_that_are_no_text_have_a_form() -> None:
    assert escape("a\udcff<") == "a\\udcff&lt;"
    module = xla.parse_hlo(ROWS)
    module.name = "a\udcff"
    module_to_html(module).encode()


def long_module(length: int) -> xla.Module:
    lines = "\n".join(f"  x{n} = f32[2] negate(x{n - 1})" for n in range(1, length))
    return xla.parse_hlo(f"HloModule long\nENTRY main {{\n  x0 = f32[2] parameter(0)\n{lines}\n}}")


def test_large_modules_are_cut() -> None:
    found = elements(long_module(10 * MAX_INSTRUCTIONS))
    assert f"... {9 * MAX_INSTRUCTIONS} more instructions" in found.text
    assert found.text.count("negate(") == MAX_INSTRUCTIONS - 1
    assert "more" not in elements(long_module(MAX_INSTRUCTIONS)).text


def test_long_lines_are_cut() -> None:
    operands = ", ".join(["x"] * 500)
    shapes = ", ".join(["f32[]"] * 500)
    module = xla.parse_hlo(
        f"HloModule m\nENTRY e {{\n  x = f32[] parameter(0)\n  ROOT t = ({shapes}) tuple({operands})\n}}"
    )
    title, *lines = elements(module).text.splitlines()
    assert len(title) <= MAX_LINE_LENGTH + 100
    assert max(map(len, lines)) <= MAX_LINE_LENGTH + len("ROOT ...")


def test_a_module_that_is_being_built_has_a_form() -> None:
    module = xla.Module("empty")
    assert elements(module).text == "empty 0 computations, 0 instructions"
    entry = edit.add_computation(module, "main", entry=True)
    assert elements(module).text == "empty 1 computations, 0 instructionsmain  entry, 0 instructions"
    edit.create(entry, opcodes.PARTITION_ID)
    assert elements(module).text.endswith("entry, 1 instructionspartition-id = u32[] partition-id()")


def test_a_built_computation_is_shown_as_its_module() -> None:
    b = xla.XlaBuilder("half")
    xla.ops.parameter(b, 0, xla.Shape.parse("f32[2]"), "x") * 0.5
    computation = b.build()
    assert computation._repr_html_() == computation.module._repr_html_()
    assert "half (x: f32[2]) -> f32[2] entry, 4 instructions" in elements(computation).text


def test_the_html_of_a_small_module_is_small() -> None:
    assert len(xla.parse_hlo(ROWS)._repr_html_()) < 3000
