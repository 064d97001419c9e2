"""The HTML page of a module: the template with the data inserted."""

from __future__ import annotations

import html
from importlib.resources import files

from xlapy.hlo.module import Module
from xlapy.tools.native_forms import NativeForms
from xlapy.tools.pages import script_json
from xlapy.tools.profile.report import Profile
from xlapy.tools.show.payload import module_payload, native_payload


def module_page(module: Module, native: NativeForms | None = None, profile: Profile | None = None) -> str:
    """Returns one self-contained ASCII HTML file. profile: the times of the module as it runs."""
    template = files(__package__).joinpath("page.html").read_text("utf-8")
    head, module_slot, rest = template.partition("@MODULE@")
    middle, native_slot, tail = rest.partition("@NATIVE@")
    assert module_slot and native_slot
    title = html.escape(module.name).encode("ascii", "xmlcharrefreplace").decode("ascii")
    return "".join([
        head.replace("@TITLE@", title), script_json(module_payload(module, native, profile)), middle,
        script_json(native_payload(native)), tail,
    ])  # fmt: skip
