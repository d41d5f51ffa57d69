"""``python -m ortbench`` is the same program as the ``ortbench`` command."""

from ortbench.cli import main

main()
