"""``python -m msmq`` is the ``msmq`` command."""

from msmq.cli import main

main()
