"""The tern command as a user meets it: help, wrong usage, failures, interruption, and what goes to which stream."""

import errno
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

TERN = os.path.abspath(os.environ.get("TERN", "build/tern"))
ROOT = pathlib.Path(__file__).resolve().parent.parent
VOCABULARIES = pathlib.Path(os.environ.get("TERN_DATA", ROOT / "../shared/data")) / "vocab"
CACHE = os.environ.get("TERN_MODELS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tern")
MODEL = pathlib.Path(CACHE) / "smollm2-135m.gguf"
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"  # no settings of whoever runs the tests
QUESTION = "<|im_start|>user\nCount from one to twenty in words.<|im_end|>\n<|im_start|>assistant\n"

HELP = subprocess.run([TERN, "--help"], capture_output=True, timeout=60).stdout.decode()
COMMANDS = re.findall(r"^  (\w+)", HELP, re.M)

needs_model = unittest.skipUnless(MODEL.is_file(), f"{MODEL.name} is not in the cache (tools/fetch-model fetches it)")
needs_vocabularies = unittest.skipUnless(VOCABULARIES.is_dir(), "the test vocabularies are absent (TERN_DATA)")


def default_sigint():
    """A test driver started in the background hands down an ignored SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def tern(*args, text=b"", timeout=300, **more):
    return subprocess.run([TERN, *map(str, args)], input=text, capture_output=True, timeout=timeout, **more)


def start(*args, **more):
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen([TERN, *map(str, args)], preexec_fn=default_sigint, **more)


def gguf(entries, tensors=b"", n_tensors=0):
    """A GGUF v3 file from (key, type number, packed value)."""
    def string(text):
        return struct.pack("<Q", len(text)) + text

    data = b"GGUF" + struct.pack("<IQQ", 3, n_tensors, len(entries))
    for key, kind, value in entries:
        data += string(key) + struct.pack("<I", kind) + value
    return data + tensors


def packed_string(text):
    return struct.pack("<Q", len(text)) + text


class TestCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def assert_error_line(self, stderr, pattern):
        """One line, of the form `tern: error: ...`, with nothing that a terminal would obey."""
        lines = stderr.decode("utf-8").splitlines()
        errors = [line for line in lines if line.startswith("tern: error: ")]
        self.assertEqual(len(errors), 1, stderr)
        self.assertEqual(lines[-1], errors[0])
        self.assertRegex(errors[0], pattern)
        self.assertFalse(re.search(r"[\x00-\x1f\x7f-\x9f]", errors[0]), errors[0])

    def assert_fails(self, result, code, pattern, stdout=b""):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, stdout)
        self.assert_error_line(result.stderr, pattern)


class Help(TestCase):
    def test_help_fits_a_screen(self):
        for args in [["--help"], ["-h"], ["run", "--help-sampling"]] + [[command, "--help"] for command in COMMANDS]:
            with self.subTest(args=args):
                result = tern(*args)
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                lines = result.stdout.decode("ascii").splitlines()
                self.assertLessEqual(len(lines), 24)
                self.assertLessEqual(max(map(len, lines)), 80)
                self.assertTrue(result.stdout.endswith(b"\n"))

    def test_version(self):
        self.assertRegex(tern("--version").stdout, rb"\Atern \d+\.\d+\.\d+\n\Z")

    def test_help_names_the_commands(self):
        self.assertLessEqual({"run", "inspect", "tokenize", "logits"}, set(COMMANDS))
        self.assertEqual(len(COMMANDS), len(set(COMMANDS)))

    def test_help_lists_exactly_the_options_that_are_accepted(self):
        listed = {c: set(re.findall(r"(?<!\w)--[a-z-]+", tern(c, "--help").stdout.decode())) for c in COMMANDS}
        for options in listed.values():
            if "--help-sampling" in options:
                options |= set(re.findall(r"(?<!\w)--[a-z-]+", tern("run", "--help-sampling").stdout.decode()))
        for command in COMMANDS:
            for option in set.union(*listed.values()):
                # What follows an accepted option is too much or no value of it: nothing is run.
                stderr = tern(command, option, "--", "a", "b").stderr.decode()
                refused = "not an option of this command" in stderr or "unknown option" in stderr
                self.assertEqual(refused, option not in listed[command], (command, option))

    def test_help_wins_over_a_missing_model(self):
        self.assertEqual(tern("run", "-n", "3", "--help").returncode, 0)


WRONG_USAGE = [
    ([], "missing command"),
    (["frobnicate"], "frobnicate: unknown command"),
    (["--frobnicate"], "--frobnicate: unknown option"),
    (["--version", "now"], "extra argument 'now'"),
    (["run"], "-m: missing option"),
    (["run", "-m", "M"], "missing prompt"),
    (["run", "-m", "M", "-p", "a", "-f", "b"], "expected one of them, found both"),
    (["run", "-p", "a"], "-m: missing option"),
    (["run", "-m", "M", "-p", "a", "b"], "extra argument 'b'"),
    (["run", "-m", "M", "--bogus"], "--bogus: unknown option"),
    (["run", "-m", "M", "-z"], "-z: unknown option"),
    (["chat", "M", "--full", "st"], "--full: expected one of: stop drop, found 'st'"),
    (["chat", "M", "--reasoning", ""], "--reasoning: expected one of: show hide, found ''"),
    (["run", "-m", "M", "--json"], "--json: not an option of this command"),
    (["run", "-m"], "-m: missing value"),
    (["run", "-m", ""], "-m: expected a text, found ''"),
    (["run", "-m", "M", "-p", "a", "-n", "x"], "-n: expected an integer from 0 to 4294967295, found 'x'"),
    (["run", "-m", "M", "-p", "a", "-n", "-1"], "-n: expected an integer .*found '-1'"),
    (["run", "-m", "M", "-p", "a", "-n", "1 "], "-n: expected an integer .*found '1 '"),
    (["run", "-m", "M", "-p", "a", "-n", "0x10"], "-n: expected an integer .*found '0x10'"),
    (["run", "-m", "M", "-p", "a", "--predict=1e3"], "--predict: expected an integer .*found '1e3'"),
    (["run", "-m", "M", "-p", "a", "-n99999999999999999999"], "-n: expected an integer .*found '9{20}'"),
    (["run", "-m", "M", "-p", "a", "-t", "0"], "-t: expected an integer from 1 to 1024, found '0'"),
    (["run", "-m", "M", "-p", "a", "-c", "0"], "-c: expected an integer from 1 to 2147483647, found '0'"),
    (["run", "-m", "M", "-p", "a", "-b", "0"], "-b: expected an integer from 1 to 65536, found '0'"),
    (["run", "-m", "M", "-p", "a", "--temp", "nan"], "--temp: expected a number from 0 to 100, found 'nan'"),
    (["run", "-m", "M", "-p", "a", "--temp", "-0.1"], "--temp: expected a number"),
    (["run", "-m", "M", "-p", "a", "--temp", "1e999"], "--temp: expected a number"),
    (["run", "-m", "M", "-p", "a", "--temp", "0.5.1"], "--temp: expected a number"),
    (["run", "-m", "M", "-p", "a", "--top-p", "0"], "--top-p: expected a number above 0 up to 1, found '0'"),
    (["run", "-m", "M", "-p", "a", "--min-p", "1.01"], "--min-p: expected a number from 0 to 1, found '1.01'"),
    (["run", "-m", "M", "-p", "a", "--repeat-last-n", "-2"], "--repeat-last-n: expected an integer from -1"),
    (["run", "-m", "M", "-p", "a", "--typical", "0"], "--typical: expected a number above 0 up to 1, found '0'"),
    (["run", "-m", "M", "-p", "a", "--presence-penalty", "-101"], "--presence-penalty: expected a number from -100 to 100"),
    (["run", "-m", "M", "-p", "a", "--logprobs", "101"], "--logprobs: expected an integer from 0 to 100"),
    (["run", "-m", "M", "-p", "a"] + ["--bias", "1=2"] * 17, "--bias: expected at most 16"),
    (["run", "-m", "M", "-p", "a", "--kv", "q4"], "--kv: expected f16, q8_0 or f32, found 'q4'"),
    (["run", "-m", "M", "-p", "a", "--ignore-eos=yes"], "--ignore-eos: takes no value, found 'yes'"),
    (["run", "-m", "M", "-p", "a", "--stop", ""], "--stop: expected a text, found ''"),
    (["run", "-m", "M", "-p", "a"] + ["--stop", "x"] * 17, "--stop: expected at most 16"),
    (["run", "-m", "M", "\x1b[31m"], r"extra argument '\\x1b\[31m'"),
    (["inspect"], "-m: missing option"),
    (["inspect", "A", "B"], "extra argument 'B'"),
    (["inspect", "-m", "A", "B"], "extra argument 'B'"),
    (["tokenize", "M"], "extra argument 'M'"),
    (["embed", "-m", "M"], "expected one of -p, -f and --ids"),
    (["embed", "-m", "M", "-p", "a", "-f", "F"], "expected one of -p, -f and --ids"),
    (["embed", "-m", "M", "-p", "a", "--csv", "--raw"], "expected one of --csv, --json and --raw"),
    (["embed", "-m", "M", "-p", "a", "--pooling", "max"], "--pooling: expected none, mean, cls or last, found 'max'"),
    (["logits", "-m", "M", "-o", "F"], "--ids: missing option"),
    (["logits", "-m", "M", "--ids", "1"], "-o: missing option"),
    (["logits", "-m", "M", "--ids", "1,2", "-o", "F"], "--ids: expected token ids .*found '1,2'"),
    (["logits", "-m", "M", "--ids", "1 -2", "-o", "F"], "--ids: expected token ids .*found '-2'"),
    (["logits", "-m", "M", "--ids", "  ", "-o", "F"], "--ids: expected at least one token id"),
]


class Usage(TestCase):
    def test_wrong_usage_is_one_line_and_exit_2(self):
        for args, pattern in WRONG_USAGE:
            with self.subTest(args=args):
                result = tern(*args, cwd=self.folder)
                self.assert_fails(result, 2, pattern)
                self.assertRegex(result.stderr.decode(), r"\(see 'tern (\w+ )?--help'\)\n\Z")
                self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_options_may_be_written_in_each_usual_way(self):
        missing = self.folder / "missing.gguf"
        for args in [["-m", missing], [f"-m{missing}"], ["--model", missing], [f"--model={missing}"]]:
            with self.subTest(args=args):
                self.assert_fails(tern("run", *args, "-p", "a", "-n5", "--temp=0.5"), 1, "missing.gguf: No such file")
        self.assert_fails(tern("inspect", "--", missing), 1, "missing.gguf: No such file")


class BadFiles(TestCase):
    def test_a_model_that_cannot_be_opened_is_exit_1(self):
        os.mkfifo(self.folder / "fifo")
        self.write("empty", b"")
        self.write("text", b"not a model\n" * 100)
        for name in ["missing", "fifo", "empty", "text", "."]:
            for args in [["run", "-p", "a"], ["inspect"], ["tokenize"], ["embed", "-p", "a"],
                         ["logits", "--ids", "1", "-o", "-"]]:
                with self.subTest(name=name, args=args):
                    result = tern(args[0], "-m", self.folder / name, *args[1:], timeout=20)
                    self.assert_fails(result, 1, re.escape(str(self.folder)))

    def test_a_path_with_control_characters_is_escaped(self):
        self.assert_fails(tern("inspect", "/\x1b[2J\n"), 1, r"/\\x1b\[2J\\x0a")

    def test_inspect_describes_an_unknown_architecture(self):
        path = self.write("alien.gguf", gguf([(b"general.architecture", 8, packed_string(b"ali\x1ben"))]))
        result = tern("inspect", path)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertRegex(result.stdout.decode(), r"architecture +ali\\x1ben\n")
        self.assertRegex(result.stdout.decode(), r"not runnable: +\S")
        found = json.loads(tern("inspect", path, "--json").stdout)
        self.assertFalse(found["runnable"])
        self.assertRegex(found["not_runnable"], "architecture")

    def test_json_keeps_every_kind_of_value(self):
        numbers = struct.pack("<IQ", 4, 100) + struct.pack("<100I", *range(100))
        strings = struct.pack("<IQ", 8, 3) + packed_string(b"a,b") + packed_string(b"") + packed_string("é".encode())
        path = self.write("kinds.gguf", gguf([
            (b"general.architecture", 8, packed_string(b"x")),
            (b"k.u8", 0, b"\xff"), (b"k.i8", 1, b"\xff"), (b"k.u16", 2, b"\xff\xff"), (b"k.i16", 3, b"\x00\x80"),
            (b"k.u32", 4, b"\xff" * 4), (b"k.i32", 5, b"\xff" * 4), (b"k.f32", 6, struct.pack("<f", 1.5)),
            (b"k.bool", 7, b"\x01"), (b"k.false", 7, b"\x00"), (b"k.u64", 10, b"\xff" * 8), (b"k.i64", 11, b"\x00" * 7 + b"\x80"),
            (b"k.f64", 12, struct.pack("<d", -0.1)), (b"k.inf", 6, struct.pack("<f", math.inf)),
            (b"k.text", 8, packed_string(b"line\nquote\" \xc3\xa9")), (b"k.bad", 8, packed_string(b"\xff\x00")),
            (b"k.numbers", 9, numbers), (b"k.strings", 9, strings), (b"k.none", 9, struct.pack("<IQ", 8, 0)),
        ]))
        result = tern("inspect", path, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        entries = json.loads(result.stdout)["metadata"]
        values = {key: entry["value"] for key, entry in entries.items() if key.startswith("k.")}
        self.assertEqual(values, {
            "k.u8": 255, "k.i8": -1, "k.u16": 65535, "k.i16": -32768, "k.u32": 4294967295, "k.i32": -1, "k.f32": 1.5,
            "k.bool": True, "k.false": False, "k.u64": "18446744073709551615", "k.i64": -2**63, "k.f64": -0.1, "k.inf": "inf",
            "k.text": "line\nquote\" é", "k.bad": "\\xff\\x00", "k.numbers": list(range(64)), "k.strings": ["a,b", "", "é"],
            "k.none": [],
        })
        self.assertEqual([entries[k].get("count") for k in ("k.numbers", "k.strings", "k.none", "k.u8")], [100, 3, 0, None])


class Profiles(TestCase):
    """Settings from the user's file. A model that is not there ends a run whose settings are good."""

    def run_with(self, text, *args):
        folder = self.folder / "tern"
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(text)
        return tern("run", "-m", self.folder / "none.gguf", "-p", "a", *args, env=dict(os.environ, XDG_CONFIG_HOME=str(self.folder)))

    def test_good_settings(self):
        for text in ["", "# nothing\n", "default: {temp: 0.5, pin: true, stop: [a, b], bias: 3=-inf}\n",
                     "other:\n  kv: q8_0\n  dry-break: ['\\n']\n"]:
            self.assert_fails(self.run_with(text), 1, r"none\.gguf: No such file")
        self.assert_fails(self.run_with("x: {ctx: 64}\n", "--profile", "x"), 1, r"none\.gguf: No such file")

    def test_no_file_is_no_settings_unless_one_is_asked_for(self):
        environment = dict(os.environ, XDG_CONFIG_HOME=str(self.folder / "nowhere"))
        self.assert_fails(tern("run", "-m", "none.gguf", "-p", "a", env=environment), 1, r"none\.gguf: No such file")
        asked = tern("run", "-m", "none.gguf", "-p", "a", "--profile", "x", env=environment)
        self.assert_fails(asked, 1, r"nowhere/tern/config\.yaml: No such file")

    def test_what_is_wrong_is_said_with_line_and_column(self):
        for text, code, pattern in [
                ("default:\n  tempp: 1\n", 1, r"config\.yaml:2:3: unknown field 'tempp'"),
                ("x:\n  model: m\n", 1, r":2:3: unknown field 'model'"),
                ("default:\n  temp: hot\n", 2, r"config\.yaml:2:9: temp: expected a number from 0 to 100, found 'hot'"),
                ("x:\n  temp: 1\n  top-p: 2\n", 2, r":3:10: top-p: expected a number above 0 up to 1, found '2'"),
                ("default: 3\n", 1, r":1:10: expected fields"), ("- a\n", 1, r":1:1: expected names of profiles"),
                ("a: {}\na: {}\n", 1, r":2:1: given twice: 'a'"), ("a:\n  temp: 1\n  temp: 2\n", 1, r":3:3: given twice: 'temp'"),
                ("a: {temp: [1]}\n", 1, r":1:11: expected one value for 'temp'"),
                ("a: {pin: yes}\n", 1, r":1:10: expected true or false, found 'yes'"),
                ("a: {kv: q4}\n", 2, r":1:9: kv: expected f16, q8_0 or f32"),
                ("a: [\n", 1, r"config\.yaml:2:1: did not find"), ("\x1b: {}\n", 1, r"config\.yaml:1:1: ")]:
            with self.subTest(text=text):
                self.assert_fails(self.run_with(text), code, pattern)
        self.assert_fails(self.run_with("a: {}\n", "--profile", "b"), 1, r"no such profile: .*config\.yaml: 'b' is not there")


