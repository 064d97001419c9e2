"""Dataclasses of records are those of the standard library: every class is made by both."""

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from xlapy.base import records

fast = records.dataclass


def both(**options):
    """The same class by both decorators."""

    def made(decorator):
        class Point:
            """A place."""

            x: int
            y: float = 2.0
            names: list[str] = field(default_factory=list, compare=False)
            hidden: int = field(default=7, repr=False)

        Point.__qualname__ = "Point"
        return decorator(**options)(Point)

    return made(fast), made(dataclass)


OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
    {"frozen": True, "kw_only": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_instances_are_equal_hashed_and_shown_alike(options):
    ours, theirs = both(**options)
    for kind in (ours, theirs):
        first, second, other = kind(x=1), kind(x=1, names=["a"]), kind(x=2, y=3.0)
        assert (first.x, first.y, first.names, first.hidden) == (1, 2.0, [], 7)
        assert first.names is not kind(x=1).names
        assert (first == second) == options.get("eq", True)
        assert first != other and first != (1, 2.0, 7)
        assert repr(other) == "Point(x=2, y=3.0, names=[])"
        assert hasattr(kind, "__slots__") == options.get("slots", False)
        assert dataclasses.replace(other, x=5).x == 5
        assert dataclasses.asdict(other) == {"x": 2, "y": 3.0, "names": [], "hidden": 7}
        assert kind.__match_args__ == (() if "kw_only" in options else ("x", "y", "names", "hidden"))
        if options.get("frozen"):
            assert hash(first) == hash(second) == hash((1, 2.0, 7))
        elif options.get("eq", True):
            with pytest.raises(TypeError, match="unhashable"):
                hash(first)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_arguments_are_judged_as_those_of_functions(options):
    ours, theirs = both(**options)
    for arguments, named in [((), {}), ((), {"x": 1, "z": 2}), ((1, 2, [], 4, 5), {})]:
        messages = []
        for kind in (ours, theirs):
            for _ in range(2):  # the first call finds nothing compiled
                with pytest.raises(TypeError) as caught:
                    kind(*arguments, **named)
                messages.append(str(caught.value).removeprefix("both.<locals>.made.<locals>."))
        assert len(set(messages)) == 1, messages


@pytest.mark.parametrize("slots", [False, True])
def test_frozen_instances_refuse_assignment(slots):
    ours, theirs = both(frozen=True, slots=slots)
    for kind in (ours, theirs):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
            kind(1).x = 2
        with pytest.raises(FrozenInstanceError, match="'y'"):
            del kind(1).y


def test_what_a_class_defines_itself_stays():
    for decorator in (fast, dataclass):

        @decorator(frozen=True)
        class Own:
            value: int

            def __post_init__(self):
                object.__setattr__(self, "value", self.value + 1)

            def __eq__(self, other):
                return True

            def __repr__(self):
                return "own"

        @decorator(frozen=True)
        class Hashed(Own):
            def __hash__(self):
                return 5

        assert Own(1).value == 2 and Own(1) == Own(2) and repr(Own(1)) == "own"
        assert hash(Own(1)) == hash((2,))
        assert hash(Hashed(1)) == 5


def test_fields_of_a_base_come_first_and_what_is_not_an_argument_is_made():
    for decorator in (fast, dataclass):

        @decorator
        class Base:
            a: int

        @decorator(slots=True)
        class Derived(Base):
            b: int = 3
            seen: dict[int, int] = field(default_factory=dict, init=False)
            count: int = field(default=0, init=False)

        assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b", "seen", "count"]
        made = Derived(1)
        made.count += 1
        assert (made.a, made.b, made.seen, made.count) == (1, 3, {}, 1)
        assert Base(1).a == 1 and Derived(1) != Base(1)


@fast(frozen=True, slots=True)
class Kept:
    """Found by its name when it is unpickled."""

    a: int
    b: tuple[int, ...] = ()


def test_frozen_instances_with_slots_are_copied_and_pickled():
    kept = Kept(1, (2, 3))
    assert pickle.loads(pickle.dumps(kept)) == copy.copy(kept) == copy.deepcopy(kept) == kept


def test_an_instance_inside_of_itself_is_shown():
    @fast
    class Node:
        next: object

    node = Node(None)
    node.next = node
    assert "..." in repr(node)
