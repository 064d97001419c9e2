"""Executables as bytes: a compiled program with its module, for other processes on machines of the same kind.

The format is a container (`xlapy.base.container`) of the kind "executable". Its header holds the platform, the devices,
the donated leaves of the parameters, the description of the module (`lazy_module.describe_module`) and, if `compile`
has partitioned it, the shardings of its entry. Its sections are the module as HLO text, compressed
(`container.compress`), and the serialized program of the platform.

Responsible for this format. Does not depend on the format of the platform's program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlapy.base.container import MALFORMED, compress, expand, is_container, pack, unpack
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.runtime.engine.donation import DonatedLeaf, donated_leaf
from xlapy.runtime.storage.lazy_module import LazyModule, describe_module, lazy_module_from
from xlapy.text import PrintOptions, parse_hlo, print_module

if TYPE_CHECKING:
    from xlapy.spmd.entry.shardings import EntryShardings

KIND = "executable"


@dataclass(frozen=True, slots=True)
class SerializedExecutable:
    """The contents of a serialized executable."""

    platform: str
    source: LazyModule
    num_replicas: int
    num_partitions: int
    donated: tuple[DonatedLeaf, ...]
    program: bytes
    entry_shardings: EntryShardings | None = None


def is_serialized(data: bytes) -> bool:
    """Whether data starts like an executable. HLO text never does."""
    return is_container(data)


def write_executable(
    platform: str,
    module: Module,
    num_replicas: int,
    num_partitions: int,
    donated: Sequence[DonatedLeaf],
    program: bytes,
    entry_shardings: EntryShardings | None = None,
) -> bytes:
    """Serializes an executable. program: the bytes of `Program.serialize`."""
    header = executable_header(platform, module, num_replicas, num_partitions, donated)
    if entry_shardings is not None:
        from xlapy.runtime.storage.entry_shardings import describe_shardings  # only partitioned programs need it

        header["entry_shardings"] = describe_shardings(entry_shardings)
    text = print_module(module, PrintOptions(print_large_constants=True)).encode("utf-8", "surrogateescape")
    return pack(KIND, header, [compress(text), program])


def executable_header(
    platform: str, module: Module, num_replicas: int, num_partitions: int, donated: Sequence[DonatedLeaf]
) -> dict[str, Any]:
    """Returns the header of a serialized executable."""
    return {
        "platform": platform,
        "num_replicas": num_replicas,
        "num_partitions": num_partitions,
        "donated": [[leaf.parameter, list(leaf.path)] for leaf in donated],
        "module": describe_module(module),
    }


def platform_and_device_count(data: bytes) -> tuple[str, int]:
    """Returns the platform of an executable, and the number of devices it runs on; `InvalidArgumentError` for other
    bytes."""
    header = unpack(KIND, data).header
    try:
        return str(header["platform"]), int(header["num_replicas"]) * int(header["num_partitions"])
    except MALFORMED as error:
        raise InvalidArgumentError(
            codes.SERIALIZED_BYTES, f"the {KIND} cannot be read: {type(error).__name__}: {error}"
        ) from error


def read_executable(data: bytes) -> SerializedExecutable:
    """The inverse of `write_executable`; `InvalidArgumentError` for other or damaged bytes."""
    container = unpack(KIND, data)
    try:
        text, program = container.sections
        return executable_of(container.header, lambda: _module(bytes(text)), bytes(program))
    except MALFORMED as error:
        raise InvalidArgumentError(
            codes.SERIALIZED_BYTES, f"the {KIND} cannot be read: {type(error).__name__}: {error}"
        ) from error


def executable_of(header: Mapping[str, Any], read: Callable[[], Module], program: bytes) -> SerializedExecutable:
    """Returns an executable with a header, a program, and the module that `read` returns; one of `MALFORMED` for other
    headers."""
    source = lazy_module_from(header["module"], read)
    counts = int(header["num_replicas"]), int(header["num_partitions"])
    donated = [donated_leaf(source, int(number), map(int, path)) for number, path in header["donated"]]
    shardings = _entry_shardings_of(header, counts[1])
    return SerializedExecutable(str(header["platform"]), source, *counts, tuple(donated), program, shardings)


def _entry_shardings_of(header: Mapping[str, Any], num_partitions: int) -> EntryShardings | None:
    if "entry_shardings" not in header:
        return None
    from xlapy.runtime.storage.entry_shardings import shardings_from  # only partitioned programs need it

    return shardings_from(header["entry_shardings"], num_partitions)


def _module(text: bytes) -> Module:
    return parse_hlo(expand(text, f"the module of the {KIND}").decode("utf-8", "surrogateescape"))
