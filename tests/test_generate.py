"""What makes `tern run` faster must not show in its text: saved states, guessed tokens."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tiny

TERN = os.path.abspath(os.environ.get("TERN", "build/tern"))
PROMPT = "the rest is at the rest is at the rest is"


def run(*args, timeout=120):
    return subprocess.run([TERN, "run", *map(str, args)], capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-generate-"))
        cls.models = {}
        for name in ("llama", "long-gemma3", "long-window"):
            case = tiny.CASES.get(name) or next(c for c in tiny.LONG_CASES if c.name == name)
            cls.models[name] = tiny.Model(case).write(cls.folder / f"{name}.gguf")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def text(self, *args):
        result = run(*args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout, result.stderr.decode()

    def fails(self, pattern, *args):
        result = run(*args)
        self.assertEqual((result.returncode, result.stdout), (1, b""), result.stderr)
        lines = [line for line in result.stderr.decode().splitlines() if line.startswith("tern: error: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertRegex(lines[0], pattern)

    def state(self):
        path = self.folder / "state"
        path.unlink(missing_ok=True)
        return path


class State(Generate):
    def test_what_two_prompts_share_is_computed_once(self):
        for name, model in self.models.items():
            for kv in ("f16", "f32"):
                with self.subTest(model=name, kv=kv):
                    state = self.state()
                    options = ("-m", model, "-n", 30, "--temp", 0, "--ignore-eos", "--kv", kv, "--draft", "none")
                    for prompt, reused in ((PROMPT, 0), (PROMPT, 1), (PROMPT + " not here", 1), ("another", 1)):
                        expected, plain = self.text(*options, "-p", prompt)
                        found, figures = self.text(*options, "-p", prompt, "--state", state, "-b", 7, "-t", 1)
                        self.assertEqual(found, expected)
                        n_prompt = int(re.search(r"prompt +(\d+) tokens", plain).group(1))
                        n_read = int(re.search(r"prompt +(\d+) tokens", figures).group(1))
                        n_kept = int((re.search(r"from state +(\d+) tokens", figures) or [0, 0])[1])
                        self.assertEqual(n_read + n_kept, n_prompt)
                        self.assertEqual(n_kept > 0, bool(reused), figures)

    def test_a_text_goes_on_where_it_was_left(self):
        model = self.models["long-gemma3"]
        options = ("-m", model, "--temp", 0, "--ignore-eos", "--no-special")
        whole, _ = self.text(*options, "-p", PROMPT, "-n", 200)
        state, text = self.state(), PROMPT
        first, _ = self.text(*options, "-p", PROMPT, "-n", 100, "--state", state)
        self.assertTrue(whole.startswith(first))
        # The text as a prompt need not be the same tokens: what is compared is a run without the state.
        longer = self.folder / "prompt"
        longer.write_bytes(PROMPT.encode() + first)
        expected, _ = self.text(*options, "-f", longer, "-n", 50)
        found, _ = self.text(*options, "-f", longer, "-n", 50, "--state", state)
        self.assertEqual(found, expected)

    def test_what_does_not_belong_or_is_damaged_is_refused_and_stays(self):
        state = self.state()
        options = ("-p", PROMPT, "-n", 3, "--temp", 0, "--state", state)
        self.text("-m", self.models["llama"], *options)
        whole = state.read_bytes()
        self.fails("another model", "-m", self.models["long-window"], *options)
        self.fails("another type of cache", "-m", self.models["llama"], *options, "--kv", "f32")
        self.fails(r"it holds \d+ positions, the context 16", "-m", self.models["llama"], "-c", 16, *options)
        for n in [0, 1, 8, 56, 63, 64, len(whole) // 2, len(whole) - 1]:
            state.write_bytes(whole[:n])
            self.fails(f"cannot restore the state: {state}: truncated", "-m", self.models["llama"], *options)
            self.assertEqual(state.read_bytes(), whole[:n])
        for at in (3, 9, 13, 20, 30, 50, 60, 100, len(whole) - 3):
            bad = bytearray(whole)
            bad[at] ^= 0x40
            state.write_bytes(bad)
            self.fails("cannot restore the state: .*(damaged|not a saved|another version)", "-m", self.models["llama"], *options)
        state.unlink()
        os.mkfifo(state)
        self.fails("not a regular file", "-m", self.models["llama"], *options)

    def test_a_state_that_cannot_be_written_is_an_error_behind_the_text(self):
        result = run("-m", self.models["llama"], "-p", PROMPT, "-n", 3, "--state", self.folder / "no" / "state")
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stdout)
        self.assertRegex(result.stderr, rb"tern: error: cannot write: .*no/state: No such file")

    def test_killed_at_any_moment_there_is_the_old_state_or_the_new_one(self):
        model, state = self.models["long-window"], self.state()
        options = ["-m", str(model), "-p", PROMPT, "-n", "60", "--temp", "0", "--ignore-eos", "-q", "--state", str(state)]
        self.text(*options)
        begin = time.monotonic()
        self.text(*options)
        whole_s = time.monotonic() - begin
        killed = 0
        for i in range(20):
            process = subprocess.Popen([TERN, "run", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole_s * (i + 0.5) / 20)
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            self.text(*options)
        self.assertGreater(killed, 5)


class Drafts(Generate):
    """Greedy and sampled: the same bytes with guesses from the text, from another model and from none."""

    def test_drafts_change_nothing(self):
        n_guessed = 0
        other = tiny.Model(tiny.Case("other", "llama", n_layers=1, n_ctx=2048)).write(self.folder / "other.gguf")
        for model in ("long-gemma3", "long-window"):
            for sampling in (("--temp", 0), ("--temp", 0.6, "-s", 3), ("--temp", 0.3, "-s", 4, "--repeat-penalty", 1.2)):
                options = ("-m", self.models[model], "-p", PROMPT, "-n", 300, "--ignore-eos", *sampling)
                expected, _ = self.text(*options, "--draft", "none")
                for draft in ("lookup", other, self.models[model]):
                    found, figures = self.text(*options, "--draft", draft)
                    self.assertEqual(found, expected, (model, sampling, draft))
                    n_guessed += int((re.search(r"guessed +(\d+) tokens", figures) or [0, 0])[1])
        self.assertGreater(n_guessed, 50)

    def test_drafts_and_grammars_agree(self):
        grammar = self.folder / "list.gbnf"
        grammar.write_text('root ::= (" the" | " at" [a-f]{2,3})* "."')
        options = ("-m", self.models["long-window"], "-p", PROMPT, "-n", 100, "--temp", 0.5, "-s", 5, "--grammar", grammar)
        expected, _ = self.text(*options, "--draft", "none")
        self.assertRegex(expected, rb"\A( the| at[a-f]{2,3})*\.?\Z|\A( the| at[a-f]{2,3})* ?(t|th|a|at[a-f]{0,2})?\Z")
        found, _ = self.text(*options)
        self.assertEqual(found, expected)

    def test_a_draft_with_other_tokens_is_refused(self):
        case = tiny.Case("renamed", "llama", n_layers=1)
        meta = dict(tiny.Model(case).meta)
        kind, tokens = meta["tokenizer.ggml.tokens"]
        renamed = tokens[:-1] + ["zzz"]
        path = tiny.Model(case).write(self.folder / "renamed.gguf", meta={"tokenizer.ggml.tokens": (kind, renamed)})
        args = ("-m", self.models["llama"], "-p", "a", "-n", 3, "--draft")
        self.fails("cannot draft: .*renamed.gguf: token 299 is another", *args, path)
        self.fails("No such file", *args, self.folder / "nowhere.gguf")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
