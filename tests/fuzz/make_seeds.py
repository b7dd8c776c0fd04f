"""Writes the seeds of the fuzzers, tests/fuzz/corpus/NAME/seed-*: good inputs, made by the generators of the tests. What stands
beside them was found: fault-* ended in a fault once, found-* reaches code that no other reaches.

usage: tests/fuzz/make_seeds.py    (with the packages of tests/requirements.txt)"""

import contextlib
import dataclasses
import io
import json
import pathlib
import random
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import architectures
import architectures_encoders
import architectures_moe
import checkpoints
import constraint_cases
import numpy as np
import template_generator
import tiny

CORPUS = HERE / "corpus"
BETWEEN = b"\n%%%%%\n"
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}


def put(name, seed, *parts):
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{seed}").write_bytes(BETWEEN.join(part if isinstance(part, bytes) else part.encode() for part in parts))


# ---- GGUF -----------------------------------------------------------------------------------------------------------


def string(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, item):
    return string(item) if kind == STRING else struct.pack("<" + PACK[kind], item)


def entry(key, kind, item):
    if isinstance(item, (list, bytes)) and kind != STRING or isinstance(item, list):
        return string(key) + struct.pack("<IIQ", ARRAY, kind, len(item)) + b"".join(value(kind, one) for one in item)
    return string(key) + struct.pack("<I", kind) + value(kind, item)


def gguf(entries, tensors=(), version=3, align=32):
    """tensors: (name, dims, type, bytes); no bytes: a head alone."""
    head, data = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(entries)), b""
    head += b"".join(entry(*one) for one in entries)
    for name, dims, kind, raw in tensors:
        head += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += raw + b"\0" * (-len(raw) % align)
    return head + b"\0" * (-len(head) % align) + data


def gguf_seeds():
    every = [(f"k{kind}", kind, 1) for kind in PACK] + [("text", STRING, "value\u00e9")]
    every += [(f"a{kind}", kind, [0, 1, 1]) for kind in PACK] + [("words", STRING, ["a", "", "bc"]), ("none", U32, [])]
    floats = np.arange(64, dtype="<f4").tobytes()
    tensors = [("a.weight", (32, 2), 0, floats * 1), ("b", (32,), 8, bytes(34)), ("c", (256, 1, 1, 1), 12, bytes(144))]
    put("gguf", "types", gguf(every, tensors))
    put("gguf", "v2", gguf([("general.alignment", U32, 64)], [("x", (4, 4, 1), 1, bytes(32))], 2, 64))
    put("gguf", "empty", gguf([]))
    put("gguf", "4k", gguf(every + [(f"key.{i}", STRING, "v" * 40) for i in range(48)], tensors))
    shards = [gguf([("split.no", U16, i), ("split.count", U16, 3), ("split.tensors.count", I32, 3)], [(f"t{i}", (4, 2), 0, bytes(32))])
              for i in range(3)]
    put("gguf", "split", *shards)


