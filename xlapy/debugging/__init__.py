"""Finding what is wrong with a program: fuzzing, bisecting, reducing, the first difference."""
