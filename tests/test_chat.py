"""tern chat as a person meets it: a pseudo-terminal of 80x24, and pipes."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
import unittest

import tiny

TERN = os.path.abspath(os.environ.get("TERN", "build/tern"))
CACHE = os.environ.get("TERN_MODELS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tern")
MODEL = pathlib.Path(CACHE) / "smollm2-135m.gguf"
TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")
PROMPT = rb"\d+%> "
STATUS = rb"\[\d+ tokens[^\]]*\]"

needs_model = unittest.skipUnless(MODEL.is_file(), f"{MODEL.name} is not in the cache (tools/fetch-model fetches it)")


def command(args):
    """A chat whose answers are those of every run: some of other seeds are empty."""
    return [TERN, "chat", *map(str, args), *(() if "-s" in args else ("-s", "1"))]


def environment(**more):
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "LC_CTYPE")}
    return {**env, "TERM": "xterm", "LANG": "C.UTF-8", "HOME": "/nonexistent", **more}


class Terminal:
    """A tern chat behind a pseudo-terminal."""

    def __init__(self, *args, **env):
        self.process, self.master = None, None
        master, slave = pty.openpty()
        self.master, self.seen = master, b""
        self.resize(80, 24)
        self.process = subprocess.Popen(command(args), stdin=slave, stdout=slave, stderr=slave,
                                        env=environment(**env), start_new_session=True, preexec_fn=self.control)
        os.close(slave)

    @staticmethod
    def control():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def wait(self, pattern, timeout=60):
        """Everything up to and with the first match of the pattern behind what was waited for before."""
        end = time.monotonic() + timeout
        while not (match := re.search(pattern, self.seen, re.S)):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            try:
                data = os.read(self.master, 65536) if ready else b""
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            self.seen += data
        found, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return found

    def say(self, text):
        """Sends a line and returns what came until the next prompt."""
        self.send(text + "\r")
        return self.wait(PROMPT)

    def leave(self, keys="\x04"):
        """Sent once: it is heard whenever it comes."""
        self.send(keys)
        code = self.process.wait(timeout=120)
        os.close(self.master)
        return code

    def between_signals(self, action):
        """Acts while the process is stopped, and forgets what it had written by then."""
        os.kill(self.process.pid, signal.SIGSTOP)
        while select.select([self.master], [], [], 0.2)[0]:
            os.read(self.master, 65536)
        self.seen = b""
        action()
        os.kill(self.process.pid, signal.SIGCONT)


def talk(*args, lines, timeout=120):
    text = "".join(line + "\n" for line in lines).encode()
    return subprocess.run(command(args), input=text, capture_output=True, timeout=timeout, env=environment())


def width(text):
    """Columns that a terminal shows it in."""
    return sum(0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


def wrapped(line, columns):
    """The lines of a line, as full as whole words make them."""
    lines = [""]
    for word in line.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) <= columns or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


class TestCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-chat-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def open(self, *args, **env):
        terminal = Terminal(*args, **env)
        self.addCleanup(terminal.process.wait)
        self.addCleanup(terminal.process.kill)
        return terminal

    def begin(self, *args, **env):
        terminal = self.open(*args, **env)
        terminal.wait(rb"\D0%> ")
        return terminal

    def long_answers(self):
        """Options by which no answer ends early."""
        path = self.folder / "long.gbnf"
        path.write_text('root ::= "The " part{50}\npart ::= [a-z ]{1000}')
        return ("--grammar", path)

    def answering(self, text):
        """Options by which every answer is this text."""
        path = self.folder / "text.gbnf"
        path.write_text(f"root ::= {json.dumps(text, ensure_ascii=False)}")
        return ("--grammar", path)

    @staticmethod
    def lines_of_answer(terminal, message="a"):
        """As they are on the screen, without colours."""
        terminal.send(message + "\r")
        terminal.wait(rb"\n")
        shown = terminal.wait(STATUS).decode()
        terminal.wait(PROMPT)
        return re.sub(r"\x1b\[[0-9;]*m", "", shown).split("\r\n")[:-1]

    def saved(self, terminal, name="saved"):
        terminal.say(f"/save {self.folder / name}")
        return json.loads((self.folder / name).read_text())

    def assert_error(self, output, pattern):
        self.assertRegex(output, rb"tern: error: [^\r\n]*" + pattern)


@needs_model
class Talk(TestCase):
    OPTIONS = (MODEL, "-n", 12, "--temp", 0, "-c", 512)

    def test_a_conversation(self):
        t = self.begin(*self.OPTIONS, "--system", "Answer in one word.")
        first = t.say("What is the capital of France?")
        self.assertIn(b"Paris", first)
        self.assertRegex(first, STATUS)
        self.assertRegex(first, rb"context \d+ of 512, \d+ %")
        t.say("And of Italy?")
        stats = t.say("/stats")
        self.assertRegex(stats, rb"messages +5\r\n")
        read, reused = map(int, re.search(rb"read +(\d+) tokens.* (\d+) were there already", stats).groups())
        self.assertGreater(reused, 20)
        self.assertLess(read, 60)
        self.assertIn(b"/regen", t.say("/help"))
        self.assert_error(t.say("/nonsense"), rb"/nonsense: unknown command")
        self.assertEqual(t.leave(), 0)

    def test_what_was_said_is_changed_and_taken_back(self):
        t = self.begin(*self.OPTIONS[:3], "-c", 512, "-s", 7, "--temp", 1)
        self.assert_error(t.say("/regen"), rb"nothing has been said yet")
        t.say("Say a word.")
        first = self.saved(t)["messages"]
        t.say("/regen")
        again = self.saved(t)["messages"]
        self.assertEqual([m["role"] for m in again], ["user", "assistant"])
        self.assertNotEqual(first[1], again[1])
        t.say("/edit Say another word.")
        self.assertEqual(self.saved(t)["messages"][0]["content"], "Say another word.")
        t.send("/edit\r")
        t.wait(rb"edit> .*another word")
        t.send("\x15Say nothing.\r")  # Ctrl-U: an empty line
        t.wait(PROMPT)
        self.assertEqual(self.saved(t)["messages"][0]["content"], "Say nothing.")
        t.say("/system Be brief.")
        t.say("More.")
        self.assertEqual([m["role"] for m in self.saved(t)["messages"]], ["system", "user", "assistant", "user", "assistant"])
        self.assertIn(b"taken back: More.", t.say("/undo"))
        self.assertEqual(len(self.saved(t)["messages"]), 3)
        t.say("/clear")
        self.assertEqual([m["role"] for m in self.saved(t)["messages"]], ["system"])
        t.say("/system -")
        self.assertEqual(self.saved(t)["messages"], [])
        self.assertEqual(t.leave("/quit\r"), 0)

    def test_interrupts_stop_the_answer_and_not_the_program(self):
        t = self.begin(MODEL, "--temp", 0, "-c", 2048, *self.long_answers())
        t.send("tell me a story.\r")
        t.wait(rb"The [a-z ]{6}")
        t.send("\x03")
        self.assertRegex(t.wait(PROMPT), rb"stopped\]")
        messages = self.saved(t)["messages"]
        self.assertEqual(messages[-1]["role"], "assistant")
        self.assertGreater(len(messages[-1]["content"]), 3)
        t.send("half a line")
        t.wait(b"half a line")
        t.send("\x03")
        t.wait(PROMPT)
        t.say("/set predict 3")
        t.say("Go on.")
        self.assertEqual(self.saved(t)["messages"][2]["content"], "Go on.")
        t.send(("word " * 700) + "\r")
        t.wait(rb"reading +\d+ % ")
        t.send("\x03")
        self.assertRegex(t.wait(PROMPT), rb"message is taken back")
        self.assertEqual(len(self.saved(t)["messages"]), 4)
        self.assertEqual(t.leave(), 0)

    def test_lines_are_edited_character_by_character(self):
        t = self.begin(*self.OPTIONS[:1], "-n", 2, "--temp", 0)
        t.send("h\u00e9llo \u6f22\u5b57\U0001f642\x7f\x7f e\u0301!")  # an emoji and a wide character are deleted
        t.wait(rb"!")
        t.resize(40, 12)
        t.send("?\x01A \x05\r")  # to the start, to the end
        t.wait(STATUS + rb".*" + PROMPT)
        self.assertEqual(self.saved(t)["messages"][0]["content"], "A h\u00e9llo \u6f22 e\u0301!?")
        t.send("\x1b[A\x1b[A\r")  # up: /save, then the message again
        t.wait(STATUS + rb".*" + PROMPT)
        t.send("one\\\rtwo\r")
        t.wait(STATUS + rb".*" + PROMPT)
        t.send('"""\rthree\r\r  four \\\r"""\r')
        t.wait(STATUS + rb".*" + PROMPT)
        t.say("//slash")
        questions = [m["content"] for m in self.saved(t)["messages"] if m["role"] == "user"]
        self.assertEqual(questions[1:], [questions[0], "one\ntwo", "three\n\n  four \\", "/slash"])
        self.assertEqual(t.leave(), 0)

    def test_a_window_made_narrower_in_an_answer_is_followed(self):
        t = self.begin(MODEL, "-n", 150, "--temp", 0.8, "-s", 1, *self.long_answers())
        t.send("Tell me about the sea.\r")
        wide = t.wait(rb"\r\n.*\r\n").split(b"\r\n")[1]
        self.assertIn(len(wide), range(60, 81))
        t.between_signals(lambda: t.resize(30, 24))
        t.wait(rb"\n")
        lines = t.wait(STATUS).decode().split("\r\n")[:-1]
        t.wait(PROMPT)
        self.assertGreater(len(lines), 3)
        self.assertLessEqual(max(map(len, lines)), 30)
        words = " ".join(lines).split()
        self.assertEqual(words, self.saved(t)["messages"][1]["content"].split()[-len(words):])
        self.assertEqual(t.leave(), 0)

    def test_colours_are_for_terminals(self):
        question = "Write the word **bold** in Markdown."
        sequences = {}
        for name, env in (("colour", {}), ("none", {"NO_COLOR": "1"}), ("dumb", {"TERM": "dumb"})):
            t = self.begin(*self.OPTIONS, **env)
            t.send(question + "\r")
            t.wait(rb"\n")
            shown = t.wait(STATUS)
            sequences[name] = re.findall(rb"\x1b\[[0-9;]*m", shown)
            t.wait(PROMPT)
            self.assertEqual(t.leave(), 0)
        self.assertTrue(sequences["colour"])
        self.assertEqual((sequences["none"], sequences["dumb"]), ([], []))
        piped = talk(*self.OPTIONS, lines=[question])
        self.assertEqual(piped.returncode, 0)
        self.assertNotIn(b"\x1b", piped.stdout + piped.stderr)


@needs_model
class Files(TestCase):
    QUESTIONS = ["Name a colour.", "Name another one.", "Why that one?"]

    def test_a_conversation_goes_on_as_if_never_left(self):
        options = (MODEL, "-n", 20, "-c", 1024, "--temp", 0.9, "-s", 11)
        path = self.folder / "saved"
        whole = talk(*options, lines=self.QUESTIONS)
        first = talk(*options, lines=[*self.QUESTIONS[:2], f"/save {path}"])
        # Another seed and temperature: those of the conversation count.
        second = talk(MODEL, "-c", 1024, "-s", 99, "--load", path, lines=[self.QUESTIONS[2], "/stats"])
        for result in (whole, first, second):
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(first.stdout + second.stdout, whole.stdout)
        read, reused = map(int, re.search(rb"read +(\d+) tokens.* (\d+) were there already", second.stderr).groups())
        self.assertGreater(reused, read)
        # Without the state, and with a damaged one, it is read again: the same text.
        state = self.folder / "saved.state"
        good = state.read_bytes()
        state.write_bytes(good[:-1])
        third = talk(MODEL, "-c", 1024, lines=[f"/load {path}", self.QUESTIONS[2]])
        self.assertEqual(first.stdout + third.stdout, whole.stdout)
        self.assert_error(third.stderr, rb"cannot restore the state: .*saved.state: truncated")
        self.assertEqual(third.returncode, 1)
        state.unlink()
        fourth = talk(MODEL, "-c", 1024, lines=[f"/load {path}", self.QUESTIONS[2], f"/save {self.folder / 'all.md'}"])
        self.assertEqual(first.stdout + fourth.stdout, whole.stdout)
        text = (self.folder / "all.md").read_text()
        self.assertEqual(re.findall(r"^user:\n(.*)$", text, re.M), self.QUESTIONS)

    def test_what_is_no_conversation_is_refused(self):
        for content in ("", "{", "[]", '{"tern-chat": 2}', '{"tern-chat": 1, "messages": [{"role": "user"}], "draws": 0}',
                        '{"tern-chat": 1, "messages": [], "draws": -1}', "\0", "[" * 100000,
                        '{"tern-chat": 1, "messages": [], "draws": 0, "settings": {"temp": "hot"}}'):
            path = self.folder / "bad"
            path.write_text(content)
            result = talk(MODEL, "--load", path, lines=[])
            self.assertEqual((result.returncode, result.stdout), (1, b""))
            self.assert_error(result.stderr, rb"cannot (load|set)")

    def test_a_full_context_stops_or_drops(self):
        lines = ["Tell me about the sea, at length."] * 4
        options = (MODEL, "-n", 40, "-c", 160, "--temp", 0)
        stopped = talk(*options, lines=lines)
        self.assertEqual(stopped.returncode, 1)
        self.assert_error(stopped.stderr, rb"the context is full: the conversation takes \d+ tokens of 160")
        dropped = talk(*options, "--full", "drop", lines=lines)
        self.assertEqual(dropped.returncode, 0, dropped.stderr)
        self.assertRegex(dropped.stderr, rb"the oldest \d+ messages are no longer seen")
        # An answer that fills the context goes on when older turns can give way, and is cut when none is left.
        long = talk(MODEL, "-c", 160, "--temp", 0, "-n", 100, "--full", "drop", *self.long_answers(), lines=["Hi.", "Ho."])
        self.assertEqual(long.returncode, 0, long.stderr)
        self.assertRegex(long.stderr, rb"the oldest 2 messages are no longer seen")
        self.assertRegex(long.stderr, rb"(?s)cut after 100 tokens.*cut after 100 tokens")
        self.assertRegex(long.stdout, rb"\A(The [a-z ]+\n){2}\Z")  # the grammar goes on, it does not begin again


class Small(TestCase):
    """Models of random weights: what is said does not matter."""

    def model(self, **meta):
        case = next(c for c in tiny.LONG_CASES if c.name == "long-window")
        return tiny.Model(case).write(self.folder / "tiny.gguf", meta=meta)

    def template(self, text=TEMPLATE):
        path = self.folder / "template.jinja"
        path.write_text(text)
        return path

    def test_a_model_without_a_template_needs_one(self):
        result = talk(self.model(), lines=["a"])
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assert_error(result.stderr, rb".*tiny.gguf.*--template FILE")

    def test_no_control_character_of_the_model_reaches_the_terminal(self):
        t = self.begin(self.model(), "--template", self.template(), "-n", 400, "--temp", 50, "--top-k", 0, "--top-p", 1,
                       "--min-p", 0, "-s", 1, NO_COLOR="1")
        t.send("a\r")
        t.wait(rb"\n")
        shown = t.wait(STATUS)
        self.assertRegex(shown, rb"\\x(1b|0[0-8]|9b|07)")
        self.assertFalse(re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]", shown), shown)
        self.assertEqual(self.leave_after(t), 0)

    def test_words_are_not_cut_at_the_edge(self):
        word = "a\u0301e\u0300 na\u00efve \U0001f642 \u6f22\u5b57 **bold words that go on** `code of words` word, "
        prose = ("# Of things\n" + word * 3 + "end.\n\n  indented " + word + "end.\n").replace("\u6f22\u5b57 ", "")
        code = "```c\n" + "int a;  " * 20 + "\n\treturn 0;\n```\n"
        long = "see " + "x" * 100 + " there " + word.replace("\u6f22\u5b57 ", "") + "end."
        text = prose + code + long
        for columns in (80, 37, 21):
            t = self.begin(self.model(), "--template", self.template(), *self.answering(text))
            t.resize(columns, 24)
            lines = self.lines_of_answer(t)
            expected = []
            for line in prose.rstrip("\n").split("\n"):
                indent = line[: len(line) - len(line.lstrip())]
                folded = wrapped("_" * len(indent) + line.lstrip(), columns)
                expected += [indent + folded[0][len(indent):], *folded[1:]]
            expected += code.rstrip("\n").split("\n") + ["see"]
            self.assertEqual(lines[: len(expected)], expected)
            # The terminal cuts the one word that no line holds; what follows is whole again.
            self.assertTrue(lines[len(expected)].startswith("x" * 100))
            rest = "x" * (100 % columns or columns) + lines[len(expected)][100:]
            self.assertEqual([rest, *lines[len(expected) + 1:]], wrapped(rest[: 100 % columns] + long[104:], columns))
            self.assertEqual(self.saved(t)["messages"][1]["content"], text)
            self.assertEqual(t.leave(), 0)
        piped = talk(self.model(), "--template", self.template(), *self.answering(text), lines=["a"])
        self.assertEqual(piped.stdout.decode(), text + "\n")

    def test_lines_without_blanks_break_between_characters(self):
        text = "\u6f22\u5b57\u304b\u306a\u3002" * 12 + " word " + "\u0e01\u0e33\u0e25\u0e31\u0e07" * 9
        t = self.begin(self.model(), "--template", self.template(), *self.answering(text))
        t.resize(31, 24)
        lines = self.lines_of_answer(t)
        self.assertEqual("".join(lines).replace(" ", ""), text.replace(" ", ""))
        for line, following in zip(lines, lines[1:]):
            self.assertIn(width(line), range(27, 32))
            self.assertNotIn(following[0], "\u3002\u0e31")
        self.assertEqual(t.leave(), 0)

    def test_the_help_is_whole_in_80_columns(self):
        t = self.begin(self.model(), "--template", self.template())
        lines = t.say("/help").decode().split("\r\n")
        self.assertGreater(len(lines), 10)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertEqual({line[24] == " " != line[25] for line in lines if line[:3] == "  /"}, {True})  # one column
        self.assertEqual(t.leave(), 0)

    def test_the_history_outlives_a_chat(self):
        state = self.folder / "state"
        options = (self.model(), "--template", self.template(), "-n", 2)
        first = self.begin(*options, XDG_STATE_HOME=str(state))
        first.say("the first \u6f22\U0001f642")
        first.send("one\\\rtwo\r")
        first.wait(STATUS + rb".*" + PROMPT)
        first.process.kill()  # as when the window is closed
        path = state / "tern" / "history"
        self.assertEqual([p.stat().st_mode & 0o777 for p in (path, path.parent)], [0o600, 0o700])
        second = self.begin(*options, XDG_STATE_HOME=str(state))
        second.send("\x1b[A\x1b[A\x1b[A\r")
        second.wait(STATUS + rb".*" + PROMPT)
        second.send("\x1b[A\x1b[A\x1b[A\r\x1b[A\x1b[A\x1b[A\r")  # both lines of the second message
        second.wait(STATUS + rb".*" + PROMPT)
        questions = [m["content"] for m in self.saved(second)["messages"] if m["role"] == "user"]
        self.assertEqual(questions, ["the first \u6f22\U0001f642", "one\ntwo"])
        self.assertEqual(second.leave(), 0)

    def test_the_history_is_bounded_and_may_be_kept_nowhere(self):
        path = self.folder / "tern" / "history"
        path.parent.mkdir()
        options = (self.model(), "--template", self.template(), "-n", 2)
        path.write_text("".join(f"line {i}\n" for i in range(1500)))
        t = self.begin(*options, XDG_STATE_HOME=str(self.folder))
        t.say("the last")
        self.assertEqual(path.read_text().splitlines(), [f"line {i}" for i in range(500, 1500)] + ["the last"])
        self.assertEqual(t.leave(), 0)
        path.unlink()
        for make in (lambda: path.symlink_to("/dev/null"), lambda: os.mkfifo(path), path.mkdir,
                     lambda: path.write_bytes(b"\xff\0\n\n\0\x1b[2J\\" + bytes(range(256)) + b"x" * 100000)):
            make()
            t = self.begin(*options, XDG_STATE_HOME=str(self.folder))
            t.send("\x1b[A" * 5 + "\x15")
            self.assertNotIn(b"error", t.say("a"))
            self.assertEqual(t.leave(), 0)
            path.rmdir() if path.is_dir() else path.unlink()
        self.assertEqual(os.stat("/dev/null").st_mode & 0o777, 0o666)

    def test_chats_at_once_share_the_history(self):
        path = self.folder / "tern" / "history"
        options = (self.model(), "--template", self.template(), "-n", 2)
        first, second = (self.begin(*options, XDG_STATE_HOME=str(self.folder)) for _ in range(2))
        for chat, line in ((first, "one"), (second, "two"), (first, "three"), (first, "three"), (second, "four")):
            chat.send(line + "\r")
            chat.wait(STATUS + rb".*" + PROMPT)
        self.assertEqual(path.read_text().splitlines(), ["one", "two", "three", "four"])
        with open(path, "a") as held:  # by another that does not go on
            fcntl.flock(held, fcntl.LOCK_EX)
            first.send("five\r")
            first.wait(STATUS + rb".*" + PROMPT)
            third = self.begin(*options, XDG_STATE_HOME=str(self.folder))
            third.send("\x1b[A\r")
            third.wait(STATUS + rb".*" + PROMPT)
        self.assertEqual(self.saved(third)["messages"][0]["content"], "five")
        self.assertEqual([t.leave() for t in (first, second, third)], [0, 0, 0])

    def test_what_is_typed_early_is_heard(self):
        """A Ctrl-D above all, which the kernel would take for the end of a line if the terminal were in lines for a moment."""
        options = (self.model(), "--template", self.template(), *self.long_answers())
        path = self.folder / "tern" / "history"
        path.parent.mkdir()
        with open(path, "a") as held:  # so that it stays for a while between the line and the answer
            t = self.begin(*options, "-n", 2, XDG_STATE_HOME=str(self.folder))
            fcntl.flock(held, fcntl.LOCK_EX)
            t.send("a\r")
            t.wait(rb"a\r\n")
            self.assertEqual(t.leave(), 0)
        t = self.begin(*options, "-n", 40)
        t.send("a\r")
        t.wait(rb"The ")
        t.between_signals(lambda: t.send("early\r\x04"))
        t.wait(PROMPT + rb"early.*" + STATUS)
        self.assertEqual(t.process.wait(timeout=120), 0)

    @staticmethod
    def leave_after(t):
        t.wait(PROMPT)
        return t.leave()

    def test_reasoning_is_folded_where_asked(self):
        model = self.model()
        template = self.template(TEMPLATE + "<think>\n")
        options = (model, "--template", template, "-n", 30, "--temp", 0)
        shown = talk(*options, lines=["a"])
        hidden = talk(*options, "--reasoning", "hide", lines=["a"])
        self.assertEqual((shown.returncode, hidden.returncode), (0, 0), shown.stderr)
        self.assertTrue(shown.stdout)
        self.assertEqual(hidden.stdout, b"")  # this model never stops to think
        answer = self.answering("<think>\nx\n</think>\n\nyes <b")
        done = talk(model, "--template", self.template(), *answer, "--reasoning", "hide", lines=["a"])
        self.assertEqual(done.stdout, b"yes <b\n", done.stderr)

    def test_a_template_that_refuses_says_why_and_the_message_is_taken_back(self):
        path = self.template("{% if messages|length > 1 %}{{ raise_exception('only one') }}{% endif %}" + TEMPLATE)
        result = talk(self.model(), "--template", path, "-n", 2, lines=["a", "b", f"/save {self.folder / 's'}"])
        self.assertEqual(result.returncode, 1)
        self.assert_error(result.stderr, rb".*only one")
        self.assertEqual(len(json.loads((self.folder / "s").read_text())["messages"]), 2)

    def test_a_turn_that_cannot_be_said_anew_stays(self):
        path = self.template("{% if messages[0].role == 'system' or messages[-1].content == 'bad' %}"
                             "{{ raise_exception('never') }}{% endif %}" + TEMPLATE)
        save = f"/save {self.folder / 's'}"
        for lines in (["/edit bad"], ["/system s", "/regen", "/system -"]):
            said = []
            for more in ([], lines):
                result = talk(self.model(), "--template", path, "-n", 4, "-s", 1, lines=["a", "b", *more, save])
                self.assertEqual(result.returncode, 1 if more else 0)
                said.append(json.loads((self.folder / "s").read_text())["messages"])
            self.assert_error(result.stderr, rb".*never")
            self.assertEqual([m["role"] for m in said[0]], ["user", "assistant"] * 2)
            self.assertEqual(said[1], said[0])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
