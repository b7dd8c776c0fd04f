"""Dequantized blocks equal those of Python's gguf package, bit for bit, for every type and instruction set; files with
tensors of any type open and are described."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
    from gguf.quants import dequantize
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

N_BLOCKS = 2000

# Where the half-precision factors lie in a block, so that they can be given chosen values.
F16_OFFSETS = {
    "F32": [], "F16": [], "BF16": [], "MXFP4": [], "NVFP4": [],
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52],
    "TQ2_0": [64],
}

# Zeros, the smallest and largest subnormal, the smallest normal, one, the largest; both signs; infinities; NaNs.
F16_EXTREMES = np.array(
    [0x0000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x7C00, 0x7E00, 0x7C01], dtype=np.uint16)


def factors(rng: np.random.Generator) -> np.ndarray:
    """A third ordinary, a third any bits at all, a third extremes."""
    ordinary = rng.normal(0, 0.05, N_BLOCKS).astype(np.float16).view(np.uint16)
    any_bits = rng.integers(0, 1 << 16, N_BLOCKS, dtype=np.uint16)
    extremes = rng.choice(F16_EXTREMES, N_BLOCKS) | (rng.integers(0, 2, N_BLOCKS, dtype=np.uint16) << 15)
    return np.choose(rng.integers(0, 3, N_BLOCKS), [ordinary, any_bits, extremes])


def random_blocks(rng: np.random.Generator, name: str, block_bytes: int) -> np.ndarray:
    blocks = rng.integers(0, 256, (N_BLOCKS, block_bytes), dtype=np.uint8)
    for offset in F16_OFFSETS[name]:
        blocks[:, offset:offset + 2] = factors(rng).astype("<u2").view(np.uint8).reshape(-1, 2)
    if name in ("MXFP4", "NVFP4"):  # every exponent, every scale
        blocks[:256, 0] = np.arange(256)
    if name == "IQ1_M":  # the factor is in four high nibbles, the lowest first
        parts = factors(rng)[:, None] >> np.array([0, 4, 8, 12], np.uint16) & 15
        blocks[:, 49::2] = blocks[:, 49::2] & 15 | (parts << 4).astype(np.uint8)
    return blocks


def check(helper: str, isa: str, name: str, blocks: np.ndarray) -> int:
    """Returns how many of the values are not NaN."""
    run = subprocess.run([helper, isa, name], input=blocks.tobytes(), capture_output=True, check=False)
    assert run.returncode == 0, f"{isa} {name}: exit {run.returncode}: {run.stderr.decode()}"
    got = np.frombuffer(run.stdout, dtype=np.float32)
    with np.errstate(all="ignore"):
        want = dequantize(blocks, GGMLQuantizationType[name]).reshape(-1).astype(np.float32)
    assert got.size == want.size, f"{isa} {name}: {got.size} values, expected {want.size}"
    differ = (got.view(np.uint32) != want.view(np.uint32)) & ~(np.isnan(got) & np.isnan(want))
    if differ.any():
        i = int(np.argmax(differ))
        raise AssertionError(f"{isa} {name}: {differ.sum()} values differ, first at {i}: {got[i]!r}, expected {want[i]!r}")
    return int((~np.isnan(want)).sum())


# In no file: of activations.
FILE_TYPES = [kind for kind in GGMLQuantizationType if kind.name not in ("Q8_1", "Q8_K")]


def check_table(helper: str) -> None:
    """Numbers and sizes of all types, the ones that cannot be multiplied too."""
    table = subprocess.run([helper, "--types"], capture_output=True, text=True, check=True).stdout
    ours = {name: tuple(map(int, numbers)) for name, *numbers in map(str.split, table.splitlines())}
    theirs = {kind.name: (kind.value, *GGML_QUANT_SIZES[kind]) for kind in FILE_TYPES}
    assert ours == theirs, f"types differ: {ours.items() ^ theirs.items()}"


def check_inspect(tern: str, path: pathlib.Path) -> None:
    """A file with a tensor of every type is described with its types and sizes."""
    writer = GGUFWriter(path, "none")
    expected = {}
    for kind in FILE_TYPES:
        elems, size = GGML_QUANT_SIZES[kind]
        writer.add_tensor(kind.name, np.zeros((3, 2 * size), np.uint8), raw_dtype=kind)
        expected[kind.name] = (kind.name, [2 * elems, 3], 6 * size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    run = subprocess.run([tern, "inspect", "--json", path], capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    found = {t["name"]: (t["type"], t["dims"], int(t["bytes"])) for t in json.loads(run.stdout)["tensors"]}
    assert found == expected, f"tensors differ: {[(found.get(n), expected[n]) for n in expected if found.get(n) != expected[n]]}"


def main() -> int:
    helper = os.path.join(os.environ["TERN_BUILD"], "dequant")
    seed = int(os.environ.get("TERN_TEST_SEED", "1"))
    isas = subprocess.run([helper, "--isas"], capture_output=True, text=True, check=True).stdout.split()
    print(f"seed {seed}, instruction sets: {' '.join(isas)}")
    assert "ref" in isas
    check_table(helper)
    with tempfile.TemporaryDirectory() as folder:
        check_inspect(os.environ["TERN"], pathlib.Path(folder) / "types.gguf")
    for name in F16_OFFSETS:
        elems, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        blocks = random_blocks(np.random.default_rng([seed, GGMLQuantizationType[name].value]), name, block_bytes)
        numbers = [check(helper, isa, name, blocks) for isa in isas]
        assert numbers[0] > N_BLOCKS * elems // 2, f"{name}: most values are NaN, the test shows little"
        print(f"{name}: {N_BLOCKS} blocks, {numbers[0]} of {N_BLOCKS * elems} values are numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
