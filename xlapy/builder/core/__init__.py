"""The machinery of the builder: `XlaBuilder`, `XlaOp`, broadcasting, annotations."""
