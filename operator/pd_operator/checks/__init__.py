"""Checks of a spec, one subject per file; `pd_operator.validate` runs them all."""
