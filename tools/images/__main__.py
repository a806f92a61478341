"""`python -m tools.images build|load [NAME…]`, and `lock` for the lists of Python packages."""

import sys
from typing import Final

from tools import images
from tools.images import locked
from tools.stages import UserError, fail, say

_USAGE: Final = (
    f"say what to do: build [NAME…], load [NAME…] or lock; images are {', '.join(images.NAMES)}"
)


def main(arguments: list[str]) -> int:
    """Carry out one command; its exit code."""
    command, *names = arguments or [""]
    try:
        if command == "build":
            done = images.build(names)
        elif command == "load":
            done = images.load(names)
        elif command == "lock" and not names:
            locked.write()
            return 0
        else:
            raise UserError(_USAGE)
    except UserError as error:
        return fail(images.WHO, error)
    except FileNotFoundError as error:  # uv or a program of a builder is not there
        return fail(images.WHO, UserError(str(error)))
    except KeyboardInterrupt:
        return fail(images.WHO, UserError("interrupted; nothing half-built is left"))
    for name, reference in done.items():
        say(images.WHO, f"{name}: {reference}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
