"""The processors that code is generated for: the host, or a common denominator of several machines.

`--max_isa` (XLA's `xla_cpu_max_isa`) limits the instruction sets that compiled code uses. The code then uses the
instruction sets of that level which the host has, and no other feature of the host, and it is tuned for a processor of
that level instead of the host. All machines that have the level therefore compile the same code, which runs on each of
them and computes the same bits.

Responsible for the choice of a processor for LLVM. Does not depend on HLO or loop IR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import llvmlite.binding as llvm

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.llvm.vectors.tile_permission import permit_tiles


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor as LLVM describes it. name: the processor that code is tuned for. features: the instruction sets and
    other features that code may use."""

    name: str
    features: frozenset[str]

    @property
    def vector_bytes(self) -> int:
        """The size of its widest vector registers: 64 with AVX-512, 32 with AVX2, else 16."""
        if self.features >= {"avx512f", "avx512vl"}:
            return 64
        return 32 if "avx2" in self.features else 16

    def feature_text(self) -> str:
        """Returns every feature that LLVM knows with a sign, such as "+avx2,-avx512f"."""
        return ",".join(f"{'+' if name in self.features else '-'}{name}" for name in sorted(_known_features()))


_LEVELS: tuple[tuple[str, str, str], ...] = (
    ("SSE4_2", "nehalem", "64bit cmov crc32 cx16 cx8 fxsr mmx popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3"),
    ("AVX", "sandybridge", "aes avx pclmul xsave xsaveopt"),
    ("AVX2", "haswell", "avx2 bmi bmi2 f16c fma lzcnt movbe"),
    ("AVX512", "skylake-avx512", "adx avx512bw avx512cd avx512dq avx512f avx512vl"),
    ("AVX512_VNNI", "cascadelake", "avx512vnni"),
    ("AVX512_BF16", "cooperlake", "avx512bf16"),
    ("AMX", "sapphirerapids", "amx-bf16 amx-int8 amx-tile avx512fp16"),
    ("AMX_FP16", "graniterapids", "amx-fp16"),
)
"""XLA's name of each level, LLVM's name of its processor, and the features that it adds to the level before. Only
instruction sets that code generation uses, and that every processor of the level has, are listed."""


def _level_processors() -> Mapping[str, Processor]:
    processors: dict[str, Processor] = {}
    features: frozenset[str] = frozenset()
    for level, name, added in _LEVELS:
        features = features.union(added.split())
        processors[level] = Processor(name, features)
    return MappingProxyType(processors)


LEVELS: Mapping[str, Processor] = _level_processors()
"""The processor of each level that `--max_isa` can name."""


@SingleFlight
def initialize() -> None:
    """Prepares LLVM for code generation. Called before any other function of LLVM that concerns a target.

    No option of LLVM is set: options hold for all users of llvmlite in the process.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@SingleFlight
def _known_features() -> Mapping[str, bool]:
    initialize()
    return dict(llvm.get_host_cpu_features())


@SingleFlight
def host_processor() -> Processor:
    """Returns the processor that this process runs on."""
    initialize()
    features = frozenset(name for name, has in _known_features().items() if has)
    if "amx-tile" in features and not permit_tiles():
        features = frozenset(name for name in features if not name.startswith("amx-"))
    return Processor(str(llvm.get_host_cpu_name()), features)


def target_processor() -> Processor:
    """Returns the processor that code is generated for. Raises `InvalidArgumentError` if `--max_isa` names no level."""
    return _limited(str(flags.get("max_isa")))


@SingleFlight
def _limited(max_isa: str) -> Processor:
    if not max_isa:
        return host_processor()
    level = LEVELS.get(max_isa.upper())
    if level is None:
        raise InvalidArgumentError(codes.FLAG_CHOICE, f"flag --max_isa is one of {', '.join(LEVELS)}, not {max_isa!r}")
    if "sse2" not in host_processor().features:  # the levels are those of x86-64
        return host_processor()
    return Processor(level.name, level.features & host_processor().features)


def instruction_set() -> str:
    """Returns the name of the newest level of `LEVELS` whose instruction sets code may use all; `baseline` if that is
    none."""
    features = target_processor().features
    levels = [name for name, level in LEVELS.items() if level.features <= features]
    return levels[-1] if levels else "baseline"


def vector_bytes() -> int:
    """Returns the size in bytes of the widest vector registers that code may use."""
    return target_processor().vector_bytes
