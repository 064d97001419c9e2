"""Lists of passes as text: the grammar, the types of options, and error messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

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
    ("options", "message"),
    [
        ({"coats": "two"}, "option coats of pass paint takes an integer, not 'two'"),
        ({"thick": "very"}, "option thick of pass paint takes true or false, not 'very'"),
        ({"coat": "1"}, "pass paint has no option 'coat'; did you mean coats?; it has coats, thick, color, rooms"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(InvalidArgumentError) as caught:
        make_pass(Paint, options)
    assert str(caught.value) == message


def test_a_list_with_options_and_groups():
    passes = parse_passes(" dce , fixpoint{limit=3}( verify, expand{ops=clamp+logistic} ) ")
    assert [pass_text(p) for p in passes] == ["remove-dead-code", "fixpoint{limit=3}"]
    group = passes[1]
    assert isinstance(group, Fixpoint)
    assert [pass_text(p) for p in group.passes] == ["verify-module", "expand{ops=clamp+logistic}"]


def test_xla_writes_underscores():
    assert parse_passes("remove_dead_code") == parse_passes("dce")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of a pass at character 0, found the end"),
        ("dce,", "expected the name of a pass at character 4, found the end"),
        ("dce dce", "expected a comma or the end at character 4, found 'dce'"),
        ("dce{", "expected option=value and a comma or } at character 4, found the end"),
        ("dce{x}", "expected option=value and a comma or } at character 4, found 'x}'"),
        ("dce{x=1,x=2}", "option x is given twice"),
        ("dce{x=1}", "pass remove-dead-code has no option 'x'; it has none"),
        ("fixpoint(dce", r"expected a comma or ) at character 12"),
        ("fixpoint", "fixpoint needs the passes to repeat: fixpoint(a,b)"),
        ("fixpoint{limit=0}(dce)", "option limit of pass fixpoint must be at least 1, not 0"),
        ("dce(verify)", "pass remove-dead-code takes no other passes"),
        ("dead-code", "there is no pass 'dead-code'; did you mean remove-dead-code?"),
        ("fixpoint(" * 30 + "dce" + ")" * 30, "groups of passes nest deeper than 20"),
    ],
)
def test_wrong_lists(text, message):
    with pytest.raises(InvalidArgumentError) as caught:
        parse_passes(text)
    assert message in str(caught.value)


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
    ("body", "message"),
    [
        ({"name": "simplify"}, r"there is a pass 'simplify' already: xlapy.passes.simplify.Simplify"),
        ({"name": "dce"}, r"'dce' is not the name of a pass: those are words joined by hyphens, no alias"),
        ({"name": "two words"}, r"'two words' is not the name of a pass"),
        ({"name": 3}, r"Odd is not a pass: a pass is a dataclass with a name, a string, and a method run"),
        ({"name": "odd", "run": None}, r"Odd is not a pass"),
        ({"name": "odd", "__annotations__": {"size": int}}, r"pass odd: every option needs a default"),
    ],
)
def test_objects_that_are_not_passes(body, message):
    kind = dataclass(frozen=True)(type("Odd", (), {"run": lambda self, module: False, **body}))
    with pytest.raises(InvalidArgumentError, match=message):
        register_pass(kind)
    assert "odd" not in CATALOG
