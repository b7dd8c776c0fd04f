"""Commands of tern on small models, and what may be left of each when the machine fails under it: for tests of failing machines.

    place = Workplace(folder)
    for command in place.commands:
        whole = place.run(command)                      # as it ends on a sound machine
        place.judge(command, place.run(command, wrap=["/usr/bin/env", ...]), "what was done to it")
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess

import checkpoints
import tiny

HELPER = pathlib.Path(os.environ.get("TERN_BUILD", "build/tests")).resolve() / "faults"
TERN = os.path.abspath(tiny.tern())
LONG = bool(os.environ.get("TERN_LONG"))  # everything, not a sample of it
OLD = b"what was there before"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for _signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # as a driver in the background may hand them down
    signal.signal(_signal, signal.SIG_DFL)
TEXT = "at the sea. the rain is in the hat; he reads on and on, in the rain at the sea. " * 8


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    args: tuple
    stdin: str = ""
    outputs: tuple = ()  # files that it writes
    varies: bool = False  # two runs print other numbers
    old: str = ""  # the input that is at the place of the outputs before; else OLD is

    def __str__(self):
        return self.name


@dataclasses.dataclass(frozen=True)
class Result:
    code: int
    stdout: bytes
    stderr: bytes
    files: dict  # name: contents, of the output folder

    @property
    def errors(self):
        return [line for line in self.stderr.splitlines() if line.startswith(b"tern: error: ")]


def commands():
    model, threads = ("-m", "model.gguf"), ("-t", 1)
    return [
        Command("run", ("run", *model, "-p", "at the", "-n", 8, "--temp", 1, "-s", 1, "-q", *threads)),
        Command("run with a state", ("run", *model, "-p", "at the", "-n", 4, "-s", 1, "-q", *threads, "--state", "out/state"),
                outputs=("state",), old="saved.state"),
        Command("chat", ("chat", "model.gguf", "--load", "saved", "-n", 5, "-s", 1, "-q", *threads),
                "in the sea\n/save out/chat\n", ("chat", "chat.state")),
        Command("chat to text", ("chat", "model.gguf", "-n", 5, "-s", 1, "-q", *threads),
                "in the sea\n/save out/chat.txt\n", ("chat.txt",)),
        Command("tokenize", ("tokenize", *model), TEXT),
        Command("template", ("template", *model, "--messages", "messages.json")),
        Command("inspect", ("inspect", "model.gguf", "--json")),
        Command("logits", ("logits", *model, "--ids", "1 5 9", *threads, "-o", "out/logits"), outputs=("logits",)),
        Command("embed", ("embed", *model, "-f", "lines.txt", *threads, "-o", "out/vectors"), outputs=("vectors",)),
        Command("quantize", ("quantize", "model.gguf", "out/q.gguf", "--type", "Q8_0", "-q", *threads, "--imatrix", "imatrix.gguf"),
                outputs=("q.gguf",)),
        Command("quantize to shards", ("quantize", "model.gguf", "out/q.gguf", "--type", "Q8_0", "--split-size", "20K", "-q",
                                       *threads), outputs=tuple(f"q-{i:05}-of-00003.gguf" for i in (1, 2, 3))),
        *([] if not LONG else [Command("quantize by measuring", ("quantize", "model.gguf", "out/q.gguf", "--auto", "--target-bpw", 9, "-f", "text.txt", "-q",
                                                                 *threads), outputs=("q.gguf",))]),
        Command("convert", ("convert", "checkpoint", "out/c.gguf", "-q"), outputs=("c.gguf",)),
        Command("imatrix", ("imatrix", *model, "-f", "text.txt", "-c", 16, "-q", *threads, "-o", "out/i.gguf"), outputs=("i.gguf",)),
        Command("perplexity", ("eval", "perplexity", *model, "-f", "text.txt", "-c", 16, "-q", "--json", *threads, "--save-base",
                               "out/base"), outputs=("base",), varies=True),
        Command("kld", ("eval", "kld", *model, "--base", "base", "-q", "--json", *threads, "--yaml", "out/kld.yaml"),
                outputs=("kld.yaml",), varies=True),
        Command("bench", ("bench", *model, "-p", 3, "-n", 2, "-r", 1, "-q", *threads, "--yaml", "out/bench.yaml"),
                outputs=("bench.yaml",), varies=True),
    ]  # fmt: skip


class Workplace:
    """A folder of inputs, and out/ for outputs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.out = self.folder / "out"
        self.out.mkdir(parents=True)
        case = dataclasses.replace(tiny.CASES["llama"], n_layers=1)
        tiny.Model(case).write(self.folder / "model.gguf", meta={"tokenizer.chat_template": ("str", TEMPLATE)})
        llama = checkpoints.Checkpoint.of(tiny.CASES["llama"])
        llama.write(self.folder / "checkpoint", shards=2, files=checkpoints.beside(llama))
        (self.folder / "messages.json").write_text(json.dumps([{"role": "user", "content": "at the sea"}]))
        (self.folder / "text.txt").write_text(TEXT)
        (self.folder / "lines.txt").write_text("\n".join(TEXT.split(". ")[:6]))
        self.make("eval", "perplexity", "-m", "model.gguf", "-f", "text.txt", "-c", 16, "--save-base", "base")
        self.make("imatrix", "-m", "model.gguf", "-f", "text.txt", "-c", 16, "-o", "imatrix.gguf")
        self.make("chat", "model.gguf", "-n", 4, "-s", 1, text="at the\n/save saved\n")
        self.inputs = {p: self.digest(p) for p in sorted(self.folder.rglob("*")) if p.is_file()}
        self.commands = commands()
        self.whole = {command: self.run(command) for command in self.commands}
        for command, result in self.whole.items():
            assert result.code == 0 and set(result.files) == set(command.outputs), (command.name, result)

    @staticmethod
    def digest(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
        return kept | {"HOME": str(self.folder / "home"), "LANG": "C.UTF-8"} | more

    def make(self, *args, text=""):
        subprocess.run([TERN, *map(str, args)], cwd=self.folder, input=text.encode(), capture_output=True, check=True, timeout=60)

    def reset(self, command, old):
        for path in self.out.iterdir():
            path.unlink()
        for name in command.outputs if old else ():
            (self.out / name).write_bytes(self.old(command))

    def old(self, command):
        return (self.folder / command.old).read_bytes() if command.old else OLD

    def start(self, command, old=False, wrap=(), prepare=None, **more):
        """prepare is called in the child, before the command is; without it a process is made in half the time."""
        self.reset(command, old)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.environment()}
        return subprocess.Popen([*map(str, wrap), TERN, *map(str, command.args)], cwd=self.folder, preexec_fn=prepare, **(pipes | more))

    def end(self, process, command, timeout=600):
        try:
            stdout, stderr = process.communicate(command.stdin.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            _, stderr = process.communicate()
            raise AssertionError(f"{command.name} hangs: {stderr[-600:]!r}") from None
        return Result(process.returncode, stdout or b"", stderr or b"", {p.name: p.read_bytes() for p in self.out.iterdir()})

    def run(self, command, **more):
        return self.end(self.start(command, **more), command)

    # ---- What is right ----

    def is_whole(self, command, name, found):
        """Whether an output is what a sound machine writes."""
        expected = self.whole[command].files[name]
        if not command.varies:
            return found == expected
        if name == "bench.yaml":  # some figures may not be had
            return re.findall(rb"^\w+:", found, re.M) == re.findall(rb"^\w+:", expected, re.M)
        shape = [re.sub(rb"[-+]?[0-9.]+(e[-+]?\d+)?", b"N", text) for text in (found, expected)]
        return len(found) == len(expected) if name == "base" else shape[0] == shape[1]

    @staticmethod
    def is_some(name, found):
        """Whether a conversation or a state is a whole one, of whatever was said or computed."""
        if name.endswith("state"):
            return found[:8] == b"tern-kv\n" and len(found) == 56 + 8 + int.from_bytes(found[40:48], "little")
        return name.endswith(".txt") or isinstance(json.loads(found)["messages"], list)

    def judge(self, command, result, what, must_do=False, old=False, ended=(), strays=False, silent=False, inputs=True):
        """Complains unless the command did what it does on a sound machine, or failed with one clear error and without a trace.
        must_do: it must have done it. ended: other exit codes, of an end that it need not speak of. strays: a temporary file may
        be left. silent: nothing that it said could be read. inputs: they must be as they were."""
        chats = command.args[0] == "chat"  # it goes on after an error
        told = f"{command.name}: {what}: exit {result.code}, {result.stderr[-600:]!r}"
        found = inputs and {p: self.digest(p) for p in self.inputs if p.exists()}
        assert not inputs or found == self.inputs, f"an input is changed: {told}"
        temporary = {name for name in result.files if name.startswith(".tern-")}
        assert strays or not temporary, f"{temporary} is left: {told}"
        assert set(result.files) - temporary <= set(command.outputs), f"{set(result.files)} in the folder: {told}"
        for name in command.outputs:
            found = result.files.get(name)
            if (name == "state" and result.code in ended) or (chats and result.code == 1):  # of what was done until then
                assert found in (None, OLD) or self.is_some(name, found), f"{name} is not whole: {told}"
            elif result.code == 0 or (found is not None and not (old and found == self.old(command))):
                assert found is not None and self.is_whole(command, name, found), f"{name} is wrong: {told}"
            elif old:
                assert found == self.old(command), f"{name} is gone: {told}"
        if result.code in ended:
            return
        if result.code == 0:
            same = command.varies or silent or result.stdout == self.whole[command].stdout
            assert same and not result.errors, f"another output, {result.stdout!r}: {told}"
            return
        assert not must_do, f"not survived: {told}"
        assert result.code == 1, told
        assert silent or len(result.errors) == 1 or (chats and result.errors), f"expected one error: {told}"
        if not (command.varies or silent):
            assert chats or self.whole[command].stdout.startswith(result.stdout), f"another output, {result.stdout!r}: {told}"
