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


def logits(case, weights, ids, act=None, n_used=0, seen=None):
    """[len(ids)][n_vocab] float64; weights by GGUF name. Of a model with experts n_used is how many a row uses. `seen` is told what
    each matrix is multiplied by: (tensor's name, expert or 0, rows)."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    n, gemma = len(ids), case.arch == "gemma3"

    def product(x, name, expert=None):
        if seen:
            seen(name + ".weight", expert or 0, x)
        matrix = w[name + ".weight"] if expert is None else w[name + ".weight"][expert]
        y = (quantized_rows(x, act) if act else x) @ matrix.T
        return y + w.get(name + ".bias", 0)

    def norm(x, name):
        return rms_norm(x, w[name + ".weight"], np.float32(case.norm_eps).astype(np.float64))

    def heads(x, block, part):
        x = product(x, f"{block}attn_{part}").reshape(n, -1, case.head_dim)
        return norm(x, f"{block}attn_{part}_norm") if f"{block}attn_{part}_norm.weight" in w else x

    def feed_forward(h, block, suffix="", expert=None):
        g = product(h, f"{block}ffn_gate{suffix}", expert)
        g = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))) if gemma else g / (1 + np.exp(-g))
        return product(g * product(h, f"{block}ffn_up{suffix}", expert), f"{block}ffn_down{suffix}", expert)

    def mixture(h, block):
        scores = np.exp(product(h, block + "ffn_gate_inp"))
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n_used]
        share = np.take_along_axis(scores, best, axis=1)
        share /= share.sum(axis=1, keepdims=True)
        out = np.zeros_like(h)
        for expert in range(scores.shape[1]):
            rows, place = np.nonzero(best == expert)
            out[rows] += share[rows, place][:, None] * feed_forward(h[rows], block, "_exps", expert)
        return out

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
        h = mixture(h, block) if n_used else feed_forward(h, block)
        x = x + (norm(h, block + "post_ffw_norm") if gemma else h)
    return product(norm(x, "output_norm"), "output" if "output.weight" in w else "token_embd")
