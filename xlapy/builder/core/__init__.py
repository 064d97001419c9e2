"""The classes of the builder: `XlaBuilder`, `XlaOp`, `XlaComputation`; broadcasting, annotations, indexing."""
