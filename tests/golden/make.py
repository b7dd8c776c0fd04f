"""Makes the golden logits of tests/test_golden.py with PyTorch and transformers, which the test itself does not need.

    python tests/golden/make.py [CASE...]

For each case of tests/tiny.py: NAME.f32, the float32 logits [n_ids][n_vocab] of transformers' model in float32 with
eager attention, little-endian; and NAME.json, the ids, the configuration given to transformers, a hash of the weights, how
far the same model in float64 is from it (rounding), and how much the logits change when one feature of the case is
switched off (what the test would notice). Both figures are largest difference / largest |logit|.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(GOLDEN.parent))
import tiny  # noqa: E402

MODELS = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
}


def rope_parameters(case):
    scaled = {"rope_type": "default", "rope_theta": case.rope_theta}
    if case.linear:
        scaled |= {"rope_type": "linear", "factor": case.linear}
    if case.llama3:
        factor, low, high, original = case.llama3
        scaled |= {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }
    if case.arch == "gemma3":
        local = {"rope_type": "default", "rope_theta": case.local_theta}
        return {"full_attention": scaled, "sliding_attention": local}
    return scaled


def configuration(case):
    """(kind of model, arguments of its configuration)"""
    kind = "mistral" if case.arch == "llama" and case.window else case.arch
    arguments = {
        "vocab_size": tiny.N_VOCAB,
        "hidden_size": case.n_embd,
        "intermediate_size": case.n_ff,
        "num_hidden_layers": case.n_layers,
        "num_attention_heads": case.n_heads,
        "num_key_value_heads": case.n_kv_heads,
        "head_dim": case.head_dim,
        "max_position_embeddings": case.n_ctx,
        "rms_norm_eps": case.norm_eps,
        "rope_parameters": rope_parameters(case),
        "tie_word_embeddings": case.tied,
    }
    if kind == "mistral":
        arguments["sliding_window"] = case.window
    if kind == "gemma3":
        every = range(1, case.n_layers + 1)
        arguments |= {
            "sliding_window": case.window,
            "layer_types": ["sliding_attention" if i % case.pattern else "full_attention" for i in every],
            "query_pre_attn_scalar": case.head_dim,
            "hidden_activation": "gelu_pytorch_tanh",
        }
    return kind, arguments


def compute(kind, arguments, weights, ids, dtype):
    config_class, model_class = MODELS[kind]
    config = config_class(**arguments)
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    state = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    tied = ["lm_head.weight"] if arguments["tie_word_embeddings"] else []
    if list(missing) not in ([], tied) or unexpected:
        raise SystemExit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    with torch.no_grad():
        return model.to(dtype)(torch.tensor([ids])).logits[0].double().numpy()


def without_features(case, arguments, weights):
    """(feature, arguments, weights) with one feature of the case off or altered, for each."""
    gemma = case.arch == "gemma3"
    rope = arguments["rope_parameters"]
    full = rope["full_attention"] if gemma else rope

    def with_rope(**change):
        changed = full | change
        return arguments | {"rope_parameters": rope | {"full_attention": changed} if gemma else changed}

    yield "rope base", with_rope(rope_theta=case.rope_theta * 2), weights
    if case.window:
        yield "window + 1", arguments | {"sliding_window": case.window + 1}, weights
        yield "window - 1", arguments | {"sliding_window": case.window - 1}, weights
    if case.linear or case.llama3:
        yield (
            "rope scaling",
            arguments
            | {
                "rope_parameters": rope | {"full_attention": {"rope_type": "default", "rope_theta": case.rope_theta}}
                if gemma
                else {"rope_type": "default", "rope_theta": case.rope_theta}
            },
            weights,
        )
    if gemma:
        local = {"rope_type": "default", "rope_theta": case.local_theta * 2}
        yield "local rope base", arguments | {"rope_parameters": rope | {"sliding_attention": local}}, weights
        yield (
            "layer pattern",
            arguments | {"layer_types": arguments["layer_types"][1:] + ["sliding_attention"]},
            weights,
        )
        yield "attention scale", arguments | {"query_pre_attn_scalar": case.n_embd // case.n_heads}, weights
        yield "activation", arguments | {"hidden_activation": "gelu"}, weights
    yield "norm epsilon", arguments | {"rms_norm_eps": case.norm_eps * 10}, weights
    for part in ("bias", "q_norm", "k_norm"):
        if any(part in name for name in weights):
            changed = {name: array * np.float32(0.9) if part in name else array for name, array in weights.items()}
            yield part, arguments, changed


def relative(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def make(case):
    kind, arguments = configuration(case)
    weights, ids = tiny.hf_weights(case), tiny.token_ids(case)
    golden = compute(kind, arguments, weights, ids, torch.float32)
    rounding = relative(compute(kind, arguments, weights, ids, torch.float64), golden)
    changes = {
        feature: relative(compute(kind, changed, other, ids, torch.float32), golden)
        for feature, changed, other in without_features(case, arguments, weights)
    }
    golden.astype("<f4").tofile(GOLDEN / f"{case.name}.f32")
    record = {
        "ids": ids,
        "weights_sha256": tiny.weights_sha256(case),
        "transformers": transformers.__version__,
        "model": MODELS[kind][1].__name__,
        "config": arguments,
        "float64_difference": float(f"{rounding:.3g}"),
        "changes_without": {feature: float(f"{change:.3g}") for feature, change in changes.items()},
    }
    (GOLDEN / f"{case.name}.json").write_text(
        "{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items()) + "\n}\n"
    )
    spread = golden.std(axis=1).mean()
    print(f"{case.name:16} largest {np.abs(golden).max():.2f} spread {spread:.2f} float64 {rounding:.1e}", changes)


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(tiny.CASES)
    for name in chosen:
        make(tiny.CASES[name])
