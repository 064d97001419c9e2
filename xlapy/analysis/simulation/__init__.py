"""Predicts how long a partitioned module takes on a cluster, and how much memory each device needs.

`machine` describes processors and links, `topology` the place of each device, `kernel_time` and `collective_time` how
long one instruction takes, `simulator` runs the program on one device, `outcome` has what it finds, and `memory` the
bytes that are live. `mesh` changes the mesh of a program that is not partitioned yet.

All devices run the same program, so the simulator runs it once. Does not depend on how results are shown, and measures
nothing.
"""
