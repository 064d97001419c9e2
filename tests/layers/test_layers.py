"""The order of the layers, read from the imports: a package imports only from packages above it in the list."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
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
    "pjrt",
    "testing",
    "debugging",
    "tools",
)

# Imports against the order, each with its reason: (module, package it reaches).
FORWARDS = {
    ("xlapy.builder.core.op", "ops"): "operators of XlaOp call builder functions",
    ("xlapy.hlo.module", "text"): "module.to_text() prints",
    ("xlapy.hlo.module", "proto"): "module.to_proto() writes, Module.from_proto() reads",
    ("xlapy.hlo.module", "stablehlo"): "module.to_stablehlo() writes",
    ("xlapy.hlo.sharding", "text"): "Sharding.parse() reads",
}

LONGEST_FILE = 800

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "xlapy"
FILES = sorted(PACKAGE.rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(file: Path) -> Iterator[str]:
    """The absolute names a file imports, at any depth, `import_module("...")` of a literal name included."""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            if origin == "xlapy" or node.module is None:
                yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _is_import_call(node.func) and node.args:
            yield from _literal_names(node.args[0])


def _is_import_call(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def _literal_names(argument: ast.expr) -> Iterator[str]:
    """A literal name, or what a formatted one starts with: `f"xlapy.testing.samples.{family}"`."""
    if isinstance(argument, ast.JoinedStr) and argument.values:
        argument = argument.values[0]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value.rstrip(".")


def layer_of(module: str) -> str | None:
    """The layer a module of xlapy belongs to; None for the package itself and for other packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "xlapy" and len(parts) > 1 else None


@pytest.fixture(scope="module")
def imports() -> dict[Path, set[str]]:
    return {file: set(imported_modules(file)) for file in FILES}


def test_every_package_has_a_place_in_the_order():
    packages = {directory.name for directory in PACKAGE.iterdir() if list(directory.glob("*.py"))}
    assert packages - set(LAYERS) == set()


def test_a_layer_imports_only_from_layers_before_it(imports):
    broken: list[str] = []
    for file, names in imports.items():
        own = layer_of(module_name(file))
        if own not in LAYERS:
            continue
        forwarded = {target for module, target in FORWARDS if module == module_name(file)}
        later = {layer_of(name) for name in names} & set(LAYERS[LAYERS.index(own) + 1 :]) - forwarded
        broken += [f"{module_name(file)} imports xlapy.{other}" for other in later]
    assert broken == []


def test_every_exception_is_still_needed(imports):
    by_module = {module_name(file): {layer_of(name) for name in names} for file, names in imports.items()}
    stale = [key for key in FORWARDS if key[1] not in by_module.get(key[0], set())]
    assert stale == []


def test_nothing_imports_the_tools_or_the_plugin(imports):
    """But for themselves, and for `python -m xlapy`, which is the command line."""
    for target in ("tools", "pjrt"):
        users = {
            module_name(file)
            for file, names in imports.items()
            if layer_of(module_name(file)) != target and any(layer_of(name) == target for name in names)
        }
        assert users - {"xlapy.__main__"} == set(), f"these import xlapy.{target}"


@pytest.mark.parametrize(
    ("package", "allowed"),
    [("jax", "xlapy.pjrt"), ("jaxlib", "xlapy.pjrt"), ("llvmlite", "xlapy.cpu.llvm"), ("google", "xlapy.proto")],
)
def test_outside_packages_stay_in_their_corner(imports, package, allowed):
    users = {
        module_name(file) for file, names in imports.items() if any(name.split(".")[0] == package for name in names)
    }
    assert {user for user in users if not user.startswith((allowed, "xlapy.testing.xla_cpu"))} == set()


def test_importing_the_package_loads_neither_heavy_parts_nor_the_peer():
    heavy = ("jax", "jaxlib", "llvmlite", "scipy", "click", "rich", "google.protobuf")
    code = f"import sys, xlapy; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_module_says_what_it_is():
    silent = [module_name(file) for file in FILES if not ast.get_docstring(ast.parse(file.read_text()))]
    assert silent == []


def test_no_file_is_longer_than_the_limit():
    long = {module_name(file): lines for file in FILES if (lines := len(file.read_text().splitlines())) > LONGEST_FILE}
    assert long == {}
