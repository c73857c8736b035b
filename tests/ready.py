"""Pythons that have imported everything already, for the many processes that tests start.

A queue manager imports for half a second before it does anything, and each worker of Spark for a second: most of the
time of many tests. Here one process imports what the others need, and these are forks of it: real processes, with
arguments, environment, folder and files of their own, which may be signalled and killed. `start` starts one, in the
place of `subprocess.Popen`. `python` and `msmq` are programs for those who start processes themselves, such as Spark
and a shell: each hands what it was given to a fork and is alive as long as that is; a signal to end it is passed on,
and killing it kills the fork.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import importlib
import marshal
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn
from unittest import mock

if TYPE_CHECKING:
    from tests.keys import Keys

ROOT: Final = Path(__file__).parents[1]
SPARK: Final = (
    "msmq.spark.sink",
    "msmq.spark.source",
    "pandas",
    "pyarrow.parquet",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "tests.spark.halting",
)
"""What the workers of Spark import; an older Spark has not all of it."""
MSMQ: Final = (
    "msmq.api.relay",
    "msmq.cli",
    "msmq.client",
    "msmq.client.connection",
    "msmq.client.records",
    "msmq.client.sync",
    "msmq.server.daemon",
    "msmq.server.logs",
    "msmq.server.readiness",
    "msmq.web.supervisor",
    "uvloop",
)
"""What ``msmq serve`` and the commands that talk to it import."""
PROGRAM: Final = """\
#!{python} -IS
import _signal, _socket, marshal, os, sys
arguments = [*{arguments!r}, *sys.argv[1:]]
try:
    if arguments[:1] != ["-m"]:
        raise OSError
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    line.connect({address!r})
except OSError:
    os.execv({python!r}, [{python!r}, *arguments])
