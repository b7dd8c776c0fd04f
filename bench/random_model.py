#!/usr/bin/env python3
"""Writes a GGUF model of the shape of Llama 3.2 1B with random weights: files of every type to time, none to download.

    random_model.py TYPE OUT.gguf [--layers N] [--seed N]       (needs gguf, numpy)

TYPE is a weight type (Q4_0, ..., F32), or Q4_K_M or Q5_K_M: the mixture of those names, with Q6_K for the embedding and,
in the layers that llama.cpp's quantizer picks, for attn_v and ffn_down. Blocks are random bytes whose scale fields are
set so that weights have a deviation near 1 / sqrt(n_embd): what the values are matters to no engine's speed, but they
must stay finite. The vocabulary is made up: control tokens, bytes, then numbered words.
"""

import argparse

import gguf
import numpy as np

N_EMBD, N_FF, N_HEADS, N_KV_HEADS, HEAD_DIM, N_VOCAB, N_CTX = 2048, 8192, 32, 8, 64, 128256, 131072

# Fields of a block that must not be random: (byte offset, value as bytes) for f16 scale and min or, for MXFP4, the
# exponent, for NVFP4 its four scales. The values give weights a deviation of about 0.02: deviation of the quants times the scale.
BLOCKS = {
    "Q4_0": {0: 0.0045},
    "Q4_1": {0: 0.0045, 2: -0.034},
    "Q5_0": {0: 0.0022},
    "Q5_1": {0: 0.0022, 2: -0.034},
    "Q8_0": {0: 0.00028},
    "Q2_K": {80: 0.002, 82: 0.003},
    "Q3_K": {108: 0.0005},
    "Q4_K": {0: 0.00014, 2: 0.001},
    "Q5_K": {0: 0.00007, 2: 0.001},
    "Q6_K": {208: 0.000015},
    "IQ4_NL": {0: 0.0003},
    "IQ4_XS": {0: 0.000016},
    "MXFP4": {0: 119},
    "IQ2_XXS": {0: 0.0004},
    "IQ2_XS": {0: 0.0004},
    "IQ2_S": {0: 0.0004},
    "IQ3_XXS": {0: 0.00013},
    "IQ3_S": {0: 0.00014},
    "IQ1_S": {0: 0.003},
    "IQ1_M": {},
    "TQ1_0": {52: 0.025},
    "TQ2_0": {64: 0.02},
    "NVFP4": {i: 4 for i in range(4)},
}
IQ1_M_SCALE = 0.003  # in the high nibbles of four words
MIXTURES = {"Q4_K_M": "Q4_K", "Q5_K_M": "Q5_K"}


def random_rows(rng, dtype, rows, columns):
    """A matrix in the file's blocks: uint8[rows, bytes], or floats for the float types."""
    kind = gguf.GGMLQuantizationType[dtype]
    if dtype in ("F32", "F16", "BF16"):
        floats = rng.random((rows, columns), dtype=np.float32)
        floats -= np.float32(0.5)
        floats *= np.float32(0.07)
        return gguf.quants.quantize(floats, kind) if dtype == "BF16" else floats.astype({"F32": "f4", "F16": "f2"}[dtype])
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.frombuffer(rng.bytes(rows * columns // block * size), np.uint8).reshape(-1, size).copy()
    for at, value in BLOCKS[dtype].items():
        field = np.array([value], np.uint8 if dtype in ("MXFP4", "NVFP4") else np.float16).view(np.uint8)
        blocks[:, at : at + len(field)] = field
    if dtype == "IQ1_M":
        parts = np.float16(IQ1_M_SCALE).view(np.uint16) >> np.array([0, 4, 8, 12], np.uint16) & 15
        blocks[:, 49::2] = blocks[:, 49::2] & 15 | (parts << 4).astype(np.uint8)
    return blocks.reshape(rows, -1)


def more_bits(layer, n_layers):
    """The layers whose attn_v and ffn_down get more bits in a K_M mixture: the first and last eighth, every third between."""
    eighth = n_layers // 8
    return layer < eighth or layer >= n_layers - eighth or (layer - eighth) % 3 == 2


def type_of(name, dtype, layer, n_layers):
    if dtype not in MIXTURES:
        return dtype
    high = name == "token_embd" or name in ("attn_v", "ffn_down") and more_bits(layer, n_layers)
    return "Q6_K" if high else MIXTURES[dtype]


def write_vocab(writer):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    tokens += [f"\u2581w{i}" for i in range(N_VOCAB - len(tokens))]
    kinds += [gguf.TokenType.NORMAL] * (N_VOCAB - len(kinds))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(N_VOCAB)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write(path, dtype, n_layers, seed):
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"random {dtype}")
    writer.add_block_count(n_layers)
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(N_VOCAB)
    write_vocab(writer)

    def matrix(name, rows, columns, layer=None):
        kind = type_of(name, dtype, layer, n_layers)
        full = f"{name}.weight" if layer is None else f"blk.{layer}.{name}.weight"
        data = random_rows(rng, kind, rows, columns)
        writer.add_tensor(full, data, raw_dtype=None if kind in ("F32", "F16") else gguf.GGMLQuantizationType[kind])

    def norm(name):
        writer.add_tensor(name, np.ones(N_EMBD, np.float32))

    matrix("token_embd", N_VOCAB, N_EMBD)
    for i in range(n_layers):
        norm(f"blk.{i}.attn_norm.weight")
        matrix("attn_q", N_HEADS * HEAD_DIM, N_EMBD, i)
        matrix("attn_k", N_KV_HEADS * HEAD_DIM, N_EMBD, i)
        matrix("attn_v", N_KV_HEADS * HEAD_DIM, N_EMBD, i)
        matrix("attn_output", N_EMBD, N_HEADS * HEAD_DIM, i)
        norm(f"blk.{i}.ffn_norm.weight")
        matrix("ffn_gate", N_FF, N_EMBD, i)
        matrix("ffn_up", N_FF, N_EMBD, i)
        matrix("ffn_down", N_EMBD, N_FF, i)
    norm("output_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dtype", metavar="TYPE", choices=["F32", "F16", "BF16", *BLOCKS, *MIXTURES])
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.out, options.dtype, options.layers, options.seed)


if __name__ == "__main__":
    main()
