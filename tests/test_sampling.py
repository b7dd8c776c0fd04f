"""Settings of the sampler that a model's file recommends (keys as the gguf package names them), on a tiny model."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import gguf

import tiny

os.environ["XDG_CONFIG_HOME"] = "/nonexistent"  # no settings of whoever runs the tests
KEYS = gguf.Keys.General


class ModelSettings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tern-sampling-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = tiny.Model(tiny.CASES["llama"])

    def run_with(self, meta, *args):
        path = os.path.join(self.folder.name, "m.gguf")
        self.model.write(path, meta=meta)
        command = [tiny.tern(), "run", "-m", path, "-p", "a", "-n", "3", "-v", *args]
        return subprocess.run(command, capture_output=True, timeout=60)

    def chain(self, meta, *args):
        done = self.run_with(meta, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"^sampling +(.*)$", done.stderr.decode(), re.M).group(1)

    def test_recommended_settings_are_the_defaults(self):
        default = "top-k 40; top-p 0.95; min-p 0.05; temperature 0.8; draw"
        self.assertEqual(self.chain({}), default)
        meta = {KEYS.SAMPLING_TOP_K: ("i32", 12), KEYS.SAMPLING_TOP_P: ("f32", 0.5), KEYS.SAMPLING_MIN_P: ("f32", 0.0),
                KEYS.SAMPLING_TEMP: ("f32", 0.25)}
        self.assertEqual(self.chain(meta), "top-k 12; top-p 0.5; temperature 0.25; draw")
        self.assertEqual(self.chain(meta, "--top-k", "3", "--min-p", "0.1"), "top-k 3; top-p 0.5; min-p 0.1; temperature 0.25; draw")
        meta = {KEYS.SAMPLING_XTC_PROBABILITY: ("f32", 0.5), KEYS.SAMPLING_XTC_THRESHOLD: ("f32", 0.25),
                KEYS.SAMPLING_PENALTY_LAST_N: ("i32", -1), KEYS.SAMPLING_PENALTY_REPEAT: ("f32", 1.5),
                KEYS.SAMPLING_SEQUENCE: ("str", "temperature;xtc;penalties"), KEYS.SAMPLING_TOP_K: ("i32", -1)}
        self.assertEqual(self.chain(meta), "temperature 0.8; xtc 0.5, threshold 0.25; "
                                           "penalties repeat 1.5, presence 0, frequency 0, of the last -1; draw")
        meta = {KEYS.SAMPLING_MIROSTAT: ("i32", 2), KEYS.SAMPLING_MIROSTAT_TAU: ("f32", 4.0), KEYS.SAMPLING_MIROSTAT_ETA: ("f32", 0.5)}
        self.assertEqual(self.chain(meta), "temperature 0.8; mirostat 4, rate 0.5; draw")
        self.assertEqual(self.chain(meta | {KEYS.SAMPLING_MIROSTAT: ("i32", 0)}), default)

    def test_what_cannot_be_meant_is_named(self):
        for key, value in [(KEYS.SAMPLING_TEMP, ("f32", -1.0)), (KEYS.SAMPLING_TEMP, ("str", "hot")),
                           (KEYS.SAMPLING_TOP_P, ("f32", float("nan"))), (KEYS.SAMPLING_TOP_K, ("u64", 1 << 40)),
                           (KEYS.SAMPLING_MIROSTAT, ("i32", 3)), (KEYS.SAMPLING_PENALTY_REPEAT, ("f32", 0.0)),
                           (KEYS.SAMPLING_PENALTY_LAST_N, ("i32", -2))]:
            with self.subTest(key=key, value=value):
                done = self.run_with({key: value})
                self.assertEqual((done.returncode, done.stdout), (1, b""))
                self.assertRegex(done.stderr.decode(), rf"tern: error: bad sampling settings: .*m\.gguf: key '{re.escape(key)}': expected ")
        done = self.run_with({KEYS.SAMPLING_SEQUENCE: ("str", "top_k;nonsense")})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), "no stage 'nonsense'")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
