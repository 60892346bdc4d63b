"""`python -m brojepa` is the `brojepa` command."""

import sys

from brojepa.cli import main

if __name__ == "__main__":  # processes that Python starts for us read this file again
    sys.exit(main())
