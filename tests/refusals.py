"""Runs the program under test within limits, and says what is wrong with the way it refused an input.

A refusal is exit code 1 and one line "tern: error: WHAT: WHERE: WHY" on standard error, without a raw control character,
nothing on standard output, in little time and memory. A signal (an abort, a time or memory limit met) or a sanitizer's
report is none. Warnings may stand before the error.

Programs are started by a small process of its own, this file as a program: a child's peak memory starts at its parent's,
and with numpy loaded that would hide it."""

import atexit
import dataclasses
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

MIB = 1 << 20
LIMIT_SECONDS, LIMIT_BYTES = 2, 64 * MIB  # of the processor; of memory beside the size of the files
SPACE_BYTES = 256 * MIB  # of addresses, which code, stacks and reserved caches take too: no allocation of a size from a file
SLOW_SECONDS, SANITIZED_FACTOR = 20, 4  # what a build with the sanitizers, or of tools/coverage, may take; the former's memory
HANG_SECONDS = 120  # by the clock; others may be at work on the machine


@dataclasses.dataclass
class Done:
    code: int  # negative: the signal that ended it
    stdout: bytes
    stderr: str
    seconds: float  # of the processor
    peak_bytes: int


def start(request):
    """In the child: limits, then the program."""
    streams = zip((0, 1, 2), request["streams"], (os.O_RDONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_TRUNC))
    for number, path, flags in streams:
        os.dup2(os.open(path, flags), number)
    if request["space"]:
        resource.setrlimit(resource.RLIMIT_AS, (request["space"],) * 2)
    if request["stack"]:
        resource.setrlimit(resource.RLIMIT_STACK, (request["stack"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(HANG_SECONDS)  # outlives exec
    os.execve(request["command"][0], request["command"], request["environment"])


def serve():
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            try:
                start(request)
            finally:
                os._exit(126)
        _, status, usage = os.wait4(child, 0)
        seconds, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        print(json.dumps([os.waitstatus_to_exitcode(status), seconds, peak]), flush=True)


class Runner:
    def __init__(self, program=None):
        self.program = os.path.abspath(program or os.environ.get("TERN", "build/tern"))
        code = pathlib.Path(self.program).read_bytes()
        self.sanitized = b"__asan_init" in code
        self.slow = self.sanitized or b"__gcov_init" in code
        folder = tempfile.TemporaryDirectory(prefix="tern-runner-")
        self.streams = [os.path.join(folder.name, name) for name in ("in", "out", "err")]
        command = [sys.executable, "-S", "-E", os.path.abspath(__file__)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.close, folder)

    def close(self, folder):
        self.server.stdin.close()
        self.server.wait()
        folder.cleanup()

    def run(self, *arguments, text=b"", env=None, space=None, stack=None):
        """space: the most bytes of address space; stack: of stack. The sanitizers need more of both: no limit there."""
        for path, content in zip(self.streams, (text, b"", b"")):
            pathlib.Path(path).write_bytes(content)
        environment = dict(os.environ, ASAN_OPTIONS="exitcode=99", **(env or {}))
        limits = {"space": None, "stack": None} if self.sanitized else {"space": space, "stack": stack}
        request = {"command": [self.program, *map(str, arguments)], "environment": environment, "streams": self.streams, **limits}
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        code, seconds, peak = json.loads(self.server.stdout.readline())
        out, err = (pathlib.Path(path).read_bytes() for path in self.streams[1:])
        return Done(code, out, err.decode(errors="backslashreplace"), seconds, peak)

    def over(self, done, n_bytes):
        """Which limit a run went over that read files of so many bytes, or None."""
        seconds = SLOW_SECONDS if self.slow else LIMIT_SECONDS
        if done.seconds > seconds:
            return f"took {done.seconds:.1f} s of {seconds}"
        if done.peak_bytes > (n_bytes + LIMIT_BYTES) * (SANITIZED_FACTOR if self.sanitized else 1):
            return f"took {done.peak_bytes // MIB} MiB for files of {n_bytes // MIB} MiB"
        return None

    def refused(self, arguments, words, files=(), text=b"", env=None):
        """Runs the command, which must refuse with a message that has the words. What is wrong, or None. The files are
        those that it reads."""
        n_bytes = sum(os.path.getsize(path) for path in files if os.path.isfile(path)) + len(text)
        done = self.run(*arguments, text=text, env=env, space=n_bytes + SPACE_BYTES)
        why = refusal(done, words) or self.over(done, n_bytes)
        return why and f"{why}\n    {' '.join(map(str, arguments))}\n    {done.stderr[:2000].strip()}"


def refusal(done, words):
    """What is wrong with a run as a refusal, or None."""
    lines = done.stderr.splitlines()
    errors = [line for line in lines if not line.startswith("tern: warning: ")]
    if done.code != 1:
        return f"exit {done.code}, expected 1"
    if not done.stderr.endswith("\n") or len(errors) != 1 or not lines[-1].startswith("tern: error: "):
        return "expected one line 'tern: error: ...'"
    if not all(line.isprintable() for line in lines):
        return f"a raw control character: {ascii(done.stderr)}"
    if done.stdout:
        return f"{len(done.stdout)} bytes on standard output"
    missing = [word for word in words if word not in errors[0]]
    return f"the error does not name {missing}" if missing else None


if __name__ == "__main__":
    serve()