@needs_model
class Sampling(TestCase):
    def chain(self, *args, config=""):
        (self.folder / "tern").mkdir(exist_ok=True)
        (self.folder / "tern" / "config.yaml").write_text(config)
        environment = dict(os.environ, XDG_CONFIG_HOME=str(self.folder))
        result = tern("run", "-m", MODEL, "-p", "a", "-n", "1", "-v", *args, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return re.search(r"^sampling +(.*)$", result.stderr.decode(), re.M).group(1)

    def test_the_chain_is_that_of_options_over_profile_over_defaults(self):
        self.assertEqual(self.chain(), "top-k 40; top-p 0.95; min-p 0.05; temperature 0.8; draw")
        config = "default: {top-k: 7, temp: 0.5}\nother: {samplers: 'temperature,top-p', temp: 1.5}\n"
        self.assertEqual(self.chain(config=config), "top-k 7; top-p 0.95; min-p 0.05; temperature 0.5; draw")
        self.assertEqual(self.chain("--temp", "0.25", config=config), "top-k 7; top-p 0.95; min-p 0.05; temperature 0.25; draw")
        self.assertEqual(self.chain("--profile", "other", config=config), "temperature 1.5; top-p 0.95; draw")
        self.assertEqual(self.chain("--temp", "0", "--bias", "5=1", "--dry", "0.8"),
                         "bias of 1; dry 0.8, base 1.75, length 2, of the last -1; greedy")
        self.assertEqual(self.chain("--mirostat", "4"), "temperature 0.8; mirostat 4, rate 0.1; draw")

    def test_bias_bans_and_forces(self):
        ids = [tern("tokenize", "-m", MODEL, "--no-bos", text=text).stdout.decode().strip() for text in (b" blue", b" green")]
        args = ["run", "-m", MODEL, "-p", "The sky is", "-n", "1", "--temp", "0", "-q"]
        self.assertEqual(tern(*args, "--bias", f"{ids[1]}=1000").stdout, b" green")
        plain = tern(*args).stdout
        id_of_plain = tern("tokenize", "-m", MODEL, "--no-bos", text=plain).stdout.decode().strip()
        self.assertNotEqual(tern(*args, "--bias", f"{id_of_plain}=-inf").stdout, plain)
        self.assert_fails(tern(*args, "--bias", "blue=1"), 2, "--bias: expected a token id")
        self.assert_fails(tern(*args, "--bias", "99999999=1"), 1, "token 99999999, but there are 49152")

    def test_logprobs_are_lines_of_json(self):
        result = tern("run", "-m", MODEL, "-p", "The capital of France is", "-n", "4", "--temp", "0", "-q", "--logprobs", "3")
        lines = [json.loads(line) for line in result.stderr.splitlines()]
        self.assertEqual("".join(line["text"] for line in lines), result.stdout.decode())
        for line in lines:
            self.assertEqual(len(line["top"]), 3)
            self.assertEqual((line["token"], line["logprob"]), (line["top"][0]["token"], line["top"][0]["logprob"]))
            self.assertLess(sum(math.exp(top["logprob"]) for top in line["top"]), 1.0001)

    def test_bad_grammars_and_schemas_are_one_error(self):
        args = ["run", "-m", MODEL, "-p", "a", "-n", "1"]
        path = self.write("g", b"root ::= (")
        self.assert_fails(tern(*args, "--grammar", path), 1, "bad grammar: grammar:1:10: the group does not end")
        self.assert_fails(tern(*args, "--json-schema", '{"not": {}}'), 1, "bad JSON schema: #: keyword 'not': not supported")
        self.assert_fails(tern(*args, "--json-schema", '{"type": '), 1, "bad JSON schema: line 1")
        self.assert_fails(tern(*args, "--json-schema", "{}", "--grammar", path), 2, "expected one of them, found both")
        self.assert_fails(tern(*args, "--samplers", "top-k,topp"), 1, "no stage 'topp'")


@needs_vocabularies
class Tokenize(TestCase):
    def ids(self, text, *args, vocabulary="llama-bpe"):
        result = tern("tokenize", "-m", VOCABULARIES / f"ggml-vocab-{vocabulary}.gguf", *args, text=text)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertRegex(result.stdout, rb"\A(\d+( \d+)*)?\n\Z")
        return [int(word) for word in result.stdout.split()]

    def test_ids_are_on_one_line_separated_by_a_space(self):
        self.assertGreater(len(self.ids(b"several words, and more\n")), 4)
        self.assertEqual(self.ids(b"", "--no-bos"), [])

    def test_bos_and_control_tokens_can_be_turned_off(self):
        bos, end = 128000, 128009  # Llama 3's published <|begin_of_text|> and <|eot_id|>
        with_bos = self.ids(b"hi")
        self.assertEqual(with_bos, [bos] + self.ids(b"hi", "--no-bos"))
        self.assertEqual(self.ids(b"<|eot_id|>"), [bos, end])
        self.assertNotIn(end, self.ids(b"<|eot_id|>", "--no-special"))

    def test_bytes_that_are_no_text_are_kept(self):
        self.assertGreater(len(self.ids(b"a\xff\x00\xed\xa0\x80b", "--no-bos")), 5)

    def test_a_file_with_a_vocabulary_alone_cannot_run(self):
        path = VOCABULARIES / "ggml-vocab-llama-bpe.gguf"
        self.assert_fails(tern("run", "-m", path, "-p", "a"), 1, "ggml-vocab-llama-bpe.gguf")
        found = json.loads(tern("inspect", path, "--json", "-q").stdout)
        self.assertEqual((found["runnable"], found["n_vocab"]), (False, 128256))


@needs_model
class Run(TestCase):
    def run_model(self, *args, prompt=QUESTION, **more):
        return tern("run", "-m", MODEL, "-p", prompt, "--temp", "0", *args, **more)

    def test_standard_output_is_the_generated_text_alone(self):
        quiet, loud = self.run_model("-n", "12", "-q"), self.run_model("-n", "12", "-v")
        self.assertEqual((quiet.returncode, quiet.stderr), (0, b""))
        self.assertEqual(loud.stdout, quiet.stdout)
        self.assertNotIn(b"Count from", quiet.stdout)
        self.assertGreater(len(quiet.stdout.decode("utf-8")), 12)
        for figure in [r"prompt +\d+ tokens in [\d.]+ s, [\d.]+ tokens/s", r"generated +12 tokens in [\d.]+ s, [\d.]+ tokens/s",
                       r"first token +[\d.]+ s", r"memory +[\d.]+ MiB", r"threads +\d+, \w+", r"stopped +after 12 tokens \(-n\)"]:
            self.assertRegex(loud.stderr.decode(), figure)

    def test_the_prompt_may_come_from_a_file_or_standard_input(self):
        expected = self.run_model("-n", "8", "-q").stdout
        path = self.write("prompt", QUESTION.encode())
        for name, text in [(path, b""), ("-", QUESTION.encode())]:
            result = tern("run", "-m", MODEL, "-f", name, "--temp", "0", "-n", "8", "-q", text=text)
            self.assertEqual((result.returncode, result.stdout), (0, expected))
        self.assert_fails(tern("run", "-m", MODEL, "-f", self.folder / "none"), 1, "none: No such file")

    def test_a_stop_string_ends_the_text_before_it(self):
        whole = self.run_model("-n", "40", "-q").stdout.decode()
        for stop in [whole[20:23], whole[17:31]]:  # inside a token, and across several
            result = self.run_model("-n", "40", "--stop", "never seen", "--stop", stop)
            self.assertEqual(result.stdout.decode(), whole[:whole.index(stop)])
            self.assertRegex(result.stderr.decode(), r"stopped +a stop string")

    def test_the_same_seed_gives_the_same_text(self):
        texts = [self.run_model("-n", "12", "--temp", "1.5", "--top-p", "1", "-s", seed).stdout for seed in (7, 7, 8)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_an_unseeded_run_tells_the_seed_that_repeats_it(self):
        first = self.run_model("-n", "12", "--temp", "1.5")
        seed = re.search(r"seed +(\d+)", first.stderr.decode()).group(1)
        self.assertEqual(self.run_model("-n", "12", "--temp", "1.5", "-s", seed).stdout, first.stdout)

    def test_no_tokens_asked_for_is_no_text(self):
        result = self.run_model("-n", "0")
        self.assertEqual((result.returncode, result.stdout), (0, b""))
        self.assertRegex(result.stderr.decode(), r"generated +0 tokens\n")

    def test_a_full_context_is_said_plainly(self):
        result = self.run_model("-c", "40", "--ignore-eos")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr.decode(), r"stopped +the context of 40 tokens is full")

    def test_a_prompt_that_does_not_fit_gives_the_numbers(self):
        self.assert_fails(self.run_model("-c", "20", prompt="word " * 50), 1, r"prompt too long: -p: \d\d tokens, .* 20 ")

    def test_an_empty_prompt_is_an_error(self):
        self.assert_fails(self.run_model(prompt=""), 1, "prompt")

    def test_a_prompt_of_bad_utf8_is_taken_as_it_is(self):
        path = self.write("bytes", b"\xff\xfe bad \xed\xa0\x80 \x00 text \xe2\x82")
        result = tern("run", "-m", MODEL, "-f", path, "--temp", "0", "-n", "8")
        self.assertEqual(result.returncode, 0, result.stderr)
        result.stdout.decode("utf-8")

    def test_control_tokens_of_the_prompt_can_be_plain_text(self):
        counts = [int(re.search(r"prompt +(\d+) tokens", self.run_model("-n", "1", *more).stderr.decode()).group(1))
                  for more in ([], ["--no-special"])]
        self.assertGreater(counts[1], counts[0] + 8)

    def test_text_comes_as_it_is_made(self):
        process = start("run", "-m", MODEL, "-p", QUESTION, "--ignore-eos")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        first = os.read(process.stdout.fileno(), 65536)
        self.assertIsNone(process.poll())
        self.assertLess(len(first), 200)
        process.stdout.close()
        process.stderr.close()

    def test_ctrl_c_ends_cleanly(self):
        process = start("run", "-m", MODEL, "-p", QUESTION, "--ignore-eos")
        first = os.read(process.stdout.fileno(), 65536)
        process.send_signal(signal.SIGINT)
        rest, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        (first + rest).decode("utf-8")
        self.assertRegex(stderr.decode(), r"generated +\d+ tokens")
        self.assertRegex(stderr.decode(), r"stopped +interrupted\n\Z")
        self.assertNotIn(b"error", stderr)

    def test_ctrl_c_ends_a_long_prompt_in_the_middle_of_a_batch(self):
        path = self.write("long", b"word " * 7500)
        process = start("run", "-v", "-m", MODEL, "-f", path, "-n", "1", "-b", "8192", "-c", "8192")
        for line in process.stderr:  # what -v says comes before the prompt is computed
            if line.startswith(b"needs"):
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual((process.returncode, stdout), (130, b""), stderr)
        self.assertLess(time.monotonic() - started, 15)  # a fraction of what the batch takes
        self.assertRegex(stderr.decode(), r"prompt +0 tokens[^\n]*\ngenerated +0 tokens\n")

    def test_a_reader_that_goes_away_is_exit_1(self):
        process = start("run", "-m", MODEL, "-p", QUESTION, "--ignore-eos")
        process.stdout.close()
        stderr = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(60), 1)
        self.assert_error_line(stderr, os.strerror(errno.EPIPE))

    def test_a_full_disk_is_exit_1(self):
        commands = [["--help"], ["run", "-m", MODEL, "-p", QUESTION], ["inspect", MODEL], ["inspect", "--json", MODEL],
                    ["tokenize", "-m", MODEL], ["logits", "-m", MODEL, "--ids", "1", "-o", "-"]]
        for args in commands:
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                process = start(*args, stdout=full)
                stderr = process.communicate(timeout=60)[1]
                self.assertEqual(process.returncode, 1, stderr)
                self.assert_error_line(stderr, os.strerror(errno.ENOSPC))

    def test_a_closed_standard_output_is_exit_1(self):
        result = subprocess.run(["sh", "-c", '"$0" run -m "$1" -p hi -n 3 >&-', TERN, str(MODEL)], capture_output=True)
        self.assertEqual(result.returncode, 1)
        self.assert_error_line(result.stderr, "standard output")

    def test_a_model_that_shrinks_while_in_use_is_exit_1_and_never_wrong_text(self):
        copy = self.folder / "copy.gguf"
        shutil.copyfile(MODEL, copy)
        expected = self.run_model("-n", "120", "--ignore-eos", "-q").stdout
        process = start("run", "-m", copy, "-p", QUESTION, "--temp", "0", "--ignore-eos", "-n", "2000")
        text = os.read(process.stdout.fileno(), 65536)
        os.truncate(copy, 1 << 20)
        rest, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, stderr)
        self.assert_error_line(stderr, r"cannot read.*copy\.gguf: the file shrank")
        text = (text + rest)[:len(expected)]
        self.assertEqual(text, expected[:len(text)])

    def test_a_terminal_gets_a_final_newline(self):
        for args in [["-n", "6"], ["-n", "6", "-q"]]:
            screen, terminal = pty.openpty()
            process = start("run", "-m", MODEL, "-p", QUESTION, "--temp", "0", *args, stdout=terminal, stderr=subprocess.PIPE)
            os.close(terminal)
            shown = b""
            while select.select([screen], [], [], 60)[0]:
                try:
                    piece = os.read(screen, 4096)
                except OSError:  # the other side is closed
                    break
                if not piece:
                    break
                shown += piece
            stderr = process.communicate(timeout=60)[1]
            os.close(screen)
            self.assertEqual(process.returncode, 0, stderr)
            self.assertEqual(shown.replace(b"\r\n", b"\n"), self.run_model(*args, "-q").stdout + b"\n")

    def test_a_long_prompt_shows_progress_on_a_terminal_alone(self):
        path = self.write("long", b"word " * 1000)
        args = ["run", "-m", MODEL, "-f", path, "-n", "1", "-b", "16"]
        screen, terminal = pty.openpty()
        process = start(*args, stderr=terminal)
        os.close(terminal)
        shown = []
        reader = threading.Thread(target=lambda: read_until_closed(screen, shown))
        reader.start()
        process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(300), 0)
        reader.join(60)
        os.close(screen)
        shown = b"".join(shown)
        seconds = float(re.search(rb"prompt +\d+ tokens in ([\d.]+) s", shown).group(1))
        if seconds > 2:
            self.assertRegex(shown, rb"\rprompt +\d+ % \(\d+ of \d+\)")
        self.assertNotIn(b"\r\x1b", tern(*args).stderr)


