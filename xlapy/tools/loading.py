"""The option `--load` of commands: Python that runs before the command does.

Must not know: what the code registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from xlapy.base.loading import load_user_code


def _load(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> None:
    for name in names:
        load_user_code(name)


def load_option(registers: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds the option; `registers` says what the code may be for."""
    return click.option(
        "--load",
        multiple=True,
        metavar="FILE.py|MODULE",
        is_eager=True,
        expose_value=False,
        callback=_load,
        help=f"Python to run first: it may register {registers}.",
    )
