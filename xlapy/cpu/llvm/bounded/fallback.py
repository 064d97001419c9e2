"""Simpler forms of machine code, for modules with which LLVM exceeds its limits.

Each form is generated in a process of its own, which can be ended. The forms keep the meaning of a module, and differ
in what they ask of LLVM: fewer instruction sets, no optimization. The process also finds the function with which LLVM
does not end, for the messages.

Responsible for the forms and their processes. Does not depend on how objects are linked.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.llvm.bounded.escape import Limits
from xlapy.cpu.llvm.bounded.generator import OPTIMIZED, UNOPTIMIZED, Generator
from xlapy.cpu.llvm.processor import LEVELS, Processor

_ROOT = Path(__file__).resolve().parents[4]
_MAX_SECONDS_TO_FIND = 10.0
"""Processor time for finding the function with which LLVM does not end. Others take milliseconds."""
_START_SECONDS = 30.0
"""Wall time that a process may take in addition to LLVM's, on a machine with other work."""


def simpler_forms(processor: Processor) -> Mapping[str, tuple[Processor, int]]:
    """Returns forms of code, the fastest first: a processor with less to choose from, and a level."""
    forms: dict[str, tuple[Processor, int]] = {}
    for level, optimization, words in (
        ("AVX2", OPTIMIZED, "for AVX2"),
        ("SSE4_2", OPTIMIZED, "for SSE4.2"),
        ("SSE4_2", UNOPTIMIZED, "for SSE4.2 without optimization"),
    ):
        simpler = Processor(LEVELS[level].name, LEVELS[level].features & processor.features)
        if simpler.features < processor.features or optimization == UNOPTIMIZED:
            forms[words] = (simpler, optimization)
    forms["without optimization"] = (processor, UNOPTIMIZED)
    return forms


def objects(text: str, processor: Processor, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """Yields the object files of the simpler forms, each with a description of its form. Forms that LLVM does not
    generate within the limits are left out."""
    for form, (simpler, level) in simpler_forms(processor).items():
        image = _in_process(_object_file, text, simpler, level, limits).stdout
        if image.startswith(b"\x7fELF"):
            yield form, image


def endless_function(text: str, processor: Processor, limits: Limits) -> str:
    """Returns the name of the function of a module with which LLVM exceeds its limits; empty if none does alone."""
    seconds = min(limits.seconds, _MAX_SECONDS_TO_FIND)
    ended = _in_process(_each_function, text, processor, OPTIMIZED, Limits(seconds, limits.memory))
    begun = ended.stdout.decode().split()
    return begun[-1] if ended.returncode and begun else ""


def _in_process(
    task: Any, text: str, processor: Processor, level: int, limits: Limits
) -> subprocess.CompletedProcess[bytes]:
    seconds = limits.seconds if limits.seconds < float("inf") else 0.0
    settings = {
        "task": task.__name__,
        "name": processor.name,
        "features": sorted(processor.features),
        "level": level,
        "seconds": seconds,
        "memory": limits.memory,
    }
    program = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from {__name__} import main; main()"
    try:
        return subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(settings).encode() + b"\n" + text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_START_SECONDS + 10 * seconds if seconds else None,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess([], 1, getattr(error, "stdout", None) or b"")


# -- in the process


def main() -> None:
    """Reads settings and LLVM text from the standard input, and carries out a task."""
    settings = json.loads(sys.stdin.buffer.readline())
    text = sys.stdin.buffer.read().decode()
    processor = Processor(settings["name"], frozenset(settings["features"]))
    signal.setitimer(signal.ITIMER_PROF, settings["seconds"])  # its signal ends the process
    _limit_memory(settings["memory"])
    tasks = {task.__name__: task for task in (_object_file, _each_function)}
    tasks[settings["task"]](Generator(processor, settings["level"]), text)


def _limit_memory(size: int) -> None:
    """Limits the address space to what is in use and `size` bytes more."""
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    if used + size < 1 << 62:
        resource.setrlimit(resource.RLIMIT_AS, (used + size, used + size))


def _object_file(generator: Generator, text: str) -> None:
    sys.stdout.buffer.write(generator.object_file(text, CompileTrace(), None, _NO_LIMITS))


def _each_function(generator: Generator, text: str) -> None:
    for name, alone in functions_alone(text):
        print(name, flush=True)
        generator.object_file(alone, CompileTrace(), None, _NO_LIMITS)


_NO_LIMITS = Limits(float("inf"), 1 << 62)
"""The system ends this process if it exceeds its limits."""


_FUNCTION = re.compile(r"^define (?:internal )?([^@\n]*)@(\w+)(\([^{]*\))[^{]*\{$.*?^\}$", re.MULTILINE | re.DOTALL)


def functions_alone(text: str) -> Sequence[tuple[str, str]]:
    """Returns each function of a module by its name, in a module in which the others are only declared."""
    found = list(_FUNCTION.finditer(text))
    alone: list[tuple[str, str]] = []
    for kept in found:
        pieces, end = list[str](), 0
        for function in found:
            pieces.append(text[end : function.start()])
            body = function[0].replace("define internal", "define", 1)
            pieces.append(body if function is kept else f"declare {function[1]}@{function[2]}{function[3]}")
            end = function.end()
        alone.append((kept[2], "".join([*pieces, text[end:]])))
    return alone
