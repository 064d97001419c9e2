"""The page of a module: the template with the data put in.

Owns: how data becomes text that is safe inside HTML. Must not know: what the data says.
"""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from xlapy.hlo.module import Module
from xlapy.tools.native_forms import NativeForms
from xlapy.tools.show.payload import module_payload, native_payload


def module_page(module: Module, native: NativeForms | None = None) -> str:
    """One HTML file that needs nothing else; ASCII."""
    template = files(__package__).joinpath("page.html").read_text("utf-8")
    head, module_slot, rest = template.partition("@MODULE@")
    middle, native_slot, tail = rest.partition("@NATIVE@")
    assert module_slot and native_slot
    title = html.escape(module.name).encode("ascii", "xmlcharrefreplace").decode("ascii")
    return "".join([
        head.replace("@TITLE@", title), script_json(module_payload(module, native)), middle,
        script_json(native_payload(native)), tail,
    ])  # fmt: skip


def script_json(value: Any) -> str:
    """JSON inside a `script` element: no `<`, so that no text in it ends the element or begins a comment."""
    return (
        json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )
