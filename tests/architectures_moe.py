"""Tiny models with experts, as tests/architectures.py has those without: the same cases, made and tested in the same way."""

import numpy as np

from architectures import (
    COMMON,
    LLAMA_FEATURES,
    LONGROPE,
    Case,
    granite_keys,
    longrope_factors,
    permuted,
    phi3_keys,
    rope,
    rope_dimensions,
)

EXPERTS = COMMON | rope() | {"rms_norm_eps": 1e-3, "pad_token_id": 0}


def expert_keys(n, used, n_ff=None, **more):
    keys = {"expert_count": ("u32", n), "expert_used_count": ("u32", used)}
    if n_ff:
        keys["expert_feed_forward_length"] = ("u32", n_ff)
    return keys | more


def apart(case, name, array):
    """Gate and up of all experts are one tensor in transformers' checkpoint, and two in the file."""
    if name.endswith("shared_mlp.input_linear.weight"):
        base = name.replace("shared_mlp.input_linear.weight", "mlp.shared_experts")
        gate, up = np.split(array, 2)
        return [(f"{base}.gate_proj.weight", gate), (f"{base}.up_proj.weight", up)]
    if name.endswith("experts.gate_up_proj"):
        base = name.removesuffix("gate_up_proj").replace("block_sparse_moe", "mlp")
        gate, up = np.split(array, 2, axis=1)
        return [(f"{base}gate_proj.weight", gate), (f"{base}up_proj.weight", up)]
    if name.endswith("experts.down_proj"):
        return [(name.replace("block_sparse_moe", "mlp") + ".weight", array)]
    if name.endswith("e_score_correction_bias"):
        return [(name.replace("_bias", ".bias").replace("gate.moe_statics", "moe_statics"), array.ravel())]
    if name.endswith("shared_expert_gate.weight"):
        return [(name, array.ravel())]
    return [(name.replace("block_sparse_moe.router", "mlp.router"), array)]


def together(case, name, array):
    """As a converter that leaves gate and up of all experts in one tensor."""
    fused = name.endswith("experts.gate_up_proj")
    return [(f"blk.{name.split('.')[2]}.ffn_gate_up_exps.weight", array)] if fused else apart(case, name, array)


def interleaved(case, name, array):
    """gpt-oss: gate and up alternate in a checkpoint, whose matrices multiply from the right."""
    if name.endswith("sinks"):
        return [(name + ".weight", array)]
    if "experts." not in name:
        return [(name, array)]
    bias = name.endswith("_bias")
    name = name.removesuffix("_bias") + (".bias" if bias else ".weight")
    array = array if bias else array.swapaxes(1, 2)
    if "gate_up_proj" not in name:
        return [(name, np.ascontiguousarray(array))]
    return [(name.replace("gate_up", part), np.ascontiguousarray(array[:, i::2])) for i, part in enumerate(("gate", "up"))]


def latent_apart(case, name, array):
    """As converters do since latent attention caches what is short: the heads' keys, transposed, and values apart."""
    if not name.endswith("kv_b_proj.weight"):
        return apart(case, name, array)
    c = case.config
    parts = array.reshape(c["num_attention_heads"], c["qk_nope_head_dim"] + c["v_head_dim"], c["kv_lora_rank"])
    keys, values = np.split(parts, [c["qk_nope_head_dim"]], axis=1)
    keys = np.ascontiguousarray(keys.swapaxes(1, 2))
    return [(name.replace("kv_b", "k_b"), keys), (name.replace("kv_b", "v_b"), np.ascontiguousarray(values))]


