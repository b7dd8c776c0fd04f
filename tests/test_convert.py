"""tern convert: checkpoints of every architecture become files that compute what transformers computes from the checkpoint, and
whose metadata and tensors are those that llama.cpp's converter writes; one goes on to every type and to text.

The second needs that converter: TERN_CONVERTER is its convert_hf_to_gguf.py, TERN_CONVERTER_PYTHON a Python with its packages. It
recognizes pre-tokenizers by hashes that no vocabulary of a few dozen tokens has, so that it is told the name; nor are GLM's
special tokens in one."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(TESTS))
    import checkpoints
    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# As in test_architectures.py and test_golden.py.
LIMIT = 3e-5
CONVERTER = os.environ.get("TERN_CONVERTER")

failures = []


def check(good, what):
    if not good:
        failures.append(what)
        print("  FAILED:", what)


def convert(folder, out, *options):
    """(exit code, what it said)"""
    command = [tiny.tern(), "convert", str(folder), str(out), "-q", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr.strip()


def without_ones(shape):
    """A matrix of one row is a vector to all that read it."""
    shape = [int(n) for n in shape]
    return shape[:1] if len(shape) == 2 and shape[1] == 1 else shape


def read(path):
    """({key: value}, {name: (type, shape, bytes)})"""
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    types = {name: field.types[0].name for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    tensors = {t.name: (t.tensor_type.name, without_ones(t.shape), np.array(t.data)) for t in reader.tensors}
    return {name: (types[name], value) for name, value in keys.items()}, tensors


# ---- Against transformers -------------------------------------------------------------------------------------------


def test_logits(case, folder):
    checkpoint = checkpoints.Checkpoint.of(case)
    path = folder / "model.gguf"
    code, said = convert(checkpoint.write(folder / case.name), path, "--type", "f32")
    check(code == 0 and not said, f"{case.name}: exit {code}: {said}")
    if code:
        return
    width = checkpoint.golden.shape[1]
    if checkpoint.embeds:
        rows = tiny.embeddings(path, checkpoint.ids, width, "--kv", "f32", "--pooling", "none", "--no-normalize")
    else:
        rows = tiny.logits(path, checkpoint.ids, "--all", "--kv", "f32", n_vocab=width)
    difference = tiny.relative(rows, checkpoint.golden)
    check(difference <= LIMIT, f"{case.name}: differs from transformers by {difference:.1e}, limit {LIMIT:.0e}")
    print(f"{case.name:20} {difference:9.1e}")


# ---- On to every type -----------------------------------------------------------------------------------------------


def tern(*args):
    return subprocess.run([tiny.tern(), *map(str, args)], capture_output=True, text=True, timeout=120)


def test_types(folder):
    """From a checkpoint to F16, to every type there is, to text, and to predictions that are the worse the fewer bits there are."""
    case = dataclasses.replace(tiny.WIDE, n_layers=1, n_ff=512)
    base = checkpoints.Checkpoint.of(tiny.CASES["llama"])
    config = base.config | {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": case.n_heads,
                            "num_key_value_heads": case.n_kv_heads, "head_dim": case.head_dim, "tie_word_embeddings": False}  # fmt: skip
    checkpoint = dataclasses.replace(base, config=config, tensors=tiny.hf_weights(case))
    source, made, saved = folder / "f16.gguf", folder / "made.gguf", folder / "base.logits"
    code, said = convert(checkpoint.write(folder / "wide"), source, "--type", "f16")
    check(code == 0 and not said, f"wide: exit {code}: {said}")
    short = folder / "short.txt"
    short.write_text((TESTS / "data" / "alice-1.txt").read_text(encoding="ascii").replace("\n", " ")[:600])
    done = tern("eval", "perplexity", "-m", source, "-f", short, "-c", 64, "--save-base", saved, "-q")
    check(done.returncode == 0, f"wide: {done.stderr}")
    names = tern("quantize", source, made, "--type", "?").stderr.split("expected one of ")[1].split()
    check(len(names) >= 30, f"only {len(names)} types")
    found = {}
    for name in names:
        done = tern("quantize", source, made, "--type", name, "-q")
        check(done.returncode == 0, f"{name}: {done.stderr}")
        done = tern("run", "-m", made, "-p", "The cat", "-n", 4, "--temp", 0, "--ignore-eos", "-q")
        check(done.returncode == 0 and done.stdout, f"{name}: exit {done.returncode}, text {done.stdout!r}: {done.stderr}")
        found[name] = json.loads(tern("eval", "kld", "-m", made, "--base", saved, "--json", "-q").stdout)["kld_mean"]
    for better, worse in [("F16", "Q8_0"), ("Q8_0", "Q6_K"), ("Q6_K", "Q5_K_M"), ("Q5_K_M", "Q4_K_M"), ("Q4_K_M", "Q3_K_M"),
                          ("Q3_K_M", "Q2_K"), ("Q5_0", "Q4_0"), ("IQ4_XS", "IQ3_XXS"), ("IQ3_XXS", "IQ2_XXS"), ("IQ2_XXS", "IQ1_S"),
                          ("Q4_K_M", "TQ1_0"), ("Q8_0", "MXFP4")]:  # fmt: skip
        check(found[better] < found[worse], f"divergence of {better} is {found[better]}, of {worse} {found[worse]}")
    print(f"{len(names)} types from a checkpoint to text, divergence {min(found.values()):.1e} to {max(found.values()):.1e}")


# ---- Against llama.cpp's converter ----------------------------------------------------------------------------------

# Keys that only our files have: windows of Mistral and StarCoder 2, an unusual pattern of windows, bases that are not 10000, ends
# of a turn that generation_config.json names, the unknown token of a tokenizer.model without a tokenizer.json, DeepSeek-V3's
# sigmoids where only its class says so, and the type of an MPT file.
OURS_ALONE = re.compile(
    r"(llama|starcoder2)\.attention\.sliding_window|gemma3\.attention\.sliding_window_pattern|.*\.rope\.freq_base"
    r"|tokenizer\.ggml\.(eot|eom|unknown)_token_id|deepseek2\.expert_gating_func|general\.file_type"
)
# The epsilon of a kind of norm that ModernBERT does not have.
THEIRS_ALONE = {"modern-bert.attention.layer_norm_rms_epsilon"}
# Keys whose values may differ: names of pre-tokenizers with the same rules, the name of the folder, a width that they compute
# from the number of heads of keys, which is right for the published models alone, and one taken for four times another.
DIFFERENT = {"tokenizer.ggml.pre", "general.name", "phi2.feed_forward_length", "ernie4_5-moe.expert_shared_feed_forward_length"}


def close(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-6 * abs(b)
    return a == b


def theirs(folder, out, dtype):
    python = os.environ.get("TERN_CONVERTER_PYTHON", sys.executable)
    driver = (
        "import sys, runpy; sys.path[:0] = [sys.argv[1].rpartition('/')[0], sys.argv[1].rpartition('/')[0] + '/gguf-py'];"
        "import conversion.base as b; b.TextModel.get_vocab_base_pre = lambda self, tokenizer: 'llama-bpe';"
        "b.TextModel._set_vocab_glm = b.TextModel._set_vocab_gpt2;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [python, "-c", driver, CONVERTER, str(folder), "--outfile", str(out), "--outtype", dtype]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError("their converter: " + done.stderr.strip()[-600:])


def compare_keys(name, ours, reference):
    n_vocab = len(ours["tokenizer.ggml.tokens"][1])
    for key, value in reference.items():
        if key in DIFFERENT or (key.endswith("_token_id") and value[1] >= n_vocab):
            continue
        mine = ours.get(key)
        if key in THEIRS_ALONE:
            continue
        check(mine is not None, f"{name}: key {key} = {value} is missing")
        if mine is not None:
            same = mine[0] == value[0] and close(mine[1], value[1])
            check(same, f"{name}: key {key} is {str(mine)[:300]}, expected {str(value)[:300]}")
    for key in ours.keys() - reference.keys():
        check(OURS_ALONE.fullmatch(key), f"{name}: key {key} = {str(ours[key])[:300]} is in ours alone")


def compare_tensors(name, ours, reference):
    check(ours.keys() == reference.keys(), f"{name}: other tensors: {sorted(ours.keys() ^ reference.keys())}")
    for tensor in ours.keys() & reference.keys():
        mine, other = ours[tensor], reference[tensor]
        check(mine[:2] == other[:2], f"{name}: {tensor} is {mine[:2]}, expected {other[:2]}")
        if tensor == "rope_freqs.weight":  # single precision there, double here
            check(np.allclose(mine[2], other[2], rtol=2e-6), f"{name}: {tensor}: {mine[2]} {other[2]}")
        else:
            check(mine[2].tobytes() == other[2].tobytes(), f"{name}: {tensor}: other bytes")


# What their converter needs to be told, or takes from the defaults of transformers: it reads no other context length, no other
# epsilon, and only the published Nomic models' numbers of positions.
THEIR_CONFIG = {
    "falcon-7b": {"num_kv_heads": 1},
    "stablelm": {"use_parallel_residual": False},
    "hunyuan-dense": {"max_position_embeddings": 32768, "eod_token_id": 76},
    "gpt2": {"n_ctx": 64},
    "cohere2": {"rotary_pct": 1.0, "head_dim": 16},
    "gptneox": {"rotary_pct": 0.5},
    "gptneox-sequential": {"rotary_pct": 0.5},
    "olmoe": {"rms_norm_eps": 1e-5},
    "mpt": {"layer_norm_epsilon": 1e-5},
    "modern-bert": {"layer_norm_eps": 1e-2},
    "modern-bert-silu": {"layer_norm_eps": 1e-2},
    "nomic-bert": {"n_positions": 8192, "max_trained_positions": 2048, "max_position_embeddings": None},
}


CARD = """---
license: [mit, apache-2.0]
license_name: two
language:
- en
- no
tags: [tiny, test]
pipeline_tag: text-generation
base_model:
- some-lab/Base-Model-v2-1B
- https://huggingface.co/other/Thing
- https://example.org/x
datasets: org/some-data
---
# A model
"""


def test_converter(case, folder, dtype="f32", stored="F32"):
    checkpoint = checkpoints.Checkpoint.of(case)
    name = f"{case.name} {stored} to {dtype}"
    name_of_folder = folder / "Model-7B-Instruct"
    source = checkpoint.write(name_of_folder, stored, shards=2, config=THEIR_CONFIG.get(case.name), files={"README.md": CARD})
    theirs(source, folder / "theirs.gguf", dtype)
    code, said = convert(source, folder / "ours.gguf", "--type", dtype)
    check(code == 0, f"{name}: exit {code}: {said}")
    if code:
        return
    (keys, tensors), (their_keys, their_tensors) = read(folder / "ours.gguf"), read(folder / "theirs.gguf")
    compare_keys(name, keys, their_keys)
    compare_tensors(name, tensors, their_tensors)
    print(f"{name:36} {len(their_keys)} keys, {len(their_tensors)} tensors as llama.cpp's converter writes them")


def guarded(function, *arguments):
    """A run that fails is a failure of its test, and the others still run."""
    try:
        with tempfile.TemporaryDirectory() as name:
            function(*arguments, pathlib.Path(name))
    except Exception as error:  # noqa: BLE001
        check(False, f"{function.__name__} {getattr(arguments[0], 'name', '') if arguments else ''}: {type(error).__name__}: {error}")


def main():
    chosen = [case for case in checkpoints.cases() if not sys.argv[1:] or case.name in sys.argv[1:]]
    for case in chosen:
        guarded(test_logits, case)
    if not sys.argv[1:]:
        guarded(test_types)
    if CONVERTER:
        for case in chosen:
            guarded(test_converter, case)
        for stored, dtype in (("BF16", "bf16"), ("F32", "f16"), ("F16", "auto"), ("BF16", "auto"), ("F32", "q8_0")):
            guarded(lambda folder, d=dtype, s=stored: test_converter(chosen[0], folder, d, s))
    else:
        print("not compared with llama.cpp's converter: TERN_CONVERTER is not set")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
