"""The script for ``spark-submit``: ``msmq pipeline`` with the Spark that it is submitted to.

It is not beside the commands, because Python looks for modules in the folder of a script first, and some commands have
the names of modules.
"""

from __future__ import annotations


def main() -> None:
    from msmq.cli.pipeline import app

    app()


if __name__ == "__main__":
    main()
