"""Calling the queue manager: its address, and turning errors into one line and an exit status.

Help needs only the first half of this module; the client is imported when a command runs.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    import msmq

T = TypeVar("T")

REFUSED: Final = 1
"""The queue manager refused, or a file could not be used."""
MISUSED: Final = 2
"""The command line is wrong."""
TIMED_OUT: Final = 3
"""No message came in time."""
UNREACHABLE: Final = 4
"""No queue manager answers, or the connection broke."""
INTERRUPTED: Final = 130

STATUSES: Final = (
    "Status: 0 done, 1 refused, 2 wrong use, 3 no message came in time, 4 no queue manager answers; what "
    "went wrong stands in one line on standard error."
)
COMPLETION_S: Final = 2.0
"""The longest that completing a name waits for the queue manager."""


def with_examples(text: str, *commands: str) -> str:
    """The help of a command with examples to copy."""
    return "\n\n".join((text, "Examples:", *(f"  {command}" for command in commands)))


@dataclass(frozen=True, slots=True)
class Server:
    """The options before the command: the address of the queue manager, and the credentials."""

    address: str | None = None
    token: str | None = None
    authorities: Path | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    timeout_s: float = 10.0

    def connection(self) -> msmq.Connection:
        """Make a connection, without opening it."""
        import msmq
        from msmq.api.addresses import server_address

        address = server_address(self.address)
        lonely = address.startswith("unix:") and "," not in address
        if lonely and not Path(address.removeprefix("unix:")).exists():
            raise msmq.ServerNotAvailableError(
                f"There is no socket {address}. Start a queue manager with `msmq serve`, or say where it is: "
                "--server unix:PATH or HOST:PORT."
            )
        tls = None
        if self.authorities or self.certificate or self.private_key:
            tls = msmq.Tls(self.authorities, self.certificate, self.private_key)
        return msmq.connect(address, token=self.token, tls=tls, timeout=self.timeout_s)


Json = Annotated[bool, typer.Option("--json", help="JSON, one object per line (docs/cli-json.md).")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even at a terminal.")]
LookupIds = Annotated[
    list[int] | None,
    typer.Option(
        "--id",
        metavar="LOOKUP_ID",
        min=0,
        max=(1 << 64) - 1,
        help="This message; may be repeated.",
        show_default=False,
    ),
]


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of queues for shell completion; none if the queue manager does not answer quickly."""
    import asyncio
    from dataclasses import replace

    from msmq.errors import MsmqError

    given = ctx.find_root().params.get("server")
    server = replace(Server(given), timeout_s=COMPLETION_S)

    async def ask() -> list[str]:
        async with asyncio.timeout(COMPLETION_S), server.connection() as mq:
            name = (await mq.manager()).computer_name
            return [_dotted(info.path, name) for info in await mq.queues()]

    try:
        names = asyncio.run(ask())
    except (MsmqError, OSError, TimeoutError):
        return []
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def _dotted(path: str, computer: str) -> str:
    host, _, rest = path.partition("\\")
    return f".\\{rest}" if host.lower() == computer.lower() else path


def with_options(**groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options that it shares with others.

    The argument of each name is what the function returns, and the parameters of the function are options of the
    command. The first parameter of both is the context.
    """

    def with_them(command: Callable[..., None]) -> Callable[..., None]:
        parameters: dict[str, inspect.Parameter] = {}
        names: dict[str, list[str]] = {}
        for each in inspect.signature(command, eval_str=True).parameters.values():
            taken = {each.name: each}
            if each.name in groups:
                taken = dict(inspect.signature(groups[each.name], eval_str=True).parameters)
                names[each.name] = list(taken)[1:]
            parameters |= {name: taken[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in taken}

        def run(ctx: typer.Context, **given: Any) -> None:
            made = {
                group: groups[group](ctx, **{name: given.pop(name) for name in members})
                for group, members in names.items()
            }
            command(ctx, **given, **made)

        run.__name__ = command.__name__
        run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
        return run

    return with_them


QueueName = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        help="A path such as '.\\private$\\orders', or a format name such as "
        "'DIRECT=TCP:10.0.0.7\\private$\\orders'.",
        show_default=False,
        autocompletion=complete_queue,
    ),
]


def perform(ctx: typer.Context, action: Callable[[msmq.Connection], Awaitable[T]]) -> T:
    """Connect, perform an action, and close the connection. Errors end the program with one line and a status."""
    import asyncio

    async def connected() -> T:
        async with server_of(ctx).connection() as mq:
            return await action(mq)

    return guarded(ctx, lambda: asyncio.run(connected()))


def server_of(ctx: typer.Context) -> Server:
    found = ctx.find_root().obj
    return found if isinstance(found, Server) else Server()


def guarded(ctx: typer.Context, action: Callable[[], T]) -> T:
    """Perform an action, reporting its errors in one line each."""
    from msmq.client import ClientError, SendError
    from msmq.errors import MQError, MsmqError

    try:
        return action()
    except typer.Exit:
        raise
    except BrokenPipeError:
        _give_up_output()  # the reader of the output has gone
        raise typer.Exit(REFUSED) from None
    except KeyboardInterrupt:
        fail(ctx, "interrupted", INTERRUPTED)
    except MQError as error:
        told = str(error)
        fail(ctx, f"{told if told.endswith('.') else f'{told}.'} {error.advice}", REFUSED)
    except SendError as error:
        fail(ctx, str(error), REFUSED)
    except ClientError as error:
        fail(ctx, str(error), UNREACHABLE)
    except (MsmqError, OSError, ValueError) as error:
        _give_up_output()
        fail(ctx, str(error), REFUSED)


def _give_up_output() -> None:
    """If standard output is closed, write nothing more to it, so that the interpreter does not complain at its end
    either."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(ctx: typer.Context, text: str, status: int = REFUSED) -> NoReturn:
    """Report an error in one line and end the program."""
    end(ctx.command_path, text, status)


def end(command: str, text: str, status: int) -> NoReturn:
    """Like :func:`fail`, for an error before a command runs."""
    print(f"{command}: {' '.join(text.split())}", file=sys.stderr, flush=True)
    raise typer.Exit(status)


def confirm(ctx: typer.Context, question: str, yes: bool) -> None:
    """Ask before something is deleted for good, if there is a terminal; scripts are not asked."""
    if yes or not sys.stdin.isatty():
        return
    if not typer.confirm(question, err=True):
        fail(ctx, "nothing was changed")
