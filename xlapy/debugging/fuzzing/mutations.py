"""Mutated HLO texts: valid programs with a few random changes, from stray characters to exchanged operations.

Responsible for the mutations and for collecting texts to mutate. Equal seeds give equal texts. Does not depend on any
parser.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from xlapy.opcodes.registry import REGISTRY
from xlapy.testing.samples import all_samples

NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "31",
    "32",
    "63",
    "64",
    "65",
    "1024",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "1" + "0" * 30,
    "1.5",
    "1e400",
    "nan",
    "-inf",
)
TYPES = (
    "pred",
    "s1",
    "s4",
    "s8",
    "s32",
    "s64",
    "u2",
    "u8",
    "u32",
    "u64",
    "f8e4m3fn",
    "f8e8m0fnu",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
    "token",
    "opaque",
)
STRAY = "{}()[],=%#\"'/*<>-?:_\\ \n\0\u00e9.xT@"
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")
_TYPE = re.compile(rf"\b(?:{'|'.join(TYPES)})(?=\[)")
_OPERAND = re.compile(r"(?<=[(, ])%?[A-Za-z_][\w.\-]*(?=[,)])")
_DEFINED = re.compile(r"(%?[A-Za-z_][\w.\-]*) = ")
_OPCODE = re.compile(r"(?<= )[a-z][a-z\-]*(?=\([%a-zA-Z])")
_DECLARED = re.compile(r"(?<== )(?:\w+\[[^ ]*|\([^=]*\)) (?=([a-z][a-z\-]*)\()")
_LAYOUT = re.compile(r"(?<=\])\{[\d,]*\}")
_ENTRY_LAYOUT = re.compile(r", entry_computation_layout=\{.*?\}(?=, [a-z_]+=|\n)")
_ATTRIBUTE = re.compile(r", [a-z_\-]+=(?:\{[^{}]*\}|[^,{}\s]+)")
_SIZES = re.compile(r"(?<=\[)[\d,<=]*(?=\])")

_RAW_STRING = re.compile(r'R"(\w*)\((.*?)\)\1"', re.DOTALL)
_LONGEST = 12_000
"""Maximum number of characters of a text to mutate; most changes of longer texts are insignificant."""

INFERRED = tuple(name for name, op in REGISTRY.items() if op.infer is not None and op.parenthesized_attribute is None)
"""Operations whose shape may be omitted in the text."""

Mutation = Callable[[str, random.Random], str]


def sample_texts() -> list[str]:
    """Returns the samples of all operations, except very long ones."""
    return [sample.text for sample in all_samples() if len(sample.text) <= _LONGEST]


def texts_in(path: Path) -> list[str]:
    """Returns the programs in a file: its contents, or the raw strings of a C++ source; for a folder, those of all
    files.
    """
    if path.is_dir():
        return [text for file in sorted(path.rglob("*")) if file.suffix in (".hlo", ".cc") for text in texts_in(file)]
    text = path.read_text(errors="replace")
    if path.suffix == ".cc":
        texts = [match[2] for match in _RAW_STRING.finditer(text) if "HloModule" in match[2] or "ENTRY" in match[2]]
    else:
        texts = [text]
    return [text for text in texts if len(text) <= _LONGEST]


def both_forms(texts: Sequence[str]) -> list[str]:
    """Returns the texts, and each without redundant declarations."""
    return [*texts, *map(undeclared, texts)]


class Mutator:
    """Draws mutated texts from a corpus of valid ones."""

    def __init__(self, corpus: Sequence[str], seed: int) -> None:
        self.corpus = corpus
        self.opcodes = sorted(REGISTRY)
        self.random = random.Random(seed)
        self.deep: list[Mutation] = [
            self._number,
            self._type,
            self._name,
            self._opcode,
            self._attribute,
            self._sizes,
        ]
        self.mutations: list[Mutation] = [self._characters, self._stray, self._lines, self._splice, *self.deep]

    def next(self) -> str:
        """Returns a text with one to four mutations. Half of the texts have only mutations that keep the grammar."""
        text = self.random.choice(self.corpus)
        mutations = self.mutations if self.random.random() < 0.5 else self.deep
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 3, 4))):
            text = self.random.choice(mutations)(text, self.random)
        return text

    def _characters(self, text: str, rng: random.Random) -> str:
        """Cuts a piece out, repeats it, or truncates the text there."""
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((1, 1, 2, 5, 20, 200)))
        return rng.choice((text[:start] + text[end:], text[:end] + text[start:], text[:start]))

    def _stray(self, text: str, rng: random.Random) -> str:
        position = rng.randrange(len(text) + 1)
        return text[:position] + rng.choice(STRAY) * rng.choice((1, 1, 1, 2, 70)) + text[position + rng.randrange(2) :]

    def _lines(self, text: str, rng: random.Random) -> str:
        """Drops, repeats or exchanges lines."""
        lines = text.split("\n")
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        way = rng.randrange(3)
        if way == 0:
            del lines[a]
        elif way == 1:
            lines.insert(b, lines[a])
        else:
            lines[a], lines[b] = lines[b], lines[a]
        return "\n".join(lines)

    def _splice(self, text: str, rng: random.Random) -> str:
        """Inserts a line, or the rest, of another text."""
        lines, other = text.split("\n"), rng.choice(self.corpus).split("\n")
        a, b = rng.randrange(len(lines)), rng.randrange(len(other))
        return "\n".join([*lines[:a], other[b], *lines[a + 1 :]] if rng.random() < 0.7 else lines[:a] + other[b:])

    def _number(self, text: str, rng: random.Random) -> str:
        return _replace(_NUMBER, text, lambda _: rng.choice(NUMBERS), rng)

    def _type(self, text: str, rng: random.Random) -> str:
        """Replaces one element type by another, in one place or everywhere."""
        new = rng.choice(TYPES)
        found = _TYPE.findall(text)
        if found and rng.random() < 0.5:
            old = rng.choice(found)
            return re.sub(rf"\b{old}(?=\[)", new, text)
        return _replace(_TYPE, text, lambda _: new, rng)

    def _name(self, text: str, rng: random.Random) -> str:
        """Replaces an operand by another that was defined before it, usually in the same computation."""
        found = list(_OPERAND.finditer(text))
        if not found:
            return text
        match = rng.choice(found)
        names = _DEFINED.findall(text, text.rfind("{\n", 0, match.start()) + 1, match.start()) or [match[0]]
        return text[: match.start()] + rng.choice(names) + text[match.end() :]

    def _opcode(self, text: str, rng: random.Random) -> str:
        return _replace(_OPCODE, text, lambda _: rng.choice(self.opcodes), rng)

    def _attribute(self, text: str, rng: random.Random) -> str:
        """Drops an attribute, replaces it by one of another text, or appends that one."""
        others = _ATTRIBUTE.findall(rng.choice(self.corpus)) or [""]
        return _replace(
            _ATTRIBUTE, text, lambda old: rng.choice(("", rng.choice(others), old + rng.choice(others))), rng
        )

    def _sizes(self, text: str, rng: random.Random) -> str:
        """Replaces the sizes of one shape by those of another, in one place or everywhere."""
        found = _SIZES.findall(text)
        if not found:
            return text
        old, new = rng.choice(found), rng.choice([*found, "", "0", "1,1", "2,3,4", "<=4"])
        return (
            text.replace(f"[{old}]", f"[{new}]") if rng.random() < 0.5 else _replace(_SIZES, text, lambda _: new, rng)
        )


def undeclared(text: str) -> str:
    """Returns the text without layouts and inferred shapes, so that a change of a shape propagates."""
    shorter = _DECLARED.sub(lambda match: "" if match[1] in INFERRED else match[0], text)
    return _LAYOUT.sub("", _ENTRY_LAYOUT.sub("", shorter))


def _replace(pattern: re.Pattern[str], text: str, new: Callable[[str], str], rng: random.Random) -> str:
    """Replaces one match of the pattern, chosen at random."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + new(match[0]) + text[match.end() :]
