"""The platform of these tests has four devices."""

from __future__ import annotations

import pytest

from xlapy.base import flags
from xlapy.pjrt.objects.platform import platform

DEVICES = 4


@pytest.fixture(scope="session", autouse=True)
def devices() -> None:
    """Makes the platform, of which there is one in a process."""
    with pytest.MonkeyPatch.context() as patch:
        changed = flags.current().replace(num_devices=DEVICES)
        patch.setattr(flags, "current", lambda: changed)
        assert len(platform().devices) == DEVICES
