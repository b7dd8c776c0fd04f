#!/usr/bin/env python3
"""How near the blocks of tern quantize come to the weights, beside llama.cpp's, and how long both take.

  bench/quantize_quality.py [--tern build/tern] [--models DIR] [--layers N] [--types A,B] [-t N] [-o TABLE.md]

Sources are F16 files: the first layers of SmolLM2-135M and Gemma 3 270M, dequantized, and two layers of random numbers with heavy
tails (Student's t, 3 degrees of freedom). Both programs make each type of each source with no mix, without an importance matrix
and with a random one (log-normal). The table has the root of the (weighted) squared error relative to that of zeros, over all
tensors that have the type in both files, and that over llama.cpp's; then the seconds of processor time of both for all of it,
files and all threads included.

Requires (bench only, not part of the tests): llama-cpp-python==0.3.36 gguf==0.19.0 numpy.
"""

import argparse
import ctypes
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np
from gguf.quants import dequantize

FILE_TYPES = {
    "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "Q8_0": 7, "Q2_K": 10, "Q3_K": 11, "Q4_K": 14, "Q5_K": 16, "Q6_K": 18, "IQ4_NL": 25,
    "IQ4_XS": 30, "IQ3_S": 26, "IQ3_XXS": 23, "IQ2_S": 29, "IQ2_XS": 20, "IQ2_XXS": 19, "IQ1_M": 31, "IQ1_S": 24, "TQ1_0": 36,
    "TQ2_0": 37, "MXFP4": 38,
}  # fmt: skip
NEEDS_IMPORTANCE = {"IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S"}  # there


