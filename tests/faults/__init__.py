"""The operator against an API server in memory, with every kind of fault."""
