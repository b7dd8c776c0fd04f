"""Numbers in the data of a file that are none, for every type of weights: what computes with them or quantizes them refuses
(refusals.py), naming the file or the place. Zeros, the smallest and the largest scales are computed with.

The fields are set in the bytes of blocks, at the places where the formats have their scales."""

import os
import pathlib
import sys
import tempfile

try:
    import gguf
    import numpy as np

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import tiny
    from refusals import Runner
    from test_dequant import F16_OFFSETS
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CASE = tiny.Case("data", "llama", n_layers=1, n_embd=256, n_ff=256, n_heads=4, n_kv_heads=1, head_dim=64, tied=True)
TENSOR, ROW = "blk.0.ffn_up.weight", 5
# The bits of a half; the types without halves have what stands for the same, or nothing.
HALVES = {"NaN": 0x7E00, "infinity": 0x7C00, "zero": 0, "subnormal": 0x0001, "65504": 0x7BFF, "-65504": 0xFBFF}
OTHERS = {
    "F32": {name: np.uint16(value).view(np.float16).astype("<f4").tobytes() for name, value in HALVES.items()},
    "BF16": {name: np.uint16(value).tobytes() for name, value in (("NaN", 0x7FC0), ("infinity", 0x7F80), ("zero", 0), ("subnormal", 1))},
    "F16": {name: np.uint16(value).tobytes() for name, value in HALVES.items()},
    "MXFP4": {"NaN": b"\xff", "zero": b"\0", "subnormal": b"\1"},
    "NVFP4": {"zero": b"\x7f", "subnormal": b"\1"},  # what is NaN elsewhere is 0
}

failures = []
n_refused = n_good = 0


def check(why, what):
    if why:
        failures.append(what)
        print(f"  FAILED: {what}: {why}")


def with_scale(block, dtype, what):
    """The block with such a scale, or None where its type has no such one."""
    if dtype in OTHERS:
        value = OTHERS[dtype].get(what)
        return value and value + block[len(value) :]
    bits = np.uint16(HALVES[what])
    if dtype == "IQ1_M":  # the high nibbles of four words, the lowest first
        nibbles = bits >> np.array([0, 4, 8, 12], np.uint16) & 15
        words = np.frombuffer(block[48:56], np.uint8).copy()
        words[1::2] = words[1::2] & 15 | (nibbles << 4).astype(np.uint8)
        return block[:48] + words.tobytes() + block[56:]
    at = F16_OFFSETS[dtype][0]
    return block[:at] + bits.tobytes() + block[at + 2 :]


def check_type(runner, folder, dtype):
    global n_refused, n_good
    path = tiny.Model(CASE).write(folder / f"{dtype}.gguf", dtype=dtype)
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == TENSOR)
    block_elems, block_bytes = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
    at = int(tensor.data_offset) + ROW * CASE.n_embd // block_elems * block_bytes
    whole, out = path.read_bytes(), folder / "out"
    n_block = max(block_bytes, 4)
    compute = ["logits", "-m", path, "--ids", "1 2 3", "-o", os.devnull]
    quantize = ["quantize", path, out, "--allow-requantize", "-q", "--type"]
    for what in HALVES:
        block = with_scale(whole[at : at + n_block], dtype, what)
        if block is None:
            continue
        path.write_bytes(whole[:at] + block + whole[at + n_block :])
        if what in ("NaN", "infinity"):
            n_refused += 3
            check(runner.refused(compute, [path.name, "not finite"], [path]), f"{dtype}: {what}: logits")
            for target in ("Q8_0", "Q4_0"):  # one of them may be a copy
                why = runner.refused([*quantize, target], [TENSOR, f"row {ROW}, column 0 is"], [path])
                check(why, f"{dtype}: {what}: quantize")
            check("an output file" if out.exists() else None, f"{dtype}: {what}: quantize left")
        else:
            n_good += 1
            done = runner.run(*compute)
            check(done.stderr if done.code else None, f"{dtype}: {what}: logits")
            done = runner.run(*quantize, "Q8_0")
            check(done.stderr if done.code else None, f"{dtype}: {what}: quantize")
            out.unlink(missing_ok=True)


def main():
    runner = Runner()
    with tempfile.TemporaryDirectory() as name:
        for dtype in tiny.DTYPES:
            check_type(runner, pathlib.Path(name), dtype)
    print(f"{n_refused} refused, {n_good} computed with, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
