"""The transport between processes over MPI. The only modules that import mpi4py."""
