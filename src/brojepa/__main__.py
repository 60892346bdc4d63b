"""`python -m brojepa` is the `brojepa` command."""

import sys

from brojepa.cli import main

sys.exit(main())
