"""Sources of backends: the pods of this deployment, or a file."""
