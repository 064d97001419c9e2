"""Several devices on cpu: runs the interpreter's tests on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.runtime.collectives.test_launch import *  # noqa: F403

# Observers see the values of single instructions, which native programs do not run one by one.
del test_an_error_on_one_device_ends_the_others_and_names_it  # noqa: F821
del test_a_single_device_raises_its_error_as_it_is  # noqa: F821
del test_control_c_ends_all_devices  # noqa: F821
del test_observers_know_the_device_by_its_thread  # noqa: F821
