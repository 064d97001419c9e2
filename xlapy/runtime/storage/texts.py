"""Finds programs of the compile cache by the text that they were compiled from, without parsing it.

For each text, a small file of the cache's directory names the program. Its header:

    key             the digest of the text, of what else the caller asks for, and of what every program depends on
    program         the key of the program
    platform, num_replicas, num_partitions, donated, module     as in a serialized executable (`serialized`)

The same module in another text, or with other source locations, has another such file, which names the same program.
Programs that call the host are left out: what they need depends on the process.

Responsible for these files. Does not depend on the format of programs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xlapy.base.container import MALFORMED
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.logging import logger
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.serialization.executable import LoadedProgram
from xlapy.hlo.module import Module
from xlapy.runtime.engine.donation import DonatedLeaf
from xlapy.runtime.storage.compile_cache import CompileCache, compile_environment, current_cache
from xlapy.runtime.storage.serialized import SerializedExecutable, executable_header, executable_of


@dataclass(frozen=True, slots=True)
class CachedText:
    """A text that is compiled. read: parses it."""

    cache: CompileCache
    key: str
    read: Callable[[], Module]

    def find(self) -> SerializedExecutable | None:
        """Returns the executable that was compiled from the text, if the cache has it."""
        try:
            header = self.cache.get_text(self.key)
            program = None if header is None else self.cache.get(str(header["program"]))
            if header is None or program is None:
                return None
            found = executable_of(header, self.read, program)
            logger.info("%s was compiled before: %s", found.source.name, header["program"])
            return found
        except (InvalidArgumentError, OSError, *MALFORMED):
            return None

    def note(
        self, platform: str, module: Module, counts: tuple[int, int], donated: Sequence[DonatedLeaf], program: str
    ) -> None:
        """Records the program that was compiled from the text. counts: of replicas and of partitions. program: its key
        in the cache."""
        header = executable_header(platform, module, *counts, donated)
        with suppress(OSError):
            self.cache.put_text(self.key, {**header, "program": program})


def cached_program_key(program: object) -> str | None:
    """Returns the key of a program in the cache, if it is there and does not call the host."""
    compiled = getattr(program, "compiled", None)
    if not isinstance(compiled, (Compiled, LoadedProgram)) or compiled.program.host_calling_thunks:
        return None
    return compiled.cache_key


def cached_text(program: str | bytes, options: Sequence[Any], read: Callable[[], Module]) -> CachedText | None:
    """Returns the entry of a text in the cache that the flags name; None if there is no cache.

    options: what the caller asks for besides the text, as given. read: parses the text.
    """
    cache = current_cache()
    if cache is None:
        return None
    data = program.encode("utf-8", "surrogateescape") if isinstance(program, str) else program
    depends = {"options": options, "type": type(program).__name__, **compile_environment()}
    digest = hashlib.sha256(json.dumps(depends, sort_keys=True, default=repr).encode())  # repr: integers of NumPy
    digest.update(data)
    return CachedText(cache, digest.hexdigest(), read)
