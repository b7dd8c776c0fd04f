"""In somebody else's process: no allocation that fails ends it or leaves anything behind, and nothing grows."""

import dataclasses
import os
import pathlib
import subprocess
import tempfile
import unittest

import checkpoints
import numpy as np
import tiny

HELPER = pathlib.Path(os.environ.get("TERN_BUILD", "build/tests")).resolve() / "allocations"
LONG = bool(os.environ.get("TERN_LONG"))
# Ways through of tests/helpers/allocations.c, and which allocations fail: each that many.
STEPS = {"generate": 1, "restore": 11, "drop": 31, "fork": 13, "embed": 23, "quantize": 11, "imatrix": 23, "convert": 101, "measure": 4001}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def write_checkpoints(folder):
    """One for each kind of tokenizer, and what may stand beside: shards, a card, templates; scaled 8-bit weights; pooling."""
    llama = checkpoints.Checkpoint.of(tiny.CASES["llama"])
    yield llama.write(folder / "llama", shards=2, files=checkpoints.beside(llama))

    name, eight_bits = "model.layers.0.mlp.gate_proj.weight", {"quant_method": "fp8", "weight_block_size": [16, 16]}
    codes, scales = np.full(llama.tensors[name].shape, 0x31, np.uint8), np.ones([-(-n // 16) for n in llama.tensors[name].shape], "f4")
    scaled = {k: (a, "F32") for k, a in llama.tensors.items()} | {name: (codes, "F8_E4M3"), name + "_scale_inv": (scales, "F32")}
    templates = {"chat_template": [{"name": name, "template": "{{ messages }}"} for name in ("default", "tool_use")]}
    files = {"tokenizer_config.json": llama.tokenizer_files()["tokenizer_config.json"] | templates}
    yield llama.write(folder / "scaled", config={"quantization_config": eight_bits}, tensors=scaled, files=files)

    by_name = {case.name: case for case in checkpoints.cases()}
    pooled = {"pooling_mode_mean_tokens": True}
    modules = [{"path": place, "type": f"models.{kind}"} for kind, place in (("Transformer", ""), ("Pooling", "1_Pooling"))]
    for name in ("bert", "gemma-embedding"):
        (folder / name / "1_Pooling").mkdir(parents=True)
        checkpoint = checkpoints.Checkpoint.of(by_name[name])
        files = {"modules.json": modules, "1_Pooling/config.json": pooled}
        if name == "bert":
            words = checkpoint.tokenizer_files()["tokenizer.json"]["model"]["vocab"]
            files |= {"tokenizer.json": None, "vocab.txt": "".join(f"{word}\n" for word in words)}
        yield checkpoint.write(folder / name, files=files)


class Host(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        case = dataclasses.replace(tiny.CASES["llama"], n_layers=1)
        path = pathlib.Path(folder.name) / "tiny.gguf"
        cls.folder = pathlib.Path(folder.name)
        cls.model = tiny.Model(case).write(path, meta={"tokenizer.chat_template": ("str", TEMPLATE)})
        cls.checkpoints = list(write_checkpoints(cls.folder / "checkpoints"))

    def ways(self):
        return [(way, source) for way in STEPS for source in (self.checkpoints if way == "convert" else [self.model])]

    def helper(self, *args):
        command = [str(arg) for arg in (HELPER, *args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600, cwd=self.folder)
        if done.returncode == 77:
            self.skipTest("the sanitizer has an allocator of its own")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout.strip())

    def test_every_allocation_that_fails_is_an_error_that_leaves_nothing(self):
        """A sample of them, but for a conversation; with TERN_LONG set all. Opening the model is a part of each way."""
        for way, source in self.ways():
            with self.subTest(way=way, source=source.name):
                self.helper("fail", way, source, 1 if LONG and way != "measure" else STEPS[way])
                left = {path.name for path in self.folder.iterdir()} - {"tiny.gguf", "checkpoints", "out"}
                self.assertEqual(left, set())

    def test_a_thousand_ways_through_leave_nothing_and_grow_nothing(self):
        for way, source in self.ways():
            if way == "generate" or (LONG and way != "measure"):
                self.helper("repeat", way, source, 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