def head(model, **changes):
    """The file of a model without its data."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(model.write(pathlib.Path(folder) / "m.gguf", **changes))
        raw = path.read_bytes()
        n = tiny.gguf.GGUFReader(path).data_offset
    return raw[:n]


def model_seeds():
    small = dataclasses.replace(tiny.CASES["llama"], n_layers=1)
    template = {"tokenizer.chat_template": ("str", "{{ messages[0].content }}{{ bos_token }}")}
    put("model", "llama", head(tiny.Model(small), meta=template), "the at")
    cases = {case.name: case for module in (architectures, architectures_encoders, architectures_moe) for case in module.CASES}
    for name in ("gemma3", "qwen2"):
        model = tiny.Model(dataclasses.replace(tiny.CASES[name], n_layers=1))
        drop = [key for key in model.meta if key.startswith("tokenizer.")]
        put("model", name, head(model, drop=drop, meta={f"{model.case.arch}.vocab_size": ("u32", tiny.N_VOCAB)}, dtype="Q8_0"))
    wide = "phi3-longrope gpt2 bert modern-bert deepseek2 gpt-oss qwen3moe-fused command-r-plus qwen2-yarn jina-bert-v2"
    for name in wide.split():
        put("model", name, head(architectures.Model(cases[name])))


def vocab(seed, text, model, tokens, types, *more, scores=False, **ids):
    """ids: which token is bos, eos, unknown, seperator."""
    entries = [("general.architecture", STRING, "llama"), ("tokenizer.ggml.model", STRING, model), ("tokenizer.ggml.tokens", STRING, tokens)]
    entries += [("tokenizer.ggml.token_type", I32, types)]
    entries += [("tokenizer.ggml.scores", F32, [-float(i) for i in range(len(tokens))])] if scores else []
    entries += [(f"tokenizer.ggml.{name}_token_id", U32, id) for name, id in ids.items()]
    put("vocab", seed, gguf([*entries, *more]), text)


def vocab_seeds():
    pieces, types = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581ab", "<0x0A>", "c d"], [2, 3, 3, 1, 1, 1, 1, 1, 6, 4]
    flags = [(f"tokenizer.ggml.{name}", BOOL, True) for name in ("add_bos_token", "add_space_prefix", "remove_extra_whitespaces")]
    charsmap = ("tokenizer.ggml.precompiled_charsmap", U8, sentencepiece_model("FF41\t61\n")[1])
    vocab("llama", "ab <s>ac\nc d", "llama", pieces, types, *flags[:2], scores=True, bos=1, eos=2, unknown=0)
    vocab("t5", "ab  \uff41c", "t5", pieces, types, flags[2], charsmap, scores=True, eos=2, unknown=0)
    vocab("gemma4", " ab ab", "gemma4", pieces, types, ("tokenizer.ggml.merges", STRING, ["a b", "\u2581 ab"]))
    letters = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a", "ab", "\u0120a", "<|im_end|>"]
    merges = ("tokenizer.ggml.merges", STRING, ["a b", "\u0120 a", "x y"])
    for pre in ("default", "llama-bpe", "smollm", "tekken", "deepseek-llm"):
        unknown = {} if pre == "default" else {"unknown": 98}
        name = ("tokenizer.ggml.pre", STRING, pre)
        vocab(f"gpt2-{pre}", "ab 12'll A<|im_end|>\n\n  \u65e5\u0301", "gpt2", letters, [1] * 98 + [3], name, merges, eos=98, **unknown)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "ab", ".", "\u65e5"]
    lower = ("tokenizer.ggml.normalizer.lowercase", BOOL, True)
    vocab("bert", "A\u00e9B abb. \u65e5", "bert", words, [3, 2, 3, 3, 1, 1, 1, 1, 1], lower, bos=2, eos=3, unknown=1, seperator=3)
    vocab("rwkv", "abA\nc", "rwkv", ["<s>", "a", "ab", "\\n", "\\x41", "b'c'"], [3, 1, 1, 1, 1, 1])


def sentencepiece_model(rules):
    """A small tokenizer.model, which normalizes by the rules alone, and SentencePiece's compiled form of these."""
    import sentencepiece

    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the file's path becomes part of the model
        pathlib.Path("rules.tsv").write_text(rules)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(checkpoints.TEXT.split(". ")), model_writer=out, vocab_size=60, hard_vocab_limit=False,
            model_type="bpe", byte_fallback=False, user_defined_symbols=["<mask>"], minloglevel=2, normalization_rule_tsv="rules.tsv")
    normalizer = next(raw for number, raw in fields(out.getvalue()) if number == 3)
    return out.getvalue(), next(raw for number, raw in fields(normalizer) if number == 2)


