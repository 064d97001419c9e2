"""Regenerates the corpus of HLO programs: `python tests/programs/generate.py [name ...]`.

Lowers every function registered in neural.py, arrays.py and numeric.py with the jaxlib of the test extra. Writes
`<name>.hlo` (unoptimized, short form with metadata and stack frames), for programs marked `optimized` also
`<name>.optimized.hlo` (XLA:CPU's output: scheduled, fused, with layouts and backend configurations), and README.md.
Without names, it also removes the files of programs that no longer exist. The unoptimized files depend only on the
version of jaxlib, the optimized ones also on the processor.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import arrays
import jax
import neural
import numeric
from program import PROGRAMS, Program

FOLDER = Path(__file__).parent
MODULES = (neural, arrays, numeric)
FORBIDDEN = {
    "rng-bit-generator",
    "rng",
    "fft",
    "cholesky",
    "triangular-solve",
    "custom-call",
    "batch-norm-training",
    "batch-norm-inference",
    "batch-norm-grad",
    "infeed",
    "outfeed",
    "send",
    "recv",
}
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?\S+ = (?:\(.*?\)|\S+) ([a-z][a-z0-9-]*)\(", re.MULTILINE)
_FOLDER_OF_SOURCE = re.compile(r'"[^"\n]*/([^/"\n]+\.py)"')


def lower(entry: Program) -> tuple[str, str | None]:
    """Returns the unoptimized and, if requested, the optimized text, without the folders of source files."""
    jax.clear_caches()  # JAX caches traced functions, and a cached one would carry the stack frames of another program
    with jax.enable_x64(entry.x64):
        lowered = jax.jit(entry.function, keep_unused=True).lower(*entry.arguments)
        plain = lowered.as_text("hlo", debug_info=True)
        optimized = lowered.compile().as_text() if entry.optimized else None
    return _without_folders(plain), None if optimized is None else _without_folders(optimized)


def opcodes(text: str) -> list[str]:
    """Returns the opcode of every instruction, in the order of the text."""
    return _INSTRUCTION.findall(text)


def parameters(text: str) -> str:
    """Returns the shapes of the entry parameters, without layouts, from the module's header."""
    header = text.split("\n", 1)[0].split("entry_computation_layout={(", 1)[1].split(")->", 1)[0]
    return re.sub(r"\{[\d,]*\}", "", re.sub(r"/\*.*?\*/", "", header))


def readme() -> str:
    """Returns the table of all programs, read from their files."""
    lines = [
        "# HLO programs",
        "",
        "Written by `generate.py` from the JAX functions in `neural.py`, `arrays.py` and `numeric.py`;",
        "`inputs.py` makes arguments for them. A star marks programs that also have an `.optimized.hlo` file.",
        "",
        "| program | what it is | instructions | parameters |",
        "|---|---|---:|---|",
    ]
    for name in sorted(PROGRAMS):
        text = (FOLDER / f"{name}.hlo").read_text()
        star = "*" if PROGRAMS[name].optimized else ""
        count = len(opcodes(text))
        lines.append(f"| {name}{star} | {PROGRAMS[name].description} | {count} | `{parameters(text)}` |")
    return "\n".join(lines) + "\n"


def write(entry: Program) -> None:
    """Lowers one program and writes its files. Raises ValueError if it uses an operation that the corpus excludes."""
    plain, optimized = lower(entry)
    outside = FORBIDDEN & set(opcodes(plain))
    if outside:
        raise ValueError(f"{entry.name} uses {', '.join(sorted(outside))}, which the corpus excludes")
    (FOLDER / f"{entry.name}.hlo").write_text(plain)
    if optimized is not None:
        (FOLDER / f"{entry.name}.optimized.hlo").write_text(optimized)


def remove_unregistered() -> None:
    """Deletes HLO files that belong to no registered program."""
    wanted = {f"{name}.hlo" for name in PROGRAMS} | {f"{n}.optimized.hlo" for n, p in PROGRAMS.items() if p.optimized}
    for path in FOLDER.glob("*.hlo"):
        if path.name not in wanted:
            path.unlink()


def main(names: list[str]) -> None:
    jax.config.update("jax_platforms", "cpu")
    for name in names or sorted(PROGRAMS):
        write(PROGRAMS[name])
    if not names:
        remove_unregistered()
    (FOLDER / "README.md").write_text(readme())


def _without_folders(text: str) -> str:
    return _FOLDER_OF_SOURCE.sub(r'"\1"', text).rstrip("\n") + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
