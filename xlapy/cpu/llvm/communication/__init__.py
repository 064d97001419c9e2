"""LLVM code by which devices communicate: rendezvous, transfers, feeds and waits."""
