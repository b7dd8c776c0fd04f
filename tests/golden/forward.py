"""The four architectures in plain numpy (float64), from their papers, on weights as a GGUF file stores them.

tests/test_golden.py holds it against the golden logits of transformers, and then the engine against it where there are
no golden logits: weights of every quantized type. `act` says what the engine does to the rows that meet a weight matrix
(kernels/kernels.h): None, or the width of the blocks in which they become int8."""

import numpy as np


def quantized_rows(x, width):
    """Rows after int8 quantization with one float32 scale for each `width` elements."""
    blocks = x.astype(np.float32).reshape(len(x), -1, width)
    largest = np.abs(blocks).max(axis=2, keepdims=True)
    largest = np.where(largest < 2.0**-100, np.float32(np.inf), largest)
    q = np.rint(blocks * (np.float32(127) / largest))
    d = np.where(np.isinf(largest), np.float32(0), largest / np.float32(127))
    return (q.astype(np.float64) * d).reshape(x.shape)


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def rotate(x, angles, adjacent):
    """x[t][head][dim], angles[t][pairs]; what is behind the pairs stays."""
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    half = angles.shape[1]
    x, rest = x[..., : 2 * half], x[..., 2 * half :]
    a, b = (x[..., 0::2], x[..., 1::2]) if adjacent else (x[..., :half], x[..., half:])
    pairs = (a * cos - b * sin, a * sin + b * cos)
    turned = np.stack(pairs, axis=-1).reshape(x.shape) if adjacent else np.concatenate(pairs, axis=-1)
    return np.concatenate([turned, rest], axis=-1)


def is_global(case, layer):
    return case.window == 0 or (case.pattern > 0 and (layer + 1) % case.pattern == 0)


def angles(case, layer, n, weights):
    everywhere = case.pattern == 0 or is_global(case, layer)
    theta = case.rope_theta if everywhere else case.local_theta
    dim = case.rope_dim or case.head_dim
    frequency = theta ** (-np.arange(0, dim, 2) / dim)
    if case.linear and everywhere:
        frequency = frequency / case.linear
    if "rope_freqs.weight" in weights:
        frequency = frequency / weights["rope_freqs.weight"]
    return np.arange(n)[:, None] * frequency


def attention(case, layer, q, k, v, sinks=None):
    """q[t][head][dim], k and v[t][kv head][dim] to [t][head * dim]; a sink is one score more that has no value."""
    n, group = len(q), case.n_heads // case.n_kv_heads
    distance = np.arange(n)[:, None] - np.arange(n)
    seen = (distance >= 0) & (is_global(case, layer) | (distance < case.window)) | (not case.causal)
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(case.head_dim)
    scores = np.where(seen, scores, -np.inf)
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    total = p.sum(axis=2, keepdims=True)
    if sinks is not None:
        total += np.exp(sinks[:, None, None] - scores.max(axis=2, keepdims=True))
    p /= total
    return np.einsum("hqk,khd->qhd", p, v).reshape(n, -1)


def logits(case, weights, ids, act=None):
    """[len(ids)][n_vocab] float64; weights by GGUF name."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    n, gemma = len(ids), case.arch == "gemma3"

    def product(x, name):
        y = (quantized_rows(x, act) if act else x) @ w[name + ".weight"].T
        return y + w.get(name + ".bias", 0)

    def norm(x, name):
        return rms_norm(x, w[name + ".weight"], np.float32(case.norm_eps).astype(np.float64))

    def heads(x, block, part):
        x = product(x, f"{block}attn_{part}").reshape(n, -1, case.head_dim)
        return norm(x, f"{block}attn_{part}_norm") if f"{block}attn_{part}_norm.weight" in w else x

    x = w["token_embd.weight"][ids] * (np.sqrt(case.n_embd) if gemma else 1)
    for i in range(case.n_layers):
        block = f"blk.{i}."
        turn = angles(case, i, n, w)
        h = norm(x, block + "attn_norm")
        q, k = (rotate(heads(h, block, part), turn, case.arch == "llama") for part in "qk")
        h = attention(case, i, q, k, heads(h, block, "v"), w.get(block + "attn_sinks.weight"))
        h = product(h, block + "attn_output")
        x = x + (norm(h, block + "post_attention_norm") if gemma else h)
        h = norm(x, block + "ffn_norm")
        g = product(h, block + "ffn_gate")
        g = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))) if gemma else g / (1 + np.exp(-g))
        h = product(g * product(h, block + "ffn_up"), block + "ffn_down")
        x = x + (norm(h, block + "post_ffw_norm") if gemma else h)
    return product(norm(x, "output_norm"), "output" if "output.weight" in w else "token_embd")
