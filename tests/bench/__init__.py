"""Benchmarks: what the project costs in time, each a table and a file under build/bench."""
