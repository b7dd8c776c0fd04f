"""In somebody else's process: no allocation that fails ends it or leaves anything behind, and nothing grows."""

import dataclasses
import os
import pathlib
import subprocess
import tempfile
import unittest

import checkpoints
import tiny

HELPER = pathlib.Path(os.environ.get("TERN_BUILD", "build/tests")).resolve() / "allocations"
LONG = bool(os.environ.get("TERN_LONG"))
# Ways through of tests/helpers/allocations.c, and which allocations fail: each that many.
STEPS = {"generate": 1, "restore": 11, "drop": 31, "fork": 13, "embed": 23, "quantize": 11, "imatrix": 23, "convert": 101, "measure": 4001}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


class Host(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        case = dataclasses.replace(tiny.CASES["llama"], n_layers=1)
        path = pathlib.Path(folder.name) / "tiny.gguf"
        cls.folder = pathlib.Path(folder.name)
        cls.model = tiny.Model(case).write(path, meta={"tokenizer.chat_template": ("str", TEMPLATE)})
        cls.checkpoint = checkpoints.Checkpoint.of(tiny.CASES["llama"]).write(cls.folder / "checkpoint", shards=2, files=checkpoints.BESIDE)

    def helper(self, *args):
        command = [str(arg) for arg in (HELPER, *args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600, cwd=self.folder)
        if done.returncode == 77:
            self.skipTest("the sanitizer has an allocator of its own")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout.strip())

    def test_every_allocation_that_fails_is_an_error_that_leaves_nothing(self):
        """A sample of them, but for a conversation; with TERN_LONG set all. Opening the model is a part of each way."""
        for way, step in STEPS.items():
            with self.subTest(way=way):
                source = self.checkpoint if way == "convert" else self.model
                self.helper("fail", way, source, 1 if LONG and way != "measure" else step)
                left = {path.name for path in self.folder.iterdir()} - {"tiny.gguf", "checkpoint", "out"}
                self.assertEqual(left, set())

    def test_a_thousand_ways_through_leave_nothing_and_grow_nothing(self):
        for way in STEPS if LONG else ("generate",):
            if way != "measure":
                self.helper("repeat", way, self.checkpoint if way == "convert" else self.model, 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
