"""--sandbox changes no text: what run and chat say in it is what they say without, whatever they are asked to do; what it
forbids is refused from inside (tests/unit/test_sandbox.c tries each call); without all of it nothing is generated."""

import ctypes
import dataclasses
import pathlib
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

import test_chat
import tiny

TERN = test_chat.TERN
GRAMMAR = 'root ::= [a-z ]+ "."'
SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}'
# Of seccomp and of Landlock's first call, by processor.
CALLS = {"x86_64": (0xC000003E, 317, 444), "aarch64": (0xC00000B7, 277, 444)}


def without_call(number):
    """Makes the kernel seem to lack a call, for what is run next."""
    arch = CALLS[platform.machine()][0]
    steps = [(0x20, 0, 0, 4), (0x15, 0, 2, arch), (0x20, 0, 0, 0), (0x15, 1, 0, number), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x50026)]
    program = b"".join(struct.pack("<HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(kept=buffer):
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter_):  # no new privileges; seccomp by a filter
            raise OSError(ctypes.get_errno(), "prctl")

    return enter


def setUpModule():
    global FOLDER, MODEL, DRAFT
    folder = tempfile.TemporaryDirectory(prefix="tern-sandbox-")
    unittest.addModuleCleanup(folder.cleanup)
    FOLDER = pathlib.Path(folder.name)
    meta = {"tokenizer.chat_template": ("str", test_chat.TEMPLATE)}
    case = dataclasses.replace(tiny.CASES["llama"], n_ctx=32768)
    MODEL = tiny.Model(case).write(FOLDER / "model.gguf", meta=meta)
    DRAFT = tiny.Model(dataclasses.replace(case, n_layers=1)).write(FOLDER / "draft.gguf", meta=meta)


def run(*args, sandbox=(), **more):
    more = {"capture_output": True, "timeout": 120, "env": test_chat.environment()} | more
    return subprocess.run([TERN, "run", "-m", str(MODEL), "--temp", "0", "-n", "40", *map(str, args), *sandbox], **more)


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-sandbox-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def same(self, *args, **more):
        plain = run(*args, "-q", **more)
        self.assertEqual((plain.returncode, plain.stderr), (0, b""))
        self.assertTrue(plain.stdout)
        confined = run(*args, "-q", sandbox=["--sandbox"], **more)
        self.assertEqual((confined.returncode, confined.stderr, confined.stdout), (0, b"", plain.stdout))
        return confined

    def test_text_is_the_same(self):
        self.same("-p", "the ")
        self.same("-p", "the ", "-t", 2, "--pin")
        self.same("-p", "the ", "-n", 400, "-c", 512, "-b", 3)
        self.same("-f", self.write("prompt", "some words"))
        self.same("-f", "-", input=b"some words")
        self.same("-f", "/dev/stdin", input=b"some words")
        self.same("-p", "the ", "--temp", 1, "-s", 7)

    def test_text_with_drafts_and_constraints_is_the_same(self):
        self.same("-p", "the the the the ", "--draft", DRAFT)
        self.same("-p", "the ", "--grammar", self.write("g.gbnf", GRAMMAR))
        self.same("-p", "the ", "--json-schema", self.write("s.json", SCHEMA))
        self.same("-p", "the ", "--json-schema", SCHEMA)

    def test_a_split_model_is_read_whole(self):
        parts = subprocess.run([TERN, "quantize", str(MODEL), str(self.folder / "m.gguf"), "--type", "F32", "--split-size", "150K",
                                "--allow-requantize"], capture_output=True, timeout=60)
        self.assertEqual(parts.returncode, 0, parts.stderr)
        shards = sorted(self.folder.glob("m-*.gguf"))
        self.assertGreater(len(shards), 1)
        self.assertEqual(run("-m", shards[0], "-p", "the ", "-q", sandbox=["--sandbox"]).stdout, run("-p", "the ", "-q").stdout)

    def test_a_state_is_kept_and_read_again(self):
        for sandbox in ([], ["--sandbox"]):
            state = self.folder / f"state{len(sandbox)}"
            first = run("-p", "the ", "--state", state, sandbox=sandbox)
            again = run("-p", "the ", "--state", state, sandbox=sandbox)
            self.assertEqual((first.returncode, again.returncode), (0, 0), again.stderr)
            self.assertEqual(first.stdout, again.stdout)
            self.assertIn(b"from state", again.stderr)
        self.assertEqual((self.folder / "state0").read_bytes(), (self.folder / "state1").read_bytes())
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["state0", "state1"])

    def test_what_is_in_force_is_said(self):
        self.assertIn(b"sandbox      Landlock and seccomp; no file can be written\n", run("-p", "a", "-v", sandbox=["--sandbox"]).stderr)
        said = run("-p", "a", "-v", "--state", self.folder / "s", sandbox=["--sandbox"]).stderr.decode()
        self.assertIn(f"sandbox      Landlock and seccomp; files can be written below {self.folder}/\n", said)
        self.assertNotIn(b"sandbox", run("-p", "a", "-v").stderr)

    def test_errors_stay_what_they_are(self):
        for args in (["-m", "/nonexistent.gguf", "-p", "a"], ["-f", "/nonexistent"], ["-p", "a", "--draft", "/nonexistent.gguf"],
                     ["-p", "a", "--grammar", "/nonexistent"]):
            plain, confined = run(*args), run(*args, sandbox=["--sandbox"])
            self.assertEqual((plain.returncode, plain.stderr), (confined.returncode, confined.stderr))
            self.assertEqual(confined.returncode, 1)

    def test_interruption_is_heard(self):
        def default():
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        process = subprocess.Popen([TERN, "run", "-m", MODEL, "-p", "a", "-c", "20000", "--sandbox", "--grammar",
                                    self.write("g", "root ::= part{50}\npart ::= [a-z ]{1000}")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=default, env=test_chat.environment())
        self.assertTrue(process.stdout.read(1))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"stopped      interrupted", err)

    def test_nothing_is_generated_where_the_kernel_cannot_confine(self):
        if platform.machine() not in CALLS:
            self.skipTest("calls of another processor")
        _, seccomp, landlock = CALLS[platform.machine()]
        for number, name in ((landlock, b"Landlock"), (seccomp, b"seccomp")):
            refused = run("-p", "a", sandbox=["--sandbox"], preexec_fn=without_call(number))
            self.assertEqual((refused.returncode, refused.stdout), (1, b""))
            self.assertRegex(refused.stderr, rb"\Atern: error: cannot confine: " + name + rb": [^\n]+\n\Z")
            self.assertEqual(run("-p", "a", preexec_fn=without_call(number)).returncode, 0)


