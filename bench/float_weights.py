#!/usr/bin/env python3
"""Writes a GGUF file whose matrices are those of another as floats, dequantized by Python's gguf package.

  bench/float_weights.py IN.gguf OUT.gguf [--type F32|F16] [--dither]

With F32 two engines multiply floats by floats: what they still differ by is not the int8 rounding of activations. --dither adds to
each weight noise of half a step of its block, uniform: the weights of a file that was quantized lie on a lattice, which the same
type, quantizing them again, finds back without loss; with noise no type has that advantage.

Requires (bench only): gguf numpy."""

import argparse

import gguf
import numpy as np

GROUP = 16  # the sub-blocks of the narrowest scales


def dithered(x, rng):
    """The step of a group is the least difference of two of its values."""
    groups = x.reshape(-1, GROUP)
    gaps = np.diff(np.sort(groups, axis=1), axis=1)
    gaps[gaps < 1e-5 * np.abs(groups).max(axis=1, keepdims=True)] = np.inf
    step = gaps.min(axis=1, keepdims=True)
    step[~np.isfinite(step)] = 0
    return (groups + step * rng.uniform(-0.5, 0.5, groups.shape)).reshape(x.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--type", choices=["F32", "F16"], default="F32")
    parser.add_argument("--dither", action="store_true")
    args = parser.parse_args()
    reader, rng = gguf.GGUFReader(args.source), np.random.default_rng(1)
    writer = gguf.GGUFWriter(args.target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
        if args.dither and tensor.tensor_type >= gguf.GGMLQuantizationType.Q4_0 and tensor.tensor_type.name != "BF16":
            rows = dithered(rows, rng)
        writer.add_tensor(tensor.name, rows.astype("float16" if args.type == "F16" and rows.ndim > 1 else "float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
