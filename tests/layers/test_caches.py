"""Which caches may compute a value twice.

`functools` computes a value once per thread that asks before the first value is there. Every use of its caches is
listed here with the reason why that is harmless; a function whose value owns machine code, records, classes, threads or
libraries is a `SingleFlight`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "xlapy"

EQUAL = "values of one key compare equal, and own nothing"
HARMLESS: dict[str, str] = dict.fromkeys(
    [
        "base.error_codes.code.families",
        "base.flags.current",
        "builder.core.source._metadata",
        "codegen.emitters.fft.plan._factors",
        "codegen.emitters.fft.plan.is_smooth",
        "codegen.emitters.fft.plan.radices",
        "codegen.plan._plan_in",
        "debugging.hostile.formats.corpus_of",
        "debugging.hostile.formats.find_format",
        "base.arguments.expected_types.hints_of",
        "debugging.hostile.hlo._modules",
        "debugging.hostile.storage._bomb",
        "debugging.hostile.storage._executables",
        "debugging.hostile.storage._folder",
        "hlo.names._parts",
        "hlo.metadata._relative",
        "interpreter.transfer.parse_pairs",
        "loops.mathematics.expression.integer",
        "hlo.selections._holds",
        "hlo.selections._is_associative",
        "opcodes.attributes.replica_groups._device_groups",
        "pjrt.objects.loaded_executable.parameter_orders",
        "pjrt.objects.loaded_executable.result_orders",
        "pjrt.objects.platform.addressable_devices",
        "pjrt.objects.platform.devices_by_number",
        "proto.encodings.numbers",
        "spmd.array_sharding._tiling_along",
        "spmd.array_sharding._tilings_of_positions",
        "spmd.collectives.device_pairs._pairs_of_tiles",
        "spmd.collectives.device_pairs.pairs_in_groups",
        "spmd.collectives.device_pairs.pairs_of_contents",
        "spmd.halo.segments.elements_of_spans",
        "spmd.halo.segments.rounds_of_concatenation",
        "spmd.halo.segments.rounds_of_spans",
        "spmd.tiling._are_independent",
        "spmd.tiling._combined_tiling",
        "spmd.tiling._major_and_minor",
        "spmd.tiling._replica_groups_along",
        "spmd.tiling._rest_of_tiling",
        "spmd.tiling.tile_numbers",
        "spmd.time_model._resharding_seconds",
        "spmd.time_model.cheapest_plan",
        "stablehlo.text.print_types.type_text",
        "stablehlo.importing.core.types._known_shape",
        "stablehlo.text.print_types.type_text",
        "testing.accepted_types._instructions_of",
        "testing.accepted_types.accepted_types",
        "testing.examples.example._parts",
        "testing.examples.example.lines",
        "testing.random_modules.elementwise._result",
        "tools.explain_error.examples._refused_examples",
        "tools.ops.ops_page.builders",
    ],
    EQUAL,
) | {
    "interpreter.builtin_targets.program._parsed": "a module that only its callers refer to",
    "stablehlo.importing.dialects.chlo._function_computation": "a computation that modules copy",
    "tools.demo.digits.reducer": "a computation that modules copy",
    "hlo.conversions.find_conversion": "a function of a module; loading no more with the package matters",
    "testing.xla_cpu.compile_hlo": "the program is kept alive by its users; the cache forgets old ones",
}

_DECORATORS = ("cache", "lru_cache", "cached_property")


def functools_caches(tree: ast.AST) -> Iterator[str]:
    """The names of the functions that a cache of `functools` decorates, and of other uses of such a cache."""
    decorators: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                name = decorator.func if isinstance(decorator, ast.Call) else decorator
                if _is_cache(name):
                    decorators.add(id(name))
                    yield node.name
    imported = _imported(tree)
    for node in ast.walk(tree):
        is_named = isinstance(node, ast.Name) and node.id in imported
        if (is_named or (isinstance(node, ast.Attribute) and _is_cache(node))) and id(node) not in decorators:
            yield f"line {node.lineno}"


def _is_cache(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _DECORATORS and isinstance(node.value, ast.Name) and node.value.id == "functools"
    return isinstance(node, ast.Name) and node.id in _DECORATORS


def _imported(tree: ast.AST) -> set[str]:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "functools")
    return {alias.asname or alias.name for node in imports for alias in node.names if alias.name in _DECORATORS}


def test_every_cache_that_may_compute_twice_is_harmless():
    found: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        text = file.read_text()
        if "functools" in text:
            found |= {f"{module}.{name}" for name in functools_caches(ast.parse(text))}
    assert found == HARMLESS.keys()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@functools.cache\ndef f(): ...", ["f"]),
        ("from functools import lru_cache\n@lru_cache(maxsize=2)\ndef f(): ...", ["f"]),
        ("class A:\n    @functools.cached_property\n    def f(self): ...", ["f"]),
        ("g = functools.cache(f)", ["line 1"]),
        ("from functools import cache\ng = cache(f)", ["line 2"]),
        ("@SingleFlight\ndef f(): ...", []),
        ("@cache.command()\ndef f(): ...", []),
    ],
)
def test_caches_are_found(text, names):
    assert list(functools_caches(ast.parse(text))) == names
