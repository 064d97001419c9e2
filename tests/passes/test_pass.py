"""Lists of passes as text: the grammar, the types of options, and error messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.passes import CATALOG, Fixpoint, catalog, parse_passes, pass_text, register_pass
from xlapy.passes.catalog import ALIASES, list_passes
from xlapy.passes.pass_ import make_pass


@dataclass(frozen=True)
class Paint:
    """Paints nothing."""

    name: ClassVar[str] = "paint"
    coats: int = 2
    thick: bool = False
    color: str = "red"
    rooms: tuple[str, ...] = ()


def test_options_have_types():
    options = {"coats": "-3", "thick": "true", "color": "dark-blue", "rooms": "hall+attic"}
    made = make_pass(Paint, options)
    assert made == Paint(-3, True, "dark-blue", ("hall", "attic"))
    assert pass_text(made) == "paint{coats=-3,thick=true,color=dark-blue,rooms=hall+attic}"
    assert pass_text(Paint()) == "paint"


@pytest.mark.parametrize(
    ("options", "code", "values"),
    [
        ({"coats": "two"}, codes.PASS_OPTION_VALUE, ("option coats", "paint", "an integer", "'two'")),
        ({"thick": "very"}, codes.PASS_OPTION_VALUE, ("option thick", "paint", "true or false", "'very'")),
        ({"coat": "1"}, codes.PASS_OPTION, ("'coat'", "did you mean coats?", "coats, thick, color, rooms")),
    ],
)
def test_wrong_options(options, code, values):
    with raises(InvalidArgumentError, code, *values):
        make_pass(Paint, options)


@dataclass(frozen=True)
class Polish(Paint):
    """Checks its options by an error of Python."""

    name: ClassVar[str] = "polish"

    def __post_init__(self) -> None:
        if self.coats > 9:
            raise ValueError("too shiny")


def test_an_error_of_a_pass_about_its_options_is_one_of_the_user():
    with raises(InvalidArgumentError, codes.PASS_OPTION_VALUE, "polish", "coats=12", "too shiny"):
        make_pass(Polish, {"coats": "12"})


def test_a_list_with_options_and_groups():
    passes = parse_passes(" dce , fixpoint{limit=3}( verify, expand{ops=clamp+logistic} ) ")
    assert [pass_text(p) for p in passes] == ["remove-dead-code", "fixpoint{limit=3}"]
    group = passes[1]
    assert isinstance(group, Fixpoint)
    assert [pass_text(p) for p in group.passes] == ["verify-module", "expand{ops=clamp+logistic}"]


def test_xla_writes_underscores():
    assert parse_passes("remove_dead_code") == parse_passes("dce")


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        ("", codes.PASS_LIST, ("name of a pass", "character 0", "found the end")),
        ("dce,", codes.PASS_LIST, ("name of a pass", "character 4", "found the end")),
        ("dce dce", codes.PASS_LIST, ("comma or the end", "character 4", "found 'dce'")),
        ("dce{", codes.PASS_LIST, ("option=value", "character 4", "found the end")),
        ("dce{x}", codes.PASS_LIST, ("option=value", "character 4", "found 'x}'")),
        ("dce{x=1,x=2}", codes.PASS_LIST, ("option x", "twice")),
        ("dce{x=1}", codes.PASS_OPTION, ("remove-dead-code", "'x'")),
        ("fixpoint(dce", codes.PASS_LIST, ("comma or )", "character 12")),
        ("fixpoint", codes.PASS_LIST, ("fixpoint(a,b)",)),
        ("fixpoint{limit=0}(dce)", codes.PASS_OPTION_VALUE, ("option limit", "fixpoint", "at least 1", "not 0")),
        ("dce(verify)", codes.PASS_LIST, ("remove-dead-code",)),
        ("dead-code", codes.PASS_NAME, ("'dead-code'", "did you mean remove-dead-code?")),
        ("fixpoint(" * 30 + "dce" + ")" * 30, codes.PASS_LIST, ("deeper than 20",)),
    ],
)
def test_wrong_lists(text, code, values):
    with raises(InvalidArgumentError, code, *values):
        parse_passes(text)


def test_every_pass_is_named_after_its_class_and_documented():
    for name, kind in CATALOG.items():
        words = "".join(word.capitalize() for word in name.split("-"))
        assert kind.__name__ == words
        assert kind.__module__.rpartition(".")[2] in (name.replace("-", "_"), "pipeline")
        assert make_pass(kind, {}).name == name
    assert set(ALIASES.values()) <= set(CATALOG)
    assert not set(ALIASES) & set(CATALOG)
    assert all(row.summary.endswith(".") for row in list_passes())


def test_passes_of_users(monkeypatch):
    @dataclass(frozen=True)
    class Polish:
        """Makes it shine."""

        name: ClassVar[str] = "polish"
        times: int = 1

        def run(self, module: Module) -> bool:
            return False

    monkeypatch.setitem(catalog._known, "polish", Polish)  # the pass is unregistered when the test ends
    assert register_pass(Polish) is Polish
    (made,) = parse_passes("polish{times=3}")
    assert made == Polish(times=3)
    assert any(row.name == "polish" and row.summary == "Makes it shine." for row in list_passes())


@pytest.mark.parametrize(
    ("body", "code", "values"),
    [
        ({"name": "simplify"}, codes.REGISTERED_NAME, ("'simplify'", "xlapy.passes.simplify.Simplify")),
        ({"name": "dce"}, codes.REGISTERED_NAME, ("'dce'",)),
        ({"name": "two words"}, codes.REGISTERED_NAME, ("'two words'",)),
        ({"name": 3}, codes.PASS_CLASS, ("Odd",)),
        ({"name": "odd", "run": None}, codes.PASS_CLASS, ("Odd",)),
        ({"name": "odd", "__annotations__": {"size": int}}, codes.PASS_CLASS, ("pass odd", "default")),
    ],
)
def test_objects_that_are_not_passes(body, code: ErrorCode, values: tuple[str, ...]):
    kind = dataclass(frozen=True)(type("Odd", (), {"run": lambda self, module: False, **body}))
    with raises(InvalidArgumentError, code, *values):
        register_pass(kind)
    assert "odd" not in CATALOG
