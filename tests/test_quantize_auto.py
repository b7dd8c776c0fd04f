"""Automatic recipes (tern quantize --auto) against numpy and exhaustive search.

* The divergences that the table shows are those of files made with one group quantized, from `tern logits` and numpy.
* What is chosen fits the target, and no choice that fits is better by the table's own sums.
* Tensors that a scale makes matter get more bits than the same ones where a scale hides them.
* The recipe that is printed makes the same file; so do any threads and instruction set.
"""

import hashlib
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import gguf
    import numpy as np

    import tiny
    from tiny import log_softmax, run
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TERN = tiny.tern()
TEXT = "the rain on the roof is an old tune; it starts at nine, and then the house is still. (A cat sleeps: 3 of 4.) " * 12
N_CTX, N_CHUNKS = 128, 4


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def row_bytes(kind, n):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return n // elements * size


class Auto(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tern-auto-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.model = tiny.Model(tiny.CASES["llama"])
        cls.source = cls.model.write(str(cls.folder / "f32.gguf"))
        cls.shapes = {name: array.shape for name, array in cls.model.tensors.items()}
        cls.text = cls.folder / "text.txt"
        cls.text.write_text(TEXT)

    def recipe(self, text):
        path = self.folder / "r.yaml"
        path.write_text(text)
        return path

    def auto(self, source, *args):
        """What a dry run prints: {(pattern, layers): [(chosen, type, divergence)]}, the recipe, the expected divergence."""
        text = [] if "-f" in args else ["-f", self.text]
        lines = run("quantize", source, "--dry-run", "--auto", *text, "-t", 1, *args).splitlines()
        end = next(i for i, line in enumerate(lines) if line.startswith("divergence expected"))
        groups = {}
        for line in lines[:end]:
            found = re.match(r"(\S+) +(\d+-\d+|) +([ *][A-Z].*)$", line)
            if found:
                cells = re.findall(r"([ *])([A-Z]\w*) +(\d\S*)", " " + found[3] if found[3][0] != "*" else found[3])
                groups[found[1], found[2]] = [(mark == "*", kind, float(value)) for mark, kind, value in cells]
        for group, cells in groups.items():
            self.assertEqual(sum(mark for mark, _, _ in cells), 1, group)
        recipe = itertools.takewhile(lambda line: re.match(r"type: |rules:$|  - ", line), lines[end + 1 :])
        return groups, "\n".join(recipe) + "\n", float(lines[end].split()[2])

    def chosen(self, groups):
        return {group: next(kind for mark, kind, _ in cells if mark) for group, cells in groups.items()}

    def members(self, group):
        pattern, layers = group
        if not layers:
            return [pattern]
        first, last = map(int, layers.split("-"))
        return [pattern.replace("*", str(layer)) for layer in range(first, last + 1)]

    def group_bytes(self, group, kind):
        return sum(row_bytes(kind, self.shapes[name][-1]) * self.shapes[name][0] for name in self.members(group))

    def made_bytes(self, path):
        tensors = gguf.GGUFReader(path).tensors
        return sum(int(t.n_bytes) for t in tensors), sum(int(t.n_elements) for t in tensors)

    def test_divergences_are_those_of_files_with_one_group_quantized(self):
        recipe = self.recipe("target_bpw: 6\nladder: [IQ4_NL, Q5_0, Q8_0]\n")
        groups, _, expected = self.auto(self.source, "--recipe", recipe)
        self.assertEqual(len(groups), 3 * 7 + 1)
        self.assertAlmostEqual(expected, sum(d for cells in groups.values() for mark, _, d in cells if mark), delta=0.01 * expected)
        ids = list(map(int, run("tokenize", "-m", self.source, "--no-special", text=TEXT).split()))
        self.assertGreater(len(ids), 2 * N_CTX * N_CHUNKS)
        last = len(ids) // N_CTX - 1
        chunks = [[1] + ids[at + 1 : at + N_CTX] for at in (last * i // (N_CHUNKS - 1) * N_CTX for i in range(N_CHUNKS))]

        def predictions(path):
            return np.concatenate([log_softmax(tiny.logits(path, chunk, "--all"))[N_CTX // 2 :] for chunk in chunks])

        base, made = predictions(self.source), self.folder / "one.gguf"
        for group, kind in ((("blk.*.ffn_down.weight", "1-1"), "Q5_0"), (("blk.*.attn_q.weight", "0-0"), "IQ4_NL"),
                            (("token_embd.weight", ""), "Q5_0"), (("blk.*.attn_v.weight", "2-2"), "Q8_0")):  # fmt: skip
            recipe = self.recipe(f"type: F32\nrules: [{{tensors: {self.members(group)}, type: {kind}}}]\n")
            run("quantize", self.source, made, "--recipe", recipe, "-q")
            other = predictions(made)
            value = float((np.exp(base) * (base - other)).sum(axis=1).mean())
            found = next(d for _, name, d in groups[group] if name == kind)
            self.assertAlmostEqual(found, value, delta=0.01 * value, msg=f"{group} {kind}")

    def test_targets_are_kept_and_spent(self):
        out = self.folder / "made.gguf"
        for target in (5.0, 6.5):
            recipe = self.recipe(f"target_bpw: {target}\nladder: [IQ4_NL, Q5_0, Q8_0]\n")
            run("quantize", self.source, out, "--auto", "-f", self.text, "--recipe", recipe, "-q", "-t", 1)
            n_bytes, n_elements = self.made_bytes(out)
            self.assertLessEqual(8 * n_bytes, target * n_elements)
            # The smallest step of the embedding, from IQ4_NL to Q5_0, is a bit for its share; the largest of all is three.
            self.assertGreater(8 * n_bytes, target * n_elements - 3 * 300 * 64)

    def test_no_choice_that_fits_is_better(self):
        head = "ladder: [Q4_0, Q5_0, Q8_0]\nrules: [{tensors: ['*attn*', 'token_embd.weight'], type: Q8_0}]\n"
        norms = sum(4 * int(np.prod(shape)) for name, shape in self.shapes.items() if len(shape) == 1)
        fixed = norms + sum(row_bytes("Q8_0", shape[-1]) * shape[0] for name, shape in self.shapes.items()
                            if len(shape) > 1 and "ffn" not in name)  # fmt: skip
        n_ffn = sum(int(np.prod(shape)) for name, shape in self.shapes.items() if len(shape) > 1 and "ffn" in name)
        target = fixed + int(n_ffn * 5.5 / 8)
        groups, _, expected = self.auto(self.source, "--recipe", self.recipe(f"target_size: {target}\n{head}"))
        self.assertEqual(len(groups), 9)
        names, best = list(groups), np.inf
        sizes = [[self.group_bytes(name, kind) for _, kind, _ in groups[name]] for name in names]
        values = [[d for _, _, d in groups[name]] for name in names]
        for picks in itertools.product(range(3), repeat=len(names)):
            if fixed + sum(s[i] for s, i in zip(sizes, picks)) <= target:
                best = min(best, sum(v[i] for v, i in zip(values, picks)))
        kinds = self.chosen(groups)
        self.assertLessEqual(fixed + sum(self.group_bytes(name, kinds[name]) for name in names), target)
        self.assertLess(expected, 1.02 * best)  # figures have three digits

    def test_what_matters_gets_more_bits(self):
        # The weights are alike, so their own errors are too: a small norm before them hides those of one layer.
        norm = "blk.0.ffn_norm.weight"
        source = self.model.write(str(self.folder / "scaled.gguf"), tensors={norm: self.model.tensors[norm] * np.float32(0.02)})
        kinds = self.chosen(self.auto(source, "--recipe", self.recipe("target_bpw: 7\nladder: [Q4_0, Q5_1, Q8_0]\n"))[0])
        for role in ("ffn_gate", "ffn_up", "ffn_down"):
            hidden, shown = ((f"blk.*.{role}.weight", f"{i}-{i}") for i in (0, 1))
            self.assertLess(self.group_bytes(hidden, kinds[hidden]), self.group_bytes(shown, kinds[shown]), role)

    def test_the_recipe_threads_and_instruction_sets_make_one_file(self):
        out, digests = self.folder / "same.gguf", set()
        target = ["--recipe", self.recipe("target_bpw: 5.5\nladder: [Q4_0, Q5_1, Q8_0]\n")]
        for threads, env in ((1, {"TERN_ISA": "ref"}), (2, {})):
            run("quantize", self.source, out, "--auto", "-f", self.text, *target, "-t", threads, "-q", env=env)
            digests.add(digest(out))
        recipe = self.auto(self.source, *target)[1]
        self.assertGreater(recipe.count("tensors"), 20)
        run("quantize", self.source, out, "--recipe", self.recipe(recipe), "-q")
        digests.add(digest(out))
        self.assertEqual(len(digests), 1)

    def test_measures_are_kept_and_taken(self):
        kept = self.folder / "measures"
        recipe = "target_bpw: {}\nladder: [Q4_0, Q8_0]\nrules: [{{tensors: ['*ffn*', token_embd.weight], type: Q8_0}}]\n"

        def auto(target, text=self.text):
            more = ["--measures", kept, "-f", text, "--recipe", self.recipe(recipe.format(target))]
            return self.auto(self.source, *more)[0]

        def lines():
            return kept.read_text().splitlines()

        first, head = auto(8.2), "tern measures 1"
        self.assertEqual(len(lines()), 1 + 3 * 4 * 2)
        auto(7.7)
        self.assertEqual(len(lines()), 1 + 3 * 4 * 2)  # another target asks for nothing new
        made_up = [line.split()[0] + f" 0.{i + 101}" for i, line in enumerate(lines()[1:])]
        kept.write_text("\n".join([head, *made_up]) + "\n")
        self.assertEqual([d for cells in auto(8.2).values() for _, _, d in cells], [(i + 101) / 1000 for i in range(24)])
        kept.write_text("\n".join([head, *made_up[:5]]) + "\n")  # as if interrupted there
        self.assertEqual([d for cells in auto(8.2).values() for _, _, d in cells][5:],
                         [d for cells in first.values() for _, _, d in cells][5:])  # fmt: skip
        other = self.folder / "other.txt"
        other.write_text(TEXT[1:])
        auto(8.2, other)
        self.assertEqual(len(lines()), 1 + 2 * 24)
        for wrong in ("", "tern measures 2\n", head + "\n0 1\n", head + "\n" + "0" * 16 + " -1\n", head + "\n" + "0" * 16 + " 1",
                      head + "\n" + "0" * 16 + " nan\n", head + "\n" + "0" * 80 + "\n"):  # fmt: skip
            kept.write_text(wrong)
            message = run("quantize", self.source, "--dry-run", "--target-bpw", 8, "--auto", "-f", self.text, "--measures", kept, code=1)
            self.assertIn("not a file of measures", message)
            self.assertEqual(kept.read_text(), wrong)

    def test_a_target_without_text_is_shared_by_squared_error(self):
        one, two = self.folder / "one.gguf", self.folder / "two.gguf"
        run("quantize", self.source, one, "--target-bpw", 5.5, "-q")
        run("quantize", self.source, two, "--recipe", self.recipe("target_bpw: 5.5\n"), "-q")
        self.assertEqual(digest(one), digest(two))

    def test_refusals(self):
        out = self.folder / "none.gguf"
        short = self.folder / "short.txt"
        short.write_text("a")
        coarse = self.model.write(str(self.folder / "q8.gguf"), dtype="Q8_0")
        target = ["--target-bpw", 5.5]
        for args, words, code in (
            ([self.source, out, *target, "--auto"], "missing the text", 2),
            ([self.source, out, *target, "-f", self.text], "-f is for --auto", 2),
            ([self.source, out, "--type", "Q8_0", "--auto", "-f", self.text], "not --type", 2),
            ([self.source, out, "--type", "Q8_0", *target], "expected either", 2),
            ([self.source, out, "--target-bpw", "0"], "--target-bpw", 2),
            ([self.source, out, *target, "--auto", "-f", short], "at least 128 tokens", 1),
            ([self.source, out, *target, "--measures", short], "--measures is for --auto", 2),
            ([self.source, out, *target, "--auto", "-f", self.text, "--measures", short], "not a file of measures", 1),
            ([self.source, out, *target, "--auto", "-f", self.text, "--measures", self.source], "not a file of measures", 1),
            ([self.source, out, "--target-bpw", 3, "--auto", "-f", self.text], "the smallest types need", 1),
            ([self.source, out, "--recipe", self.recipe("type: Q8_0\n"), "--auto", "-f", self.text], "without a target", 1),
            ([coarse, out, *target, "--auto", "-f", self.text], "--allow-requantize", 1),
        ):
            message = run("quantize", *args, code=code)
            self.assertIn(words, message)
            self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main(verbosity=1)
