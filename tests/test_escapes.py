"""Nothing from a file is printed so that a terminal obeys it. Every string of a model, a checkpoint, an importance matrix, a recipe, a
grammar, a schema, a conversation, a profile and a description of an architecture, and every file's name, holds escape sequences, C0
and C1 controls, bidirectional overrides and bad UTF-8; every command is given them. What is printed holds none of it, for a terminal
and for a pipe. The text that a model generates, or a template renders, is the exception: as it is to a pipe, escaped on a terminal."""

import dataclasses
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import tempfile
import unittest

import checkpoints
import test_chat
import tiny

TERN = tiny.tern()
# A title, a clearing of the screen, a colour by C1, a rub-out, text from right to left, an isolate, a line separator, a start of line.
SEQUENCES = "\x1b]0;pwned\x07\x1b[2J\u009b31m\x7f\u202edenwp\u2066\u2028\r\x08"
EVIL = f"evil{SEQUENCES}"
EVIL_BYTES = EVIL.encode() + b"\x9b\xff\x00evil"
EVIL_TENSOR = "evil\x1b]0;pwned\x07\u009b1m\u202e\x7f"  # 64 bytes are allowed
EVIL_NAME = SEQUENCES.replace("/", "") + "evil"
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
TEMPLATE = ("{% for m in messages %}{% if m.content == 'fail' %}{{ raise_exception('" + EVIL + "') }}{% endif %}"
            "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}" + EVIL + "{% endif %}")
# What the command itself writes for a terminal: colours, and lines that are drawn again.
OWN = re.compile(r"\r\n|\r[ -~]*\x1b\[K|\x1b\[[0-9;]*m")
BYTES_ROOT = r'root ::= "\x1b]0;pwned\x07\x7f" "\u202eab\u009b"'


def environment(folder):
    return {**test_chat.environment(), "XDG_CONFIG_HOME": str(folder)}


def piped(*args, text=b"", folder="/nonexistent"):
    done = subprocess.run([TERN, *args], input=text, capture_output=True, timeout=120, env=environment(folder))
    return done.returncode, done.stdout, done.stderr


def on_terminal(*args, text=b"", folder="/nonexistent"):
    """Code and what a terminal gets that is both standard output and standard error."""
    master, slave = pty.openpty()
    process = subprocess.Popen([TERN, *args], stdin=subprocess.PIPE, stdout=slave, stderr=slave, env=environment(folder))
    os.close(slave)
    try:
        process.stdin.write(text)
        process.stdin.close()
    except BrokenPipeError:
        pass  # it failed before it read
    seen = b""
    while True:
        select.select([master], [], [], 120)
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    return process.wait(timeout=60), seen


def setUpModule():
    global FOLDER, MODEL
    folder = tempfile.TemporaryDirectory(prefix="tern-escapes-")
    unittest.addModuleCleanup(folder.cleanup)
    FOLDER = pathlib.Path(folder.name) / EVIL_NAME
    FOLDER.mkdir()
    case = dataclasses.replace(tiny.CASES["llama"], n_ctx=256)
    model = tiny.Model(case)
    kind, tokens = model.meta["tokenizer.ggml.tokens"]
    evil_tokens = [EVIL_BYTES + str(i).encode() if i > 280 else token for i, token in enumerate(tokens)]
    MODEL = str(FOLDER / "model.gguf")
    model.write(MODEL, meta={
        "general.name": ("str", EVIL_BYTES),
        "general.evil": ("str", EVIL_BYTES),
        "general.list": ("str[]", [EVIL_BYTES, EVIL_BYTES]),
        "tokenizer.chat_template": ("str", TEMPLATE),
        "tokenizer.ggml.tokens": (kind, evil_tokens),
    })


