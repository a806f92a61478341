"""The data plane: an OpenAI-compatible proxy that pairs prefillers with decoders."""
