"""Linear algebra by LAPACK: the library, calls of its functions from compiled programs, and operations expressed by
them."""
