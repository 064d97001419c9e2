"""Random programs whose devices go different ways, as native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.runtime.test_stuck_programs import *  # noqa: F403
