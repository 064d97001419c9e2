"""Rendezvous and queues through which devices and the host exchange values during a run."""
