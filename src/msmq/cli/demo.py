"""``msmq demo``: show the product in one story. The work is imported when it runs."""

from __future__ import annotations

import typer

from msmq.cli.calls import REFUSED, fail, guarded

HELP = (
    "Show what it does, in one story of under a minute.\n\n"
    "Two queue managers start as processes of their own. One sends orders to the other while the link between them is "
    "cut and restored; everything arrives once and in order, the replies come back, and a message that cannot be "
    "delivered turns up in the dead-letter queue with its reason. Nothing is left behind.\n\n"
    "Status: 0 when everything was as it should be, 1 when not.\n\nExamples:\n\n  msmq demo"
)


def demo(ctx: typer.Context) -> None:
    from msmq.cli.demonstration import DemoError, run

    def told() -> bool:
        try:
            return run()
        except (DemoError, TimeoutError) as error:
            fail(ctx, str(error) or "a queue manager did not start in time", REFUSED)

    if not guarded(ctx, told):
        fail(ctx, "something was not as it should be; the summary says what", REFUSED)
