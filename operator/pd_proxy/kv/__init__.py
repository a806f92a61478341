"""How the KV cache gets from a prefiller to a decoder: one module for each connector."""
