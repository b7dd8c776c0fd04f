"""tern imatrix: sums of squares as numpy's forward pass (tests/golden/forward.py) has them, with and without experts, in the form
that the gguf package reads; the same bytes for any threads, batch and instruction set; and quantization is better for them."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import gguf
    import numpy as np

    sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent / "golden")]
    import architectures
    import architectures_moe
    import forward
    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TERN = tiny.tern()
N_CTX = 20
TEXT = "the rain on the roof is an old tune; it starts at nine, and then the house is still. " * 3
N_EXPERTS, N_USED, N_FF = 5, 2, 48


def run(*args, code=0, env=None, text=None):
    done = subprocess.run([TERN, *map(str, args)], capture_output=True, text=True, input=text, timeout=120,
                          env={**os.environ, **(env or {})})  # fmt: skip
    assert done.returncode == code, f"exit {done.returncode}, expected {code}: {args}: {done.stderr}"
    return done.stderr if code else done.stdout


def with_experts(model):
    """Instead of each layer's feed-forward matrices those of experts."""
    c = model.case
    more, drop = {}, []
    for i in range(c.n_layers):
        shapes = {"gate": (N_FF, c.n_embd), "up": (N_FF, c.n_embd), "down": (c.n_embd, N_FF)}
        for part, shape in shapes.items():
            drop.append(f"blk.{i}.ffn_{part}.weight")
            name = f"blk.{i}.ffn_{part}_exps.weight"
            more[name] = tiny.random_normal(name, (N_EXPERTS, *shape)) / np.float32(np.sqrt(shape[1]))
        name = f"blk.{i}.ffn_gate_inp.weight"
        more[name] = tiny.random_normal(name, (N_EXPERTS, c.n_embd)) / np.float32(8)
    keys = {"expert_count": N_EXPERTS, "expert_used_count": N_USED, "feed_forward_length": N_FF}
    return {"tensors": more, "drop": drop, "meta": {f"llama.{key}": ("u32", value) for key, value in keys.items()}}