def fields(raw):
    """(number, bytes) of the fields of a protobuf message that have a length."""
    at = 0

    def varint():
        nonlocal at
        result = shift = 0
        while True:
            byte = raw[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    while at < len(raw):
        tag = varint()
        if tag & 7 == 2:
            n = varint()
            yield tag >> 3, raw[at : at + n]
            at += n
        elif tag & 7 == 0:
            varint()
        else:
            at += 4 if tag & 7 == 5 else 8


# ---- Text -----------------------------------------------------------------------------------------------------------


def text_seeds():
    rng = random.Random(5)
    variables = json.dumps({name: item for name, item in template_generator.VARIABLES.items() if name != "messages"})
    for i in range(12):
        put("template", f"random-{i}", template_generator.Generator(rng).template(), "", "null", variables)
    messages = json.dumps([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [{"f": {"a": 1}}]}])
    chat = "{%- for m in messages %}{{ '<|' + m['role'] + '|>' ~ m.content|default('', true)|trim }}{% endfor %}"
    chat += "{{ tools|tojson(indent=2) }}{{ date }}"
    put("template", "chat", chat, messages, '[{"name": "f", "n": 1.5e3}]', '{"date": "today", "flag": true}')
    for i, (grammar, _) in enumerate(constraint_cases.GRAMMARS):
        put("grammar", i, grammar, rng.randbytes(24))
    for i, schema in enumerate(constraint_cases.SCHEMAS):
        put("schema", i, json.dumps(schema), rng.randbytes(24))
    for i in range(24):
        put("tokenizer", i, bytes([i % 6, i % 8, i & 3]) + rng.randbytes(160 + 8 * i))


# ---- Checkpoints ----------------------------------------------------------------------------------------------------


def checkpoint_seeds():
    arrays = {"a": (np.arange(6, dtype="f4").reshape(2, 3), "F32"), "b.c": (np.ones((4,), "f4"), "F16"), "s": (np.array(1.0, "f4"), "F64")}
    good = checkpoints.safetensors(arrays)
    put("safetensors", "one", good)
    put("safetensors", "4k", checkpoints.safetensors({f"tensor.{i}": (np.zeros((1, 2), "f4"), "F32") for i in range(52)}))
    put("safetensors", "escapes", checkpoints.pack('{"\\u0061\\ud83d\\ude00": {"shape":[],"data_offsets":[0,1],"dtype":"BOOL"}}   ', b"\1"))
    index = json.dumps({"metadata": {}, "weight_map": {"a": "a.safetensors", "b.c": "b.safetensors"}})
    put("safetensors", "index", index, *(checkpoints.safetensors({name: arrays[name]}) for name in ("a", "b.c")))
    for name in ("llama", "gemma3", "bert", "gpt2", "qwen3moe"):
        convert_seed(name)


def convert_seed(name):
    wide = {case.name: case for module in (architectures, architectures_encoders, architectures_moe) for case in module.CASES}
    case = tiny.CASES.get(name) or wide[name]
    checkpoint = checkpoints.Checkpoint.of(case)
    parts = ["config.json\n" + json.dumps(checkpoint.config)]
    for file, contents in checkpoint.tokenizer_files().items():
        raw = sentencepiece_model("FF41\t61\n")[0] if isinstance(contents, bytes) else json.dumps(contents).encode()
        parts.append(file.encode() + b"\n" + raw)
    if name == "llama":
        parts.append("README.md\n---\nlicense: [mit, x]\ntags: [a]\nlanguage: en\nbase_model: lab/Base-1B\ndatasets:\n- https://a.org/b\n---\n")
    blob = checkpoints.safetensors({key: (array, "F16") for key, array in checkpoint.tensors.items()})
    n = struct.unpack("<Q", blob[:8])[0]
    put("convert", name, *parts, b"model.safetensors\n8 bytes:" + blob[8 : 8 + n])


# ---- Others ---------------------------------------------------------------------------------------------------------


RECIPE = """base: Q4_K_M
output: Q6_K
embedding: Q5_0
file_type: 15
rules:
  - {tensors: ["*ffn_down*", "blk.?.attn_v.weight"], layers: "first 1/8, last 1/8, 3, every 3 after 1/8", type: Q6_K}
  - {tensors: "*attn_q*", layers: "0-3", min_gqa: 2, imatrix: false, n_layers: 2, type: F16}
  - {tensors: "*", experts: 8, min_experts: 2, type: Q8_0}
"""
TARGET = "target_bpw: 4.5\nladder: [Q2_K, Q4_K, Q6_K]\nrules:\n  - {tensors: a, type: Q4_0}\n"


