"""The native core of the engine: events, memory and buffers, shared by threads that run without Python."""
