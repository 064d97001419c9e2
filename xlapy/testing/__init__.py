"""Material for checking programs, used by tests and tools: samples, worked examples, random modules, and comparison."""
