"""The project's tests, and the local Kubernetes that they run on."""
