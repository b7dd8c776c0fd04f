"""Tiny encoders, and models whose files give embeddings, as tests/architectures.py has those with logits."""

import numpy as np

from architectures import (
    COMMON,
    LLAMA_FEATURES,
    Case,
    head_dim,
    plus_one,
    rope,
    weight,
)

BERT = {name: value for name, value in COMMON.items() if name != "num_key_value_heads"} | {
    "pad_token_id": 0,
    "layer_norm_eps": 1e-2,
    "type_vocab_size": 2,
    "use_cache": False,
}
MODERN_BERT = {name: value for name, value in BERT.items() if name not in ("type_vocab_size", "layer_norm_eps")} | {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "norm_eps": 1e-2,
    "local_attention": 10,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
EMBEDDING_GEMMA_ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}


def bert_keys(c):
    return {"attention.causal": ("bool", False), "pooling_type": ("u32", 1)}


def local_base(c):
    return {"rope.freq_base_swa": ("f32", c["rope_parameters"]["sliding_attention"]["rope_theta"])}


def without_pooler(case, name, array):
    return [] if name.startswith("pooler.") else [(name, array)]


def nomic_tensors(case, name, array):
    """The published checkpoint's names, which are not transformers', and its fused q, k and v."""
    if ".k_proj." in name or ".v_proj." in name or name.startswith("pooler."):
        return []
    if ".q_proj." in name:
        parts = [weight(case, name.replace("q_proj", part), array.shape) for part in ("q_proj", "k_proj", "v_proj")]
        return [(name.replace("layers.", "encoder.layers.").replace("self_attn.q_proj", "attn.Wqkv"), np.concatenate(parts))]
    for there, here in (
        ("embeddings.LayerNorm", "emb_ln"),
        ("layers.", "encoder.layers."),
        ("self_attn.o_proj", "attn.out_proj"),
        ("post_attention_layernorm", "norm1"),
        ("post_mlp_layernorm", "norm2"),
        ("gate_proj", "fc12"),
        ("up_proj", "fc11"),
        ("down_proj", "fc2"),
    ):
        name = name.replace(there, here)
    return [(name, array)]


JINA_BERT = BERT | {"hidden_size": 96, "num_attention_heads": 6, "qk_norm": False}


def apart(case, name, array):
    """Older files: gate and up are two tensors."""
    if "gated_layers" not in name:
        return [(name, array)]
    gate, up = np.split(array, 2)
    return [(name.replace("gated_layers", "gated_layers_w"), gate), (name.replace("gated_layers", "gated_layers_v"), up)]


def under_model(case, name, array):
    return [("model." + name, array)]


CASES = [
    Case(
        "bert",
        "bert",
        "BertModel",
        BERT,
        bert_keys,
        without_pooler,
        features={
            "norm epsilon": {"layer_norm_eps": 1e-1},
            "positions": "position_embeddings",
            "types": "token_type_embeddings",
            "norm behind the embedding": "embeddings.LayerNorm",
            "norms behind": "output.LayerNorm",
            "activation": {"hidden_act": "gelu_pytorch_tanh"},
            "what follows": {"is_decoder": True},
        },
        n_ids=70,
        embeds=True,
        ahead=True,
    ),
    Case(
        "nomic-bert",
        "nomic-bert",
        "NomicBertModel",
        BERT | rope(1000.0),
        bert_keys,
        nomic_tensors,
        features={
            "norm epsilon": {"layer_norm_eps": 1e-1},
            "types": "token_type_embeddings",
            "rope base": rope(2000.0),
        },
        n_ids=70,
        embeds=True,
        ahead=True,
    ),
    Case(
        "modern-bert",
        "modern-bert",
        "ModernBertModel",
        MODERN_BERT,
        lambda c: bert_keys(c) | local_base(c) | {"attention.sliding_window": ("u32", c["local_attention"])},
        features={
            "norm epsilon": {"norm_eps": 1e-1},
            "window": {"local_attention": 12},
            "activation": {"hidden_activation": "silu"},
            "layers": {"layer_types": ["full_attention"] + ["sliding_attention"] * 3},
            "norm behind the embedding": "embeddings.norm",
        },
        n_ids=100,
        embeds=True,
        ahead=True,
    ),
    Case(
        "modern-bert-silu",
        "modern-bert",
        "ModernBertModel",
        MODERN_BERT | {"hidden_activation": "silu", "local_attention": 6},
        lambda c: bert_keys(c)
        | local_base(c)
        | {"attention.sliding_window": ("u32", c["local_attention"]), "hidden_activation": ("str", "silu")},
        features={"activation": {"hidden_activation": "gelu"}},
        embeds=True,
        ahead=True,
    ),
    Case(
        "gemma-embedding",
        "gemma-embedding",
        "Gemma3TextModel",
        COMMON
        | {
            "num_hidden_layers": 6,
            "rms_norm_eps": 1e-2,
            "head_dim": 32,
            "hidden_activation": "gelu_pytorch_tanh",
            "use_bidirectional_attention": True,
            "sliding_window": 10,
            "query_pre_attn_scalar": 32,
            "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
            "rope_parameters": EMBEDDING_GEMMA_ROPE,
        },
        lambda c: local_base(c) | {"attention.sliding_window": ("u32", c["sliding_window"])},
        lambda case, name, array: under_model(case, *plus_one(case, name, array)[0]),
        features={
            "norm epsilon": {"rms_norm_eps": 1e-1},
            "window": {"sliding_window": 12},
            "what follows": {"use_bidirectional_attention": False},
            "norms behind": "post_feedforward_layernorm",
        },
        norm_mean=0.0,
        n_ids=100,
        embeds=True,
        ahead=True,
    ),
    Case(
        "jina-bert-v2",
        "jina-bert-v2",
        "JinaBertModel",
        JINA_BERT,
        bert_keys,
        features={
            "norm epsilon": {"layer_norm_eps": 1e-1},
            "types": "token_type_embeddings",
            "norm behind the MLP": "mlp.layernorm",
        },
        n_ids=100,
        embeds=True,
        ahead=True,
    ),
    Case(
        "jina-bert-v2-code",
        "jina-bert-v2",
        "JinaBertModel",
        JINA_BERT | {"qk_norm": True},
        bert_keys,
        apart,
        features={"norms of q": "layer_norm_q", "norms of k": "layer_norm_k", "second norm": "layer_norm_1"},
        embeds=True,
        ahead=True,
    ),
    Case(
        "eurobert",
        "eurobert",
        "EuroBertModel",
        COMMON | rope() | {"rms_norm_eps": 1e-3, "pad_token_id": 0, "use_cache": False},
        bert_keys,
        under_model,
        features=LLAMA_FEATURES,
        n_ids=70,
        embeds=True,
        ahead=True,
    ),
    Case(
        "qwen3-embedding",
        "qwen3",
        "Qwen3Model",
        COMMON | rope() | {"rms_norm_eps": 1e-3, "head_dim": 32},
        lambda c: {"pooling_type": ("u32", 3)},
        under_model,
        features=LLAMA_FEATURES | {"norm behind": "norm.weight"},
        embeds=True,
    ),
]
