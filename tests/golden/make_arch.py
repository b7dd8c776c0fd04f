"""Makes the golden logits of tests/test_architectures.py with PyTorch and transformers, which the test itself does not
need.

    python tests/golden/make_arch.py [CASE...]

For each case of tests/architectures.py, _encoders.py and _moe.py, in tests/golden/arch/: NAME.f32, the float32 logits
[position][vocabulary] of transformers' model in float32 with eager attention, or its last hidden state; and NAME.json, the
ids, the checkpoint's tensor names and shapes, how far the same model in float64 is from it, and how much the results change
with each feature of the case altered (what the test would notice). Both figures are largest difference / largest |result|.
"""

import json
import pathlib
import sys

import jina_bert
import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import architectures  # noqa: E402
import architectures_encoders  # noqa: E402
import architectures_moe  # noqa: E402


def build(case, config):
    model_class = getattr(transformers, case.model, None) or getattr(jina_bert, case.model)
    settings = model_class.config_class(**config)
    settings._attn_implementation = settings._experts_implementation = "eager"
    return model_class(settings).eval()


def is_tied(model, name):
    return name == "lm_head.weight" and model.config.tie_word_embeddings


def shapes(model):
    kept = [(name, buffer) for name, buffer in model.named_buffers() if "e_score_correction" in name]
    return {name: list(p.shape) for name, p in [*model.named_parameters(), *kept] if not is_tied(model, name)}


def compute(case, config, weights, ids, dtype):
    model = build(case, config)
    state = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    buffers = {name for name, _ in model.named_buffers()}
    if [name for name in missing if not is_tied(model, name) and name not in buffers] or unexpected:
        raise SystemExit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    model = model.to(dtype)
    with torch.no_grad():
        rows = results(case, model, ids)
        if case.switch:  # a position is computed as in the sequence that ends there
            rows[: case.switch] = results(case, model, ids[: case.switch])
    return rows


def results(case, model, ids):
    if case.embeds:
        return model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
    return model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


def altered(case, weights):
    """(feature, configuration, weights) for each feature of the case."""
    for feature, change in case.features.items():
        if isinstance(change, str):
            other = {name: a * np.float32(0.9) if change in name else a for name, a in weights.items()}
            yield feature, case.config, other
        else:
            yield feature, case.config | change, weights


def relative(a, b):
    return float(f"{np.abs(a - b).max() / np.abs(b).max():.3g}")


def make(case):
    names = shapes(build(case, case.config))
    weights, ids = architectures.checkpoint(case, names), architectures.token_ids(case)
    golden = compute(case, case.config, weights, ids, torch.float32)
    record = {
        "ids": ids,
        "transformers": transformers.__version__,
        "model": case.model,
        "config": case.config,
        "float64_difference": relative(compute(case, case.config, weights, ids, torch.float64), golden),
        "changes_without": {
            feature: relative(compute(case, config, other, ids, torch.float32), golden)
            for feature, config, other in altered(case, weights)
        },
        "checkpoint": names,
    }
    golden.astype("<f4").tofile(architectures.GOLDEN / f"{case.name}.f32")
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    (architectures.GOLDEN / f"{case.name}.json").write_text("{\n" + lines + "\n}\n")
    print(f"{case.name:16} largest {np.abs(golden).max():.2f} spread {golden.std(axis=1).mean():.2f}", end=" ")
    print("float64", record["float64_difference"], record["changes_without"])


if __name__ == "__main__":
    for chosen in architectures.CASES + architectures_encoders.CASES + architectures_moe.CASES:
        if chosen.name in sys.argv[1:] or len(sys.argv) == 1:
            make(chosen)
