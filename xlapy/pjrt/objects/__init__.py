"""The objects behind PJRT handles: clients, devices, memories, buffers, executables and layouts."""
