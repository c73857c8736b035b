"""The script for ``spark-submit``: ``msmq pipeline`` with the Spark that it is submitted to.

It is not beside the commands, because Python looks for modules in the folder of a script first, and some commands have
the names of modules.
"""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from msmq.cli.pipeline import app
    except ImportError as error:
        sys.exit(
            f"msmq: {sys.executable}, which spark-submit runs, lacks what is needed ({error}). Let PYSPARK_PYTHON name "
            "a Python in which msmq[spark] is installed, here and on the executors; --py-files is not enough."
        )
    app()


if __name__ == "__main__":
    main()
