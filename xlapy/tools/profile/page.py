"""A profile as an HTML page with a roofline and tables."""

from __future__ import annotations

import html
from importlib.resources import files

from xlapy.tools.pages import script_json
from xlapy.tools.profile.report import Profile


def profile_page(profile: Profile) -> str:
    """Returns one self-contained ASCII HTML file."""
    template = files(__package__).joinpath("page.html").read_text("utf-8")
    head, slot, tail = template.partition("@PROFILE@")
    assert slot
    title = html.escape(f"{profile.module.name}: profile").encode("ascii", "xmlcharrefreplace").decode("ascii")
    return "".join([head.replace("@TITLE@", title), script_json(profile.to_json()), tail])
