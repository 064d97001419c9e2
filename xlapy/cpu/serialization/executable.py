"""Serializes compiled programs: machine code, and what a call needs to know about the program's memory.

The format is a container (`xlapy.base.container`) of the kind "cpu program". Its header:

    name, implicit_arguments, arena_size    as in `NativeProgram`
    arguments, results          shapes, as text
    aliases                     [result, argument] pairs
    constants, temporaries      [shape, name]; only the largest temporaries, for error messages
    imports                     the runtime functions that the code calls
    images                      the number of object files with the code of the program
    objects                     the names of the object files that contain the runtime functions
    callbacks                   the thunks that may call the host (`xlapy.cpu.serialization.callbacks`)
    features                    the processor features that the code needs, under LLVM's names
    compiler                    `compiler_identity`; a program is loaded only by the compiler that produced it

Its sections are the optimized module as HLO text (compressed; empty if there are no callbacks), the object files of
the program, the elements of each constant, and the object files with runtime functions. Custom calls are stored by the
name of their target: the process that loads the program must have registered them.

Responsible for this format. Does not depend on where programs are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.container import MALFORMED, Container, compress, expand, pack, unpack
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError, XlaError
from xlapy.base.shape import Shape
from xlapy.base.version import VERSION
from xlapy.codegen.fusion.decisions import Decision, decisions_text
from xlapy.cpu.compiler import Compiled, passes
from xlapy.cpu.llvm.conversions.runtime_functions import NAMES
from xlapy.cpu.llvm.jit import Code, link_objects, llvm_version
from xlapy.cpu.llvm.processor import host_processor, target_processor
from xlapy.cpu.llvm.shared_code import register_objects
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.builder import build_program
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.serialization.callbacks import callbacks_to_json, restore_callbacks
from xlapy.cpu.serialization.runtime_symbols import imported_object_files, resolve_symbol
from xlapy.cpu.serialization.source_digest import source_digest
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.passes.pipeline import Pipeline
from xlapy.text import parse_hlo

KIND = "cpu program"

_MAX_NAMED_TEMPORARIES = 5
"""The number of temporaries that an error message can name."""


@dataclass(slots=True)
class LoadedProgram:
    """A deserialized program: like `Compiled`, but without its intermediate forms."""

    program: NativeProgram
    code: Code
    image: bytes
    source: Callable[[], Module]
    """Returns the module that was compiled, to show how it was optimized."""
    cache_key: str | None = None
    """The key of the program in the compile cache, if it was loaded from there."""
    _optimized: SingleFlight[[], tuple[Module, list[Decision]]] = field(init=False)

    def __post_init__(self) -> None:
        self._optimized = SingleFlight(partial(_optimize, self.source, self.program))

    @property
    def entry(self) -> int:
        """The address of the program's entry function."""
        return self.code.addresses["xlapy_run"]

    @property
    def module(self) -> Module:
        """The module after optimization, with the plans of its kernels. It is computed when it is first requested."""
        return self._optimized()[0]

    def stages(self) -> dict[str, str]:
        """Returns the known intermediate forms of the program."""
        text = self.module.to_text(print_large_constants=True)
        return {"after_optimizations.txt": text, "fusion.txt": decisions_text(self._optimized()[1])}


def _optimize(source: Callable[[], Module], program: NativeProgram) -> tuple[Module, list[Decision]]:
    module, decisions = edit.clone_module(source()), list[Decision]()
    Pipeline(passes(decisions.append, overlaps=program.spans_processes)).run(module)
    # records the plans of kernels in the module
    build_program(module, (), program.replica_count, program.partition_count, spans_processes=program.spans_processes)
    return module, decisions


@SingleFlight
def compiler_identity() -> Mapping[str, str]:
    """Returns what determines the compiled code: versions of libraries and a digest of the sources."""
    return {
        "xlapy": VERSION,
        "sources": source_digest(),
        "llvm": llvm_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
    }


def serialize_program(compiled: Compiled | LoadedProgram) -> bytes:
    """Serializes a program. Raises `UnsupportedError` for one that checks the bounds of accesses."""
    if isinstance(compiled, LoadedProgram):
        return compiled.image
    program, code = compiled.program, compiled.code
    if program.bounds_checks is not None:
        raise UnsupportedError(
            codes.SERIALIZABLE_PROGRAM, f"{program.name} checks bounds: such programs cannot be serialized"
        )
    imports = code.imports.keys() - set(NAMES)  # linking finds runtime functions by itself
    objects = imported_object_files(imports)
    header = {
        "name": program.name,
        "implicit_arguments": program.implicit_arguments,
        "arena_size": program.arena_size,
        "is_long_running": program.is_long_running,
        "arguments": [slice_.shape.to_text() for slice_ in program.arguments],
        "results": [slice_.shape.to_text() for slice_ in program.results],
        "aliases": sorted(program.aliases.items()),
        "constants": _shapes_and_names(program.constants),
        "temporaries": _shapes_and_names(program.temporaries[:_MAX_NAMED_TEMPORARIES]),
        "imports": sorted(imports),
        "images": len(code.images),
        "objects": list(objects),
        "callbacks": callbacks_to_json(program),
        "features": sorted(target_processor().features),
        "compiler": dict(compiler_identity()),
    }
    data = [slice_.data.tobytes() for slice_ in program.constants if slice_.data is not None]
    text = compiled.module.to_text(print_large_constants=True) if program.host_calling_thunks else ""
    shortened = compress(text.encode("utf-8", "surrogateescape"))
    return pack(KIND, header, [shortened, *code.images, *data, *objects.values()])