def older_deepseek_keys(c):
    keys = expert_keys(
        c["n_routed_experts"],
        c["num_experts_per_tok"],
        c["moe_intermediate_size"],
        expert_shared_count=("u32", c["n_shared_experts"]),
        leading_dense_block_count=("u32", c["first_k_dense_replace"]),
        expert_weights_scale=("f32", c["routed_scaling_factor"]),
    )
    keys["attention.kv_lora_rank"] = ("u32", c["kv_lora_rank"])
    keys["rope.dimension_count"] = ("u32", c["qk_rope_head_dim"])
    keys["attention.key_length"] = ("u32", c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
    keys["attention.value_length"] = ("u32", c["v_head_dim"])
    if c["q_lora_rank"]:
        keys["attention.q_lora_rank"] = ("u32", c["q_lora_rank"])
    if c.get("n_group"):
        keys["expert_group_count"] = ("u32", c["n_group"])
        keys["expert_group_used_count"] = ("u32", c["topk_group"])
    if c["rope_parameters"]["rope_type"] == "yarn":
        keys["rope.scaling.yarn_log_multiplier"] = ("f32", 0.1 * c["rope_parameters"]["mscale_all_dim"])
    return keys


def newer_deepseek_keys(c):
    """Keys and values are lengths of what is cached; those of heads have names of their own."""
    keys = older_deepseek_keys(c)
    return keys | {
        "attention.key_length_mla": keys["attention.key_length"],
        "attention.value_length_mla": keys["attention.value_length"],
        "attention.key_length": ("u32", c["kv_lora_rank"] + c["qk_rope_head_dim"]),
        "attention.value_length": ("u32", c["kv_lora_rank"]),
        "attention.head_count_kv": ("u32", 1),
    }


def permuted_apart(case, name, array):
    return [item for stored, part in apart(case, name, array) for item in permuted(case, stored, part)]


QWEN3MOE = EXPERTS | {
    "head_dim": 24,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 64,
    "norm_topk_prob": True,
}
GRANITE = EXPERTS | {
    "num_local_experts": 8,
    "num_experts_per_tok": 3,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4,
    "attention_multiplier": 0.2,
    "logits_scaling": 5.0,
}

DEEPSEEK = (
    EXPERTS
    | rope(
        rope_type="yarn",
        factor=4.0,
        original_max_position_embeddings=16,
        beta_fast=2.0,
        beta_slow=0.125,
        mscale=0.707,
        mscale_all_dim=0.707,
    )
    | {
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-6,  # of the inner norms transformers knows no other
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "n_shared_experts": 2,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
        "routed_scaling_factor": 1.0,
        "kv_lora_rank": 32,
        "q_lora_rank": None,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 64,
    }
)
LATENT_FEATURES = {
    "rope base": {"rope_parameters": DEEPSEEK["rope_parameters"] | {"rope_theta": 20000.0}},
    "magnitude": {"rope_parameters": DEEPSEEK["rope_parameters"] | {"mscale": 1.0, "mscale_all_dim": 1.0}},
    "norm of what is cached": "kv_a_layernorm",
    "keys and values": "kv_b_proj",
    "shared experts": "shared_experts",
}
YARN = rope(
    rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.125, truncate=False
)

CASES = [
    Case(
        "mixtral",
        "llama",
        "MixtralForCausalLM",
        EXPERTS | {"num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 16},
        lambda c: rope_dimensions(c) | expert_keys(8, 2),
        permuted_apart,
        features=LLAMA_FEATURES | {"experts used": {"num_experts_per_tok": 3}, "router": "mlp.gate"},
    ),
    Case(
        "qwen2moe",
        "qwen2moe",
        "Qwen2MoeForCausalLM",
        EXPERTS
        | {
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 64,
            "norm_topk_prob": False,
        },
        lambda c: expert_keys(6, 2, 32, expert_shared_feed_forward_length=("u32", 64)),
        apart,
        features=LLAMA_FEATURES
        | {
            "weights that are not renormalised": {"norm_topk_prob": True},
            "shared expert": "shared_expert.",
            "its gate": "shared_expert_gate",
        },
    ),
    Case(
        "qwen3moe",
        "qwen3moe",
        "Qwen3MoeForCausalLM",
        QWEN3MOE,
        lambda c: expert_keys(8, 3, 64),
        apart,
        features=LLAMA_FEATURES | {"renormalised weights": {"norm_topk_prob": False}, "norms of q": "q_norm"},
    ),
    Case(
        "qwen3moe-fused",
        "qwen3moe",
        "Qwen3MoeForCausalLM",
        QWEN3MOE,
        lambda c: expert_keys(8, 3, 64),
        together,
        features={"gate and up": "gate_up_proj"},
    ),
    Case(
        "olmoe",
        "olmoe",
        "OlmoeForCausalLM",
        EXPERTS | {"intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 4, "norm_topk_prob": False},
        lambda c: expert_keys(8, 4),
        apart,
        features=LLAMA_FEATURES
        | {"weights that are not renormalised": {"norm_topk_prob": True}, "norms of q": "q_norm", "of k": "k_norm"},
    ),
    Case(
        "granitemoe",
        "granitemoe",
        "GraniteMoeForCausalLM",
        GRANITE | {"intermediate_size": 64},
        lambda c: granite_keys(c) | expert_keys(8, 3),
        permuted_apart,
        features=LLAMA_FEATURES | {"experts used": {"num_experts_per_tok": 2}},
    ),
    Case(
        "granitemoe-shared",
        "granitemoe",
        "GraniteMoeSharedForCausalLM",
        GRANITE | {"intermediate_size": 64, "shared_intermediate_size": 32},
        lambda c: granite_keys(c) | expert_keys(8, 3, expert_shared_feed_forward_length=("u32", 32)),
        permuted_apart,
        features={"shared expert": "shared_mlp"},
    ),
    Case(
        "phimoe",
        "phimoe",
        "PhimoeForCausalLM",
        EXPERTS
        | LONGROPE
        | {
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "attention_bias": True,
            "lm_head_bias": True,
            "original_max_position_embeddings": 32,
            "router_jitter_noise": 0.01,
            "sliding_window": None,
            "rope_parameters": LONGROPE["rope_parameters"] | {f"{kind}_mscale": 1.4**0.5 for kind in ("short", "long")},
        },
        lambda c: phi3_keys(c) | expert_keys(8, 2),
        apart,
        longrope_factors,
        features={
            "norm epsilon": {"rms_norm_eps": 1e-1},
            "what is near": {"router_jitter_noise": 0.3},
            "biases": ".bias",
        },
        n_ids=32,  # transformers takes the short factors for longer sequences too; phi3-longrope has those
    ),
    Case(
        "glm4moe",
        "glm4moe",
        "Glm4MoeForCausalLM",
        EXPERTS
        | rope(partial_rotary_factor=0.5)
        | {
            "head_dim": 24,
            "attention_bias": True,
            "use_qk_norm": True,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 32,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.7,
            "n_group": 4,
            "topk_group": 2,
        },
        lambda c: rope_dimensions(c)
        | expert_keys(
            8,
            3,
            32,
            block_count=("u32", 5),  # one more, for further tokens, that nobody computes
            nextn_predict_layers=("u32", 1),
            expert_shared_count=("u32", 2),
            leading_dense_block_count=("u32", 1),
            expert_gating_func=("u32", 2),
            expert_weights_scale=("f32", 1.7),
            expert_weights_norm=("bool", True),
            expert_group_count=("u32", 4),
            expert_group_used_count=("u32", 2),
        ),
        apart,
        lambda c: {"blk.4.nextn.eh_proj.weight": np.zeros((64, 128), np.float32)},
        features=LLAMA_FEATURES
        | {
            "groups": {"n_group": 1, "topk_group": 1},
            "groups used": {"topk_group": 3},
            "scale": {"routed_scaling_factor": 1.6},
            "renormalised weights": {"norm_topk_prob": False},
            "bias of the choice": "e_score_correction_bias",
            "shared experts": "shared_experts",
            "norms of q": "q_norm",
        },
    ),
    Case(
        "ernie4_5-moe",
        "ernie4_5-moe",
        "Ernie4_5_MoeForCausalLM",
        EXPERTS
        | {
            "head_dim": 24,
            "moe_num_experts": 8,
            "moe_k": 3,
            "moe_intermediate_size": 32,
            "moe_num_shared_experts": 2,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": 3,
        },
        lambda c: expert_keys(
            8,
            3,
            32,
            interleave_moe_layer_step=("u32", 1),
            leading_dense_block_count=("u32", 1),
            expert_shared_feed_forward_length=("u32", 64),
        ),
        apart,
        features=LLAMA_FEATURES | {"bias of the choice": "e_score_correction_bias", "shared experts": "shared_experts"},
    ),
    Case(
        "gpt-oss",
        "gpt-oss",
        "GptOssForCausalLM",
        EXPERTS
        | YARN
        | {
            "num_local_experts": 8,
            "num_experts_per_tok": 3,
            "intermediate_size": 96,
            "head_dim": 16,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
        },
        lambda c: expert_keys(8, 3, 96, **{"attention.sliding_window": ("u32", 8)}),
        interleaved,
        features=LLAMA_FEATURES
        | {
            "biases": "_bias",
            "sinks": "sinks",
            "window": {"sliding_window": 16},
            "limit": {"swiglu_limit": 6.0},
            "slope": {"swiglu_alpha": 1.6},
            "exact bounds": {"rope_parameters": YARN["rope_parameters"] | {"truncate": True}},
        },
        n_ids=40,
    ),
    Case(
        "deepseek2-lite",
        "deepseek2",
        "DeepseekV2ForCausalLM",
        DEEPSEEK,
        older_deepseek_keys,
        apart,
        features=LATENT_FEATURES | {"experts used": {"num_experts_per_tok": 2}},
        n_ids=40,
    ),
    Case(
        "deepseek2",
        "deepseek2",
        "DeepseekV2ForCausalLM",
        DEEPSEEK
        | {
            "q_lora_rank": 32,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 4.0,
        },
        newer_deepseek_keys,
        latent_apart,
        features=LATENT_FEATURES
        | {
            "norm of queries": "q_a_layernorm",
            "groups used": {"topk_group": 4},
            "scale": {"routed_scaling_factor": 3.9},
        },
        n_ids=40,
    ),
    Case(
        "deepseek3",  # more heads than a call of the attention kernel takes
        "deepseek2",
        "DeepseekV3ForCausalLM",
        DEEPSEEK
        | {
            "num_hidden_layers": 3,
            "num_attention_heads": 80,
            "num_key_value_heads": 80,
            "q_lora_rank": 32,
            "n_group": 4,
            "topk_group": 2,
            "norm_topk_prob": True,
            "routed_scaling_factor": 2.5,
            "num_nextn_predict_layers": 0,
        },
        lambda c: newer_deepseek_keys(c) | {"expert_weights_norm": ("bool", True), "expert_gating_func": ("u32", 2)},
        latent_apart,
        features=LATENT_FEATURES
        | {
            "bias of the choice": "e_score_correction_bias",
            "groups used": {"topk_group": 4},
            "renormalised weights": {"norm_topk_prob": False},
        },
        n_ids=40,
    ),
]
