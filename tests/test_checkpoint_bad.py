"""Broken checkpoints are refused (refusals.py) with a message that names the file, and leave nothing behind. What is unusual
but right is converted."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(TESTS))
    import checkpoints
    import tiny
    from refusals import Runner
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RUNNER = Runner()
CHECKPOINT = checkpoints.Checkpoint.of(tiny.CASES["llama"])
Q = "model.layers.1.self_attn.q_proj.weight"

failures = []
n_cases = 0


def check(good, what):
    if not good:
        failures.append(what)
        print("  FAILED:", what)


def left_behind(folder):
    return [path.name for path in folder.parent.iterdir() if path != folder and path.is_file()]


def expect_error(name, folder, *parts, options=()):
    global n_cases
    n_cases += 1
    out = folder.parent / "out.gguf"
    why = RUNNER.refused(["convert", folder, out, "-q", *options], parts, folder.iterdir())
    check(not why, f"{name}: {why}")
    check(not left_behind(folder), f"{name}: left {left_behind(folder)}")


def expect_good(name, folder, *options):
    done = RUNNER.run("convert", folder, folder.parent / "out.gguf", "-q", *options)
    check(done.code == 0 and not done.stderr, f"{name}: exit {done.code}: {done.stderr[:300]}")
    check(left_behind(folder) == ["out.gguf"], f"{name}: left {left_behind(folder)}")


# ---- Files ----------------------------------------------------------------------------------------------------------


def tensors(dtype="F32"):
    return {name: (array, dtype) for name, array in CHECKPOINT.tensors.items()}


def header_of(blob):
    n = struct.unpack("<Q", blob[:8])[0]
    return json.loads(blob[8 : 8 + n]), blob[8 + n :]


def rewritten(change):
    """The good file with its header's objects changed in place."""
    header, data = header_of(checkpoints.safetensors(tensors()))
    change(header)
    return checkpoints.pack(json.dumps(header), data)


def changed(name=Q, **fields):
    def change(header):
        header[name] |= fields

    return rewritten(change)


def without(field):
    return rewritten(lambda header: header[Q].pop(field))


def offsets(name=Q):
    return header_of(checkpoints.safetensors(tensors()))[0][name]["data_offsets"]


def moved(by_begin, by_end):
    begin, end = offsets()
    return changed(data_offsets=[begin + by_begin, end + by_end])


