"""JinaBertModel, which transformers does not have: what the publisher's modeling_bert.py computes, in PyTorch, for make_arch.py.

Names of parameters are the checkpoint's. ALiBi after Press et al. 2022, to both sides: bias -slope * |i - j|."""

import math
import types

import torch
from torch import nn


class Config(types.SimpleNamespace):
    tie_word_embeddings = False


def slopes(n):
    if n & (n - 1) == 0:
        return [2 ** (-8 * (h + 1) / n) for h in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return slopes(closest) + slopes(2 * closest)[0::2][: n - closest]


class Embeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.word_embeddings = nn.Embedding(c.vocab_size, c.hidden_size)
        self.token_type_embeddings = nn.Embedding(c.type_vocab_size, c.hidden_size)
        self.LayerNorm = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)

    def forward(self, ids):
        return self.LayerNorm(self.word_embeddings(ids) + self.token_type_embeddings(torch.zeros_like(ids)))


class SelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(c.hidden_size, c.hidden_size) for _ in range(3))
        if c.qk_norm:
            self.layer_norm_q = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)
            self.layer_norm_k = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        if hasattr(self, "layer_norm_q"):
            q, k = self.layer_norm_q(q), self.layer_norm_k(k)
        q, k, v = (t.view(*t.shape[:2], self.heads, -1).transpose(1, 2) for t in (q, k, v))
        at = torch.arange(x.shape[1], dtype=x.dtype)
        bias = -(at[:, None] - at[None]).abs() * torch.tensor(slopes(self.heads), dtype=x.dtype)[:, None, None]
        p = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + bias).softmax(dim=-1)
        return (p @ v).transpose(1, 2).reshape(x.shape)


class Output(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dense = nn.Linear(c.hidden_size, c.hidden_size)
        self.LayerNorm = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gated_layers = nn.Linear(c.hidden_size, 2 * c.intermediate_size, bias=False)
        self.wo = nn.Linear(c.intermediate_size, c.hidden_size)
        self.layernorm = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)

    def forward(self, x):
        gated, free = self.gated_layers(x).chunk(2, dim=-1)
        return self.layernorm(self.wo(nn.functional.gelu(gated) * free) + x)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(c), "output": Output(c)})
        self.mlp = Mlp(c)
        if c.qk_norm:
            self.layer_norm_1 = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)

    def forward(self, x):
        output = self.attention["output"]
        h = output.LayerNorm(output.dense(self.attention["self"](x)) + x)
        return self.mlp(self.layer_norm_1(h + x) if hasattr(self, "layer_norm_1") else h)


class JinaBertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})

    def tie_weights(self):
        pass

    def forward(self, ids):
        x = self.embeddings(ids)
        for layer in self.encoder["layer"]:
            x = layer(x)
        return types.SimpleNamespace(last_hidden_state=x)


JinaBertModel.config_class = Config
