"""The objects behind PJRT's handles: buffers, executables, layouts, devices."""
