"""What an engine must do, for the simulated one and vLLM itself: so that the first cannot drift.

Each `check_…` takes a `Pair`; `tests/unit/test_engine_sim_conformance.py` and
`tests/e2e/test_engine_conformance.py` run them all.
"""
