"""Makes the tests of a module run on cpu that run on the interpreter elsewhere."""

from __future__ import annotations

import pytest

from tests.interpreter.runners import replica


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """To be imported by the module."""
    monkeypatch.setattr(replica, "platform", "cpu")
