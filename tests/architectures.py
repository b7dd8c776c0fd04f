"""Tiny models of the architectures beside those of tiny.py: one case each, as a converter would write it.

A case has the configuration that transformers is given, and from it the metadata and the tensors of the file: base_keys
and the two functions of the case say what the published converters do. The checkpoint's tensor names and shapes are
those that transformers had (tests/golden/arch/NAME.json, made by tests/golden/make_arch.py); their values come from the
names alone, so that the test itself needs no transformers.

    model = Model(case)
    model.write("m.gguf")
"""

import dataclasses
import json
import math
import pathlib
from typing import Callable

import gguf
import numpy as np

import tiny

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden" / "arch"
N_VOCAB = 80

COMMON = {
    "vocab_size": N_VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def rope(theta=10000.0, **scaling):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta} | scaling}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    arch: str  # as in general.architecture
    model: str  # class of transformers
    config: dict
    keys: Callable = lambda config: {}  # metadata beside base_keys; None drops one of those
    stored: Callable = lambda case, name, array: [(name, array)]  # a checkpoint's tensor as the converter writes it
    extra: Callable = lambda config: {}  # tensors that no checkpoint has
    # For each feature: changes of the configuration, or a part of tensor names, whose values then change.
    features: dict = dataclasses.field(default_factory=dict)
    norm_mean: float = 1.0  # of norm weights in the checkpoint
    n_ids: int = 24
    embeds: bool = False  # golden rows are not logits but those of the last layer, of the embedding's width
    ahead: bool = False  # tokens see those behind them
    switch: int = 0  # longer sequences are computed in another way as a whole: rows below are of one this long


OLD_NAMES = {
    "num_attention_heads": ("n_head", "n_heads"),
    "num_hidden_layers": ("n_layer", "n_layers"),
    "hidden_size": ("n_embd", "d_model"),
    "max_position_embeddings": ("n_positions", "seq_length", "max_seq_len"),
}

# ---- What converters write ------------------------------------------------------------------------------------------


def base_keys(c):
    """The metadata that is common to all converters, by the configuration's usual names or older ones."""
    c = {name: c[old] for name, olds in OLD_NAMES.items() for old in olds if old in c} | c
    c = {"intermediate_size": 4 * c["hidden_size"]} | c
    heads = c["num_attention_heads"]
    keys = {
        "block_count": ("u32", c["num_hidden_layers"]),
        "context_length": ("u32", c["max_position_embeddings"]),
        "embedding_length": ("u32", c["hidden_size"]),
        "feed_forward_length": ("u32", c["intermediate_size"]),
        "attention.head_count": ("u32", heads),
        "attention.head_count_kv": ("u32", c.get("num_key_value_heads", heads)),
        "vocab_size": ("u32", c["vocab_size"]),
    }
    parameters = c.get("rope_parameters", {})
    parameters = parameters.get("full_attention", parameters)
    if "rope_theta" in parameters:
        keys["rope.freq_base"] = ("f32", parameters["rope_theta"])
    if parameters.get("rope_type") in ("linear", "yarn"):
        keys["rope.scaling.type"] = ("str", parameters["rope_type"])
        keys["rope.scaling.factor"] = ("f32", parameters["factor"])
    if parameters.get("rope_type") == "yarn":
        keys["rope.scaling.original_context_length"] = ("u32", parameters["original_max_position_embeddings"])
        names = {"attention_factor": "attn_factor", "beta_fast": "beta_fast", "beta_slow": "beta_slow"}
        for name, key in names.items():
            if name in parameters:
                keys["rope.scaling.yarn_" + key] = ("f32", parameters[name])
    if "rms_norm_eps" in c:
        keys["attention.layer_norm_rms_epsilon"] = ("f32", c["rms_norm_eps"])
    for name in ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"):
        if name in c:
            keys["attention.layer_norm_epsilon"] = ("f32", c[name])
    if c.get("head_dim"):
        keys["attention.key_length"] = keys["attention.value_length"] = ("u32", c["head_dim"])
    return keys


