"""Read by Python at its start: importing vLLM makes millions of objects, none of them garbage."""

import gc

gc.set_threshold(100_000, 20, 100)
