"""Files with experts, or with latent attention, that contradict themselves are refused (refusals.py) with a message that
names what is wrong."""

import os
import pathlib
import sys
import tempfile

try:
    import numpy as np

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import architectures_moe
    import tiny
    from architectures import Model
    from refusals import Runner
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CASES = {case.name: case for case in architectures_moe.CASES}


def key(name, value, kind="u32"):
    return {"meta": {name: (kind, value)}}


def tensor(name, *shape, value=0.1):
    return {"tensors": {name: np.full(shape, value, np.float32)}}


# (case, what is changed, what the error says)
ROWS = [
    ("mixtral", key("llama.expert_used_count", 9), "9 of 8 experts cannot be used"),
    ("mixtral", key("llama.expert_used_count", 0), "0 of 8 experts cannot be used"),
    ("mixtral", key("llama.expert_used_count", -1, "i32"), "'llama.expert_used_count': expected at least 0"),
    ("mixtral", key("llama.expert_used_count", "two", "str"), "'llama.expert_used_count': expected a number"),
    ("mixtral", key("llama.expert_count", 7), "'blk.0.ffn_gate_inp.weight': expected shape 64 x 7, found 64 x 8"),
    ("mixtral", key("llama.expert_count", 2**32 - 1), "'llama.expert_count': expected at least 0 and at most 4096"),
    ("mixtral", key("llama.expert_count", 0), "'blk.0.ffn_gate.weight' is missing"),
    ("mixtral", {"drop": ["blk.2.ffn_down_exps.weight"]}, "'blk.2.ffn_down_exps.weight' is missing"),
    ("mixtral", {"drop": ["blk.3.ffn_gate_inp.weight"]}, "'blk.3.ffn_gate_inp.weight' is missing"),
    ("mixtral", tensor("blk.1.ffn_up_exps.weight", 96, 64), "expected shape 64 x 96 x 8, found 64 x 96"),
    ("mixtral", tensor("blk.1.ffn_up_exps.weight", 8, 64, 96), "expected shape 64 x 96 x 8, found 96 x 64 x 8"),
    ("mixtral", tensor("blk.1.ffn_gate_inp.weight", 8, 64, value=np.nan), "the logits at position 2 are not finite"),
    ("qwen3moe-fused", tensor("blk.1.ffn_gate_up_exps.weight", 8, 127, 64), "expected shape 64 x 128 x 8"),
    ("qwen3moe-fused", {"drop": ["blk.1.ffn_gate_up_exps.weight"]}, "'blk.1.ffn_gate_exps.weight' is missing"),
    ("qwen2moe", tensor("blk.0.ffn_gate_inp_shexp.weight", 65), "expected shape 64, found 65"),
    ("gpt-oss", tensor("blk.0.ffn_up_exps.bias", 7, 96), "expected shape 96 x 8, found 96 x 7"),
    ("glm4moe", key("glm4moe.expert_group_count", 3), "8 experts do not make 3 groups"),
    (
        "glm4moe",
        {"meta": {"glm4moe.expert_group_count": ("u32", 8), "glm4moe.expert_group_used_count": ("u32", 8)}},
        "a group does not have the 2 experts",
    ),
    ("glm4moe", key("glm4moe.expert_group_used_count", 5), "5 of 4 groups do not have the 3 experts used"),
    ("glm4moe", key("glm4moe.expert_group_used_count", 1), "1 of 4 groups do not have the 3 experts used"),
    ("glm4moe", key("glm4moe.expert_gating_func", 4), "'glm4moe.expert_gating_func': expected at least 1"),
    ("glm4moe", key("glm4moe.nextn_predict_layers", 5), "is 0, expected at least 1 and at most 5 layers"),
    ("glm4moe", key("glm4moe.nextn_predict_layers", 6), "'n_layers - n_predicting' is -1"),
    ("glm4moe", key("glm4moe.leading_dense_block_count", 2), "'blk.1.ffn_gate.weight' is missing"),
    ("deepseek2", key("deepseek2.attention.kv_lora_rank", 40), "'blk.0.attn_kv_a_mqa.weight': expected shape 64 x 56"),
    ("deepseek2", key("deepseek2.attention.kv_lora_rank", 36), "contradict each other in layer 0: expected (rank"),
    ("deepseek2", key("deepseek2.attention.kv_lora_rank", 600), "'deepseek2.attention.kv_lora_rank': expected at least 8"),
    ("deepseek2", key("deepseek2.attention.key_length_mla", 16), "expected head_dim > rope_dim"),
    ("deepseek2", {"drop": ["blk.0.attn_k_b.weight"]}, "'blk.0.attn_k_b.weight' is missing"),
    ("deepseek2", {"drop": ["blk.0.attn_q_a_norm.weight"]}, "'blk.0.attn_q_a_norm.weight' is missing"),
    ("deepseek2", tensor("blk.0.attn_v_b.weight", 64, 32), "expected shape 32 x 64 x 4, found 32 x 64"),
    ("deepseek2-lite", tensor("blk.0.attn_kv_b.weight", 380, 32), "expected shape 32 x 384, found 32 x 380"),
]


def check(runner, folder, case, change, says):
    path = Model(CASES[case]).write(folder / "bad.gguf", **change)
    why = runner.refused(["logits", "-m", path, "--ids", "1 2 3", "-o", os.devnull], [says], [path])
    if why:
        print(f"  FAILED: {case} {change.get('meta') or change.get('drop') or list(change['tensors'])}: {why}")
    return bool(why)


def main():
    runner = Runner()
    with tempfile.TemporaryDirectory() as name:
        failures = sum(check(runner, pathlib.Path(name), *row) for row in ROWS)
    print(f"{len(ROWS)} files, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