def deserialize_program(image: bytes, source: Callable[[], Module]) -> LoadedProgram:
    """Restores a program that `serialize_program` has serialized. Its machine code can do anything that this process
    can.

    source: returns the module that was compiled. Raises `InvalidArgumentError` for damaged bytes and those of another
    compiler, and `UnsupportedError` if the processor lacks a feature that the code needs.
    """
    container = unpack(KIND, image)
    try:
        _check_origin(container.header)
        callbacks = container.header["callbacks"]
        program = _program(container)
        if target_processor().features.issuperset(container.header["features"]):  # as programs compiled here have them
            register_objects(_objects(container))
        imports = {name: resolve_symbol(name) for name in container.header["imports"]}
        if callbacks["thunks"]:
            restore_callbacks(program, callbacks, _optimized_module(container))
        elif "fingerprint" in callbacks:
            restore_callbacks(program, callbacks, None)
        code = link_objects(_images(container), ["xlapy_run"], imports)
    except (*MALFORMED, RuntimeError) as error:
        raise InvalidArgumentError(
            codes.SERIALIZED_BYTES, f"the {KIND} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    return LoadedProgram(program, code, image, source)


def _check_origin(header: Mapping[str, Any]) -> None:
    made, here = header["compiler"], compiler_identity()
    differing = [name for name in here if made.get(name) != here[name]]
    if differing:
        name = differing[0]
        raise InvalidArgumentError(
            codes.SERIALIZED_COMPILER,
            f"{header['name']} was compiled with {name} {made.get(name)}, this is {name} {here[name]}",
        )
    lacking = [name for name in header["features"] if name not in host_processor().features]
    if lacking:
        raise UnsupportedError(
            codes.SERIALIZED_PROCESSOR,
            f"{header['name']} was compiled for a processor with {', '.join(lacking)}, which this one lacks",
        )


def _program(container: Container) -> NativeProgram:
    header = container.header
    program = NativeProgram(
        header["name"],
        implicit_arguments=list(header["implicit_arguments"]),
        arena_size=int(header["arena_size"]),
        is_long_running=bool(header["is_long_running"]),
    )
    program.arguments = _slots(StorageClass.ARGUMENT, [(shape, "") for shape in header["arguments"]])
    program.results = _slots(StorageClass.RESULT, [(shape, "") for shape in header["results"]])
    program.constants = _slots(StorageClass.CONSTANT, header["constants"])
    program.temporaries = _slots(StorageClass.TEMPORARY, header["temporaries"])
    program.aliases = {int(result): int(argument) for result, argument in header["aliases"]}
    data_of = container.sections[1 + header["images"] : len(container.sections) - len(header["objects"])]
    for slice_, data in zip(program.constants, data_of, strict=True):
        slice_.data = np.ndarray(slice_.shape.dimensions, slice_.shape.dtype, data)
    return program


def _images(container: Container) -> list[bytes]:
    return [bytes(section) for section in container.sections[1 : 1 + container.header["images"]]]


def _objects(container: Container) -> dict[str, bytes]:
    names = container.header["objects"]
    sections = container.sections[len(container.sections) - len(names) :]
    return {name: bytes(section) for name, section in zip(names, sections, strict=True)}


def _optimized_module(container: Container) -> Module:
    text = expand(container.sections[0], f"the module of the {KIND}")
    return parse_hlo(text.decode("utf-8", "surrogateescape"), verify=False)


def _shapes_and_names(slices: Sequence[BufferSlice]) -> list[tuple[str, str]]:
    return [(slice_.shape.to_text(), slice_.name) for slice_ in slices]


def _slots(kind: StorageClass, described: Sequence[tuple[str, str]]) -> list[BufferSlice]:
    try:
        rows = [(Shape.parse(shape), name) for shape, name in described]
    except XlaError as error:
        raise ValueError(error.message) from error
    return [BufferSlice(shape, kind, number, name=name) for number, (shape, name) in enumerate(rows)]
