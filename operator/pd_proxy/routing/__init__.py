"""Which pods suit a prompt: pure functions and plain tables, no I/O."""