def read_until_closed(descriptor, pieces):
    while True:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:
            return
        if not piece:
            return
        pieces.append(piece)


@needs_model
class Inspect(TestCase):
    def test_json_says_the_same_as_the_gguf_package(self):
        try:
            import gguf as package
        except ImportError:
            self.skipTest("the Python package gguf is absent")
        reader = package.GGUFReader(MODEL)
        found = json.loads(tern("inspect", MODEL, "--json").stdout)
        tensors = {t.name: (t.tensor_type.name, t.shape.tolist(), int(t.n_bytes)) for t in reader.tensors}
        self.assertEqual({t["name"]: (t["type"], t["dims"], t["bytes"]) for t in found["tensors"]}, tensors)
        self.assertEqual(found["n_params"], sum(int(t.n_elements) for t in reader.tensors))
        fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
        self.assertEqual(set(found["metadata"]), set(fields))
        for key, entry in found["metadata"].items():
            value = fields[key]
            if isinstance(value, list):
                self.assertEqual((entry["count"], entry["value"]), (len(value), value[:64]), key)
            elif isinstance(value, float):
                self.assertAlmostEqual(entry["value"], value, delta=abs(value) * 1e-7)
            else:
                self.assertEqual(entry["value"], value, key)

    def test_memory_grows_with_the_context_and_the_type_of_cache(self):
        def kv_bytes(*args):
            plans = json.loads(tern("inspect", MODEL, "--json", *args).stdout)["memory"]
            return {plan["n_ctx"]: plan["kv_bytes"] for plan in plans}

        half, single = kv_bytes("-c", "1000"), kv_bytes("-c", "1000", "--kv", "f32")
        blocks = kv_bytes("-c", "1000", "--kv", "q8_0")
        # K and V of 30 layers, 3 heads of 64: the published shape of SmolLM2-135M.
        self.assertGreaterEqual(half[8192], 2 * 30 * 3 * 64 * 8192 * 2)
        self.assertLess(half[8192], 1.1 * 2 * 30 * 3 * 64 * 8192 * 2)
        self.assertEqual(single[8192], 2 * half[8192])
        self.assertEqual(blocks[8192] * 64, 34 * half[8192])
        self.assertTrue(half[1000] < half[4096] < half[8192])

    def test_tensors_are_listed_when_asked_for(self):
        brief, full = tern("inspect", MODEL).stdout.decode(), tern("inspect", "--tensors", MODEL).stdout.decode()
        self.assertTrue(full.startswith(brief[:brief.index("\nmetadata")].rsplit("\n", 1)[0]))
        self.assertNotIn("blk.29.ffn_down.weight", brief)
        self.assertRegex(full, r"blk\.29\.ffn_down\.weight +Q4_1 +1536 x 576 ")


