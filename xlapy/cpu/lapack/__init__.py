"""Linear algebra by LAPACK: the library, calls of its functions from compiled programs, what is written by them."""
