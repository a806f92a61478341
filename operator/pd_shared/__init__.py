"""Constants that the operator and the proxy share. Imports nothing of either."""
