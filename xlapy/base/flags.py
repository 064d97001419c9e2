"""The flags of xlapy: a table of all flags, and their values in the environment.

Responsible for names, types, defaults and reading the environment. The module that a flag concerns reads its value.
`XLAPY_FLAGS="--dump_to=/tmp/dump --check_nans"` sets flags. A flag that XLA has as well is also read from `XLA_FLAGS`,
under XLA's name; XLAPY_FLAGS takes precedence. Unknown names are errors in XLAPY_FLAGS and ignored in XLA_FLAGS.
"""

from __future__ import annotations

import difflib
import functools
import operator
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from xlapy.base.error_codes.interfaces import files as codes
from xlapy.base.errors import InvalidArgumentError

Value: TypeAlias = bool | int | str


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. type: bool, int or str. xla_name: the flag of XLA_FLAGS with the same meaning, if there is one."""

    name: str
    type: type[bool] | type[int] | type[str]
    default: Value
    help: str
    xla_name: str | None = None

    def read(self, text: str) -> Value:
        """The value written as `text`. Raises InvalidArgumentError if it has another type."""
        if self.type is str:
            return text
        if self.type is bool and text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        if self.type is int:
            try:
                return int(text, 0)
            except ValueError:
                pass
        raise InvalidArgumentError(
            codes.FLAG_VALUE, f"flag --{self.name} takes a value of type {self.type.__name__}, not {text!r}"
        )


_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

TABLE: tuple[Flag, ...] = (
    Flag(
        "check_nans",
        bool,
        False,
        "Stop with an error that names the first instruction that makes a NaN from operands without one.",
    ),
    Flag(
        "dump_to",
        str,
        "",
        "Directory to which the text of every compiled module is written; empty: nowhere.",
        "xla_dump_to",
    ),
    Flag("cache_limit", int, 4096, "MiB of memory of freed results that cpu keeps for reuse."),
    Flag("cache_dir", str, "", "Directory in which cpu keeps compiled programs for other processes; empty: none."),
    Flag("cache_size", int, 1024, "MiB of programs in cache_dir; the least recently used ones are removed."),
    Flag("denormals", str, "flush", "How cpu treats denormal numbers: flush (to 0, as XLA does) or keep."),
    Flag("num_threads", int, 0, "Threads that cpu computes with; 0: one per processor available to the process."),
    Flag(
        "num_devices",
        int,
        1,
        "Devices of the JAX plugin. A device is a thread of the process.",
        "xla_force_host_platform_device_count",
    ),
    Flag("failure_dir", str, "", "Directory for folders that reproduce internal errors; empty: the current directory."),
    Flag(
        "check_infs",
        bool,
        False,
        "Stop with an error that names the first instruction that makes an infinity from operands without one.",
    ),
    Flag("check_bounds", bool, False, "Check each access of cpu's code to memory; one out of bounds ends the program."),
    Flag(
        "max_isa",
        str,
        "",
        "The newest x86-64 instruction set that cpu's code uses, such as AVX2: SSE4_2, AVX, AVX2, AVX512, "
        "AVX512_VNNI, AVX512_BF16, AMX or AMX_FP16; empty: all of this processor.",
        "xla_cpu_max_isa",
    ),
    Flag(
        "dot_instructions",
        bool,
        True,
        "Let cpu multiply matrices of narrow types (bf16, s8 ...) by the processor's dot instructions.",
    ),
    Flag(
        "verify_buffers",
        bool,
        False,
        "Verify, when cpu compiles a program, that every read of its code finds the value that is meant.",
    ),
    Flag("tuning_file", str, "", "File of `xlapy tune` with plans of kernels that cpu follows; empty: none."),
    Flag(
        "memory_limit",
        str,
        "",
        "Memory that a program of cpu may need: a number of MiB, or with a unit, such as 12GB or 800MiB; empty: any.",
    ),
    Flag(
        "compile_timeout",
        int,
        60,
        "Seconds of processor time that LLVM may take for a program, or for each part of a large one, which has 256 "
        "KiB of LLVM text; 0: no limit.",
    ),
    Flag("compile_memory", int, 8192, "MiB by which LLVM may make the process grow for a program; 0: no limit."),
    Flag(
        "windowed_dot_min_size",
        int,
        100_000,
        "MiB of an all-gathered operand or reduce-scattered result from which on the partitioner computes a dot piece "
        "by piece while it sends; only where that is estimated to be faster.",
        "xla_gpu_threshold_for_windowed_einsum_mib",
    ),
    Flag("rng_seed", int, 0, "Seed of rng. Every run starts from it: the same seed gives the same numbers."),
    Flag(
        "collective_timeout",
        int,
        30,
        "Seconds that a device waits for other devices or for the host before it fails.",
        "xla_cpu_collective_call_terminate_timeout_seconds",
    ),
)
"""All flags."""

_BY_NAME: Mapping[str, Flag] = MappingProxyType({flag.name: flag for flag in TABLE})
_BY_XLA_NAME: Mapping[str, Flag] = MappingProxyType({flag.xla_name: flag for flag in TABLE if flag.xla_name})


class Flags:
    """An immutable set of flag values: `values`, and the defaults of all other flags.

    Raises InvalidArgumentError for an unknown name or a value of the wrong type.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        checked = {flag.name: flag.default for flag in TABLE}
        for name, value in (values or {}).items():
            flag = _find(name)
            if type(value) is not flag.type:
                raise InvalidArgumentError(
                    codes.FLAG_VALUE, f"flag --{name} takes a value of type {flag.type.__name__}, not {value!r}"
                )
            checked[name] = value
        self._values: Mapping[str, Value] = MappingProxyType(checked)

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Flags:
        """The flags that XLAPY_FLAGS and XLA_FLAGS set in `environment`, by default that of the process."""
        environment = os.environ if environment is None else environment
        values: dict[str, Value] = {}
        for name, text in _split_flags(environment.get("XLA_FLAGS", ""), "XLA_FLAGS", strict=False):
            if name in _BY_XLA_NAME:
                flag = _BY_XLA_NAME[name]
                values[flag.name] = flag.read(_value_text(flag, text))
        for name, text in _split_flags(environment.get("XLAPY_FLAGS", ""), "XLAPY_FLAGS", strict=True):
            flag = _find(name)
            values[flag.name] = flag.read(_value_text(flag, text))
        return Flags(values)

    def get(self, name: str) -> Value:
        """The value of flag `name`. Raises InvalidArgumentError, which suggests similar names, if it does not exist."""
        return self._values[_find(name).name]

    def replace(self, **changes: Value) -> Flags:
        """A copy with some flags changed."""
        return Flags({**self._values, **changes})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        changed = {f.name: self._values[f.name] for f in TABLE if self._values[f.name] != f.default}
        return f"Flags({changed})"


