"""Greedy tokens of the real models are llama.cpp's.

tests/golden/peer-greedy.json (bench/quality.py --record) holds llama.cpp's ids of 20 prompts for each model, and for
three of them the tokens that it chose, with the gap of each to the runner-up. tern's ids, its likeliest token after
every one of llama.cpp's, and the text of `tern run` must be the same. The three are those of which llama.cpp and float32
arithmetic are surest: both engines round rows of activations to int8, each in its way, which decides between close logits.

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

    def test_file_is_the_one_that_was_recorded(self):
        self.assertEqual(hashlib.sha256(self.path.read_bytes()).hexdigest(), self.golden["sha256"])

    def test_record_is_whole(self):
        self.assertEqual((len(self.golden["prompts"]), len(self.golden["greedy"])), (20, 3))

    def test_prompts_have_the_same_ids(self):
        for prompt, ids in self.golden["prompts"]:
            with self.subTest(prompt=prompt):
                found = tern("tokenize", "-m", self.path, data=prompt.encode())
                self.assertEqual([int(word) for word in found.split()], ids)

    def test_every_token_is_the_one_that_llama_cpp_chose(self):
        for case in self.golden["greedy"]:
            prompt, ids = case["prompt_ids"], case["ids"]
            found = likeliest(self.path, prompt + ids[:-1])[len(prompt) - 1 :]
            other = [(i, case["gaps"][i]) for i in range(len(ids)) if found[i] != ids[i]]
            with self.subTest(prompt=case["prompt"]):
                self.assertEqual(found, ids, f"(step, llama.cpp's gap): {other}")

    def test_text_of_a_run_is_the_same(self):
        for case in self.golden["greedy"]:
            text = tern("run", "-m", self.path, "-p", case["prompt"], "-n", len(case["ids"]), "--temp", 0, "-q")
            with self.subTest(prompt=case["prompt"]):
                self.assertEqual(text.decode(errors="replace"), case["text"])


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
