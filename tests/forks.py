"""Commands of ortbench that start at once: each is a fork of a process that has loaded what they load, and so are their
workers, in place of a second and more that Python takes to load ONNX Runtime, NumPy and the program.

What a command does, prints, leaves and ends with is its own; for what hangs on a process's own start (what is loaded when,
Python's own options, wrappers) tests start one. The clock of these processes is the one of `tests.virtual`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from tests import virtual

POSSIBLE = sys.platform == "linux" and (shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")) is not None
MAIN = "ORTBENCH_TESTS_MAIN"  # names module:function that is done in place of the command's own main
WORKER = "ORTBENCH_TESTS_WORKER"  # names module:function that a worker calls before its own main
_BYTES = 1 << 20  # of a request


class Server:
    """The process that commands are forked from, one at a time; it has the library of `tests.virtual.build`, and the ortbench of an
    interpreter's environment."""

    def __init__(self, clock: Path, python: Path) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line = [str(python), "-m", "tests.forks", str(clock), str(theirs.fileno())]
        with theirs:
            # Its numbers are worked out by one thread, as threads do not outlive a fork.
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(line, pass_fds=[theirs.fileno()], env=environment)
        atexit.register(self._close)

    def _close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def run(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command to its end: exit code, what it prints to stdout, and to stderr."""
        pipes = [os.pipe(), os.pipe()]
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "environment": dict(environment)})
        socket.send_fds(self._socket, [request.encode()], [theirs for _, theirs in pipes])
        found: list[bytes] = [b"", b""]

        def read(number: int) -> None:
            with os.fdopen(pipes[number][0], "rb") as pipe:
                found[number] = pipe.read()

        readers = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(2)]
        for (_, theirs), reader in zip(pipes, readers, strict=True):
            os.close(theirs)
            reader.start()
        pid = int(self._socket.recv(_BYTES))
        self._socket.settimeout(timeout_s)
        try:
            code = int(self._socket.recv(_BYTES))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            self._socket.settimeout(None)
        for reader in readers:
            reader.join()
        return code, found[0], found[1]


@cache
def server(clock: Path, python: Path = Path(sys.executable)) -> Server:
    """The one of this process, for an environment."""
    return Server(clock, python)


# In the process that is forked


def main(clock: str, number: str) -> None:
    """Load everything, and fork a process for each request."""
    virtual.take_place(Path(clock))
    _load()
    with socket.socket(fileno=int(number)) as requests:
        while True:
            text, pipes, _, _ = socket.recv_fds(requests, _BYTES, 2)
            if not text:
                return
            pid = os.fork()
            if pid == 0:
                _be(partial(_command, **json.loads(text)), [os.open(os.devnull, os.O_RDONLY), *pipes])
            for pipe in pipes:
                os.close(pipe)
            requests.send(str(pid).encode())
            _, status = os.waitpid(pid, 0)
            requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _load() -> None:
    import ortbench

    for module in pkgutil.walk_packages(ortbench.__path__, "ortbench."):
        if not module.name.endswith(("__main__", "pytest_plugin")) and "cluster" not in module.name:
            importlib.import_module(module.name)
    import onnxruntime
    from rich.cells import cell_len

    onnxruntime.disable_telemetry_events()  # of which a thread takes care that does not outlive a fork
    later = "onnx pandas scipy.special matplotlib.style jinja2 rich.progress psutil typer._click.decorators"
    for name in later.split():
        importlib.import_module(name)
    with contextlib.suppress(ImportError):  # not on every system
        importlib.import_module("nvtx")
    cell_len("…")  # Rich loads its table of widths
    gc.collect()
    gc.freeze()


def _be(what: Callable[[], object], numbers: Sequence[int]) -> NoReturn:
    """Be another process from here on, that does something, with standard input, output and error of these numbers."""
    code = 1
    try:
        kept = [os.dup(number) for number in numbers]
        for number, stream in enumerate(kept):
            os.dup2(stream, number)
        os.closerange(3, 4096)
        read = os.fdopen(0, encoding="utf-8", closefd=False)
        out = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        error = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
        streams = {"stdin": read, "stdout": out, "stderr": error}
        vars(sys).update(streams | {f"__{name}__": stream for name, stream in streams.items()})
        what()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    os._exit(code)


def _command(arguments: list[str], cwd: str, environment: dict[str, str]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    virtual.attach(works=False)
    from ortbench.core import processes
    from ortbench.features.load.measure import client_pool
    from tests.virtual import machine

    machine.take_place()
    if virtual.VARIABLE in environment:
        # Who looks at threads every 10 ms of real time sees by chance how often in a block of virtual time, or never.
        client_pool.LockWatch.count_waiting = lambda *_: None  # type: ignore[method-assign]

    vars(processes)["subprocess"] = SimpleNamespace(**{**vars(subprocess), "Popen": _started})
    sys.argv = ["ortbench", *arguments]
    _call(environment.get(MAIN, "ortbench.__main__:main"))


def _call(name: str) -> None:
    """Call a function that is named as module:function."""
    module, _, function = name.partition(":")
    getattr(importlib.import_module(module), function)()


def _started(line: list[str], **named: Any) -> Any:
    """A process that the command starts: a worker of this environment is a fork."""
    from ortbench.core.processes import SCRIPT

    is_own = [*line] == [sys.executable, SCRIPT]
    return (_Fork if is_own else subprocess.Popen)(line, **named)


class _Fork(subprocess.Popen[bytes]):
    """A worker, as `subprocess.Popen` has it, that is forked where others are executed."""

    def _execute_child(self, args: Any, *given: Any) -> None:
        read, _, _, write, _, error = pipes = given[9:15]
        sys.stdout.flush()  # or the worker would say it too
        self.pid = os.fork()
        if self.pid == 0:
            _be(_work, [read, write, error])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _work() -> None:
    from ortbench.core import signals
    from ortbench.worker import answer_requests as work

    for number in signals.SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    virtual.attach(works=True)
    if WORKER in os.environ:
        _call(os.environ[WORKER])
    work()


if __name__ == "__main__":
    main(*sys.argv[1:])
