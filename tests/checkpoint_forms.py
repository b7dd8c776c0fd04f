"""Checkpoints as they are published, where transformers names or cuts its tensors in another way."""

import numpy as np


def grouped(q, k, v, n_kv_heads, head_dim):
    """InternLM2's wqkv: the queries, the key and the value of each group, one behind the other."""
    rows = [a.reshape(n_kv_heads, -1, head_dim, a.shape[1]) for a in (q, k, v)]
    return np.concatenate(rows, axis=1).reshape(-1, q.shape[1])


def internlm2_form(tensors, config):
    """A llama checkpoint as InternLM2's."""
    names = {
        "model.embed_tokens": "model.tok_embeddings",
        "lm_head": "output",
        "self_attn.o_proj": "attention.wo",
        "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "feed_forward.w1",
        "mlp.up_proj": "feed_forward.w3",
        "mlp.down_proj": "feed_forward.w2",
    }
    out = {}
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    for name, array in tensors.items():
        if name.endswith("q_proj.weight"):
            layer = name.removesuffix("self_attn.q_proj.weight")
            parts = [tensors[f"{layer}self_attn.{part}_proj.weight"] for part in "qkv"]
            out[layer + "attention.wqkv.weight"] = grouped(*parts, config["num_key_value_heads"], head_dim)
        elif not name.endswith(("k_proj.weight", "v_proj.weight")):
            for old, new in names.items():
                name = name.replace(old, new)
            out[name] = array
    return out


def exaone_form(tensors, config):
    names = {
        "model.embed_tokens": "transformer.wte",
        "model.norm": "transformer.ln_f",
        "model.layers": "transformer.h",
        "self_attn.o_proj": "attn.attention.out_proj",
        "self_attn": "attn.attention",
        "input_layernorm": "ln_1",
        "post_attention_layernorm": "ln_2",
        "gate_proj": "c_fc_0",
        "up_proj": "c_fc_1",
        "down_proj": "c_proj",
    }
    out = {}
    for name, array in tensors.items():
        for old, new in names.items():
            name = name.replace(old, new)
        out[name] = array
    return out


def each_expert(tensors, gate="gate_proj", up="up_proj", down="down_proj"):
    """The matrices of the experts, stacked in transformers, are tensors of their own."""
    out = {}
    for name, array in tensors.items():
        base = name.rpartition(".")[0]
        if name.endswith("experts.gate_up_proj"):
            for e, both in enumerate(array):
                out[f"{base}.{e}.{gate}.weight"], out[f"{base}.{e}.{up}.weight"] = np.split(both, 2)
        elif name.endswith("experts.down_proj"):
            out |= {f"{base}.{e}.{down}.weight": one for e, one in enumerate(array)}
        else:
            out[name] = array
    return out


def as_it_is(tensors, config):
    return tensors


def experts_form(tensors, config):
    return each_expert(tensors)


def renamed(tensors, names):
    out = {}
    for name, array in tensors.items():
        for old, new in names:
            name = name.replace(old, new)
        out[name] = array
    return out


def mixtral_form(tensors, config):
    names = [
        ("mlp.gate.", "block_sparse_moe.gate."),
        ("mlp.router.", "block_sparse_moe.gate."),
        ("mlp.experts", "block_sparse_moe.experts"),
    ]
    return renamed(each_expert(tensors, "w1", "w3", "w2"), names)


def granite_form(tensors, config):
    names = [
        ("experts.gate_up_proj", "input_linear.weight"),
        ("experts.down_proj", "output_linear.weight"),
        ("moe.router.", "moe.router.layer."),
    ]
    return renamed(tensors, names)


def ernie_form(tensors, config):
    return each_expert(renamed(tensors, [("gate.moe_statics", "moe_statics")]))


def nomic_form(tensors, config):
    """q, k and v in one, and the names of its authors' own code."""
    names = [
        ("embeddings.LayerNorm", "emb_ln"),
        ("layers.", "encoder.layers."),
        ("self_attn.o_proj", "attn.out_proj"),
        ("post_attention_layernorm", "norm1"),
        ("post_mlp_layernorm", "norm2"),
        ("gate_proj", "fc12"),
        ("up_proj", "fc11"),
        ("down_proj", "fc2"),
    ]
    out = {}
    for name, array in tensors.items():
        if ".q_proj." in name:
            parts = [tensors[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            out[name.replace("self_attn.q_proj", "attn.Wqkv")] = np.concatenate(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            out[name] = array
    return renamed(out, names)


def jina_form(tensors, config):
    """The code model's gate and up are two tensors."""
    out = {}
    for name, array in tensors.items():
        if "gated_layers" in name and config["qk_norm"]:
            gate, up = np.split(array, 2)
            out[name.replace("gated_layers", "gated_layers_w")] = gate
            out[name.replace("gated_layers", "gated_layers_v")] = up
        else:
            out[name] = array
    return out


NOMIC = {
    "activation_function": "swiglu",
    "causal": False,
    "max_trained_positions": 128,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_positions": 128,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
}
AS_IT_IS = (None, as_it_is, {})
GRANITE = (None, granite_form, {})
EXPERTS = (None, experts_form, {})
# By case or architecture: the class of the published checkpoint where it is another, its form, more of its configuration.
FORMS = {
    "internlm2": ("InternLM2ForCausalLM", internlm2_form, {}),
    "exaone": ("ExaoneForCausalLM", exaone_form, {"activation_function": "silu"}),
    "mixtral": (None, mixtral_form, {}),
    "phimoe": ("PhiMoEForCausalLM", mixtral_form, {}),
    "granitemoe": GRANITE,
    "ernie4_5-moe": (None, ernie_form, {"moe_layer_interval": 1}),
    "qwen2moe": EXPERTS,
    "qwen3moe": EXPERTS,
    "qwen3moe-fused": AS_IT_IS,
    "olmoe": EXPERTS,
    "glm4moe": EXPERTS,
    "deepseek2": EXPERTS,
    "nomic-bert": (None, nomic_form, NOMIC),
    "jina-bert-v2": (None, jina_form, {"feed_forward_type": "geglu", "position_embedding_type": "alibi"}),
    "mpt": ("MPTForCausalLM", as_it_is, {}),
}
