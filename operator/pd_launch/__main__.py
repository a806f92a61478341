"""`python3 -I -B <folder>/pd_launch launch|preflight …`: the folder itself is what is run."""

import os
import sys

if not __package__:
    # Run as a folder: its own files must not stand for modules of the standard library.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from pd_launch import signals

if __name__ == "__main__":
    # Process 1 has no default action for a signal: what comes before the loop is kept for it.
    signals.catch()
    from pd_launch import main

    main.main(sys.argv[1:])
