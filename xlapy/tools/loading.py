"""The option `--load` of commands, which runs Python before the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from xlapy.base.loading import load_user_code


def _load(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> None:
    for name in names:
        load_user_code(name)


def load_option(registers: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that adds the option; `registers` describes in the help text what the code may register."""
    return click.option(
        "--load",
        multiple=True,
        metavar="FILE.py|MODULE",
        is_eager=True,
        expose_value=False,
        callback=_load,
        help=f"Python to run first; it may register {registers}.",
    )
