"""tern eval against numpy, on the logits that `tern logits --all` prints for the same chunks: perplexity and its error, divergence
from a saved base model, multiple choice. Its figures depend on neither threads, batch nor instruction set, and files that are no
predictions are refused."""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np

    import tiny
    from tiny import log_softmax, run
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TERN = tiny.tern()
N_CTX = 24
TEXT = (pathlib.Path(__file__).resolve().parent / "data" / "alice-2.txt").read_text(encoding="ascii")[:400]
QUESTIONS = [("the", ["rain", "sea in the north", "a"], 0), ("it starts at", ["nine", "ten"], 1), ("an old ", ["tune", "house, then"], 1),
             ("on the roof", [" rain", "the rain on it", "no"], 2), ("is", ["still", "on"], 0)]  # fmt: skip


def mean_and_error(x):
    return np.mean(x), np.std(x, ddof=0) / np.sqrt(len(x) - 1)


class Eval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tern-eval-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        model = tiny.Model(tiny.CASES["llama"])
        cls.base = model.write(str(cls.folder / "f32.gguf"))
        cls.coarse = model.write(str(cls.folder / "q4_0.gguf"), dtype="Q4_0")
        cls.text = cls.folder / "text.txt"
        cls.text.write_text(TEXT)
        cls.saved = cls.folder / "base.logits"
        cls.perplexity = cls.eval("perplexity", cls.base, "-f", cls.text, "-c", N_CTX, "--save-base", cls.saved)
        ids = list(map(int, run("tokenize", "-m", cls.base, "--no-special", text=TEXT).split()))
        assert ids[0] == 1 and len(ids) > 5 * N_CTX
        cls.chunks = [[1] + ids[at + 1 : at + N_CTX] for at in range(0, len(ids) - N_CTX + 1, N_CTX)]
        cls.expected = {path: cls.scored(path) for path in (cls.base, cls.coarse)}

    @classmethod
    def eval(cls, kind, model, *args, **more):
        return json.loads(run("eval", kind, "-m", model, "--json", *args, **more))

    @classmethod
    def scored(cls, path):
        """Log-probabilities of all tokens, for the positions that count, and the tokens that came."""
        half = N_CTX // 2
        rows = [log_softmax(tiny.logits(path, chunk, "--all"))[half : N_CTX - 1] for chunk in cls.chunks]
        return np.concatenate(rows), np.concatenate([chunk[half + 1 :] for chunk in cls.chunks])

    def near(self, found, key, value, error=None, relative=2e-6, absolute=0.0):
        self.assertAlmostEqual(found[key], value, delta=abs(value) * relative + absolute, msg=key)
        if error is not None:
            self.assertAlmostEqual(found[key + "_error"], error, delta=error * 10 * relative + absolute, msg=key)

    def loss(self, path):
        log_p, tokens = self.expected[path]
        return -log_p[np.arange(len(tokens)), tokens]

    def test_perplexity(self):
        mean, error = mean_and_error(self.loss(self.base))
        self.near(self.perplexity, "perplexity", np.exp(mean), np.exp(mean) * error)
        self.assertEqual(self.perplexity["chunks"], len(self.chunks))
        self.assertEqual(self.perplexity["tokens_scored"], len(self.chunks) * (N_CTX // 2 - 1))

    def test_divergence(self):
        found = self.eval("kld", self.coarse, "--base", self.saved)
        (log_p, tokens), (log_q, _) = self.expected[self.base], self.expected[self.coarse]
        each = (np.exp(log_p) * (log_p - log_q)).sum(axis=1)
        rows = np.arange(len(tokens))
        delta = np.exp(log_q[rows, tokens]) - np.exp(log_p[rows, tokens])
        ratio, ratio_error = mean_and_error(self.loss(self.coarse) - self.loss(self.base))
        kept = {"relative": 2e-3, "absolute": 2e-5}  # the base's logits are kept in steps of 1/2048
        self.assertGreater(each.mean(), 1e-3)
        self.near(found, "kld_mean", *mean_and_error(each), **kept)
        for key, value in [("median", 50), ("99_percent", 99), ("max", 100)]:
            self.near(found, "kld_" + key, np.percentile(each, value), relative=0.01, absolute=5e-5)
        self.near(found, "same_top_percent", 100 * (log_p.argmax(axis=1) == log_q.argmax(axis=1)).mean(), absolute=100 / len(tokens))
        self.near(found, "perplexity", np.exp(self.loss(self.coarse).mean()))
        self.near(found, "base_perplexity", np.exp(self.loss(self.base).mean()), relative=1e-4)
        self.near(found, "perplexity_ratio", np.exp(ratio), np.exp(ratio) * ratio_error, **kept)
        self.near(found, "delta_p_percent", 100 * delta.mean(), absolute=1e-3)
        self.near(found, "delta_p_rms_percent", 100 * np.sqrt(np.mean(delta**2)), absolute=1e-3)

    def test_a_model_does_not_diverge_from_itself(self):
        found = self.eval("kld", self.base, "--base", self.saved)
        self.assertLess(found["kld_max"], 1e-6)
        self.assertEqual(found["base_model"], "tiny llama")

    def test_choice(self):
        path = self.folder / "questions.jsonl"
        path.write_text("".join(json.dumps({"question": q, "choices": c, "answer": a}) + "\n" for q, c, a in QUESTIONS) + "\n")
        right, normalized = [], []
        for question, choices, answer in QUESTIONS:
            alone = list(map(int, run("tokenize", "-m", self.base, text=question).split()))
            sums = []
            for choice in choices:
                space = "" if question[-1] == " " or choice[0] == " " else " "
                ids = list(map(int, run("tokenize", "-m", self.base, text=question + space + choice).split()))
                first = next((i for i, (a, b) in enumerate(zip(alone, ids)) if a != b), len(alone))
                log_p = log_softmax(tiny.logits(self.base, ids, "--all"))
                sums.append(sum(log_p[i - 1][ids[i]] for i in range(first, len(ids))))
            right.append(np.argmax(sums) == answer)
            normalized.append(np.argmax([s / len(c.encode()) for s, c in zip(sums, choices)]) == answer)
        self.assertIn(True, right + normalized)
        self.assertIn(False, right + normalized)
        for options in [[], ["-b", 2, "-t", 1]]:
            found = self.eval("choice", self.base, "-f", path, *options)
            self.assertEqual(found["questions"], len(QUESTIONS))
            self.near(found, "accuracy_percent", *(100 * x for x in mean_and_error(right)))
            self.near(found, "accuracy_normalized_percent", *(100 * x for x in mean_and_error(normalized)))

    def test_eos_is_no_part_of_a_text(self):
        """Vocabularies that put EOS behind what they tokenize: it is not scored."""
        model = tiny.Model(tiny.CASES["llama"]).write(str(self.folder / "eos.gguf"), meta={"tokenizer.ggml.add_eos_token": ("bool", True)})
        n = len(run("tokenize", "-m", self.base, "--no-special", text=TEXT).split())
        self.assertEqual(len(run("tokenize", "-m", model, "--no-special", text=TEXT).split()), n + 1)
        found = self.eval("perplexity", model, "-f", self.text, "-c", n)
        self.assertEqual(found["perplexity"], self.eval("perplexity", self.base, "-f", self.text, "-c", n)["perplexity"])
        self.assertIn("too short", run("eval", "perplexity", "-m", model, "-f", self.text, "-c", n + 1, code=1))
        self.assertIn("too short", run("imatrix", "-m", model, "-f", self.text, "-c", n + 1, "-o", self.folder / "i", code=1))
        path = self.folder / "eos.jsonl"
        path.write_text("".join(json.dumps({"question": q, "choices": c, "answer": a}) + "\n" for q, c, a in QUESTIONS))
        results = [self.eval("choice", m, "-f", path) for m in (model, self.base)]
        self.assertEqual(*[{k: v for k, v in found.items() if k != "file"} for found in results])
        texts = [run("run", "-m", m, "-p", "the rain", "-n", 8, "--temp", 0, "-q", "--ignore-eos") for m in (model, self.base)]
        self.assertEqual(*texts)

    def test_figures_depend_on_the_model_alone(self):
        other = self.folder / "other.logits"
        for options in [["-t", 1, "-b", 5], ["-t", 2, "-b", 1]]:
            found = self.eval("perplexity", self.base, "-f", self.text, "-c", N_CTX, "--save-base", other, *options,
                              env={"TERN_ISA": "ref"})  # fmt: skip
            self.assertEqual(found, self.perplexity)
            self.assertEqual(other.read_bytes(), self.saved.read_bytes())

    def test_table_and_yaml(self):
        path = self.folder / "r.yaml"
        table = run("eval", "perplexity", "-m", self.base, "-f", self.text, "-c", N_CTX, "--yaml", path)
        self.assertRegex(table, rf"(?m)^perplexity +{self.perplexity['perplexity']:.6g} \+/- [0-9.]+$")
        written = re.search(r"^perplexity: ([0-9.]+)$", path.read_text(), re.M).group(1)
        self.near(self.perplexity, "perplexity", float(written))

    def test_wrong_usage(self):
        model = ["-m", self.base]
        for args, why in [
            ([], "expected perplexity, kld or choice, found ''"),
            (["speed"], "expected perplexity, kld or choice, found 'speed'"),
            (["perplexity", *model], "missing -f"),
            (["perplexity", *model, "-f", self.text, "-c", 3], "-c: expected at least 4"),
            (["perplexity", *model, "-f", self.text, "--base", "x"], "--base is for kld"),
            (["choice", *model, "-f", self.text, "--save-base", "x"], "--save-base is for perplexity"),
            (["kld", *model], "missing --base"),
            (["kld", *model, "--base", "x", "-f", self.text], "the base has the text's chunks"),
        ]:
            with self.subTest(args=args):
                self.assertIn(why, run("eval", *args, code=2))

    def test_inputs_are_not_written_over(self):
        link = self.folder / "link"
        os.link(self.base, link)
        for name, place in (("model", self.base), ("hard link", link), ("text", self.text)):
            with self.subTest(name):
                before = pathlib.Path(place).read_bytes()
                arguments = ["perplexity", "-m", self.base, "-f", self.text, "-c", N_CTX]
                for option in ("--save-base", "--yaml"):
                    self.assertIn("it is read as well", run("eval", *arguments, option, place, code=1))
                self.assertEqual(pathlib.Path(place).read_bytes(), before)

    def test_bad_predictions_are_refused(self):
        good, path = self.saved.read_bytes(), self.folder / "bad.logits"
        n_name = struct.unpack_from("<I", good, 24)[0]

        def with_number(at, value):
            return good[:at] + struct.pack("<I", value) + good[at + 4 :]

        for data, why in [
            (b"", "truncated"),
            (b"GGUF" + good[4:], "is not a file of"),
            (good[:20], "truncated"),
            (with_number(8, 2), "version"),
            (with_number(12, 0), "out of range"),
            (with_number(12, 1 << 24), "size"),
            (with_number(16, 3), "out of range"),
            (with_number(20, (1 << 24) - 1), "size"),
            (with_number(24, 256), "out of range"),
            (with_number(28 + n_name, tiny.N_VOCAB), "not in its vocabulary"),
            (with_number(28 + n_name, 1 << 31), "not in its vocabulary"),
            (good[:-1], "size"),
            (good + b"\0", "size"),
        ]:
            with self.subTest(why=why):
                path.write_bytes(data)
                error = run("eval", "kld", "-m", self.base, "--base", path, code=1)
                self.assertRegex(error, rf"\Atern: error: cannot read predictions: .*{why}.*\n\Z")

    def test_bad_input_is_refused(self):
        path = self.folder / "bad.jsonl"
        for line, why in [
            ("{", "line 2"),
            ('{"question": "a", "choices": ["b"], "answer": 0}', "two or more"),
            ('{"question": "a", "choices": ["b", "c"], "answer": 2}', "number of one"),
            ('{"question": "a", "choices": ["b", 3], "answer": 0}', "a choice is no text"),
            ('{"question": "a", "choices": ["b", ""], "answer": 0}', "an empty one"),
            (json.dumps({"question": TEXT, "choices": ["b", "c"], "answer": 0}), "longer than the context"),
            ("   ", "no questions"),
        ]:
            with self.subTest(line=line):
                path.write_text("\n" + line)
                self.assertIn(why, run("eval", "choice", "-m", self.base, "-c", 64, "-f", path, code=1))
        self.assertIn("expected at least a chunk", run("eval", "perplexity", "-m", self.base, "-f", self.text, "-c", 4000, code=1))


if __name__ == "__main__":
    unittest.main()
