"""A process that lives long: errands with the library in random order, on four small models and a real one. Every answer is
that of its first time; the heap in use, memory, descriptors and threads are those of the first rounds.

TERN_SOAK_S seconds: default 15, or an hour where TERN_LONG is set. The real model takes part from a minute on."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import architectures
import architectures_encoders
import architectures_moe
import tiny

HELPER = pathlib.Path(os.environ.get("TERN_BUILD", "build/tests")) / "soak"
SECONDS = int(os.environ.get("TERN_SOAK_S", "3600" if os.environ.get("TERN_LONG") else "15"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tern"
REAL = pathlib.Path(os.environ.get("TERN_MODELS") or CACHE) / "smollm2-135m.gguf"
META = tiny.vocabulary() | {"tokenizer.chat_template": ("str", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")}


def write_models(folder):
    """A plain model, one with windows shorter than the errands' texts, one with experts, an encoder."""
    experts = next(case for case in architectures_moe.CASES if case.name == "qwen3moe")
    encoder = next(case for case in architectures_encoders.CASES if case.name == "modern-bert")
    for model, dtype in (
        (tiny.Model(tiny.WIDE), "Q4_K"),
        (tiny.Model(tiny.CASES["gemma3"]), "Q8_0"),
        (architectures.Model(experts), "F16"),
        (architectures.Model(encoder), "F32"),
    ):
        rows = {name: model.tensors[name] for name in ("token_embd.weight", "output.weight") if name in model.tensors}
        rows = {name: np.resize(array, (tiny.N_VOCAB, array.shape[1])) for name, array in rows.items()}
        meta = META | {f"{model.case.arch}.context_length": ("u32", 512)}
        yield model.write(folder / f"{model.case.name}.gguf", dtype=dtype, meta=meta, tensors=rows)


class Soak(unittest.TestCase):
    def test_every_answer_is_the_first_and_nothing_grows(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            models = [*write_models(folder), *([REAL] if REAL.exists() and SECONDS >= 60 else [])]
            command = [str(word) for word in (HELPER, SECONDS, folder, *models)]
            # What a thread keeps for itself counts as in use, and arenas and stacks of threads that ended as memory.
            keep_nothing = "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:glibc.pthread.stack_cache_size=0"
            exact = {**os.environ, "GLIBC_TUNABLES": keep_nothing}
            done = subprocess.run(command, capture_output=True, text=True, timeout=600 + 2 * SECONDS, env=exact)
        print(done.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