def state(n_layers, n_heads, row_bytes, position, version=1):
    """Drawn in src/session/state.h; checksums and identity are put in by the fuzzer."""
    body = struct.pack(f"<{position}i", *range(position)) + bytes(2 * n_layers * n_heads * row_bytes * position)
    kv = 1 if n_heads == 2 else 0
    return struct.pack("<8sIIQIIIIQQ", b"tern-kv\n", version, kv, 0, n_layers, position, 0, 0, len(body), 0) + body + bytes(8)


def other_seeds():
    llama = tiny.Model(dataclasses.replace(tiny.CASES["llama"], n_layers=2))
    drop = [key for key in llama.meta if key.startswith("tokenizer.")]
    model_head = head(llama, drop=drop, meta={"llama.vocab_size": ("u32", tiny.N_VOCAB)})
    put("recipe", "rules", RECIPE, model_head)
    put("recipe", "target", TARGET, model_head)
    put("arch", "model", (HERE.parents[1] / "models" / "llama.yaml").read_bytes(), model_head)
    for seed, file in {"bert": "bert", "deepseek2": "deepseek2", "gemma3": "gemma3", "gpt-oss": "gpt-oss", "phi3-longrope": "phi3"}.items():
        of_model = (CORPUS / "model" / f"seed-{seed}").read_bytes()
        put("arch", seed, (HERE.parents[1] / "models" / f"{file}.yaml").read_bytes(), of_model.split(BETWEEN)[0])
    sums = [("imatrix.datasets", STRING, ["a"]), ("imatrix.chunk_count", U32, 1), ("general.type", STRING, "imatrix")]
    ones = np.ones(32, "<f4").tobytes()
    put("imatrix", "gguf", gguf(sums, [("blk.0.attn_q.weight.in_sum2", (16, 2), 0, ones), ("blk.0.attn_q.weight.counts", (1, 2), 0, ones[:8])]))
    old = struct.pack("<i", 2)
    for name in (b"blk.0.attn_q.weight", b"a"):
        old += struct.pack("<i", len(name)) + name + struct.pack("<ii", 3, 16) + ones[:64]
    put("imatrix", "dat", old)
    put("state", "llama", bytes([14]) + state(2, 2, 32, 5))
    put("state", "gemma3", bytes([15]) + state(7, 1, 64, 20))
    put("state", "damaged", bytes([0]) + state(2, 2, 32, 1))
    n_vocab, n_ctx, n_chunks = 20, 8, 2
    base = struct.pack("<8sIIIII", b"TERNBASE", 1, n_vocab, n_ctx, n_chunks, 4) + b"name" + struct.pack("<16i", *(i % n_vocab for i in range(16)))
    put("base", "small", base + np.arange(n_chunks * (n_ctx - n_ctx // 2 - 1) * n_vocab, dtype="<u2").tobytes())
    put("cli", "run", "run\n-m\nm.gguf\n-p\nHi\n-n20\n--temp=0.5\n--stop\na\n--bias\n1=-inf\n-s\n5\n--profile\ncareful",
        'default:\n  temp: 0.7\ncareful:\n  top-k: 3\n  stop: ["a", "b"]\n  pin: true\n  kv: q8_0\n')
    put("cli", "bench", "bench\n-m\nm\n-p\n16,64\n-n\n8\n-d\n0,128\n-t\n1,2\n--json")
    put("cli", "eval", "eval\nperplexity\n-m\nm\n-f\nt\n-c\n256\n--save-base\nb")
    put("cli", "quantize", "quantize\nin.gguf\nout.gguf\n--type\nQ4_K_M\n--split-size\n2G\n--override\na=b")
    put("cli", "logits", "logits\n--ids\n1 2 3\n-m\nm\n-o\n-\n--all")


for old in CORPUS.glob("*/seed-*"):
    old.unlink()
gguf_seeds()
model_seeds()
vocab_seeds()
text_seeds()
checkpoint_seeds()
other_seeds()
