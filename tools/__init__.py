"""What builds, tests and shows the project: not part of any image."""
