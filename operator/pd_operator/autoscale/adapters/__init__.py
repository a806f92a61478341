"""The autoscaler behind the interfaces of other programs."""
