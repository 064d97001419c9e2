"""Makes the tests of a module run on cpu instead of the interpreter."""

from __future__ import annotations

import pytest

from tests.interpreter.runners import replica


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixture that applies to all tests of the module that imports it."""
    monkeypatch.setattr(replica, "platform", "cpu")
