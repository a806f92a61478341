"""`make demo`: from nothing to a first token through a prefill/decode pair."""
