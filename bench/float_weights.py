#!/usr/bin/env python3
"""Writes a GGUF file whose matrices are those of another, widened to float32 by Python's gguf package.

Both engines then multiply floats by floats, so what they still differ by is not the int8 rounding of activations.
usage: float_weights.py IN.gguf OUT.gguf (needs gguf, numpy)"""

import sys

import gguf


def main(source, target):
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, rows.astype("float32").reshape(tensor.shape[::-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