@needs_model
class Embed(TestCase):
    def test_each_line_is_a_text(self):
        lines = self.write("lines", b"Paris\r\nA cat sleeps.\n")
        of_file = tern("embed", "-m", MODEL, "-f", lines)
        self.assertEqual((of_file.returncode, of_file.stderr), (0, b""))
        one_by_one = [tern("embed", "-m", MODEL, "-p", text).stdout for text in ("Paris", "A cat sleeps.")]
        self.assertEqual(of_file.stdout, b"".join(one_by_one))
        vector = list(map(float, one_by_one[0].split()))
        self.assertEqual(len(vector), 576)
        self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        self.assertNotAlmostEqual(sum(x * x for x in map(float, tern(
            "embed", "-m", MODEL, "-p", "Paris", "--no-normalize").stdout.split())), 1, places=2)

    def test_formats_agree(self):
        options = ["embed", "-m", MODEL, "-p", "one two three", "--pooling", "none"]
        raw = tern(*options, "--raw").stdout
        floats = struct.unpack(f"<{len(raw) // 4}f", raw)
        rows = [list(map(float, line.split(b","))) for line in tern(*options, "--csv").stdout.splitlines()]
        data = json.loads(tern(*options, "--json").stdout)
        self.assertEqual((data["width"], len(data["embeddings"]), len(rows)), (576, 1, 3))
        self.assertEqual(data["embeddings"][0], rows)
        for a, b in zip(floats, [x for row in rows for x in row]):
            self.assertEqual(a, struct.unpack("<f", struct.pack("<f", b))[0])

    def test_batch_and_threads_change_no_bit(self):
        options = ["embed", "-m", MODEL, "-p", "word " * 40, "--raw", "--pooling", "mean"]
        whole = tern(*options).stdout
        for cut in (["-b", 1, "-t", 1], ["-b", 7]):
            self.assertEqual(tern(*options, *cut).stdout, whole, cut)

    def test_a_text_that_does_not_fit_names_its_line(self):
        lines = self.write("lines", b"a\n" + b"word " * 40)
        self.assert_fails(tern("embed", "-m", MODEL, "-f", lines, "-c", 16, "-o", self.folder / "out"), 1,
                          r"the text has \d+ tokens, and the context holds 16 \(line 2 of .*lines\)")
        self.assertFalse((self.folder / "out").exists())


