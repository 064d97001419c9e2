"""Predicts the time of programs on devices of a process from the kernels that the CPU compiler makes.

`kernel_cycles` estimates the arithmetic of a kernel, `kernel_model` its time on a machine, `program_time` the time of
each instruction on all devices; `samples` measures a machine.
"""
