"""Process 1 of engine pods: starts the engine, passes signals on, keeps groups of pods together.

It runs in the engine's image, from a ConfigMap, with whatever Python is there (3.9 or newer), and
imports nothing but the standard library.
"""
