"""Files of every type at home in both engines: what tern quantize makes, opened in llama.cpp, and what llama.cpp makes of the same
model, opened in tern, give the same logits in both.

Skipped (exit 77) without a Python that has llama-cpp-python and gguf: this one, or $TERN_PEER_PYTHON.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MIXES = {"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12,
         "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "IQ3_S": 26,
         "IQ3_XXS": 23, "IQ2_S": 28, "IQ2_M": 29, "IQ2_XS": 20, "IQ2_XXS": 19, "IQ1_S": 24, "IQ1_M": 31, "TQ1_0": 36, "TQ2_0": 37,
         "MXFP4": 38}  # fmt: skip
HERE = pathlib.Path(__file__).resolve().parent


# ---- In the Python of llama.cpp ---------------------------------------------------------------------------------------


def peer_quantize(folder, imatrix):
    """llama.cpp's own quantization of source.gguf by every type."""
    sys.path.insert(0, str(HERE.parent / "bench"))
    from quantize_quality import llama_quantize

    for name, number in MIXES.items():
        # Its MXFP4 is of experts alone unless all tensors are to have one type.
        llama_quantize(folder / "source.gguf", folder / f"peer-{name}.gguf", number, 2, imatrix, pure=name == "MXFP4")


def peer_logits(folder, ids):
    """FILE.f32 beside each file: the logits of all positions."""
    import llama_cpp as llama
    import numpy as np

    callback = llama.llama_log_callback(lambda level, text, user: None)
    llama.llama_log_set(callback, None)
    llama.llama_backend_init()
    for path in sorted(folder.glob("*-*.gguf")):
        model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not model:
            continue
        options = llama.llama_context_default_params()
        options.n_ctx, options.n_threads, options.n_threads_batch = 64, 2, 2
        options.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        options.type_k = options.type_v = llama.GGML_TYPE_F32
        context = llama.llama_init_from_model(model, options)
        batch = llama.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, i, 1, 1, 0
        n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        if llama.llama_decode(context, batch) == 0:
            rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), (n_vocab,)) for i in range(len(ids))]
            np.array(rows, "<f4").tofile(path.with_suffix(".f32"))
        llama.llama_batch_free(batch)
        llama.llama_free(context)
        llama.llama_model_free(model)


if sys.argv[1:2] == ["--peer"]:
    work = pathlib.Path(sys.argv[2])
    if sys.argv[3] == "quantize":
        peer_quantize(work, sys.argv[4])
    else:
        peer_logits(work, json.loads(sys.argv[4]))
    sys.exit(0)


# ---- Here -------------------------------------------------------------------------------------------------------------

try:
    import dataclasses

    import numpy as np
    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PYTHON = os.environ.get("TERN_PEER_PYTHON", sys.executable)
CASE = dataclasses.replace(tiny.WIDE, name="peer types", n_layers=1, n_ff=512, n_ids=16)
# Both engines round activations to eight bits, llama.cpp for 32-wide types under a scale that is a half. Differences are relative
# roots of the mean square: of all logits, where that makes 0.013 to 0.018 (256-wide types: mostly nothing at all, 0.005 where a sum
# in another order rounds another way), and of one token's, 0.028 at most. One wrong block in a token's row is ten times that there.
OF_ALL, OF_TOKEN = 0.025, 0.045


def difference(a, b):
    """Of all logits, and the largest of a token's; an offset of a position's logits changes no probability."""
    a, b = (x.astype(np.float64) - x.mean(axis=1, keepdims=True) for x in (a, b))
    scale = np.sqrt(np.mean(a**2))
    return np.sqrt(np.mean((a - b) ** 2)) / scale, np.sqrt(np.mean((a - b) ** 2, axis=0)).max() / scale


def peer(*args):
    return subprocess.run([PYTHON, __file__, "--peer", *map(str, args)], capture_output=True, text=True, timeout=300)


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tern-peer-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        source, text, imatrix = cls.folder / "source.gguf", cls.folder / "text.txt", cls.folder / "imatrix"
        tiny.Model(CASE).write(str(source))
        text.write_text((HERE / "data" / "alice-1.txt").read_text(encoding="ascii")[:500])
        tiny.run("imatrix", "-m", source, "-f", text, "-c", 64, "-o", imatrix, "-q")
        for name in MIXES:
            tiny.run("quantize", source, cls.folder / f"tern-{name}.gguf", "--type", name, "--imatrix", imatrix, "-q")
        done = peer(cls.folder, "quantize", imatrix)
        assert done.returncode == 0, done.stderr
        # One wrong block: another token's row of the output matrix in the place of the third's.
        data = bytearray((cls.folder / "tern-Q4_K_M.gguf").read_bytes())
        at, size = cls.row(cls.folder / "tern-Q4_K_M.gguf", 3)
        data[at : at + size] = data[at - size : at]
        (cls.folder / "wrong-block.gguf").write_bytes(data)
        cls.ids = tiny.token_ids(CASE)
        done = peer(cls.folder, "logits", json.dumps(cls.ids))
        assert done.returncode == 0, done.stderr

    @staticmethod
    def row(path, token):
        """Place and size of a token's row, one block, of the output matrix."""
        import gguf

        found = next(t for t in gguf.GGUFReader(path).tensors if t.name == "output.weight")
        size = int(found.n_bytes) // tiny.N_VOCAB
        return int(found.data_offset) + token * size, size

    def compare(self, path, other=None):
        theirs = np.fromfile(path.with_suffix(".f32"), "<f4").reshape(len(self.ids), -1)
        return difference(theirs, tiny.logits(other or path, self.ids, "--all", "--kv", "f32"))

    def check(self, by):
        for name in MIXES:
            with self.subTest(type=name):
                of_all, of_token = self.compare(self.folder / f"{by}-{name}.gguf")
                self.assertLess(of_all, OF_ALL)
                self.assertLess(of_token, OF_TOKEN)

    def test_files_of_tern_quantize_in_llama_cpp(self):
        self.check("tern")

    def test_files_of_llama_cpp_in_tern(self):
        self.check("peer")

    def test_one_wrong_block_would_be_found(self):
        for theirs, ours in (("wrong-block", "tern-Q4_K_M"), ("tern-Q4_K_M", "wrong-block")):
            self.assertGreater(self.compare(self.folder / f"{theirs}.gguf", self.folder / f"{ours}.gguf")[1], 6 * OF_TOKEN)
        of_all, of_token = self.compare(self.folder / "wrong-block.gguf")
        self.assertLess(of_all, OF_ALL)
        self.assertLess(of_token, OF_TOKEN)


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import llama_cpp, gguf, numpy"], capture_output=True, check=False).returncode:
        print("skipped: no Python with llama-cpp-python and gguf (TERN_PEER_PYTHON)")
        sys.exit(77)
    unittest.main(verbosity=1)