class Imatrix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tern-imatrix-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.text = cls.folder / "text.txt"
        cls.text.write_text(TEXT)

    def measure(self, path, *options, **more):
        out = self.folder / "imatrix.gguf"
        run("imatrix", "-m", path, "-f", self.text, "-c", N_CTX, "-o", out, "-q", *options, **more)
        return out

    def chunks(self, path):
        ids = list(map(int, run("tokenize", "-m", path, "--no-special", text=TEXT).split()))
        return [[1] + ids[at + 1 : at + N_CTX] for at in range(0, len(ids) - N_CTX + 1, N_CTX)]

    def expected(self, case, weights, chunks, n_used):
        sums, counts = {}, {}

        def seen(name, expert, rows):
            if name.startswith("blk."):
                n = N_EXPERTS if "_exps" in name else 1
                sums.setdefault(name, np.zeros((n, rows.shape[1])))[expert] += (rows**2).sum(axis=0)
                counts.setdefault(name, np.zeros(n))[expert] += len(rows)

        for chunk in chunks:
            forward.logits(case, weights, chunk, n_used=n_used, seen=seen)
        return sums, counts

    def compare(self, name, dtype, limit, experts=False, case="llama"):
        model = tiny.Model(tiny.CASES[case])
        changes = with_experts(model) if experts else {}
        path = model.write(str(self.folder / name), dtype=dtype, **changes)
        weights = model.dequantized(dtype) | changes.get("tensors", {})
        chunks = self.chunks(path)
        sums, counts = self.expected(model.case, weights, chunks, N_USED if experts else 0)
        reader = gguf.GGUFReader(self.measure(path))
        found = {t.name: np.array(t.data) for t in reader.tensors}
        self.assertEqual(set(found), {n + end for n in sums for end in (".in_sum2", ".counts")})
        for tensor, expected in sums.items():
            with self.subTest(tensor=tensor):
                # Two experts that are all but equally likely may change places in arithmetic that is not the same.
                self.assertLessEqual(np.abs(found[tensor + ".counts"].ravel() - counts[tensor]).sum(), 4 if experts else 0)
                self.assertLess(tiny.relative(found[tensor + ".in_sum2"].reshape(expected.shape), expected), limit)
        keys = {"general.type": "imatrix", "imatrix.chunk_count": len(chunks), "imatrix.chunk_size": N_CTX,
                "imatrix.datasets": [str(self.text)]}  # fmt: skip
        self.assertEqual({key: reader.get_field(key).contents() for key in keys}, keys)

    def test_sums_of_a_dense_model(self):
        self.compare("f32.gguf", "F32", 3e-3)

    def test_sums_of_a_model_with_biases(self):
        self.compare("qwen2.gguf", "F32", 3e-3, case="qwen2")

    def test_floats_are_summed_not_what_they_are_quantized_to(self):
        self.compare("q8.gguf", "Q8_0", 0.03)

    def test_sums_of_experts(self):
        self.compare("moe.gguf", "F32", 3e-3, experts=True)

    def test_sums_of_latent_attention(self):
        """In the first layer: what the heads' keys meet are parts of the queries, what their values meet is, where all tokens are the
        same one, just what is cached of it. Older files have both matrices in one."""
        for case in architectures_moe.CASES:
            if case.name not in ("deepseek2", "deepseek2-lite", "deepseek3"):
                continue
            with self.subTest(case.name):
                model = architectures.Model(case)
                vocabulary = {key: value for key, value in tiny.vocabulary().items() if not key.endswith("add_bos_token")}
                no_bos = {"tokenizer.ggml.add_bos_token": ("bool", False), "tokenizer.ggml.add_space_prefix": ("bool", False)}
                for name in ("token_embd.weight", "output.weight"):  # of as many tokens as the vocabulary has
                    model.tensors[name] = np.resize(model.tensors[name], (tiny.N_VOCAB, 64))
                path = model.write(str(self.folder / "latent.gguf"), meta=vocabulary | no_bos)
                text = self.folder / "same.txt"
                text.write_text("z" * 2 * N_CTX)
                token = set(run("tokenize", "-m", path, text="z" * 2 * N_CTX).split())
                self.assertEqual(len(token), 1)
                out, w, c = self.folder / "imatrix.gguf", model.tensors, case.config
                run("imatrix", "-m", path, "-f", text, "-c", N_CTX, "-o", out, "-q")
                found = {t.name: np.array(t.data, np.float64) for t in gguf.GGUFReader(out).tensors}
                again = self.folder / "again.gguf"
                run("imatrix", "-m", path, "-f", text, "-c", N_CTX, "-o", again, "-q", "-b", 1, "-t", 1)
                self.assertEqual(again.read_bytes(), out.read_bytes())

                def norm(x, name, eps=1e-6):
                    return x / np.sqrt((x * x).mean() + eps) * w[name]

                x = norm(w["token_embd.weight"][int(token.pop())], "blk.0.attn_norm.weight", c["rms_norm_eps"])
                if c["q_lora_rank"]:
                    x_q = norm(w["blk.0.attn_q_a.weight"] @ x, "blk.0.attn_q_a_norm.weight")
                    q = w["blk.0.attn_q_b.weight"] @ x_q
                else:
                    q = w["blk.0.attn_q.weight"] @ x
                plain = q.reshape(c["num_attention_heads"], -1)[:, : c["qk_nope_head_dim"]]
                cached = norm((w["blk.0.attn_kv_a_mqa.weight"] @ x)[: c["kv_lora_rank"]], "blk.0.attn_kv_a_norm.weight")
                expected = {"attn_kv_b": cached} if "blk.0.attn_kv_b.weight" in w else {"attn_k_b": plain, "attn_v_b": cached}
                for name, rows in expected.items():
                    sums = found[f"blk.0.{name}.weight.in_sum2"]
                    self.assertEqual(set(found[f"blk.0.{name}.weight.counts"].ravel()), {2 * N_CTX})
                    self.assertEqual(sums.shape[0], 1 if name == "attn_kv_b" else c["num_attention_heads"])
                    self.assertLess(tiny.relative(sums, np.broadcast_to(2 * N_CTX * rows**2, sums.shape)), 3e-3, name)
                run("quantize", path, self.folder / "q.gguf", "--type", "Q4_0", "--imatrix", out, "-q")

    def test_bytes_depend_on_the_model_and_text_alone(self):
        model = tiny.Model(tiny.CASES["llama"])
        for dtype, changes in [("Q8_0", {}), ("F32", with_experts(model))]:
            path = model.write(str(self.folder / "m.gguf"), dtype=dtype, **changes)
            first = self.measure(path).read_bytes()
            for options in [["-t", 1, "-b", 1], ["-t", 2, "-b", 7], ["-t", 2, "-b", 512]]:
                self.assertEqual(self.measure(path, *options, env={"TERN_ISA": "ref"}).read_bytes(), first)

    def test_quantization_is_nearer_with_it(self):
        # Columns that matter more than others, as they do in models that were trained.
        model = tiny.Model(tiny.WIDE)
        uneven = {name: np.exp(1.5 * tiny.random_normal(name, array.shape)) for name, array in model.tensors.items()
                  if name.endswith(("attn_norm.weight", "ffn_norm.weight"))}  # fmt: skip
        path = model.write(str(self.folder / "wide.gguf"), tensors=uneven)
        saved, out = self.folder / "base", self.folder / "q.gguf"
        run("eval", "perplexity", "-m", path, "-f", self.text, "-c", N_CTX, "--save-base", saved)
        klds = []
        for more in [[], ["--imatrix", self.measure(path)]]:
            run("quantize", path, out, "--type", "Q3_K_S", "-q", *more)
            klds.append(json.loads(run("eval", "kld", "-m", out, "--base", saved, "--json"))["kld_mean"])
        self.assertLess(klds[1], 0.9 * klds[0])

    def test_failures_leave_no_file(self):
        path = tiny.Model(tiny.CASES["llama"]).write(str(self.folder / "m.gguf"))
        out = self.folder / "none.gguf"
        for args, why in [
            (["-m", path, "-f", self.text, "-c", 4000, "-o", out], "expected at least a chunk of 4000"),
            (["-m", path, "-f", self.text, "-c", N_CTX, "-o", path], "cannot write"),
            (["-m", path, "-f", self.folder / "absent", "-o", out], "cannot read"),
        ]:
            with self.subTest(why=why):
                before = pathlib.Path(path).read_bytes()
                self.assertIn(why, run("imatrix", *args, code=1))
                self.assertFalse(out.exists())
                self.assertEqual(pathlib.Path(path).read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
