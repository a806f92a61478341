"""`python -m tests.cluster up|down|status`."""

import sys

from tests import cluster
from tools.stages import UserError, fail


def main(arguments: list[str]) -> int:
    """Run a command; the exit code."""
    commands = {"up": cluster.up, "down": cluster.down, "status": cluster.status}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(f"usage: python -m tests.cluster {'|'.join(commands)}", file=sys.stderr)
        return 2
    try:
        commands[arguments[0]]()
    except UserError as error:
        return fail("cluster", error)
    except KeyboardInterrupt:
        return fail("cluster", UserError("interrupted; the next command takes away what is left"))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return fail("cluster", UserError(f"{where}{error.strerror or error}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
