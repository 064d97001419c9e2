"""How devices and the host exchange values during a run: rendezvous, communicators and queues."""