def head_dim(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def rotated(c):
    return int(head_dim(c) * c["rope_parameters"].get("partial_rotary_factor", 1.0))


def rope_dimensions(c):
    return {"rope.dimension_count": ("u32", rotated(c))}


def permuted(case, name, array):
    """Llama's converter: rotary pairs, halves of a head in the checkpoint, are adjacent in the file."""
    part = name.split(".")[-2]
    if part not in ("q_proj", "k_proj"):
        return [(name, array)]
    heads = case.config["num_attention_heads" if part == "q_proj" else "num_key_value_heads"]
    return [(name, array.reshape(heads, 2, len(array) // heads // 2, -1).swapaxes(1, 2).reshape(array.shape))]


def plus_one(case, name, array):
    return [(name, array + np.float32(1) if name.endswith("norm.weight") else array)]


def windowed(c):
    return {
        "attention.sliding_window": ("u32", c["sliding_window"]),
        "attention.sliding_window_pattern": ("bool[]", [kind == "sliding_attention" for kind in c["layer_types"]]),
    }


WINDOWS = ["sliding_attention"] * 3 + ["full_attention"]


# ---- The cases ------------------------------------------------------------------------------------------------------

LLAMA_FEATURES = {"norm epsilon": {"rms_norm_eps": 1e-2}, "rope base": rope(20000.0)}
PHI = {"rms_norm_eps": 1e-3, "pad_token_id": 0, "original_max_position_embeddings": 32}
LONGROPE = rope(
    rope_type="longrope",
    original_max_position_embeddings=32,
    factor=4.0,
    short_factor=[1.0 + 0.05 * i for i in range(8)],
    long_factor=[1.0 + 0.9 * i for i in range(8)],
)
OLMO3_ROPE = {
    "full_attention": rope(
        rope_type="yarn",
        factor=4.0,
        original_max_position_embeddings=16,
        attention_factor=1.2,
        beta_fast=2.0,
        beta_slow=0.125,
    )["rope_parameters"],
    "sliding_attention": rope()["rope_parameters"],
}
MINISTRAL = rope(
    rope_type="yarn",
    factor=8.0,
    original_max_position_embeddings=16,
    beta_fast=2.0,
    beta_slow=0.125,
    mscale=1.0,
    mscale_all_dim=0.5,
    llama_4_scaling_beta=0.3,
)
NEOX = (
    {name: value for name, value in COMMON.items() if name != "num_key_value_heads"}
    | rope(partial_rotary_factor=0.5)
    | {"layer_norm_eps": 1e-2, "hidden_act": "gelu"}
)
FALCON = {
    "vocab_size": N_VOCAB,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "layer_norm_epsilon": 1e-2,
    "max_position_embeddings": 2048,
    "alibi": False,
    "bias": False,
    "parallel_attn": True,
} | rope()
COHERE = rope() | {"layer_norm_eps": 1e-2, "logit_scale": 0.25, "tie_word_embeddings": True}
STABLELM = rope(partial_rotary_factor=0.5) | {"layer_norm_eps": 1e-2}
MPT = {
    "vocab_size": N_VOCAB,
    "d_model": 64,
    "n_heads": 4,
    "n_layers": 3,
    "max_seq_len": 128,
    "layer_norm_epsilon": 1e-2,
    "attn_config": {"alibi": True, "alibi_bias_max": 8, "clip_qkv": 1.0},
}
CONV1D = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")


def longrope_factors(c):
    return {
        f"rope_factors_{kind}.weight": np.array(c["rope_parameters"][f"{kind}_factor"], np.float32)
        for kind in ("short", "long")
    }


def granite_keys(c):
    return rope_dimensions(c) | {
        "attention.scale": ("f32", c["attention_multiplier"]),
        "embedding_scale": ("f32", c["embedding_multiplier"]),
        "residual_scale": ("f32", c["residual_multiplier"]),
        "logit_scale": ("f32", c["logits_scaling"]),
    }


def phi3_keys(c):
    parameters = c["rope_parameters"]
    keys = rope_dimensions(c)
    keys["rope.scaling.original_context_length"] = ("u32", PHI["original_max_position_embeddings"])
    keys["attention.sliding_window"] = ("u32", c["sliding_window"] or 0)
    if parameters["rope_type"] == "longrope":
        original = parameters["original_max_position_embeddings"]
        stretch = c["max_position_embeddings"] / original
        keys["rope.scaling.attn_factor"] = ("f32", math.sqrt(1 + math.log(stretch) / math.log(original)))
        keys["rope.scaling.type"] = ("str", "longrope")
    return keys


def llama3_factors(c):
    p = c["rope_parameters"]
    scaling = tuple(p[k] for k in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
    return tiny.llama3_factors(tiny.Case("", "", rope_theta=p["rope_theta"], head_dim=head_dim(c), llama3=scaling))


def neox_keys(c):
    return rope_dimensions(c) | {"use_parallel_residual": ("bool", c["use_parallel_residual"])}


def by_parts(case, name, array):
    """q, k and v stand together for each head in the checkpoint; in the file all of q, then k, then v."""
    if "query_key_value" in name:
        heads = case.config.get("num_attention_heads") or case.config["n_head"]
        array = array.reshape(heads, 3, len(array) // heads // 3, -1).swapaxes(0, 1).reshape(array.shape)
    return [(name, array)]


def mpt_keys(c):
    return {
        "attention.clamp_kqv": ("f32", c["attn_config"]["clip_qkv"]),
        "attention.max_alibi_bias": ("f32", c["attn_config"]["alibi_bias_max"]),
    }


def cohere_keys(c):
    return {"logit_scale": ("f32", c["logit_scale"]), "rope.scaling.type": ("str", "none")}


def stacked_norms(case, name, array):
    """The norms of a layer's heads, a tensor each in the checkpoint, are one matrix in the file."""
    if ".norms." not in name:
        return [(name, array)]
    if not name.endswith(".norms.0.weight"):
        return []
    heads = case.config["num_attention_heads" if "q_layernorm" in name else "num_key_value_heads"]
    each = [weight(case, name.replace(".norms.0.", f".norms.{i}."), array.shape) for i in range(heads)]
    return [(name.replace(".norms.0", ""), np.stack(each))]


def falcon_keys(c):
    return {
        "feed_forward_length": ("u32", 4 * c["hidden_size"]),
        "attention.head_count_kv": ("u32", c.get("num_kv_heads", 1)),
        "tensor_data_layout": ("str", "jploski"),
        "rope.freq_base": None,
    }


def by_groups(case, name, array):
    """A group's queries, key and value stand together in the checkpoint; in the file all of q, then k, then v."""
    if "query_key_value" in name:
        c = case.config
        groups = c.get("num_kv_heads", 1)
        parts = array.reshape(groups, c["num_attention_heads"] // groups + 2, head_dim(c), -1)
        qkv = (parts[:, :-2], parts[:, -2], parts[:, -1])
        array = np.concatenate([part.reshape(-1, c["hidden_size"]) for part in qkv])
    return [(name, array)]


def bloom_tensors(case, name, array):
    """As by_parts; the converter takes the first part of the names away."""
    return [(name.removeprefix("transformer."), by_parts(case, name, array)[0][1])]


CASES = [
    Case(
        "smollm3",
        "smollm3",
        "SmolLM3ForCausalLM",
        COMMON | rope(2000.0) | {"rms_norm_eps": 1e-3, "tie_word_embeddings": True, "pad_token_id": 0},
        rope_dimensions,
        permuted,
        features=LLAMA_FEATURES | {"layers without rotation": {"no_rope_layers": [1, 1, 1, 1]}},
    ),
    Case(
        "granite",
        "granite",
        "GraniteForCausalLM",
        COMMON
        | rope()
        | {
            "rms_norm_eps": 1e-3,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.4,
            "attention_multiplier": 0.2,
            "logits_scaling": 5.0,
            "attention_bias": True,
        },
        granite_keys,
        permuted,
        features=LLAMA_FEATURES
        | {
            "embedding scale": {"embedding_multiplier": 2.5},
            "residual scale": {"residual_multiplier": 0.5},
            "attention scale": {"attention_multiplier": 0.25},
            "logit scale": {"logits_scaling": 4.0},
            "biases": ".bias",
        },
    ),
    Case(
        "ernie4_5",
        "ernie4_5",
        "Ernie4_5ForCausalLM",
        COMMON | rope() | {"rms_norm_eps": 1e-3, "head_dim": 24, "use_bias": True, "tie_word_embeddings": True},
        features=LLAMA_FEATURES | {"biases": ".bias"},
    ),
    Case(
        "seed_oss",
        "seed_oss",
        "SeedOssForCausalLM",
        COMMON | rope() | {"rms_norm_eps": 1e-3, "head_dim": 24, "attention_bias": True, "attention_out_bias": False},
        features=LLAMA_FEATURES | {"biases": ".bias"},
    ),
    Case(
        "internlm2",
        "internlm2",
        "LlamaForCausalLM",
        COMMON | rope(factor=4.0, rope_type="linear") | {"rms_norm_eps": 1e-3},
        lambda c: rope_dimensions(c),
        permuted,
        features=LLAMA_FEATURES,
        n_ids=48,
    ),
    Case(
        "glm4",
        "glm4",
        "Glm4ForCausalLM",
        COMMON
        | rope(partial_rotary_factor=0.5)
        | {"rms_norm_eps": 1e-3, "head_dim": 24, "attention_bias": True, "pad_token_id": 0},
        rope_dimensions,
        features=LLAMA_FEATURES
        | {
            "biases": ".bias",
            "rotated part": rope(partial_rotary_factor=1.0),
            "norms behind": "post_mlp_layernorm",
        },
    ),
    Case(
        "phi3",
        "phi3",
        "Phi3ForCausalLM",
        COMMON | rope(partial_rotary_factor=0.75) | PHI | {"sliding_window": 11},
        phi3_keys,
        features=LLAMA_FEATURES | {"window": {"sliding_window": 12}, "rotated part": rope()},
    ),
    Case(
        "phi3-longrope",
        "phi3",
        "Phi3ForCausalLM",
        COMMON | LONGROPE | PHI | {"sliding_window": None},
        phi3_keys,
        extra=longrope_factors,
        features={
            "short factors": {"rope_parameters": LONGROPE["rope_parameters"] | {"short_factor": [1.0] * 8}},
            "long factors": {"rope_parameters": LONGROPE["rope_parameters"] | {"long_factor": [1.0] * 8}},
            "magnitude": {"rope_parameters": LONGROPE["rope_parameters"] | {"attention_factor": 1.0}},
        },
        n_ids=60,
        switch=32,
    ),
    Case(
        "olmo2",
        "olmo2",
        "Olmo2ForCausalLM",
        COMMON | rope() | {"rms_norm_eps": 1e-3},
        features=LLAMA_FEATURES | {"norms of q": "q_norm", "norms behind": "post_feedforward_layernorm"},
    ),
    Case(
        "olmo3",
        "olmo2",
        "Olmo3ForCausalLM",
        COMMON
        | {"rope_parameters": OLMO3_ROPE, "rms_norm_eps": 1e-3, "sliding_window": 9, "layer_types": WINDOWS},
        windowed,
        features={
            "window": {"sliding_window": 10},
            "yarn": {"rope_parameters": OLMO3_ROPE | {"full_attention": OLMO3_ROPE["sliding_attention"]}},
            "magnitude": {
                "rope_parameters": OLMO3_ROPE
                | {"full_attention": OLMO3_ROPE["full_attention"] | {"attention_factor": 1.0}}
            },
            "layers": {"layer_types": WINDOWS[::-1]},
        },
        n_ids=60,
    ),
    Case(
        "exaone4",
        "exaone4",
        "Exaone4ForCausalLM",
        COMMON | rope() | {"rms_norm_eps": 1e-3, "sliding_window": 9, "layer_types": WINDOWS},
        windowed,
        features=LLAMA_FEATURES | {"window": {"sliding_window": 10}, "norms of k": "k_norm"},
        n_ids=40,
    ),
    Case(
        "exaone4-small",
        "exaone4",
        "Exaone4ForCausalLM",
        COMMON
        | rope(
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=32,
        )
        | {"rms_norm_eps": 1e-3, "sliding_window": None, "layer_types": ["full_attention"] * 4},
        extra=lambda c: {"rope_freqs.weight": llama3_factors(c)},
        features={"rope scaling": rope()},
        n_ids=60,
    ),
    Case(
        "ministral3",
        "mistral3",
        "Ministral3ForCausalLM",
        COMMON | MINISTRAL | {"rms_norm_eps": 1e-3, "head_dim": 24},
        lambda c: rope_dimensions(c)
        | {
            "rope.scaling.yarn_log_multiplier": ("f32", c["rope_parameters"]["mscale_all_dim"]),
            "attention.temperature_scale": ("f32", c["rope_parameters"]["llama_4_scaling_beta"]),
        },
        permuted,
        features={
            "temperature": {"rope_parameters": MINISTRAL["rope_parameters"] | {"llama_4_scaling_beta": 0.0}},
            "beta": {"rope_parameters": MINISTRAL["rope_parameters"] | {"beta_fast": 1.0}},
            "magnitude": {"rope_parameters": MINISTRAL["rope_parameters"] | {"mscale_all_dim": 0.0}},
        },
        n_ids=60,
    ),
    Case(
        "qwen2-yarn",
        "qwen2",
        "Qwen2ForCausalLM",
        COMMON | rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64) | {"rms_norm_eps": 1e-3},
        features={"yarn": rope(), "linear": rope(rope_type="linear", factor=4.0)},
        n_ids=100,
    ),
    Case(
        "starcoder2",
        "starcoder2",
        "Starcoder2ForCausalLM",
        COMMON | rope() | {"norm_epsilon": 1e-2, "use_bias": True, "hidden_act": "gelu_pytorch_tanh"},
        features={"norm epsilon": {"norm_epsilon": 1e-1}, "activation": {"hidden_act": "gelu"}, "biases": ".bias"},
    ),
    Case(
        "gpt2",
        "gpt2",
        "GPT2LMHeadModel",
        {
            "vocab_size": N_VOCAB,
            "n_positions": 64,
            "n_embd": 64,
            "n_layer": 3,
            "n_head": 4,
            "layer_norm_epsilon": 1e-2,
        },
        lambda c: {"rope.freq_base": None},
        lambda case, name, array: [(name, array.T if name.endswith(CONV1D) else array)],
        features={"norm epsilon": {"layer_norm_epsilon": 1e-1}, "positions": "wpe", "biases": ".bias"},
    ),
    Case(
        "gptneox",
        "gptneox",
        "GPTNeoXForCausalLM",
        NEOX | {"use_parallel_residual": True},
        neox_keys,
        by_parts,
        features={
            "rotated part": rope(partial_rotary_factor=1.0),
            "side by side": {"use_parallel_residual": False},
            "activation": {"hidden_act": "gelu_pytorch_tanh"},
            "biases": ".bias",
        },
    ),
    Case(
        "gptneox-sequential",
        "gptneox",
        "GPTNeoXForCausalLM",
        NEOX | {"use_parallel_residual": False},
        neox_keys,
        by_parts,
        features={"one behind the other": {"use_parallel_residual": True}},
    ),
    Case(
        "falcon-7b",
        "falcon",
        "FalconForCausalLM",
        FALCON | {"multi_query": True, "new_decoder_architecture": False},
        falcon_keys,
        by_groups,
        features={
            "rope base": rope(20000.0),
            "norm epsilon": {"layer_norm_epsilon": 1e-1},
            "activation": {"activation": "gelu_pytorch_tanh"},
        },
    ),
    Case(
        "falcon-40b",
        "falcon",
        "FalconForCausalLM",
        FALCON | {"num_kv_heads": 2, "new_decoder_architecture": True},
        falcon_keys,
        by_groups,
        features={"rope base": rope(20000.0), "two norms": "ln_attn"},
    ),
    Case(
        "phi2",
        "phi2",
        "PhiForCausalLM",
        {name: value for name, value in COMMON.items() if name != "num_key_value_heads"}
        | rope(partial_rotary_factor=0.5)
        | {"layer_norm_eps": 1e-2, "hidden_act": "gelu_new"},
        rope_dimensions,
        features={
            "rotated part": rope(partial_rotary_factor=1.0),
            "norm epsilon": {"layer_norm_eps": 1e-1},
            "biases": ".bias",
            "bias of the logits": "lm_head.bias",
        },
    ),
    Case(
        "nemotron",
        "nemotron",
        "NemotronForCausalLM",
        COMMON
        | rope(partial_rotary_factor=0.5)
        | {"norm_eps": 1e-2, "hidden_act": "relu2", "attention_bias": True, "mlp_bias": True, "head_dim": 16},
        rope_dimensions,
        plus_one,
        features={
            "norm epsilon": {"norm_eps": 1e-1},
            "activation": {"hidden_act": "relu"},
            "rotated part": rope(partial_rotary_factor=1.0),
            "biases": ".bias",
        },
        norm_mean=0.0,
    ),
    Case(
        "gemma",
        "gemma",
        "GemmaForCausalLM",
        COMMON
        | rope()
        | {"rms_norm_eps": 1e-2, "head_dim": 32, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
        lambda c: {"rope.freq_base": None},
        plus_one,
        features=LLAMA_FEATURES | {"norm epsilon": {"rms_norm_eps": 1.0}},
        norm_mean=0.0,
    ),
    Case(
        "cohere2",
        "cohere2",
        "Cohere2ForCausalLM",
        COMMON
        | rope()
        | {
            "layer_norm_eps": 1e-2,
            "logit_scale": 0.25,
            "sliding_window": 9,
            "layer_types": WINDOWS,
            "tie_word_embeddings": True,
        },
        lambda c: rope_dimensions(c)
        | {
            "logit_scale": ("f32", c["logit_scale"]),
            "attention.sliding_window": ("u32", c["sliding_window"]),
            "rope.scaling.type": ("str", "none"),
        },
        features={
            "norm epsilon": {"layer_norm_eps": 1e-1},
            "window": {"sliding_window": 10},
            "logit scale": {"logit_scale": 0.2},
            "rope base": rope(20000.0),
        },
        n_ids=40,
    ),
    Case(
        "gemma2",
        "gemma2",
        "Gemma2ForCausalLM",
        COMMON
        | rope()
        | {
            "rms_norm_eps": 1e-2,
            "head_dim": 32,
            "sliding_window": 9,
            "query_pre_attn_scalar": 32,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 6.0,
            "tie_word_embeddings": True,
        },
        lambda c: {
            "rope.freq_base": None,
            "attn_logit_softcapping": ("f32", c["attn_logit_softcapping"]),
            "final_logit_softcapping": ("f32", c["final_logit_softcapping"]),
            "attention.sliding_window": ("u32", c["sliding_window"]),
        },
        plus_one,
        features={
            "softcap of scores": {"attn_logit_softcapping": 4.0},
            "softcap of logits": {"final_logit_softcapping": 7.0},
            "window": {"sliding_window": 10},
            "norms behind": "post_feedforward_layernorm",
        },
        norm_mean=0.0,
        n_ids=40,
    ),
    Case(
        "command-r",
        "command-r",
        "CohereForCausalLM",
        COMMON | COHERE | {"use_qk_norm": False},
        cohere_keys,
        features={
            "norm epsilon": {"layer_norm_eps": 1e-1},
            "logit scale": {"logit_scale": 0.2},
            "rope base": rope(20000.0),
        },
    ),
    Case(
        "command-r-plus",
        "command-r",
        "CohereForCausalLM",
        COMMON | COHERE | {"use_qk_norm": True},
        cohere_keys,
        features={"norms of q": "q_norm", "norms of k": "k_norm"},
    ),
    Case(
        "stablelm",
        "stablelm",
        "StableLmForCausalLM",
        COMMON | STABLELM | {"use_qkv_bias": True},
        rope_dimensions,
        stacked_norms,
        features={
            "norm epsilon": {"layer_norm_eps": 1e-1},
            "rotated part": rope(partial_rotary_factor=1.0),
            "biases": ".bias",
        },
    ),
    Case(
        "stablelm-12b",
        "stablelm",
        "StableLmForCausalLM",
        COMMON | STABLELM | {"qk_layernorm": True, "use_parallel_residual": True},
        rope_dimensions,
        stacked_norms,
        features={"norms of q": "q_layernorm", "norms of k": "k_layernorm"},
    ),
    Case(
        "hunyuan-dense",
        "hunyuan-dense",
        "HunYuanDenseV1ForCausalLM",
        COMMON | rope(rope_type="dynamic", alpha=3.0, factor=1.0) | {"rms_norm_eps": 1e-3, "head_dim": 24},
        lambda c: {
            "rope.freq_base": ("f32", 10000.0 * 3.0 ** (24 / 22)),
            "rope.scaling.type": ("str", "none"),
            "rope.scaling.factor": ("f32", 1.0),
        },
        features={
            "norm epsilon": {"rms_norm_eps": 1e-2},
            "alpha": rope(),
            "norms of q": "query_layernorm",
            "norms of k": "key_layernorm",
        },
    ),
    Case(
        "exaone",
        "exaone",
        "LlamaForCausalLM",
        COMMON
        | rope(
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=32,
        )
        | {"rms_norm_eps": 1e-3},
        rope_dimensions,
        extra=lambda c: {"rope_freqs.weight": llama3_factors(c)},
        features={"norm epsilon": {"rms_norm_eps": 1e-2}, "rope scaling": rope()},
        n_ids=60,
    ),
    Case(
        "bloom",
        "bloom",
        "BloomForCausalLM",
        {
            "vocab_size": N_VOCAB,
            "hidden_size": 96,
            "n_layer": 3,
            "n_head": 6,  # no power of 2: two kinds of slopes
            "layer_norm_epsilon": 1e-2,
            "seq_length": 256,
        },
        stored=bloom_tensors,
        features={
            "norm epsilon": {"layer_norm_epsilon": 1e-1},
            "norm behind the embedding": "word_embeddings_layernorm",
            "biases": ".bias",
        },
        n_ids=150,
    ),
    Case(
        "mpt",
        "mpt",
        "MptForCausalLM",
        MPT,
        mpt_keys,
        features={
            "limit of q, k and v": {"attn_config": MPT["attn_config"] | {"clip_qkv": 1.1}},
        },
        n_ids=100,
    ),
    Case(
        "olmo",
        "olmo",
        "OlmoForCausalLM",
        COMMON | rope() | {"clip_qkv": 1.0},
        lambda c: {
            "attention.layer_norm_epsilon": ("f32", 1e-5),
            "attention.clamp_kqv": ("f32", c["clip_qkv"]),
        },
        permuted,
        features={"limit of q, k and v": {"clip_qkv": 1.1}, "rope base": rope(20000.0)},
    ),
]


ROUTERS = ("mlp.gate.weight", "router.weight", "shared_expert_gate.weight")

# ---- Weights and files ----------------------------------------------------------------------------------------------


def weight(case, name, shape):
    values = tiny.random_normal(case.name + "/" + name, shape)
    if "e_score_correction" in name:
        return np.float32(0.1) * values
    if name.endswith(ROUTERS):
        return np.float32(1.6 / math.sqrt(shape[1])) * values
    if "norm" in name.lower() or ".ln_" in name:
        bias = name.endswith("bias")
        return np.float32(0.0 if bias else case.norm_mean) + np.float32(0.2) * values
    if len(shape) == 1:
        return np.float32(0.3) * values
    if any(part in name for part in ("embed", "wte", "wpe", "lm_head", "output")):
        return np.float32(0.3) * values
    gain = 1.6 if any(part in name for part in ("q_proj", "k_proj", "qkv", "query_key_value", "c_attn")) else 1.0
    gain = 2.5 if any(part in name for part in ("gate", "fc1", "c_fc", "h_to_4h", "up_proj")) else gain
    return np.float32(gain / math.sqrt(min(shape[-2:]))) * values  # of matrices, or one an expert


def golden(name):
    """(record, rows [position][vocabulary], or [position][embedding])"""
    record = json.loads((GOLDEN / f"{name}.json").read_text())
    return record, np.fromfile(GOLDEN / f"{name}.f32", "<f4").reshape(len(record["ids"]), -1)


def checkpoint(case, shapes):
    return {name: weight(case, name, shape) for name, shape in shapes.items()}


def token_ids(case):
    return [int(i) for i in tiny.random_ints(case.name + "/ids", case.n_ids) % np.uint64(N_VOCAB)]


class Model(tiny.Model):
    """A case with its weights; write() is tiny.Model's."""

    def __init__(self, case):
        self.case = case
        tensors = checkpoint(case, golden(case.name)[0]["checkpoint"])
        number = {text: number for number, text in gguf.MODEL_ARCH_NAMES.items()}[case.arch]
        keys = base_keys(case.config) | case.keys(case.config)
        table = gguf.get_tensor_name_map(number, keys["block_count"][1])
        stored = [item for name, array in tensors.items() for item in case.stored(case, name, array)]
        names = [table.get_name(name, try_suffixes=(".weight", ".bias")) or name for name, _ in stored]
        self.tensors = {name: array for name, (_, array) in zip(names, stored)}
        self.tensors |= case.extra(case.config)
        self.meta = {"general.architecture": ("str", case.arch), "tokenizer.ggml.model": ("str", "no_vocab")}
        self.meta |= {f"{case.arch}.{key}": value for key, value in keys.items() if value is not None}
