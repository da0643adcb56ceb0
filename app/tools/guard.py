"""Between us and a tool server: ends it, and all that it started, when we end, however we end.

Run by path as `python -I -S guard.py FD NAMES COMMAND…`; it imports nothing of ours. FD is a pipe
that closes with the app, also when that is killed. The server leads a process group of its own,
and gets the variables NAMES (Python may have added one to ours). It has a second after a polite
SIGTERM, then the group gets SIGKILL, which nobody can ignore. POSIX alone.
"""

import contextlib
import os
import signal
import sys
import threading
import time

PATIENCE_S = 1.0
CANNOT_RUN = 127


def main() -> int:
    lifeline, names, command = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    variables = {name: os.environ[name] for name in names if name in os.environ}
    server = os.fork()
    if server == 0:
        run(command, variables, lifeline)
    os.close(0)  # its end of the pipe is the server's alone: closed there, it is closed
    os.close(1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: end_group(server, signal.SIGKILL))
    is_over = threading.Event()
    threading.Thread(target=watch, args=(lifeline, server, is_over), daemon=True).start()
    status = os.waitpid(server, 0)[1]
    is_over.set()
    end_group(server, signal.SIGKILL)  # what it leaves behind
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def run(command: list[str], variables: dict[str, str], lifeline: int) -> None:
    try:
        os.close(lifeline)
        os.setsid()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvpe(command[0], command, variables)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(CANNOT_RUN)


def watch(lifeline: int, server: int, is_over: threading.Event) -> None:
    os.read(lifeline, 1)  # nobody writes to it
    end_group(server, signal.SIGTERM)
    ends_at = time.monotonic() + PATIENCE_S
    while not is_over.wait(0.01) and time.monotonic() < ends_at:
        pass
    end_group(server, signal.SIGKILL)


def end_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main())
