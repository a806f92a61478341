"""Discrete-event simulation of a disaggregated deployment under an autoscaling policy."""
