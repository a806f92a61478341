"""From what the proxies measure to how many replicas each tier should have; pure."""
