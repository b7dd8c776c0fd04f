"""The numeric contract on real models: logits depend on the file and the tokens, never on how the work is cut.

`tern logits` must write the same bytes with any number of threads, any batch and any instruction set that the machine
has, for the last position and for all, with every cache type. Texts cross the edge of Gemma's window of 512 positions,
and batches are cut before, at and behind that edge. A digest of each row is compared, so that no run keeps hundreds of
megabytes and a failure can still name the first row that differs.

Skipped (exit 77) without smollm2-135m.gguf or gemma3-270m.gguf in $TERN_MODELS, by default ~/.cache/tern.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import unittest

TERN = os.environ.get("TERN", "build/tern")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tern"
MODELS = pathlib.Path(os.environ.get("TERN_MODELS", CACHE))
TEXT = pathlib.Path(__file__).resolve().parent.parent / "bench" / "texts.txt"
WINDOW = 512  # Gemma 3's; SmolLM2 has none
N_LONG, N_SHORT = WINDOW + 40, 40
KV_TYPES = ("f16", "q8_0", "f32")


def levels():
    """Instruction sets of this machine, as the refusal of an unknown one lists them."""
    refused = subprocess.run(
        [TERN, "logits", "-m", MODELS / "smollm2-135m.gguf", "--ids", "1", "-o", "-"],
        env={**os.environ, "TERN_ISA": "no-such-level"},
        capture_output=True,
        text=True,
    )
    return re.search(r"possible here: (.*)", refused.stderr).group(1).split(", ")


def tokens(path, n):
    found = subprocess.run(
        [TERN, "tokenize", "-m", path], input=TEXT.read_bytes(), capture_output=True, check=True
    ).stdout.split()
    if len(found) < n:
        raise AssertionError(f"{TEXT}: {len(found)} tokens, {n} are needed")
    return b" ".join(found[:n]).decode()


def n_vocab(path):
    """The length of one row, from one position's logits."""
    return len(subprocess.run([TERN, "logits", "-m", path, "--ids", "1", "-o", "-"], capture_output=True).stdout) // 4


def logits(path, row_bytes, ids, *options, isa=None):
    """A digest of each row of logits."""
    env = {**os.environ, **({"TERN_ISA": isa} if isa else {})}
    command = [TERN, "logits", "-m", path, "--ids", ids, "-o", "-", *map(str, options)]
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        while row := process.stdout.read(row_bytes):
            rows.append(hashlib.sha256(row).hexdigest() if len(row) == row_bytes else "cut")
    if process.returncode:
        raise AssertionError(f"{command[:2]} {options}: exit {process.returncode}")
    return rows


class Contract:
    """Every test runs on each model: the classes below."""

    name = ""
    n_isa = 150  # positions where the slow reference takes part: three chunks of attention

    @classmethod
    def setUpClass(cls):
        cls.path = MODELS / f"{cls.name}.gguf"
        cls.row_bytes = 4 * n_vocab(cls.path)
        cls.long_ids, cls.short_ids = tokens(cls.path, N_LONG), tokens(cls.path, N_SHORT)

    def logits(self, ids, *options, isa=None):
        return logits(self.path, self.row_bytes, ids, *options, isa=isa)

    def check_same(self, ids, expected, *options, isa=None):
        found = self.logits(ids, *options, isa=isa)
        self.assertEqual(len(found), len(expected), f"rows with {options} {isa}")
        different = [i for i, (a, b) in enumerate(zip(found, expected)) if a != b]
        self.assertFalse(different, f"{self.name} {options} {isa}: other bytes, first in row {different[:1]}")

    def test_threads_and_batch_change_no_row_of_a_short_prompt(self):
        for kv in KV_TYPES:
            expected = self.logits(self.short_ids, "--all", "--kv", kv)
            self.assertEqual(len(set(expected)), N_SHORT, "rows are not told apart")
            for threads in (1, 2, 3):
                for batch in (1, 7, 512):
                    self.check_same(self.short_ids, expected, "--all", "--kv", kv, "-t", threads, "-b", batch)
            self.assertEqual(self.logits(self.short_ids, "--kv", kv), expected[-1:], "last row alone")

    def test_threads_and_batch_change_nothing_past_the_window(self):
        for kv, cuts in (("f16", ((1, 512), (2, 1), (3, 7))), ("q8_0", ((1, 7), (3, 512))), ("f32", ((1, 7), (2, 512)))):
            expected = self.logits(self.long_ids, "--kv", kv, "-b", N_LONG)
            for threads, batch in cuts:
                self.check_same(self.long_ids, expected, "--kv", kv, "-t", threads, "-b", batch)

    def test_a_batch_across_the_window_edge_changes_no_row(self):
        expected = self.logits(self.long_ids, "--all", "-b", N_LONG)
        self.assertEqual(len(set(expected)), N_LONG, "rows are not told apart")
        for batch in (WINDOW // 2 + 44, WINDOW, WINDOW + 1):
            self.check_same(self.long_ids, expected, "--all", "-b", batch)

    def test_instruction_sets_agree_on_every_row_of_a_short_prompt(self):
        for kv in KV_TYPES:
            expected = self.logits(self.short_ids, "--all", "--kv", kv, isa="ref")
            for isa in levels()[1:]:
                self.check_same(self.short_ids, expected, "--all", "--kv", kv, isa=isa)
                self.check_same(self.short_ids, expected, "--all", "--kv", kv, "-b", 1, "-t", 3, isa=isa)

    def test_instruction_sets_agree_after_a_long_prompt(self):
        ids = " ".join(self.long_ids.split()[: self.n_isa])
        expected = self.logits(ids, isa="ref")
        for isa in levels()[1:]:
            self.check_same(ids, expected, isa=isa)

    def test_another_token_or_another_cache_type_is_noticed(self):
        """The digests are of logits that move: what must change them does."""
        expected = self.logits(self.short_ids)
        for kv in KV_TYPES:
            self.assertEqual(self.logits(self.short_ids, "--kv", kv) == expected, kv == "f16")
        first, rest = self.short_ids.split(" ", 1)
        self.assertNotEqual(self.logits(f"{int(first) + 5} {rest}"), expected)


class SmolLM2(Contract, unittest.TestCase):
    name = "smollm2-135m"


class Gemma3(Contract, unittest.TestCase):
    name = "gemma3-270m"
    n_isa = N_LONG


if __name__ == "__main__":
    missing = [f"{name}.gguf" for name in ("smollm2-135m", "gemma3-270m") if not (MODELS / f"{name}.gguf").exists()]
    if missing:
        print(f"skipped: no {', '.join(missing)} in {MODELS} (TERN_MODELS)")
        sys.exit(77)
    print("instruction sets:", ", ".join(levels()))
    unittest.main(verbosity=2)
