"""A shell whose commands `seqloom` and `python` run in forks of a process that has imported everything.

Importing torch takes a second; a fork takes a few milliseconds. The commands get the shell's standard streams,
environment and working folder, so that pipes and redirections work as in any shell.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    code = server.recv(1)
sys.exit(code[0] if code else 1)
"""


class Shell:
    """Runs scripts with the clients of a server first on the path."""

    def __init__(self, bin: Path) -> None:
        self._bin = bin

    def run(
        self, script: str, folder: Path, timeout: float, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script until a command of it fails."""
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=folder,
            env={**os.environ, **(environment or {}), "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )


@contextmanager
def fork_server(train_options: Sequence[str] = ()) -> Iterator[Shell]:
    """A shell; `train_options` are added to every `seqloom train`."""
    folder = Path(tempfile.mkdtemp(prefix="seqloom-"))  # a short path: the name of a socket has a limit
    address = str(folder / "socket")
    for name in ("seqloom", "python"):
        client = folder / name
        client.write_text(_CLIENT.format(python=sys.executable, address=address, name=name), encoding="utf-8")
        client.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, address, *train_options], stdout=subprocess.PIPE, env=dict(os.environ)
    )
    try:
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        yield Shell(folder)
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(folder)


def _serve(address: str, train_options: Sequence[str]) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        while True:
            connection, _ = server.accept()
            with connection:
                if os.fork() == 0:
                    server.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _answer(connection, train_options)


def _answer(connection: socket.socket, train_options: Sequence[str]) -> None:
    """Run the command that a client asks for, send its exit code, and end this process."""
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    name, arguments, folder, environment = json.loads(request)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if name == "seqloom" and arguments[:1] == ["train"]:
        if "--minutes" in arguments:  # the options of ours limit training
            place = arguments.index("--minutes")
            del arguments[place : place + 2]
        own_search = "phrase" in arguments  # which refuses the options of ours
        values = [value for value in train_options[1::2] if not (own_search and value.startswith("search."))]
        arguments += [word for value in values for word in ("--set", value)]
    code = _run(name, arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(bytes([code]))
    os._exit(code)


def _run(name: str, arguments: list[str]) -> int:
    """The exit code of a command."""
    from seqloom.cli.main import main

    sys.argv = [name, *arguments]
    try:
        if name == "seqloom":
            main()
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _import_everything() -> None:
    """Import all of seqloom, and what it imports only when it is needed."""
    import torch

    import seqloom
    from seqloom.run.planner import calibration

    for name in ("torch._dynamo", "ctranslate2", "matplotlib.backends.backend_agg", "sacrebleu", "rapidfuzz"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(seqloom.__path__, "seqloom."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    torch.set_num_threads(1)
    calibration.SECONDS = 0.1  # plans of one model and a few lines need no exact speed


if __name__ == "__main__":
    _import_everything()
    _serve(sys.argv[1], sys.argv[2:])
