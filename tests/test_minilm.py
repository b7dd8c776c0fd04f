"""all-MiniLM-L6-v2, converted to F16, gives the vectors that transformers gives (tests/golden/make_minilm.py).

Needs the checkpoint that `tools/fetch-model all-minilm-l6-v2` fetches."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(TESTS))
    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIMIT = 1e-4  # of the cosine distance; weights and cache are rounded to half precision
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tern"
CHECKPOINT = pathlib.Path(os.environ.get("TERN_MODELS") or CACHE) / "all-minilm-l6-v2"
LINES = TESTS / "golden" / "minilm.txt"


def safetensors(path):
    """{name: float32 array}"""
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8 : 8 + n]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = (8 + n + offset for offset in entry["data_offsets"])
            yield name, np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])


def add_vocabulary(writer, folder):
    """WordPiece: what begins a word is marked in files, in the checkpoint what goes on with one."""
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    marked = [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t in tokens]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(marked)
    writer.add_token_types([gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_type_count(json.loads((folder / "config.json").read_text())["type_vocab_size"])
    writer.add_sep_token_id(tokens.index("[SEP]"))
    writer.add_unk_token_id(tokens.index("[UNK]"))


def convert(folder, path):
    config = json.loads((folder / "config.json").read_text())
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN if pooling["pooling_mode_mean_tokens"] else gguf.PoolingType.CLS)
    add_vocabulary(writer, folder)
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, array in safetensors(folder / "model.safetensors"):
        if not name.startswith("pooler."):
            array = array if array.ndim == 1 else array.astype(np.float16)
            writer.add_tensor(table.get_name(name, try_suffixes=(".weight", ".bias")), array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def embed(path, *options, **arguments):
    command = [tiny.tern(), "embed", "-m", str(path), *map(str, options)]
    return subprocess.run(command, capture_output=True, timeout=120, check=True, **arguments).stdout


def main():
    if not CHECKPOINT.is_dir():
        print(f"skipped: {CHECKPOINT.name} is not in the cache (tools/fetch-model fetches it)")
        return 77
    golden = np.fromfile(TESTS / "golden" / "minilm.f32", "<f4").reshape(len(LINES.read_text().splitlines()), -1)
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "minilm.gguf"
        convert(CHECKPOINT, path)
        raw = embed(path, "-f", LINES, "--raw")
        found = np.frombuffer(raw, "<f4").reshape(golden.shape)
        distances = 1 - (found.astype(np.float64) * golden).sum(axis=1)
        print(f"cosine distances to transformers: {' '.join(f'{d:.1e}' for d in distances)}")
        failures = [f"line {i + 1} is {d:.1e} away" for i, d in enumerate(distances) if not abs(d) < LIMIT]
        first = LINES.read_bytes().splitlines()[0]
        other = embed(path, "-p", first.decode(), "--raw", "-t", 1, env={**os.environ, "TERN_ISA": "ref"})
        if other != raw[: len(other)]:
            failures.append("one thread and the reference's kernels give other bytes")
        as_json = json.loads(embed(path, "-f", "-", "--json", input=LINES.read_bytes()))
        rows = np.array([list(map(float, line.split(b","))) for line in embed(path, "-f", LINES, "--csv").splitlines()])
        for what, values in (("--json", np.array(as_json["embeddings"])), ("--csv", rows)):
            if values.shape != found.shape or (values.astype(np.float32) != found).any():
                failures.append(f"{what} says something else than --raw")
    for failure in failures:
        print("  FAILED:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
