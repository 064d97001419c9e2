"""The order of the layers and the size of folders and files, read from the sources.

A layer imports only from the layers before it in `LAYERS`, and modules do not import each other in a cycle. Imports
inside functions and under TYPE_CHECKING count. Every exception is listed with its reason, and an exception that is no
longer needed fails the test.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

LAYERS = (
    "base",
    "opcodes",
    "hlo",
    "text",
    "proto",
    "builder",
    "ops",
    "reference",
    "custom_calls",
    "interpreter",
    "stablehlo",
    "analysis",
    "passes",
    "spmd",
    "loops",
    "lower",
    "codegen",
    "native",
    "cpu",
    "runtime",
    "distributed",
    "pjrt",
    "testing",
    "debugging",
    "tools",
    "compat",
)

UPWARD_IMPORTS: dict[tuple[str, str], str] = {}
"""Imports against the order: (module, layer it imports from) -> reason."""

CYCLES: dict[frozenset[str], str] = {
    frozenset({"xlapy.hlo.computation", "xlapy.hlo.instruction", "xlapy.hlo.module"}): (
        "an instruction refers to its computation and a computation to its module; imported for types only"
    ),
    frozenset({"xlapy.builder.core.builder", "xlapy.builder.core.op"}): (
        "an XlaOp refers to its builder; imported for types only"
    ),
}
"""Sets of modules that import each other in a cycle -> reason."""

FRONT_ENDS = ("pjrt", "tools", "compat")
"""Layers that no other layer imports."""

OUTSIDE_PACKAGES: dict[str, tuple[str, ...]] = {
    "jax": ("xlapy.pjrt", "xlapy.testing.xla_cpu"),
    "jaxlib": ("xlapy.pjrt", "xlapy.testing.xla_cpu"),
    "llvmlite": ("xlapy.cpu.llvm", "xlapy.native"),
    "google": ("xlapy.proto",),
    "mpi4py": ("xlapy.runtime.collectives.mpi",),
}
"""Packages that only some modules of xlapy may import: package -> folders or modules."""

MAX_FILES_IN_FOLDER = 22
MAX_LINES = 500
LONG_FILES: dict[str, str] = {
    **dict.fromkeys(
        [f"xlapy.opcodes.{family}" for family in ("collectives", "elementwise", "movement")],
        "a table of definitions of operations",
    ),
    "xlapy.builder.elementwise": "one function per operation",
}
"""Files with more than `MAX_LINES` lines -> reason."""

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "xlapy"
FILES = sorted(PACKAGE.rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


def imported_modules(file: Path) -> Iterator[str]:
    """The absolute names that a file imports at any depth, including `import_module("...")` of a literal name.

    `from a import b` gives `a.b` if that is a module of xlapy, else `a`.
    """
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{origin}.{alias.name}"
                yield name if name in MODULES else origin
        elif isinstance(node, ast.Call) and _is_import_call(node.func) and node.args:
            yield from _literal_names(node.args[0])


def _is_import_call(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def _literal_names(argument: ast.expr) -> Iterator[str]:
    """Returns a literal name; for a formatted string its literal start and `*`: `xlapy.testing.samples.*`."""
    formatted = isinstance(argument, ast.JoinedStr) and argument.values
    if isinstance(argument, ast.JoinedStr) and argument.values:
        argument = argument.values[0]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield f"{argument.value}*" if formatted else argument.value


def layer_of(module: str) -> str | None:
    """Returns the layer that a module of xlapy belongs to, or None for the package itself and for other packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "xlapy" and len(parts) > 1 else None


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Returns the modules that each module imports."""
    return {name: set(imported_modules(file)) - {name} for name, file in MODULES.items()}


def cycles(edges: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Returns the strongly connected components of more than one module (Tarjan's algorithm without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: set[frozenset[str]] = set()
    for root in edges:
        pending = [(root, iter(sorted(edges[root])))] if root not in index else []
        while pending:
            module, successors = pending[-1]
            if module not in index:
                index[module] = low[module] = len(index)
                stack.append(module)
                on_stack.add(module)
            for successor in successors:
                if successor in on_stack:
                    low[module] = min(low[module], index[successor])
                elif successor in edges and successor not in index:
                    pending.append((successor, iter(sorted(edges[successor]))))
                    break
            else:
                pending.pop()
                if pending:
                    low[pending[-1][0]] = min(low[pending[-1][0]], low[module])
                if low[module] == index[module]:
                    component = set(stack[stack.index(module) :])
                    del stack[stack.index(module) :]
                    on_stack -= component
                    if len(component) > 1:
                        found.add(frozenset(component))
    return found


def test_cycles_are_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e", "outside"}, "e": {"d"}, "f": {"a"}}
    assert cycles(edges) == {frozenset({"b", "c"}), frozenset({"d", "e"})}
    assert cycles({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}) == set()


def test_every_package_has_a_place_in_the_order():
    packages = {directory.name for directory in PACKAGE.iterdir() if list(directory.rglob("*.py"))}
    modules = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert (packages | modules) - set(LAYERS) == set()


def test_a_layer_imports_only_from_layers_before_it(imports):
    upward: set[tuple[str, str]] = set()
    for module, names in imports.items():
        own = layer_of(module)
        if own in LAYERS:
            later = LAYERS[LAYERS.index(own) + 1 :]
            upward |= {(module, layer) for name in names if (layer := layer_of(name)) in later}
    assert upward == UPWARD_IMPORTS.keys()


def test_modules_do_not_import_each_other_in_a_cycle(imports):
    assert cycles(imports) == CYCLES.keys()


@pytest.mark.parametrize("layer", FRONT_ENDS)
def test_no_layer_imports_a_front_end(imports, layer):
    """`python -m xlapy` is the command line, so `xlapy.__main__` may import the tools."""
    users = {module for module, names in imports.items() if layer in map(layer_of, names) and layer_of(module) != layer}
    listed = {module for module, target in UPWARD_IMPORTS if target == layer}
    assert users - {"xlapy.__main__"} - listed == set()


@pytest.mark.parametrize("package", OUTSIDE_PACKAGES)
def test_outside_packages_are_imported_only_where_they_are_allowed(imports, package):
    users = {module for module, names in imports.items() if any(name.split(".")[0] == package for name in names)}
    allowed = OUTSIDE_PACKAGES[package]
    assert {user for user in users if not any(f"{user}.".startswith(f"{place}.") for place in allowed)} == set()


def test_importing_the_package_loads_no_heavy_package():
    heavy = ("jax", "jaxlib", "llvmlite", "scipy", "click", "rich", "google.protobuf")
    code = f"import sys, xlapy; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_module_has_a_docstring():
    silent = [name for name, file in MODULES.items() if not ast.get_docstring(ast.parse(file.read_text()))]
    assert silent == []


def test_no_file_is_longer_than_the_limit():
    long = {name for name, file in MODULES.items() if len(file.read_text().splitlines()) > MAX_LINES}
    assert long == LONG_FILES.keys()


def test_no_folder_holds_more_files_than_the_limit():
    folders = {file.parent for file in FILES}
    sizes = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: size for folder, size in sizes.items() if size > MAX_FILES_IN_FOLDER} == {}
