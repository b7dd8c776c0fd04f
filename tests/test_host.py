"""In somebody else's process: no allocation that fails ends it or leaves anything behind, and nothing grows."""

import dataclasses
import os
import pathlib
import subprocess
import tempfile
import unittest

import tiny

HELPER = pathlib.Path(os.environ.get("TERN_BUILD", "build/tests")) / "allocations"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


class Host(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        case = dataclasses.replace(tiny.CASES["llama"], n_layers=1)
        path = pathlib.Path(folder.name) / "tiny.gguf"
        cls.model = tiny.Model(case).write(path, meta={"tokenizer.chat_template": ("str", TEMPLATE)})

    def helper(self, *args):
        done = subprocess.run([str(arg) for arg in (HELPER, *args)], capture_output=True, text=True, timeout=600)
        if done.returncode == 77:
            self.skipTest("the sanitizer has an allocator of its own")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout.strip())

    def test_every_allocation_that_fails_is_an_error_that_leaves_nothing(self):
        self.helper("fail", self.model)

    def test_a_thousand_ways_through_leave_nothing_and_grow_nothing(self):
        self.helper("repeat", self.model, 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
