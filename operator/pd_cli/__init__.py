"""`kubectl pd`: what the operator would make of a file, without a cluster."""
