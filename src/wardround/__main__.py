"""``python -m wardround`` is the ``wardround`` command."""

import sys

from wardround.cli import main

sys.exit(main())
