"""A server on all of the pod's addresses."""

from __future__ import annotations

import socket


def listener(port: int) -> socket.socket:
    """A listening socket for IPv4, and IPv6 where the pod has it; OSError when it is taken."""
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=64, dualstack_ipv6=True
            )
    except OSError:
        pass  # no IPv6 after all; IPv4 says what else may be wrong
    return socket.create_server(("", port), backlog=64)