class Printed(unittest.TestCase):
    def check(self, *args, code=None, shown=True, **more):
        """Both ways; returns what the pipe got."""
        args = list(map(str, args))
        with self.subTest(args=args[:2]):
            found, out, err = piped(*args, **more)
            self.assert_safe(out)
            self.assert_safe(err)
            if code is not None:
                self.assertEqual(found, code, err)
            if shown:
                self.assertIn(b"pwned", out + err)
            _, seen = on_terminal(*args, **more)
            self.assert_safe(seen, own=True)
            return out, err
        return b"", b""

    def assert_safe(self, data, own=False):
        text = data.decode("utf-8")
        text = OWN.sub("", text) if own else text
        found = UNSAFE.search(text)
        self.assertFalse(found, found and repr(text[max(0, found.start() - 200):found.end() + 40]))

    def write(self, name, data):
        path = FOLDER / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def test_models_are_shown(self):
        self.check("inspect", MODEL, "--tensors", code=0)
        out, _ = self.check("inspect", MODEL, "--json", code=0)
        read = json.loads(out)
        self.assertEqual(read["path"], MODEL)  # escaped, and the same all the same
        self.check("doctor", "-m", MODEL, "-t", 1, code=0)
        self.check("doctor", "-m", MODEL, "-t", 1, "--json", code=0)
        for form in ([], ["--json"], ["--csv"], ["-v"], ["--yaml", FOLDER / "bench.yaml"]):
            self.check("bench", "-m", MODEL, "-p", 2, "-n", 2, "-r", 1, *form, code=0)
        self.assert_safe((FOLDER / "bench.yaml").read_bytes())

    def test_quality_is_shown(self):
        text = self.write("text", "the rain on the roof " * 20)
        base = FOLDER / "base"
        for form in ([], ["--json"], ["--yaml", FOLDER / "eval.yaml"]):
            self.check("eval", "perplexity", "-m", MODEL, "-f", text, "-c", 16, "--save-base", base, *form, code=0)
        self.assert_safe((FOLDER / "eval.yaml").read_bytes())
        self.check("eval", "kld", "-m", MODEL, "--base", base, code=0)
        questions = self.write("questions", json.dumps({"question": EVIL, "choices": [EVIL, "a"], "answer": 0}) + "\n")
        self.check("eval", "choice", "-m", MODEL, "-f", questions, code=0)
        self.check("eval", "choice", "-m", MODEL, "-f", self.write("bad", '{"question": "' + "\u202e" + '", "pwned": }\n'), code=1)
        self.check("imatrix", "-m", MODEL, "-f", text, "-c", 16, "-o", FOLDER / "im.gguf", code=0, shown=False)
        self.check("embed", "-m", MODEL, "-f", self.write("line", "a"), code=0, shown=False)

    def test_quantization_is_shown(self):
        out = FOLDER / "out.gguf"
        text = self.write("text", "the rain on the roof " * 20)
        self.check("quantize", MODEL, out, "--type", "Q8_0", "-v", code=0, shown=False)
        self.check("quantize", MODEL, out, "--target-bpw", 9, "--auto", "-f", text, "-v", shown=False)
        recipe = self.write("recipe", f'default: Q8_0\nrules:\n  - pattern: {json.dumps(EVIL)}\n    type: {json.dumps(EVIL)}\n')
        self.check("quantize", MODEL, out, "--recipe", recipe, code=1)
        self.check("quantize", MODEL, out, "--type", "Q8_0", "--override", EVIL + "=Q9", shown=False)
        model = tiny.Model(tiny.CASES["llama"])
        imatrix = model.write(FOLDER / "imatrix.gguf", meta={"general.type": ("str", "imatrix"), EVIL: ("str", EVIL)},
                              tensors={EVIL_TENSOR + ".in_sum2": tiny.random_normal("extra", (4, 64))})
        self.check("quantize", MODEL, out, "--type", "Q8_0", "--imatrix", imatrix, code=1)

    def test_errors_are_shown(self):
        model = tiny.Model(tiny.CASES["llama"])
        bad = str(FOLDER / "bad.gguf")
        tensor = {EVIL_TENSOR: tiny.random_normal("extra", (4, 64))}
        for path in (model.write(bad, meta={EVIL: ("str", "a")}), model.write(FOLDER / "bad2.gguf", tensors=tensor)):
            self.check("run", "-m", path, "-p", "a", code=1)
            self.check("inspect", path, "--json", code=1)
            self.check("quantize", path, FOLDER / "q.gguf", "--type", "Q8_0", code=1)
        for meta in ({"general.architecture": ("str", EVIL)}, {"tokenizer.ggml.model": ("str", EVIL)},
                     {"tokenizer.ggml.model": ("str", "gpt2"), "tokenizer.ggml.pre": ("str", EVIL)},
                     {"llama.rope.scaling.type": ("str", EVIL)}, {"llama.block_count": ("str", EVIL)}):
            model.write(bad, meta=meta)
            self.check("run", "-m", bad, "-p", "a", code=1)
            self.check("inspect", bad, "--json", shown=False)
            self.check("inspect", bad, shown=False)
            self.check("tokenize", "-m", bad, text=b"a", shown=False)
        for name in ("absent", "."):
            path = FOLDER / name
            for args in (["run", "-m", path, "-p", "a"], ["inspect", path], ["chat", path], ["quantize", path, path, "--type", "Q8_0"],
                         ["run", "-m", MODEL, "-f", path], ["template", "-m", path, "--messages", path], ["convert", path, path],
                         ["logits", "-m", MODEL, "--ids", "1", "-o", FOLDER / "absent" / "x"], ["bench", "-m", path],
                         ["run", "-m", MODEL, "-p", "a", "--draft", path], ["run", "-m", MODEL, "-p", "a", "--arch-file", path]):
                self.check(*args)
        self.check("logits", "-m", MODEL, "--ids", EVIL, "-o", "-")
        self.check(EVIL, code=2)
        self.check("run", "--" + EVIL, code=2)
        self.check("run", "-m", MODEL, "-p", "a", "-n", EVIL, code=2)
        self.check("run", "-m", MODEL, "-p", "a", "--state", self.write("state", EVIL_BYTES * 20), code=1)

    def test_descriptions_of_what_is_wanted_are_shown(self):
        run = ("run", "-m", MODEL, "-p", "a", "-n", 4, "--temp", 0)
        self.check(*run, "--grammar", self.write("g", f"root ::= {EVIL}"), code=1, shown=False)
        self.check(*run, "--grammar", self.write("g", f'root ::= "a" pwned\n'), code=1)
        self.check(*run, "--json-schema", self.write("s", json.dumps({"type": EVIL})), code=1, shown=False)
        self.check(*run, "--json-schema", self.write("s", json.dumps({"$ref": "#/" + EVIL})), code=1)
        self.check(*run, "--json-schema", self.write("s", '{"pwned": "\u202e'), code=1, shown=False)
        self.check(*run, "--arch-file", self.write("a", json.dumps({"name": EVIL, EVIL: EVIL})), code=1)
        self.check(*run, "--samplers", EVIL, code=1, shown=False)
        self.check(*run, "--dry", 1, "--dry-break", EVIL, "-v", code=0, shown=False)
        config = FOLDER / "tern"
        config.mkdir()
        for profile in ({EVIL: {}}, {"default": {EVIL: 1}}, {"default": {"temp": EVIL}}):
            (config / "config.yaml").write_text(json.dumps(profile, ensure_ascii=True))
            self.check(*run, "--profile", EVIL, folder=FOLDER, shown=profile != {EVIL: {}})
        (config / "config.yaml").write_text(f"default: [\n {EVIL}")
        self.check(*run, folder=FOLDER, code=1, shown=False)

    def test_checkpoints_are_shown(self):
        checkpoint = checkpoints.Checkpoint.of(tiny.CASES["llama"])
        for i, config in enumerate(({"model_type": EVIL, "architectures": [EVIL]}, {"hidden_act": EVIL}, {"num_hidden_layers": EVIL},
                                    {"rope_scaling": {"rope_type": EVIL}}, {"_name_or_path": EVIL})):
            folder = checkpoint.write(FOLDER / f"checkpoint{i}", config=config)
            self.check("convert", folder, FOLDER / "converted.gguf", shown=False)
        folder = checkpoint.write(FOLDER / "named", tensors={EVIL: (tiny.random_normal("x", (2, 2)), "F32")})
        self.check("convert", folder, FOLDER / "converted.gguf", code=1)
        folder = checkpoint.write(FOLDER / "texts", files={"tokenizer_config.json": {"chat_template": TEMPLATE, "bos_token": EVIL},
                                                           "README.md": f"---\nlicense: {EVIL}\nbase_model: {EVIL}\n---\n"})
        self.check("convert", folder, FOLDER / "converted.gguf", shown=False)
        self.check("inspect", FOLDER / "converted.gguf", shown=False)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {EVIL: EVIL}}))
        self.check("convert", folder, FOLDER / "converted.gguf", shown=False)

    def test_conversations_are_shown(self):
        chat = ("chat", MODEL, "--temp", 0, "-n", 4, "--grammar", self.write("letters", "root ::= [a-z]{8}"))
        self.check(*chat, text=b"fail\n", code=1)
        lines = f"hello\n/undo\n{EVIL}\n/undo\n/system {EVIL}\n/system\n/{EVIL}\n/set {EVIL} 1\n/set temp {EVIL}\n/load {FOLDER}/absent\n"
        self.check(*chat, text=lines.encode(), code=1)
        stored = {"tern-chat": 1, "draws": 0, "settings": {EVIL: EVIL}, "messages": [{"role": EVIL, "content": EVIL}]}
        self.check(*chat, "--load", self.write("c", json.dumps(stored)), text=b"", code=1)
        self.check(*chat, "--load", self.write("c", json.dumps(stored | {"settings": {}})), text=b"/undo\n/regen\n", shown=False)
        self.check(*chat, "--load", self.write("c", '{"pwned\u202e": \x1b}'), code=1, shown=False)
        messages = self.write("messages", json.dumps([{"role": "user", "content": "fail"}]))
        self.check("template", "-m", MODEL, "--messages", messages, code=1)
        template = self.write("t.jinja", "{{ pwned" + SEQUENCES + " }}{% " + EVIL + " %}")
        self.check("template", "--file", template, "--messages", messages, code=1, shown=False)
        self.check("template", "--file", self.write("t.jinja", "{{ 1 | pwned }}"), "--messages", messages, code=1)

    def test_text_of_a_model_is_escaped_on_a_terminal_alone(self):
        grammar = self.write("bytes", BYTES_ROOT)
        said = "\x1b]0;pwned\x07\x7f\u202eab\u009b".encode()
        shown = rb"\x1b]0;pwned\x07\x7f\xe2\x80\xaeab\xc2\x9b"
        run = ("run", "-m", MODEL, "-p", "a", "-q", "--temp", "0", "--grammar", str(grammar))
        self.assertEqual(piped(*run)[1], said)
        code, seen = on_terminal(*run)
        self.assertEqual((code, seen), (0, shown + b"\r\n"))
        chat = ("chat", MODEL, "-q", "--temp", "0", "--grammar", str(grammar))
        self.assertEqual(piped(*chat, text=b"a\n")[1], said + b"\n")
        seen = on_terminal(*chat, text=b"a\n")[1]
        self.assertIn(shown, seen)
        self.assert_safe(seen, own=True)
        log = piped(*run, "--logprobs", "2")[2]
        self.assert_safe(log)
        self.assertEqual("".join(json.loads(line)["text"] for line in log.decode().splitlines()[:6]), "\x1b]0;pw"[:6])
        self.assert_safe(on_terminal(*run, "--logprobs", "2")[1], own=True)

    def test_a_rendered_prompt_is_escaped_on_a_terminal_alone(self):
        messages = self.write("messages", json.dumps([{"role": "user", "content": EVIL}]))
        args = ("template", "-m", MODEL, "--messages", str(messages))
        self.assertEqual(piped(*args)[1].decode(), f"<user>{EVIL}" + EVIL.replace("\r", "\n"))
        code, seen = on_terminal(*args)
        self.assertEqual(code, 0)
        self.assertEqual(seen.count(rb"\x1b]0;pwned\x07"), 2)
        self.assert_safe(seen, own=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
