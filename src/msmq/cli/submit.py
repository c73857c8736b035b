"""The script for ``spark-submit``: ``msmq pipeline`` with the Spark that it is submitted to."""

from __future__ import annotations


def main() -> None:
    from msmq.cli.pipeline import app

    app()


if __name__ == "__main__":
    main()
