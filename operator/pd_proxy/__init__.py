"""pd_proxy."""