def bad_files():
    """(name, bytes of model.safetensors, parts of the message)"""
    good = checkpoints.safetensors(tensors())
    n = struct.unpack("<Q", good[:8])[0]
    yield "empty file", b"", ("model.safetensors",)
    yield "7 bytes", good[:7], ("model.safetensors",)
    for size in (0, 7, 2**63, 2**64 - 1, len(good) + 1, 100 * 10**6 + 1):
        yield f"header of {size} bytes", struct.pack("<Q", size) + good[8:], ("model.safetensors", "header")
    for cut in (8, 9, 8 + n // 2, 8 + n - 1, 8 + n, len(good) - 1):
        yield f"cut at byte {cut}", good[:cut], ("model.safetensors",)
    yield "data of no tensor", checkpoints.pack("{}", bytes(8)), ("8 bytes behind the last tensor",)
    yield "a byte behind the data", good + b"\0", ("behind the last tensor",)
    yield "JSON of depth 100000", checkpoints.pack("[" * 100000), ("header",)
    yield "deep in a tensor", checkpoints.pack('{"a":' + "[" * 100000), ("header",)
    yield "deep metadata", checkpoints.pack('{"__metadata__":{"a":' + "{" * 100000), ("header",)
    for text in ("", "{", "[]", "null", '{"a"', '{"a":}', '{"a":{}}', '{"a":{"dtype":"F32"', '{"a\\u00":{}}', "{}x", '{"":{}}'):
        yield f"header {text!r}", checkpoints.pack(text), ("header",) if text not in ('{"a":{}}', '{"":{}}') else ()
    yield "metadata that is no text", rewritten(lambda h: h["__metadata__"].update(a=1)), ("header",)
    for span in ([], [0], [0, 4, 8]):
        yield f"data_offsets of {len(span)}", changed(data_offsets=span), (Q,) if len(span) < 2 else ("numbers",)
    begin, end = offsets()
    yield "inverted offsets", changed(data_offsets=[end, begin]), (Q, "data_offsets")
    yield "negative offset", changed(data_offsets=[-1, 4]), ("header",)
    yield "offset of 2^64", changed(data_offsets=[0, 2**64]), ("header",)
    yield "offset with a fraction", changed(data_offsets=[0.5, 4]), ("header",)
    yield "overlap", moved(-64, -64), ("overlap",)
    yield "the same data twice", changed(data_offsets=offsets(Q.replace(".1.", ".0."))), ("",)
    yield "past the end", changed(data_offsets=[begin + len(good), end + len(good)]), (Q, "data_offsets")
    header, data = header_of(good)
    yield "a hole", checkpoints.pack(json.dumps(header | shifted(header, 64)), data + bytes(64)), ("hole",)
    yield "span of another size", moved(0, 4), (Q, "bytes")
    yield "shape of another size", changed(shape=[64, 63]), (Q,)
    yield "a product that wraps", changed(shape=[2**32, 2**32]), (Q, "overflows")
    yield "a size that wraps", changed(shape=[2**62, 1]), (Q, "overflows")
    yield "nine dimensions", changed(shape=[1] * 7 + [64, 64]), ("8 numbers",)
    yield "unknown type", changed(dtype="F12"), (Q, "F12")
    yield "type that is no text", changed(dtype=4), ("header",)
    for field in ("dtype", "shape", "data_offsets"):
        yield f"no {field}", without(field), (Q, "expected dtype")
    yield "unknown field", changed(stride=[1]), ("stride",)
    doubled = json.dumps(header)[:-1] + f', "{Q}": {json.dumps(header[Q])}' + "}"
    yield "tensor named twice", checkpoints.pack(doubled, data), ("",)
    yield "name with an escape", rewritten(lambda h: h.update({"\x1b[31mred": h.pop(Q)})), ("printable",)
    yield "weights of type I64", changed_type(), ("I64", "cannot be converted")
    yield "wrong shape for the model", checkpoints.safetensors(tensors() | {Q: (np.zeros((32, 128), "f4"), "F32")}), (Q, "shape")
    yield "a tensor missing", checkpoints.safetensors({k: v for k, v in tensors().items() if k != Q}), (Q, "missing")
    yield "a tensor too many", checkpoints.safetensors(tensors() | {"what.is.this": (np.zeros(4, "f4"), "F32")}), ("what.is.this",)
    for what, value in (("NaN", np.nan), ("infinity", np.inf)):
        array = CHECKPOINT.tensors[Q].copy()
        array[3, 5] = value
        yield what, checkpoints.safetensors(tensors() | {Q: (array, "F32")}), ("blk.1.attn_q.weight", "finite")
    array = np.where(np.arange(64) == 7, 1e6, 1.0).astype("f4") * np.ones((64, 1), "f4")
    yield "too large for F16", checkpoints.safetensors(tensors() | {Q: (array, "F32")}), ("blk.1.attn_q.weight", "too large")


def shifted(header, by):
    """The entries behind Q, moved."""
    begin = header[Q]["data_offsets"][0]
    return {
        name: entry | {"data_offsets": [at + by for at in entry["data_offsets"]]}
        for name, entry in header.items()
        if name != "__metadata__" and entry["data_offsets"][0] >= begin
    }


def changed_type():
    return checkpoints.safetensors(tensors() | {Q: (np.zeros((64, 64), "i8"), "I64")})


def test_files(folder):
    CHECKPOINT.write(folder)
    for name, blob, parts in bad_files():
        (folder / "model.safetensors").write_bytes(blob)
        expect_error(name, folder, *parts, options=("--type", "f16"))
    (folder / "model.safetensors").unlink()
    expect_error("no file", folder, "model.safetensors")
    os.mkfifo(folder / "model.safetensors")
    expect_error("a FIFO", folder, "FIFO")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    expect_error("a directory", folder, "directory")


def test_right(folder):
    """Unusual but right."""
    widths = [CHECKPOINT.config["intermediate_size"]] * 3
    expect_good("a width for each layer", CHECKPOINT.write(folder, config={"intermediate_size": widths}))
    (folder.parent / "out.gguf").unlink()
    scalar = {"a.scalar.rotary_emb.inv_freq": (np.array(1.0, "f4"), "F32")}
    empty = {"empty.rotary_emb.inv_freq": (np.zeros((0, 4), "f4"), "F32")}
    expect_good("a scalar and an empty tensor", CHECKPOINT.write(folder, tensors=tensors() | scalar | empty))
    header, data = header_of(checkpoints.safetensors(tensors()))
    names = list(header)[::-1]
    spaced = json.dumps({name: header[name] for name in names}, indent=1) + "  \n"
    (folder / "model.safetensors").write_bytes(checkpoints.pack(spaced.replace("model.norm", "model.n\\u006frm"), data))
    expect_good("another order, spaces, escapes", folder)


# ---- Indexes --------------------------------------------------------------------------------------------------------


def test_index(folder):
    CHECKPOINT.write(folder, shards=3)
    path = folder / "model.safetensors.index.json"
    good = json.loads(path.read_text())

    def expect(name, weight_map, *parts):
        path.write_text(json.dumps(good | {"weight_map": weight_map}))
        expect_error(name, folder, "index.json", *parts)

    weights = good["weight_map"]
    other = next(file for file in weights.values() if file != weights[Q])
    for file in ("../out.safetensors", "/dev/zero", "..", ".", "", "a/b", "x\0y"):
        expect(f"a shard at {file!r}", weights | {Q: file}, Q)
    for value in (None, 3, [], {}):
        expect(f"a shard that is {value!r}", weights | {Q: value}, Q)
    expect("a tensor in another shard", weights | {Q: other}, Q)
    expect("a tensor that is nowhere", weights | {"nowhere": other}, "nowhere")
    expect("a tensor not listed", {k: v for k, v in weights.items() if k != Q}, Q)
    expect("no tensors", {}, "weight_map")
    expect("no map", [], "weight_map")
    for text in ("", "[", "[]", "{}", "[" * 100000, '{"weight_map": {"a": "b", "a": "c"}}', "{" + '"a":{' * 3000):
        path.write_text(text)
        expect_error(f"an index {text[:20]!r}", folder, "index.json")
    path.write_text(json.dumps(good | {"weight_map": weights | {Q: "gone.safetensors"}}))
    expect_error("a shard missing", folder, "gone.safetensors")
    shard = folder / weights[Q]
    header, _ = header_of(shard.read_bytes())
    extra = folder / other
    extra_header, _ = header_of(extra.read_bytes())
    both = {name: (CHECKPOINT.tensors[name], "F32") for name in [*extra_header, Q] if name != "__metadata__"}
    path.write_text(json.dumps(good))
    extra.write_bytes(checkpoints.safetensors(both))
    expect_error("a tensor in two shards", folder, Q, "twice")


# ---- Configurations -------------------------------------------------------------------------------------------------


def test_config(folder):
    for key in ("architectures", "num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "rms_norm_eps"):
        CHECKPOINT.write(folder, config={key: None})
        expect_error(f"no {key}", folder, "config.json")
    wrong = [
        {"architectures": ["NewForCausalLM"]},
        {"architectures": "LlamaForCausalLM"},
        {"architectures": [3]},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": 513},
        {"num_hidden_layers": 2**40},
        {"num_hidden_layers": 1.5},
        {"num_hidden_layers": "3"},
        {"num_hidden_layers": {}},
        {"num_attention_heads": 3},
        {"num_key_value_heads": [1, 1]},
        {"num_hidden_layers": [3]},
        {"intermediate_size": [96, 96]},
        {"intermediate_size": [96] * 4},
        {"intermediate_size": []},
        {"vocab_size": [300]},
        {"vocab_size": 0},
        {"vocab_size": 2**40},
        {"vocab_size": 20},
        {"hidden_size": -64},
        {"hidden_act": "gelu"},
        {"rms_norm_eps": 0},
        {"rope_parameters": {"rope_type": "magic", "rope_theta": 10000.0}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0}},
        {"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"rope_parameters": {"rope_theta": -1.0}},
        {"quantization_config": {"quant_method": "gptq"}},
        {"num_hidden_layers": 4},
        {"num_hidden_layers": 2},
    ]
    for config in wrong:
        CHECKPOINT.write(folder, config=config)
        expect_error(f"config {config}", folder)
    CHECKPOINT.write(folder, config={"intermediate_size": [96] * 4})
    expect_error("a value too many for the layers", folder, "'intermediate_size': a list of 4 values, expected 3, one for each layer")
    for text in (b"", b"{", b"[]", b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 200000, b'{"a":' * 200000):
        CHECKPOINT.write(folder, files={"config.json": text})
        expect_error(f"config.json {text[:12]!r}", folder, "config.json")
    CHECKPOINT.write(folder, files={"config.json": None})
    expect_error("no config.json", folder, "config.json")
    models = TESTS.parent / "models"
    CHECKPOINT.write(folder, config={"architectures": ["NewForCausalLM"]})
    expect_error("a class of no description", folder, "NewForCausalLM", options=("--arch-file", models / "llama.yaml"))
    CHECKPOINT.write(folder)
    expect_error("a description that is not there", folder, "gone.yaml", options=("--arch-file", models / "gone.yaml"))
    expect_good("a description that has the class", folder, "--arch-file", models / "llama.yaml")


def values(folder):
    import gguf

    reader = gguf.GGUFReader(folder.parent / "out.gguf")
    return {k: f.contents() for k, f in reader.fields.items() if k.startswith("llama.") or k.startswith("tokenizer.ggml.e")}


def test_experts(folder):
    cases = {case.name: case for case in checkpoints.cases()}
    parts = {
        "mixtral": "model.layers.1.block_sparse_moe.experts.3.w1.weight",
        "gpt-oss": "model.layers.1.mlp.experts.gate_up_proj",
        "granitemoe": "model.layers.1.block_sparse_moe.input_linear.weight",
        "deepseek2": "model.layers.1.self_attn.kv_b_proj.weight",
    }
    for name, part in parts.items():
        checkpoint = checkpoints.Checkpoint.of(cases[name])
        plain = {key: (array, "F32") for key, array in checkpoint.tensors.items()}
        array = checkpoint.tensors[part]
        others = {key: value for key, value in plain.items() if key != part}
        expect_error(f"{name}: {part} missing", checkpoint.write(folder, tensors=others))
        for what, changed in (("with a row too few", array[..., :-1, :]), ("a vector", array.ravel()), ("empty", array[:0])):
            some = others | {part: (changed, "F32")}
            expect_error(f"{name}: {part} {what}", checkpoint.write(folder, tensors=some))
    checkpoint = checkpoints.Checkpoint.of(cases["mixtral"])
    for change in ({"num_local_experts": 7}, {"num_local_experts": 2**40}, {"num_local_experts": None}, {"num_experts_per_tok": 9}):
        expect_error(f"mixtral with {change}", checkpoint.write(folder, config=change))


def test_old_forms(folder):
    """Configurations as they were written before transformers 5 say the same."""
    scaling = {"rope_type": "linear", "factor": 4.0}
    forms = [
        {"rope_parameters": {"rope_theta": 20000.0} | scaling},
        {"rope_parameters": None, "rope_theta": 20000.0, "rope_scaling": scaling},
        {"rope_parameters": None, "rope_theta": 20000.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_parameters": None, "rope_theta": 20000.0, "rope_scaling": scaling | {"type": "linear"}},
    ]
    seen = []
    for config in forms:
        expect_good(f"{config}", CHECKPOINT.write(folder, config=config))
        seen.append(values(folder))
        (folder.parent / "out.gguf").unlink()
    check(seen[0]["llama.rope.scaling.factor"] == 4.0, f"no scaling: {seen[0]}")
    check(all(form == seen[0] for form in seen), f"forms differ: {seen}")
    plain = {"rope_parameters": None, "rope_scaling": None, "rope_theta": 20000.0}
    expect_good("rope_scaling null", CHECKPOINT.write(folder, config=plain))
    found = values(folder)
    check("llama.rope.scaling.type" not in found and found["llama.rope.freq_base"] == 20000.0, f"rope_scaling null: {found}")


# ---- Tokenizers -----------------------------------------------------------------------------------------------------


def test_tokenizer(folder):
    tokenizer, config = checkpoints.byte_level(300)

    def changed(**fields):
        return {"tokenizer.json": tokenizer | fields}

    model = tokenizer["model"]
    bad = {
        "no vocabulary": changed(model={"type": "BPE"}),
        "another model": changed(model=model | {"type": "Magic"}),
        "ids that are texts": changed(model=model | {"vocab": {"a": "b"}}),
        "an id outside": changed(model=model | {"vocab": model["vocab"] | {"zz": 300}}),
        "a negative id": changed(model=model | {"vocab": model["vocab"] | {"zz": -1}}),
        "merges of three": changed(model=model | {"merges": [["a", "b", "c"]]}),
        "merges of numbers": changed(model=model | {"merges": [[1, 2]]}),
        "an added token outside": changed(added_tokens=[{"id": 2**40, "content": "x"}]),
        "an added token without text": changed(added_tokens=[{"id": 1}]),
        "an unknown pre-tokenizer": changed(pre_tokenizer={"type": "Magic"}),
        "an unknown pattern": changed(
            pre_tokenizer={"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False}
        ),
        "a normalizer": changed(normalizer={"type": "NFKC"}),
        "two normalizers": changed(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFC"}]}),
        "a split that drops what it finds": changed(pre_tokenizer={"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Removed"}),
        "a split at a text": changed(pre_tokenizer={"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated"}),
        "a sequence in a sequence": changed(
            pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": []}]}
        ),
        "too many stages": changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits"}] * 100}),
        "punctuation one by one": changed(pre_tokenizer={"type": "Punctuation", "behavior": "Isolated"}),
        "no file": {"tokenizer.json": None},
        "a long list": {"tokenizer.json": "[" + "0," * 100 + "0]"},
        "too many values": {"tokenizer.json": "[" + "[]," * 3_000_000 + "0]"},
        "a bad token id": {
            "tokenizer_config.json": config | {"added_tokens_decoder": {"x": {"content": "a"}}},
            "tokenizer.model": checkpoints.sentencepiece(80),
        },
        "a model cut short": {"tokenizer.model": checkpoints.sentencepiece(80)[:500]},
        "a model of zeros": {"tokenizer.model": bytes(1000)},
        "a model of ones": {"tokenizer.model": b"\xff" * 1000},
        # A text (field 1 of a piece, field 2 of the rules) that is written as a number.
        "a piece's text is a number": {"tokenizer.model": b"\x0a\x02\x08\x05" * 80},
        "the rules are a number": {"tokenizer.model": b"\x1a\x08\x0a\x01x\x10\x80\x80\x80\x40"},
        "an added token's id is a text": changed(added_tokens=[{"id": "1", "content": "x"}]),
        "an added token's id is negative": changed(added_tokens=[{"id": -1, "content": "x"}]),
        "merges of a text and a number": changed(model=model | {"merges": [["a", 1]]}),
        "a model whose type is a number": changed(model=model | {"type": 5}),
        "one text twice": changed(model=model | {"byte_fallback": True}, added_tokens=[{"id": 290, "content": "a"}]),
    }
    # SentencePiece's file: fields of 1 pieces (1 text, 2 score, 3 type), 2 the trainer, 3 the normalizer; a byte is number and kind.
    models = {
        "a piece is cut short": [b"\x0a\x02\x15\x00", b"\x0a\x01\x0a", b"\x0a\x01\x18"],
        "a piece of an unknown type": [b"\x0a\x05\x0a\x01x\x18\x00", b"\x0a\x05\x0a\x01x\x18\x07"],
        "the trainer's part is cut short": [b"\x12\x01\x18"],
        "the normalizer's part is cut short": [b"\x1a\x01\x18"],
        "not a SentencePiece model, or cut short": [b"\x0a", b"\x0a\x7f", b"\x0b", b"\x29\x00", b"\x2d\x00", b"\x08"],
        "not a SentencePiece model": [b"\x08\x05"],
        "no pieces": [b"\x12\x00", b"\x29" + bytes(8) + b"\x2d" + bytes(4) + b"\x20\x07"],
    }
    bad |= {f"{why}, {i}": {"tokenizer.model": blob} for why, blobs in models.items() for i, blob in enumerate(blobs)}
    ids = ("", "-1", "5x")
    bad |= {
        f"token id '{text}'": bad["a bad token id"] | {"tokenizer_config.json": config | {"added_tokens_decoder": {text: {"content": "a"}}}}
        for text in ids
    }
    says = {f"{why}, {i}": [why] for why, blobs in models.items() for i in range(len(blobs))}
    says |= {f"token id '{text}'": ["is no token id"] for text in ids}
    says |= {name: ["expected 'id', a whole number"] for name in ("an added token's id is a text", "an added token's id is negative")}
    says |= {
        "one text twice": ["are the same text"],
        "merges of a text and a number": ["expected merges as texts or pairs of texts"],
        "a model whose type is a number": ["expected BPE or WordPiece"],
        "a bad token id": ["is no token id"],
        "a piece's text is a number": ["a piece whose text is a number"],
        "the rules are a number": ["whose rules are a number"],
    }
    stages = ("two normalizers", "a split that drops what it finds", "a split at a text", "a sequence in a sequence", "too many stages")
    says |= {name: ["no known pre-tokenizer"] for name in (*stages, "punctuation one by one")}
    for name, files in bad.items():
        CHECKPOINT.write(folder, files=files)
        expect_error(f"tokenizer: {name}", folder, *says.get(name, ()))
        (folder / "tokenizer.model").unlink(missing_ok=True)
    CHECKPOINT.write(folder, files=bad["an unknown pattern"])
    expect_good("--pre names the pre-tokenizer", folder, "--pre", "llama-bpe")


def test_in_the_way(folder):
    CHECKPOINT.write(folder)
    shard = folder / "model.safetensors"
    before = shard.read_bytes()
    for name, path in (("by its path", shard), ("by a link", folder / "link")):
        if not path.exists():
            path.symlink_to(shard)
        done = subprocess.run([tiny.tern(), "convert", folder, path], capture_output=True, text=True)
        check(done.returncode == 1 and "file of the checkpoint" in done.stderr, f"onto itself {name}: {done.stderr}")
        check(shard.read_bytes() == before, f"onto itself {name}: changed the source")
    for name in ("config.json", "tokenizer.json"):
        before_it = (folder / name).read_bytes()
        done = subprocess.run([tiny.tern(), "convert", folder, folder / name], capture_output=True, text=True)
        check(done.returncode == 1 and "file of the checkpoint" in done.stderr, f"onto {name}: {done.stderr}")
        check((folder / name).read_bytes() == before_it, f"onto {name}: changed the source")
    done = subprocess.run([tiny.tern(), "convert", folder, folder / "gone" / "x.gguf"], capture_output=True, text=True)
    check(done.returncode == 1, f"into a folder that is not there: {done.stderr}")
    out = folder.parent / "out.gguf"
    out.write_text("precious")
    (folder / "model.safetensors").write_bytes(before[:-1])
    done = subprocess.run([tiny.tern(), "convert", folder, out], capture_output=True, text=True)
    check(done.returncode == 1 and out.read_text() == "precious", "a failure touched what stood at the output")
    for arguments in ([], [folder], [folder, out, "x"], [folder, out, "--type", "q4_0"], ["", out]):
        done = subprocess.run([tiny.tern(), "convert", *arguments], capture_output=True, text=True)
        check(done.returncode == 2, f"{arguments}: exit {done.returncode}: {done.stderr}")


def main():
    for test in (test_files, test_right, test_index, test_config, test_experts, test_old_forms, test_tokenizer, test_in_the_way):
        with tempfile.TemporaryDirectory() as name:
            try:
                test(pathlib.Path(name) / "checkpoint")
            except Exception as error:  # noqa: BLE001
                check(False, f"{test.__name__}: {type(error).__name__}: {error}")
        print(test.__name__, "done")
    print(f"{n_cases} bad checkpoints, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