def write_f16(path, arch, metadata, tensors):
    writer = gguf.GGUFWriter(path, arch)
    for key, value, kind, sub in metadata:
        writer.add_key_value(key, value, kind, sub)
    for name, data in tensors.items():
        writer.add_tensor(name, data.astype(np.float16 if data.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def real_source(model, path, n_layers):
    """The first layers of a model; its token embedding is left small."""
    reader = gguf.GGUFReader(model)
    arch = reader.fields["general.architecture"].contents()
    metadata = []
    for field in reader.fields.values():
        if field.name.startswith(("GGUF.", "general.architecture", "general.file_type", "tokenizer.")):
            continue
        kind = field.types[0]
        value = n_layers if field.name == f"{arch}.block_count" else field.contents()
        metadata.append((field.name, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None))
    tensors = {}
    for t in reader.tensors:
        layer = re.match(r"blk\.(\d+)\.", t.name)
        if layer and int(layer[1]) >= n_layers:
            continue
        x = dequantize(t.data[:2048] if t.name == "token_embd.weight" else t.data, t.tensor_type)
        tensors[t.name] = x
    write_f16(path, arch, metadata, tensors)


def heavy_source(path):
    rng = np.random.default_rng(1)
    width, inner, heads = 1024, 2816, 8
    shapes = {"attn_q": (width, width), "attn_k": (width, width), "attn_v": (width, width), "attn_output": (width, width),
              "ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}  # fmt: skip
    u32, f32 = gguf.GGUFValueType.UINT32, gguf.GGUFValueType.FLOAT32
    metadata = [("llama.block_count", 2, u32, None), ("llama.context_length", 512, u32, None),
                ("llama.embedding_length", width, u32, None), ("llama.feed_forward_length", inner, u32, None),
                ("llama.attention.head_count", heads, u32, None), ("llama.attention.layer_norm_rms_epsilon", 1e-5, f32, None)]  # fmt: skip
    tensors = {"token_embd.weight": rng.standard_t(3, (256, width)) * 0.02}
    for layer in range(2):
        for name, shape in shapes.items():
            tensors[f"blk.{layer}.{name}.weight"] = rng.standard_t(3, shape) * 0.02
    write_f16(path, "llama", metadata, tensors)


def llama_quantize(source, target, file_type, threads, imatrix, pure=True):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure = file_type, threads, pure
    if imatrix:
        values = {t.name.removesuffix(".in_sum2"): np.ascontiguousarray(t.data.reshape(-1)) for t in gguf.GGUFReader(imatrix).tensors
                  if t.name.endswith(".in_sum2")}  # fmt: skip
        entries = (llama_cpp.llama_model_imatrix_data * (len(values) + 1))()
        for entry, (name, data) in zip(entries, values.items()):
            entry.name, entry.size = name.encode(), data.size
            entry.data = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        params.imatrix = ctypes.cast(entries, ctypes.POINTER(llama_cpp.llama_model_imatrix_data))
    callback = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(callback, None)
    return llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))


def write_importance(path, source):
    rng, values = np.random.default_rng(2), {}
    writer = gguf.GGUFWriter(path, "none")
    for t in gguf.GGUFReader(source).tensors:
        if len(t.shape) < 2:
            continue
        values[t.name] = rng.lognormal(0, 1.5, int(t.shape[0])).astype(np.float32)
        writer.add_tensor(t.name + ".in_sum2", values[t.name].reshape(1, -1))
        writer.add_tensor(t.name + ".counts", np.ones((1, 1), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def timed(command):
    """Seconds of processor time: others may be at work on the machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def errors(source, made, other, kind, weights):
    """Relative root of the squared error of both files over the tensors that have the type in both."""
    truth, files = {t.name: t.data for t in gguf.GGUFReader(source).tensors}, []
    for path in (made, other):
        files.append({t.name: t for t in gguf.GGUFReader(path).tensors if t.tensor_type.name == kind})
    sums, zero = [0.0, 0.0], 0.0
    for name in set(files[0]) & set(files[1]):
        x = truth[name].astype(np.float64)
        w = weights[name] if weights else 1.0
        zero += float(np.sum(w * x * x))
        for i, file in enumerate(files):
            sums[i] += float(np.sum(w * (dequantize(file[name].data, file[name].tensor_type) - x) ** 2))
    return [float(np.sqrt(s / zero)) if zero else float("nan") for s in sums]


def compare(args, kind, sources, folder):
    """Cells of the table's row."""
    cells, seconds = [], [0.0, 0.0]
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"type: {kind}\n")
    for source, importance, weights in sources:
        for weighted in (False, True):
            if not weighted and kind in NEEDS_IMPORTANCE:
                cells.append("")
                continue
            ours, theirs = folder / "ours.gguf", folder / "theirs.gguf"
            more = ["--imatrix", importance] if weighted else []
            seconds[0] += timed([args.tern, "quantize", source, ours, "--recipe", recipe, "-t", args.threads, "-q", *more])
            seconds[1] += timed([sys.executable, __file__, "--peer", source, theirs, FILE_TYPES[kind], args.threads, *more[1:]])
            seconds[1] -= args.start_s
            a, b = errors(source, ours, theirs, kind, weights if weighted else None)
            cells.append("" if np.isnan(a) else f"{a:.4f} {a / b if b else float('nan'):.3f}")
    return [*cells, f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", f"{seconds[1] / seconds[0]:.1f}"]


def table(args, folder):
    sources = []
    for name in ("smollm2-135m", "gemma3-270m"):
        real_source(args.models / f"{name}.gguf", folder / f"{name}.gguf", args.layers)
        sources.append(folder / f"{name}.gguf")
    heavy_source(folder / "heavy.gguf")
    sources.append(folder / "heavy.gguf")
    with_importance = []
    for source in sources:
        importance = folder / f"{source.stem}.imatrix"
        with_importance.append((source, importance, write_importance(importance, source)))
    args.start_s = timed([sys.executable, __file__, "--start"])  # of the interpreter and its imports
    head = ["type", "SmolLM2", "weighted", "Gemma 3", "weighted", "heavy tails", "weighted", "tern s", "llama.cpp s", "x"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for kind in args.types:
        lines.append(f"| {kind} | " + " | ".join(compare(args, kind, with_importance, folder)) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--start"]:
        return
    if sys.argv[1:2] == ["--peer"]:
        source, target, file_type, threads, *imatrix = sys.argv[2:]
        sys.exit(llama_quantize(source, target, int(file_type), int(threads), imatrix[0] if imatrix else None))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=pathlib.Path(__file__).resolve().parent.parent / "build" / "tern")
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "tern")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--types", type=lambda s: s.split(","), default=list(FILE_TYPES))
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = table(args, pathlib.Path(folder))
    if args.output:
        args.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