@needs_model
class Logits(TestCase):
    N_VOCAB = 49152

    def logits(self, *args):
        path = self.folder / "out"
        result = tern("logits", "-m", MODEL, *args, "-o", path)
        self.assertEqual((result.returncode, result.stdout), (0, b""), result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["out"])
        return path.read_bytes()

    def test_a_row_for_the_last_token_or_for_each(self):
        last, rows = self.logits("--ids", "1 2 3 4 5"), self.logits("--ids", "1\t2\n3 4 5", "--all")
        self.assertEqual(len(last), 4 * self.N_VOCAB)
        self.assertEqual(len(rows), 5 * 4 * self.N_VOCAB)
        self.assertEqual(rows[-4 * self.N_VOCAB:], last)
        self.assertEqual(rows[4 * self.N_VOCAB:8 * self.N_VOCAB], self.logits("--ids", "1 2"))
        self.assertTrue(all(map(math.isfinite, struct.unpack(f"<{self.N_VOCAB}f", last))))

    def test_batch_and_threads_change_no_bit(self):
        ids = " ".join(str(100 + 37 * i) for i in range(40))
        expected = self.logits("--ids", ids, "--all")
        for args in [["-b", "1"], ["-b", "7", "-t", "1"], ["-t", "3"]]:
            self.assertEqual(self.logits("--ids", ids, "--all", *args), expected, args)

    def test_standard_output_may_take_them(self):
        result = tern("logits", "-m", MODEL, "--ids", "1 2", "-o", "-")
        self.assertEqual((result.returncode, result.stdout), (0, self.logits("--ids", "1 2")))

    def test_an_id_outside_the_vocabulary_is_refused(self):
        path = self.folder / "out"
        result = tern("logits", "-m", MODEL, "--ids", f"1 {self.N_VOCAB}", "-o", path)
        self.assert_fails(result, 2, f"expected ids below {self.N_VOCAB}.*found {self.N_VOCAB}")
        self.assertFalse(path.exists())

    def test_a_failure_leaves_the_old_file_alone(self):
        old = self.write("out", b"old")
        copy = self.folder / "model.gguf"
        copy.write_bytes(MODEL.read_bytes()[:1 << 20])
        self.assert_fails(tern("logits", "-m", copy, "--ids", "1", "-o", old), 1, "model.gguf")
        self.assertEqual(old.read_bytes(), b"old")
        self.assert_fails(tern("logits", "-m", MODEL, "--ids", "1", "-o", self.folder), 1, "Is a directory")
        self.assert_fails(tern("logits", "-m", MODEL, "--ids", "1", "-o", self.folder / "no" / "out"), 1, "No such file")
        self.assertEqual(sorted(os.listdir(self.folder)), ["model.gguf", "out"])

    def test_an_interruption_leaves_no_file(self):
        ids = " ".join(["5"] * 4000)
        process = start("logits", "-m", MODEL, "--ids", ids, "--all", "-b", "4", "-o", self.folder / "out")
        deadline = time.monotonic() + 60
        while not os.listdir(self.folder) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertTrue(os.listdir(self.folder))
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual((process.returncode, stdout, stderr), (130, b"", b""))
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_symbolic_link_or_a_pipe_stays_what_it_is(self):
        link, target, pipe = self.folder / "link", self.folder / "target", self.folder / "pipe"
        target.write_bytes(b"old")
        link.symlink_to(target)
        self.assertEqual(tern("logits", "-m", MODEL, "--ids", "1", "-o", link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(len(target.read_bytes()), 4 * self.N_VOCAB)
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        self.assertEqual(tern("logits", "-m", MODEL, "--ids", "1", "-o", pipe).returncode, 0)
        self.assertEqual(reader.communicate(timeout=60)[0], target.read_bytes())
        self.assertTrue(pipe.is_fifo())


if __name__ == "__main__":
    unittest.main(verbosity=2)
