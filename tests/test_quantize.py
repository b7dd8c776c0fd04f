"""tern quantize writes files that others read, and that appear whole or not at all.

* Blocks of F16, BF16 and Q8_0 are those of Python's gguf package; files of every type open there, with the sizes it expects, and
  dequantize to numbers near the source's, by a bound of the type's step.
* Files do not depend on the number of threads or the instruction set.
* The types that a mix gives to the tensors of two real models are llama.cpp's (golden/quantize/mixes.json).
* Importance matrices in both forms; overrides; shards; recipes; refusals; interruptions and kills at any moment.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import gguf
    import numpy as np
    from gguf.quants import dequantize, quantize

    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TERN = os.environ["TERN"]
MODELS = pathlib.Path(os.environ.get("TERN_MODELS", pathlib.Path.home() / ".cache" / "tern"))
MIXES = json.loads((pathlib.Path(__file__).parent / "golden" / "quantize" / "mixes.json").read_text())
N_KILLS = int(os.environ.get("TERN_TEST_KILLS", "20"))

# Root of the mean squared error over that of the numbers, for normal numbers; a uniform step of 2^-b of the range gives about
# these. Twice a quarter of the error of the next wider type lies between neighbours, so a wrong search does not pass.
LIMITS = {
    "F16": 3e-4, "BF16": 3e-3, "Q8_0": 0.008, "Q6_K": 0.02, "Q5_K": 0.04, "Q5_1": 0.045, "Q5_0": 0.05, "Q4_K": 0.08, "Q4_1": 0.085,
    "Q4_0": 0.1, "IQ4_NL": 0.085, "IQ4_XS": 0.085, "MXFP4": 0.13, "Q3_K": 0.17, "Q2_K": 0.31, "IQ3_S": 0.16, "IQ3_XXS": 0.22,
    "IQ2_S": 0.3, "IQ2_XS": 0.35, "IQ2_XXS": 0.4, "IQ1_M": 0.5, "IQ1_S": 0.55, "TQ1_0": 0.5, "TQ2_0": 0.5,
}  # fmt: skip


def tern(*args, env=None, code=0):
    run = subprocess.run([TERN, "quantize", *map(str, args)], capture_output=True, text=True, env={**os.environ, **(env or {})},
                         check=False)  # fmt: skip
    assert run.returncode == code, f"exit {run.returncode}, expected {code}: {args}: {run.stderr}"
    return run.stderr if code else run.stdout


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def write_source(path, columns=512, rows=24, dtype=np.float32, names=("blk.0.ffn_up.weight", "blk.1.ffn_up.weight"), seed=1, **more):
    """A file of matrices of normal numbers, and what is in it."""
    rng = np.random.default_rng(seed)
    tensors = {name: rng.normal(0, 0.02, (rows, columns)).astype(dtype) for name in names}
    tensors["blk.0.attn_norm.weight"] = rng.normal(1, 0.1, columns).astype(np.float32)
    tensors.update(more)
    writer = gguf.GGUFWriter(path, "none")
    writer.add_array("list.of.texts", ["a", "", "\u00e9"])
    writer.add_array("list.of.numbers", [1, -2, 3])
    writer.add_float32("a.float", 0.5)
    for name, data in tensors.items():
        writer.add_tensor(name, data)
    tiny.finish(writer)
    return tensors


def read(path):
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


class Quantize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.source, self.out = self.dir / "in.gguf", self.dir / "out.gguf"

    def files(self):
        return sorted(p.name for p in self.dir.iterdir())

    def expect_error(self, words, *args, code=1):
        before = self.files(), digest(self.source) if self.source.exists() else None
        message = tern(*args, code=code)
        self.assertEqual(message.count("\n"), 1, message)
        self.assertIn("tern: error: ", message)
        for word in words:
            self.assertIn(word, message)
        self.assertEqual(before, (self.files(), digest(self.source) if self.source.exists() else None))

    # ---- Contents ----

    def test_every_type_opens_in_gguf_near_the_source(self):
        source = write_source(self.source)
        for name, limit in LIMITS.items():
            recipe = self.dir / "r.yaml"
            recipe.write_text(f"type: {name}\n")
            tern(self.source, self.out, "--recipe", recipe, "-q")
            made = read(self.out)
            self.assertEqual(list(made), list(source))
            for tensor, x in source.items():
                got = made[tensor]
                if x.ndim == 1:
                    self.assertEqual(got.data.tobytes(), x.tobytes())
                    continue
                kind = gguf.GGMLQuantizationType[name]
                self.assertEqual(got.tensor_type, kind)
                y = dequantize(got.data, kind)
                error = float(np.sqrt(np.mean((y - x) ** 2) / np.mean(x**2)))
                self.assertLess(error, limit, name)
                self.assertGreater(error, limit / 3, name)
                if name in ("F16", "BF16", "Q8_0"):
                    self.assertEqual(got.data.tobytes(), quantize(x, kind).tobytes(), name)

    def test_threads_and_instruction_sets_change_no_byte(self):
        write_source(self.source, columns=256, rows=700, names=["blk.0.ffn_up.weight"])
        for kind in ("Q4_K_M", "Q6_K", "IQ4_NL", "Q8_0"):
            digests = set()
            for threads, env in ((1, {}), (2, {}), (3, {}), (2, {"TERN_ISA": "ref"})):
                tern(self.source, self.out, "--type", kind, "-t", threads, "-q", env=env)
                digests.add(digest(self.out))
            self.assertEqual(len(digests), 1, kind)

    def test_metadata_is_copied_and_overridden(self):
        write_source(self.source)
        tern(self.source, self.out, "--type", "Q4_K_S", "-q", "--override", "a.float=0.25", "--override", "new.text=x=y",
             "--override", "new.flag=true", "--override", "new.number=7")  # fmt: skip
        fields = {k: f.contents() for k, f in gguf.GGUFReader(self.out).fields.items() if not k.startswith("GGUF.")}
        self.assertEqual(fields, {
            "general.architecture": "none", "list.of.texts": ["a", "", "\u00e9"], "list.of.numbers": [1, -2, 3], "a.float": 0.25,
            "general.quantization_version": 2, "general.file_type": 14, "new.text": "x=y", "new.flag": True, "new.number": 7,
        })  # fmt: skip
        self.expect_error(["a.float", "f32"], self.source, self.out, "--type", "F16", "--override", "a.float=x")
        self.expect_error(["is an array"], self.source, self.out, "--type", "F16", "--override", "list.of.texts=x")
        self.expect_error(["KEY=VALUE"], self.source, self.out, "--type", "F16", "--override", "x")

    def test_shards(self):
        names = [f"blk.{i}.ffn_up.weight" for i in range(6)]
        write_source(self.source, names=names)
        tern(self.source, self.out, "--type", "F16", "-q")
        whole = {name: t.data.tobytes() for name, t in read(self.out).items()}
        self.out.unlink()
        tern(self.source, self.out, "--type", "F16", "-q", "--split-size", "52K")
        shards = sorted(self.dir.glob("out-*.gguf"))
        self.assertEqual([s.name for s in shards], [f"out-{i + 1:05}-of-00003.gguf" for i in range(3)])
        parts = {name: t.data.tobytes() for shard in shards for name, t in read(shard).items()}
        self.assertEqual(parts, whole)
        again = self.dir / "again.gguf"
        tern(shards[0], again, "--type", "Q8_0", "--keep-split", "-q")
        for shard, other in zip(shards, sorted(self.dir.glob("again-*.gguf")), strict=True):
            self.assertEqual(list(read(shard)), list(read(other)))
        tern(shards[0], again, "--type", "F16", "-q")
        self.assertEqual({name: t.data.tobytes() for name, t in read(again).items()}, whole)
        # No shard of the input is replaced either.
        self.expect_error(["same file as the input"], shards[0], self.dir / "out.gguf", "--type", "F16", "--keep-split")

    # ---- Types of tensors ----

    def plan(self, model, *args):
        """What a dry run prints: {tensor: (type, why)}, and its last lines."""
        lines = tern(model, "--dry-run", "--allow-requantize", *args).splitlines()
        rows = [re.match(r"(\S+) +\d+  (\S+) +(\S+) +[\d.]+ \S+(?:  (.*))?$", line) for line in lines]
        return {row[1]: (row[3], row[4] or "") for row in rows if row}, [s for s, row in zip(lines, rows) if not row]

    def test_mixes_are_those_of_llama_cpp(self):
        for name, mixes in MIXES.items():
            model = MODELS / f"{name}.gguf"
            if not model.exists():
                self.skipTest(f"{model} is missing")
            for mix, want in mixes.items():
                got = {}
                for tensor, (kind, _) in self.plan(model, "--type", mix)[0].items():
                    layer = re.match(r"blk\.(\d+)\.", tensor)
                    kinds = got.setdefault(re.sub(r"^blk\.\d+\.", "blk.*.", tensor), {})
                    kinds.setdefault(kind, []).append(int(layer[1]) if layer else None)
                for tensor, kinds in want.items():
                    found = {kind: layers for kind, layers in got[tensor].items()}
                    expected = {}
                    for kind, ranges in kinds.items():
                        expected[kind] = [None] if not ranges else [
                            i for part in ranges.split(",") for a, b in [(part.split("-") * 2)[:2]] for i in range(int(a), int(b) + 1)
                        ]
                    self.assertEqual({k: sorted(v, key=str) for k, v in found.items()},
                                     {k: sorted(v, key=str) for k, v in expected.items()}, f"{name} {mix} {tensor}")  # fmt: skip

    def test_recipes_and_fallbacks(self):
        extra = {"blk.0.ffn_down.weight": np.ones((4, 288), np.float32), "blk.0.attn_k.weight": np.ones((4, 40), np.float32),
                 "output.weight": np.ones((4, 288), np.float32), "token_embd.weight": np.ones((4, 512), np.float32)}  # fmt: skip
        write_source(self.source, **extra)
        recipe = self.dir / "r.yaml"
        recipe.write_text("type: Q4_K\noutput: Q5_K\nembedding: Q3_K\n"
                          "rules:\n  - {tensors: ['blk.*.ffn_up.*'], layers: '1', type: Q6_K}\n")  # fmt: skip
        plan, rest = self.plan(self.source, "--recipe", recipe)
        self.assertEqual({name: kind for name, (kind, _) in plan.items()}, {
            "blk.0.ffn_up.weight": "Q4_K", "blk.1.ffn_up.weight": "Q6_K", "blk.0.attn_norm.weight": "F32",
            "blk.0.ffn_down.weight": "Q5_0", "blk.0.attn_k.weight": "F16", "output.weight": "Q8_0", "token_embd.weight": "Q3_K",
        })  # fmt: skip
        self.assertEqual(plan["blk.0.ffn_down.weight"][1], "rows of 288 are no multiple of 256, the block of Q4_K")
        self.assertEqual(plan["blk.0.attn_norm.weight"][1], "kept")
        self.assertIn("3 tensors have rows", " ".join(rest))
        tern(self.source, self.out, "--recipe", recipe, "-q")
        made = read(self.out)
        self.assertEqual({name: t.tensor_type.name for name, t in made.items()}, {name: kind for name, (kind, _) in plan.items()})
        bits = 8 * sum(t.n_bytes for t in made.values()) / sum(t.n_elements for t in made.values())
        self.assertIn(f"at {bits:.2f}", rest[0])

    def test_a_target_is_met_and_spent_where_it_helps(self):
        names = [f"blk.{i}.ffn_up.weight" for i in range(8)]
        tensors = write_source(self.source, names=names)
        tensors[names[2]] *= 20
        write_source(self.source, names=[], **tensors)
        recipe = self.dir / "r.yaml"
        for target in (5.0, 6.0, 7.0):
            recipe.write_text(f"target_bpw: {target}\nrules: [{{tensors: '*.7.*', type: F16}}]\n")
            tern(self.source, self.out, "--recipe", recipe, "-q")
            made = read(self.out)
            bits = 8 * sum(t.n_bytes for t in made.values()) / sum(t.n_elements for t in made.values())
            # One tensor of 24 rows of 512 is an eighth; the widest step between rungs, Q6_K to Q8_0, is two bits.
            self.assertTrue(target - 0.26 <= bits <= target, f"{bits} for {target}")
            self.assertEqual(made[names[7]].tensor_type.name, "F16")
            sizes = {name: made[name].n_bytes for name in names[:7]}
            self.assertEqual(max(sizes.values()), sizes[names[2]])
            self.assertLess(min(sizes.values()), sizes[names[2]])
        recipe.write_text("target_size: 30K\nladder: [Q2_K, Q4_K]\n")
        self.out.unlink()
        self.expect_error(["the smallest types need"], self.source, self.out, "--recipe", recipe)

    def test_what_is_quantized_is_not_quantized_again_unasked(self):
        write_source(self.source)
        tern(self.source, self.out, "--type", "Q8_0", "-q")
        again = self.dir / "again.gguf"
        message = tern(self.out, again, "--type", "Q4_0", code=1)
        self.assertIn("--allow-requantize", message)
        self.assertFalse(again.exists())
        tern(self.out, again, "--type", "Q4_0", "-q", "--allow-requantize")
        tern(self.out, again, "--type", "F16", "-q")  # to floats and the same type: nothing more is lost
        tern(self.out, again, "--type", "Q8_0", "-q")
        self.assertEqual(digest(self.out), digest(again))

    # ---- Importance ----

    def importance(self, form, weights, count=40):
        """Sums of 40; `count` is what the newer form says that they are of."""
        path = self.dir / f"imatrix.{form}"
        if form == "gguf":
            writer = gguf.GGUFWriter(path, "none")
            writer.add_string("general.type", "imatrix")
            for name, w in weights.items():
                writer.add_tensor(f"{name}.in_sum2", (w * 40).reshape(1, -1).astype(np.float32))
                writer.add_tensor(f"{name}.counts", np.array([[count]], np.float32))
            tiny.finish(writer)
        else:
            parts = [struct.pack("<i", len(weights))]
            for name, w in weights.items():
                parts.append(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 40, w.size))
                parts.append((w * 40).astype("<f4").tobytes())
            path.write_bytes(b"".join(parts))
        return path

    def test_importance_lowers_the_weighted_error(self):
        name = "blk.0.ffn_up.weight"
        x = write_source(self.source, names=[name])[name]
        w = np.random.default_rng(3).lognormal(0, 1.5, x.shape[1]).astype(np.float32)
        errors, digests = {}, []
        for form in (None, "gguf", "dat"):
            args = ["--imatrix", self.importance(form, {name: w})] if form else []
            tern(self.source, self.out, "--type", "Q3_K_S", "-q", *args)
            t = read(self.out)[name]
            errors[form] = float(np.sum(w * (dequantize(t.data, t.tensor_type) - x) ** 2))
            digests.append(t.data.tobytes())
        self.assertEqual(digests[1], digests[2])
        self.assertLess(errors["gguf"], 0.97 * errors[None])

    def test_bad_importance_is_an_error(self):
        name = "blk.0.ffn_up.weight"
        write_source(self.source, names=[name])
        good = np.ones(512, np.float32)
        for form in ("gguf", "dat"):
            for bad, word in ((good[:100], "values"), (np.where(np.arange(512) == 5, np.nan, good), "nan"), (-good, "-40")):
                path = self.importance(form, {name: bad.astype(np.float32)})
                self.expect_error([path.name, word], self.source, self.out, "--type", "Q4_K_S", "--imatrix", path)
            path = self.importance(form, {name: np.zeros(512, np.float32), "other": good})
            tern(self.source, self.out, "--type", "Q4_K_S", "-q", "--imatrix", path)
            t = read(self.out)[name]
            self.assertTrue(np.isfinite(dequantize(t.data, t.tensor_type)).all())
            self.out.unlink()
        path = self.importance("gguf", {name: good * np.float32(1e30)}, count=1e-20)
        self.expect_error([path.name, "finite mean"], self.source, self.out, "--type", "Q4_K_S", "--imatrix", path)
        whole = self.importance("dat", {name: good}).read_bytes()
        path = self.dir / "imatrix.cut"
        for n in range(0, len(whole), 97):
            path.write_bytes(whole[:n])
            self.expect_error(["imatrix.cut"], self.source, self.out, "--type", "Q4_K_S", "--imatrix", path)

    # ---- Refusals and accidents ----

    def test_refusals(self):
        write_source(self.source)
        source, out = self.source, self.out
        self.expect_error(["unknown type", "Q4_K_M"], source, out, "--type", "Q4_K_X")
        self.expect_error(["--type or --recipe"], source, out, code=2)
        self.expect_error(["output"], source, "--type", "Q8_0", code=2)
        self.expect_error(["extra argument"], source, out, "third", "--type", "Q8_0", code=2)
        self.expect_error(["size such as"], source, out, "--type", "Q8_0", "--split-size", "2X", code=2)
        self.expect_error(["No such file"], self.dir / "none.gguf", out, "--type", "Q8_0")
        self.expect_error(["No such file"], source, self.dir / "no" / "out.gguf", "--type", "Q8_0")
        os.link(source, self.dir / "hard.gguf")
        os.symlink(source, self.dir / "soft.gguf")
        for same in (source, self.dir / "hard.gguf", self.dir / "soft.gguf", f"{self.dir}/./in.gguf"):
            self.expect_error(["same file as the input"], source, same, "--type", "Q8_0")

    def test_numbers_that_are_not_finite_are_errors(self):
        name = "blk.0.ffn_up.weight"
        for bad, where in ((np.nan, (5, 7)), (np.inf, (23, 511)), (-np.inf, (0, 0))):
            x = np.zeros((24, 512), np.float32)
            x[where] = bad
            write_source(self.source, names=[], **{name: x})
            says = [name, f"row {where[0]}, column {where[1]} is"]
            self.expect_error(says, self.source, self.out, "--type", "Q4_0")
            self.expect_error(says, self.source, self.out, "--target-bpw", "5")
        norm = np.ones(512, np.float32)
        norm[3] = np.nan
        write_source(self.source, **{"blk.1.attn_norm.weight": norm})
        self.expect_error(["attn_norm.weight", "column 3 is nan"], self.source, self.out, "--type", "Q4_0")

    def test_a_full_disk_is_an_error_and_leaves_the_old_file(self):
        """A limit on the size of files stands for the disk that is full at that byte."""
        write_source(self.source)
        tern(self.source, self.out, "--type", "Q8_0", "-q")
        size = self.out.stat().st_size
        for limit in (0, 1, 700, size // 2, size - 1, size):
            self.out.write_bytes(b"old")

            def prepare(limit=limit):
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            run = subprocess.run([TERN, "quantize", self.source, self.out, "--type", "Q8_0", "-q"], preexec_fn=prepare,
                                 capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual(run.returncode, 0 if limit == size else 1, run.stderr)
            self.assertEqual(self.files(), ["in.gguf", "out.gguf"])
            self.assertEqual(self.out.stat().st_size, size if limit == size else 3)
            self.assertIn("" if limit == size else "File too large", run.stderr)

    def start(self, *args):
        return subprocess.Popen([TERN, "quantize", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip

    def test_an_interruption_leaves_nothing(self):
        write_source(self.source, columns=1024, rows=4096)
        process = self.start(self.source, self.out, "--type", "IQ4_XS", "-t", 1)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(self.files(), ["in.gguf"])

    def test_a_kill_leaves_the_old_file_or_the_new_one(self):
        write_source(self.source, columns=1024, rows=256)
        before = digest(self.source)
        self.out.write_bytes(b"old")
        start = time.monotonic()
        tern(self.source, self.dir / "whole.gguf", "--type", "Q4_K_S", "-q")
        seconds, whole = time.monotonic() - start, digest(self.dir / "whole.gguf")
        rng, seen = random.Random(5), set()
        for _ in range(N_KILLS):
            self.out.write_bytes(b"old")
            process = self.start(self.source, self.out, "--type", "Q4_K_S", "-q")
            time.sleep(rng.uniform(0, 1.3 * seconds))
            process.kill()
            process.communicate()
            now = digest(self.out)
            seen.add(now == whole)
            self.assertIn(now, (whole, hashlib.sha256(b"old").hexdigest()))
            self.assertEqual(digest(self.source), before)
            # Where files cannot be without a name, or at the last moment.
            for name in set(self.files()) - {"in.gguf", "out.gguf", "whole.gguf"}:
                self.assertTrue(name.startswith(".tern-"), name)
                (self.dir / name).unlink()


if __name__ == "__main__":
    unittest.main(verbosity=1)
