"""Several devices on cpu: runs the interpreter's tests on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.runtime.collectives.test_launch import *  # noqa: F403

# Observers see the values of single instructions, which native programs do not run one by one.
del test_an_error_on_one_device_cancels_the_others_and_names_it  # noqa: F821
del test_a_single_device_raises_its_error_unchanged  # noqa: F821
del test_control_c_stops_all_devices  # noqa: F821
del test_observers_run_in_the_thread_of_the_device  # noqa: F821