class Chat(test_chat.TestCase):
    LINES = ["hello there", "/set temp 0", "go on"]
    def talk(self, *args, lines):
        return test_chat.talk(MODEL, "-n", 16, "--temp", 0, *args, lines=lines)

    def test_text_is_the_same(self):
        plain = self.talk("-q", lines=self.LINES)
        confined = self.talk("-q", "--sandbox", lines=self.LINES)
        self.assertTrue(plain.stdout)
        self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (confined.returncode, confined.stdout, confined.stderr))

    def test_files_are_saved_in_the_folder_that_was_named_alone(self):
        outside, inside = self.folder / "outside", self.folder / "inside"
        inside.mkdir()
        (self.folder / "template").write_text(test_chat.TEMPLATE)
        done = self.talk("--sandbox-dir", inside, "--template", self.folder / "template",
                         lines=["hello", f"/save {inside}/kept", f"/save {outside}", f"/save {inside}/text.md", f"/load {inside}/kept",
                                f"/load {self.folder}/template"])
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"tern: error: cannot write: {outside}: Permission denied\n", done.stderr.decode())
        self.assertEqual(done.stderr.count(b"tern: error"), 2, done.stderr)  # the template may be read, but is no conversation
        self.assertIn(b"loaded 2 messages", done.stderr)
        self.assertEqual(sorted(p.name for p in inside.iterdir()), ["kept", "kept.state", "text.md"])
        self.assertFalse(outside.exists())
        goes_on = self.talk("-q", "--sandbox", "--load", inside / "kept", lines=["/regen"])
        self.assertEqual((goes_on.returncode, goes_on.stderr), (0, b""))
        self.assertTrue(goes_on.stdout)

    def test_no_folder_no_files(self):
        done = self.talk("--sandbox", lines=["hello", f"/save {self.folder}/kept"])
        self.assertEqual((done.returncode, list(self.folder.iterdir())), (1, []))

    def test_a_folder_that_is_not_there_is_refused(self):
        done = self.talk("--sandbox-dir", self.folder / "absent", lines=["hello"])
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"cannot confine", done.stderr)

    def test_lines_are_edited_and_kept_and_answers_interrupted(self):
        state = self.folder / "home"
        t = self.begin(MODEL, "--temp", 0, "-c", 20000, "--sandbox", *self.long_answers(), XDG_STATE_HOME=str(state))
        t.send("helly\x7fo\r")
        t.wait(rb"The ")
        t.send("\x03")
        self.assertRegex(t.wait(test_chat.PROMPT), rb"stopped")
        self.assertRegex(t.say("/help"), rb"Ctrl-C stops")
        t.say("/set temp 0.5")
        t.resize(60, 10)
        t.send("/stats\r")
        t.wait(rb"MiB at most")
        t.wait(test_chat.PROMPT)
        self.assertEqual(t.leave(), 0)
        self.assertEqual((state / "tern" / "history").read_text().splitlines(), ["hello", "/help", "/set temp 0.5", "/stats"])


if __name__ == "__main__":
    tried = subprocess.run([TERN, "run", "-m", "/nonexistent", "-p", "a", "--sandbox"], capture_output=True, timeout=60)
    if b"cannot confine" in tried.stderr:
        print(tried.stderr.decode().strip())
        sys.exit(77)
    unittest.main(verbosity=2)