@functools.cache
def current() -> Flags:
    """The flags in the environment of the process, read once, at the first call."""
    return Flags.from_environment()


def get(name: str) -> Value:
    """The value of flag `name` in the environment of the process. Raises InvalidArgumentError for an unknown name."""
    return current().get(name)


def memory_limit(value: object = None) -> int:
    """Returns a limit of memory in bytes; 0 if there is none.

    value: bytes, or text as the flag `memory_limit` takes it, a number of MiB or one with a unit (`12GB`, `800MiB`);
    None: the flag. Raises InvalidArgumentError for anything else.
    """
    given = get("memory_limit") if value is None else value
    if not isinstance(given, str):
        with suppress(TypeError):  # other numbers than whole ones
            size = operator.index(given)  # type: ignore[arg-type]
            if size >= 0 and not isinstance(given, bool):
                return size
        raise InvalidArgumentError(
            codes.MEMORY_SIZE, f"memory_limit is a number of bytes, or text such as 12GB or 800MiB, not {given!r}"
        )
    matched = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([kKMGT]i?B|B|)\s*", given, re.ASCII)
    if matched is None and given:
        raise InvalidArgumentError(
            codes.MEMORY_SIZE,
            f"memory_limit is a number of MiB, or one with a unit such as 12GB or 800MiB, not {given!r}",
        )
    return int(float(matched[1]) * _UNITS[matched[2].upper()]) if matched else 0


_UNITS = {
    "": 1 << 20, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}  # fmt: skip
"""The bytes of each unit of memory, in capitals; a number without a unit counts MiB, as in other flags."""


def _find(name: str) -> Flag:
    flag = _BY_NAME.get(name) or _BY_XLA_NAME.get(name)
    if flag is not None:
        return flag
    near = difflib.get_close_matches(name, _BY_NAME, n=3)
    hint = f"did you mean {' or '.join(f'--{n}' for n in near)}?" if near else f"there are {', '.join(_BY_NAME)}"
    raise InvalidArgumentError(codes.FLAG_NAME, f"there is no flag --{name}; {hint}")


def _split_flags(text: str, variable: str, strict: bool) -> list[tuple[str, str | None]]:
    """Splits the text of a variable into (name, value or None) of each `--name=value` or `--name`."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        if not strict:
            return []
        raise InvalidArgumentError(codes.FLAG_SYNTAX, f"{variable}={text!r} cannot be read: {error}") from error
    found: list[tuple[str, str | None]] = []
    for word in words:
        name, separator, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            found.append((name, value if separator else None))
        elif strict:
            raise InvalidArgumentError(codes.FLAG_SYNTAX, f"{variable}: expected --name=value, found {word!r}")
    return found


def _value_text(flag: Flag, text: str | None) -> str:
    """The text of a flag's value; a boolean flag without a value is true."""
    if text is not None:
        return text
    if flag.type is bool:
        return "true"
    raise InvalidArgumentError(codes.FLAG_VALUE, f"flag --{flag.name} needs a value: --{flag.name}=...")
