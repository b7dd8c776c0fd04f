"""Greedy tokens of the real models are llama.cpp's.

tests/golden/peer-greedy.json holds, for three prompts of each model, the tokens that llama.cpp chose (bench/quality.py
--record), each with the runner-up and by how much it lost. tern's own ids of the prompt, its likeliest token after every
one of llama.cpp's, and the text of `tern run` must be the same. Where llama.cpp's choice was a near-tie the runner-up
is as good, and such steps are counted; the text is then compared up to the first of them.

Skipped (exit 77) without smollm2-135m.gguf or gemma3-270m.gguf in $TERN_MODELS, by default ~/.cache/tern.
"""

import array
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

TERN = os.environ.get("TERN", "build/tern")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tern"
MODELS = pathlib.Path(os.environ.get("TERN_MODELS", CACHE))
GOLDEN = json.loads((pathlib.Path(__file__).resolve().parent / "golden" / "peer-greedy.json").read_text(encoding="utf-8"))


def tern(*arguments, data=b""):
    done = subprocess.run([TERN, *map(str, arguments)], input=data, capture_output=True)
    if done.returncode:
        raise AssertionError(f"tern {arguments[0]}: {done.stderr.decode()}")
    return done.stdout


def likeliest(path, ids):
    """The token with the largest logit after each of ids."""
    values = array.array("f", tern("logits", "-m", path, "--all", "--ids", " ".join(map(str, ids)), "-o", "-"))
    if sys.byteorder == "big":
        values.byteswap()
    n_vocab = len(values) // len(ids)
    rows = (values[at : at + n_vocab] for at in range(0, len(values), n_vocab))
    return [row.index(max(row)) for row in rows]


class Peer:
    name = ""

    @classmethod
    def setUpClass(cls):
        cls.path, cls.golden = MODELS / f"{cls.name}.gguf", GOLDEN["models"][cls.name]

    def cases(self):
        for case in self.golden["cases"]:
            with self.subTest(prompt=case["prompt"][-60:]):
                yield case

    def test_file_is_the_one_that_was_recorded(self):
        self.assertEqual(hashlib.sha256(self.path.read_bytes()).hexdigest(), self.golden["sha256"])

    def test_prompts_have_the_same_ids(self):
        for case in self.cases():
            found = tern("tokenize", "-m", self.path, data=case["prompt"].encode())
            self.assertEqual([int(word) for word in found.split()], case["prompt_ids"])

    def test_every_token_is_the_one_that_llama_cpp_chose(self):
        n_ties = n_tokens = 0
        for case in self.cases():
            found = likeliest(self.path, case["prompt_ids"] + case["ids"][:-1])[len(case["prompt_ids"]) - 1 :]
            self.assertEqual(len(found), len(case["ids"]))
            for step, (ours, theirs, (second, gap)) in enumerate(zip(found, case["ids"], case["runner_up"])):
                tie = ours == second and gap <= GOLDEN["near_tie"]
                n_ties, n_tokens = n_ties + (ours != theirs), n_tokens + 1
                self.assertTrue(
                    ours == theirs or tie, f"step {step}: {ours}, llama.cpp {theirs}; then {second} by {gap}"
                )
        print(f"{self.name}: {n_tokens} tokens, {n_ties} of them the other of a near-tie")

    def test_text_of_a_run_is_the_same(self):
        for case in self.cases():
            text = tern("run", "-m", self.path, "-p", case["prompt"], "-n", len(case["ids"]), "--temp", 0, "-q")
            ties = [step for step, (_, gap) in enumerate(case["runner_up"]) if gap <= GOLDEN["near_tie"]]
            n_certain = ties[0] if ties else None  # bytes: every token before the first near-tie has at least one
            self.assertEqual(text[:n_certain], case["text"].encode()[:n_certain])


class SmolLM2(Peer, unittest.TestCase):
    name = "smollm2-135m"


class Gemma3(Peer, unittest.TestCase):
    name = "gemma3-270m"


if __name__ == "__main__":
    missing = [f"{name}.gguf" for name in GOLDEN["models"] if not (MODELS / f"{name}.gguf").exists()]
    if missing:
        print(f"skipped: no {', '.join(missing)} in {MODELS} (TERN_MODELS)")
        sys.exit(77)
    unittest.main(verbosity=1)
