"""A Python that has imported everything already, for the workers of Spark.

Spark starts a process of Python for each plan, each stream and each task, and each imports Spark's modules, Arrow and
the data source, which takes a second of a processor: most of the time of the tests. Here one process imports them, and
the others are forks of it. What Spark starts is a small program that hands its arguments, environment and files to that
process, and is alive as long as the fork is: a signal to end it is passed on, and killing it kills the fork.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).parents[2]
IMPORTED: Final = (
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
PROGRAM: Final = """\
#!{python} -IS
import _signal, _socket, marshal, os, sys
try:
    if sys.argv[1:2] != ["-m"]:
        raise OSError
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    line.connect({address!r})
except OSError:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
text = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
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


@cache
def python() -> str:
    """The program to give to Spark as its Python; what it needs lives as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="ready-")
    atexit.register(folder.cleanup)
    program, address = Path(folder.name, "python"), str(Path(folder.name, "socket"))
    program.write_text(PROGRAM.format(python=sys.executable, address=address), encoding="utf-8")
    program.chmod(0o700)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "GRPC_ENABLE_FORK_SUPPORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.ready", address],
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
    return str(program)


# --- the process that the others are forks of -------------------------------------------------------------------------


def main(address: str) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(128)
    for name in IMPORTED:
        importlib.import_module(name)
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


def _request(line: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]] | None:
    """Arguments, folder, environment and files of one who asks; None if it is gone already."""
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
    arguments, folder, variables = marshal.loads(text)
    return arguments, folder, variables, files


def _become(
    line: socket.socket, arguments: list[str], folder: str, variables: dict[str, str], files: list[int]
) -> NoReturn:
    """Be what was asked for, in a fork: the rest of this process is that module."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
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
    main(sys.argv[1])
