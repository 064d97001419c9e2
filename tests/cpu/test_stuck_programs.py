"""Random programs whose devices diverge, run as native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.runtime.test_stuck_programs import *  # noqa: F403