text = marshal.dumps((arguments, os.getcwd(), dict(os.environ), 0))
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
line.sendmsg([len(text).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
line.sendall(text)
fork = int.from_bytes(line.recv(4), "big")
def pass_on(number, frame):
    os.kill(fork, number)
for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
    _signal.signal(number, pass_on)
for number in (0, 1, 2):
    os.close(number)
said = line.recv(4)
os._exit(int.from_bytes(said, "big") if said else 1)
"""


def python(modules: tuple[str, ...]) -> str:
    """A program that stands for Python and has imported these modules; what it needs lives as long as this process."""
    return _program("python", modules)


def msmq() -> str:
    """A program that stands for ``msmq``, alone in its folder but for a `python`."""
    return _program("msmq", MSMQ, "-m", "msmq")


def start(*arguments: str, stderr: IO[bytes] | None = None, descriptors: int = 0) -> Fork:
    """``python -m`` with these arguments, and with no more than so many descriptors if there is a limit. It ends with
    this process at the latest."""
    return Fork(_folder(MSMQ), ["-m", *arguments], stderr, descriptors)


class Fork:
    """A process that was started, as `subprocess` would have it. Its standard output can be read."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], stderr: IO[bytes] | None, descriptors: int
    ) -> None:
        self.returncode: int | None = None
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.connect(str(folder / "socket"))
        ours, theirs = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(ours, "rb")
        text = marshal.dumps((list(arguments), os.getcwd(), dict(os.environ), descriptors))
        with open(os.devnull, "r+b") as nothing, os.fdopen(theirs, "wb") as said:
            files = [file.fileno() for file in (nothing, said, stderr or nothing)]
            socket.send_fds(self._line, [len(text).to_bytes(4, "big")], files)
            self._line.sendall(text)
            self.pid = int.from_bytes(self._line.recv(4), "big")

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.wait()

    def poll(self) -> int | None:
        """The status with which it ended, if it has."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._line], [], [], timeout)[0]:
            said = self._line.recv(4)
            self._line.close()
            status = int.from_bytes(said, "big") if said else 1
            self.returncode = 128 - status if status > 128 else status
        return self.returncode


class AwaitedFork:
    """A process that was started, as `asyncio` would have it."""

    def __init__(self, fork: Fork | subprocess.Popen[bytes]) -> None:
        assert fork.stdout is not None
        self._fork, self._said = fork, fork.stdout
        self.pid = fork.pid
        self.send_signal, self.terminate, self.kill = fork.send_signal, fork.terminate, fork.kill

    @property
    def returncode(self) -> int | None:
        return self._fork.poll()

    async def readline(self) -> bytes:
        """A line of its standard output."""
        return await asyncio.to_thread(self._said.readline)

    async def wait(self) -> int:
        status = await asyncio.to_thread(self._fork.wait)
        self._said.close()
        return status


def _program(name: str, modules: tuple[str, ...], *arguments: str) -> str:
    program = _folder(modules) / name
    if not program.exists():
        address = str(program.with_name("socket"))
        text = PROGRAM.format(python=sys.executable, address=address, arguments=arguments)
        new = program.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.chmod(0o700)
        new.rename(program)
    return str(program)


@cache
def _folder(modules: tuple[str, ...]) -> Path:
    """Where the socket and the programs of the process are that has imported them."""
    folder = tempfile.TemporaryDirectory(prefix="ready-")
    atexit.register(folder.cleanup)
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GRPC_ENABLE_FORK_SUPPORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.ready", str(Path(folder.name, "socket")), *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    atexit.register(process.wait)
    atexit.register(process.stdin.close)
    return Path(folder.name)


# --- the process that the others are forks of -------------------------------------------------------------------------


def main(address: str, *modules: str) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(128)
    for name in modules:
        with suppress(ImportError):  # who needs it says so; here it is only not imported beforehand
            importlib.import_module(name)
    keys = _prepare() if "msmq.server.daemon" in modules else None
    gc.collect()
    gc.freeze()  # so that no fork has to look through all of this
    print("ready", flush=True)
    forks: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(listener, select.POLLIN)
    while True:
        for number, _ in poll.poll():
            if number == 0:
                return  # whoever started this is gone
            if number == listener.fileno():
                line, _ = listener.accept()
                request = _request(line)
                if request is None:
                    line.close()
                    continue
                if keys is not None:
                    keys.pass_on()
                fork = os.fork()
                if not fork:
                    listener.close()
                    for handle, (_, other) in forks.items():
                        os.close(handle)
                        other.close()
                    forks.clear()
                    _become(line, *request)
                for file in request[-1]:
                    os.close(file)
                handle = os.pidfd_open(fork)
                forks[handle] = fork, line
                poll.register(handle, select.POLLIN)
            else:
                fork, line = forks.pop(number)
                poll.unregister(number)
                os.close(number)
                status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
                with suppress(OSError), line:
                    line.sendall((status if status >= 0 else 128 - status).to_bytes(4, "big"))


def _prepare() -> Keys:
    """Make what each queue manager and each command would make for itself as it starts: its keys, and the commands that
    can be typed."""
    import typer.main

    from msmq.cli import app
    from tests.keys import Keys

    mock.patch("typer.main.get_command", cache(typer.main.get_command)).start()
    typer.main.get_command(app)
    keys = Keys()
    keys.make()
    keys.use()
    return keys


def _request(line: socket.socket) -> tuple[list[str], str, dict[str, str], int, list[int]] | None:
    """Arguments, folder, environment, limit and files of one who asks; None if it is gone already."""
    head, files, *_ = socket.recv_fds(line, 4, 3)
    size, text = int.from_bytes(head, "big"), b""
    while head and len(text) < size:
        more = line.recv(size - len(text))
        if not more:
            break
        text += more
    if not head or len(text) < size:
        for file in files:
            os.close(file)
        return None
    arguments, folder, variables, descriptors = marshal.loads(text)
    return arguments, folder, variables, descriptors, files


def _become(
    line: socket.socket,
    arguments: list[str],
    folder: str,
    variables: dict[str, str],
    descriptors: int,
    files: list[int],
) -> NoReturn:
    """Be what was asked for, in a fork: the rest of this process is that module."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    paths = [folder, *variables.get("PYTHONPATH", "").split(":")]
    sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
    status: Any = 0
    try:
        line.sendall(os.getpid().to_bytes(4, "big"))
        if "pyspark.daemon" not in arguments:  # which ends with its standard input, and its workers with it
            _end_with(line)
        _, module, *sys.argv[1:] = arguments
        if not hasattr(sys.modules.get(module), "__path__"):  # of a package its module __main__ is run
            sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(status)


def _end_with(line: socket.socket) -> None:
    """Have the kernel kill this process when the other side of a line is closed. Nothing is ever sent there."""
    fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(line, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
    with suppress(BlockingIOError):  # unless it was closed before
        line.recv(1, socket.MSG_DONTWAIT)
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
