"""Makes mixes.json: which type llama.cpp gives to each tensor of the small models, for each name of a mix, from what its dry run
logs. Needs a llama.cpp library (llama_cpp, of 0.3.36 when this was made) and the models; run by hand, once:

    python3 tests/golden/quantize/make_mixes.py MODEL.gguf...

The result holds, for each model and mix, the tensors with the types and the layers that have them; norms are left out."""

import ctypes
import json
import pathlib
import re
import sys

import llama_cpp

HERE = pathlib.Path(__file__).resolve().parent
MIXES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12,
    "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ2_XXS": 19, "IQ2_XS": 20, "Q2_K_S": 21,
    "IQ3_XS": 22, "IQ3_XXS": 23, "IQ1_S": 24, "IQ4_NL": 25, "IQ3_S": 26, "IQ3_M": 27, "IQ2_S": 28, "IQ2_M": 29, "IQ4_XS": 30,
    "IQ1_M": 31, "BF16": 32, "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38,
}
LINE = re.compile(r"\[ *\d+/ *\d+\] (\S+) +- \[.*?\], type = +(\w+), .*?size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((\w+)\))?")


def ranges(numbers):
    """0-2,5 for [0, 1, 2, 5]."""
    runs = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def planned(log):
    """{"blk.*.attn_v.weight": {"Q6_K": "0-2,5"}, "token_embd.weight": {"Q8_0": ""}}"""
    types = {}
    for line in re.split(r"\n(?=\[ *\d+/)", "".join(log)):
        found = LINE.match(" ".join(line.split()).replace("[ ", "["))
        if not found or "norm" in found.group(1):
            continue
        layer = re.match(r"blk\.(\d+)\.", found.group(1))
        name = re.sub(r"^blk\.\d+\.", "blk.*.", found.group(1))
        kind = (found.group(3) or found.group(2)).upper()
        layers = types.setdefault(name, {}).setdefault(kind, [])
        if layer:
            layers.append(int(layer.group(1)))
    return {name: {kind: ranges(layers) for kind, layers in kinds.items()} for name, kinds in sorted(types.items())}


def main():
    log = []
    callback = llama_cpp.llama_log_callback(lambda level, text, user: log.append(text.decode(errors="replace")))
    llama_cpp.llama_log_set(callback, None)
    result = {}
    for model in map(pathlib.Path, sys.argv[1:]):
        for mix, file_type in MIXES.items():
            log.clear()
            params = llama_cpp.llama_model_quantize_default_params()
            params.ftype, params.nthread, params.dry_run, params.allow_requantize = file_type, 1, True, True
            if llama_cpp.llama_model_quantize(str(model).encode(), b"/dev/null", ctypes.byref(params)) != 0:
                raise RuntimeError(f"llama.cpp could not plan {mix}: {''.join(log)[-300:]}")
            result.setdefault(model.stem, {})[mix] = planned(log)
            if not result[model.stem][mix]:
                raise RuntimeError("no tensor was found in the log: " + "".join(log)[-600:])
    lines = [f'"{name}": {{\n' + ",\n".join(f'"{mix}": {json.dumps(kinds)}' for mix, kinds in mixes.items()) + "\n}"
             for name, mixes in result.items()]
    (HERE / "mixes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
