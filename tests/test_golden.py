"""The engine computes what the published models compute, and the same bits however the work is cut.

* For each case of tests/tiny.py, logits of every position against transformers' (tests/golden/*.f32).
* For texts of several hundred tokens, against numpy (tests/golden/forward.py), which is held against the same logits.
* For each weight type, against numpy on the same weights with the same int8 rows.
* Byte for byte the same logits whatever the batch, the number of threads and the instruction set, for all of these.
"""

import dataclasses
import json
import pathlib
import sys
import tempfile

try:
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path[:0] = [str(TESTS), str(TESTS / "golden")]
    import forward
    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Largest difference over the largest |logit|. LIMIT is below the change that any feature of a case makes (its json's
# changes_without). With int8 rows one value that rounds the other way, for a difference in the last bit before it, moves
# logits by up to 3e-2; that is rare enough for most of the two-token texts to have none.
LIMIT, LIMIT_F16_KV, LIMIT_FLIPPED = 2e-5, 1e-2, 5e-2

WIDTHS = {"F32": None, "F16": None, "BF16": None} | {
    name: 32 for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4", "NVFP4")
}  # of int8 rows; 256 for the others

# Ways to cut the same work. The plain run has the default batch and threads and the best instruction set.
CUTS = [
    (["-b", 1], {}),
    (["-b", 7], {}),
    (["-b", 16], {}),
    (["-t", 1], {}),
    (["-t", 2], {}),
    (["-t", 3], {}),
    (["-b", 1, "-t", 3], {}),
    (["-b", 5, "-t", 2], {}),
    ([], {"TERN_ISA": "ref"}),
    (["-b", 1, "-t", 2], {"TERN_ISA": "ref"}),
]

failures = []


def check(good, what):
    if not good:
        failures.append(what)
        print("  FAILED:", what)


def check_cuts(what, path, ids, plain, *options):
    """Every cut of the work, the last row alone and a prefix give the bytes of the plain run."""
    for cut, env in CUTS:
        rows = tiny.logits(path, ids, "--all", *options, *cut, env=env)
        if rows.tobytes() != plain.tobytes():
            different = (
                "another shape"
                if rows.shape != plain.shape
                else f"first in row {np.nonzero((rows != plain).any(1))[0][:1]}"
            )
            check(False, f"{what} {cut} {env}: not the same bytes, {different}, off by {tiny.relative(rows, plain):.1e}")
    last = tiny.logits(path, ids, *options)
    check(last.tobytes() == plain[-1].tobytes(), f"{what}: the last row alone differs from the same row with --all")
    prefix = tiny.logits(path, ids[:11], "--all", *options)
    check(prefix.tobytes() == plain[:11].tobytes(), f"{what}: a prefix has other logits than the whole has")


def test_golden_logits(case, folder):
    record = json.loads((TESTS / "golden" / f"{case.name}.json").read_text())
    golden = np.fromfile(TESTS / "golden" / f"{case.name}.f32", "<f4").reshape(-1, tiny.N_VOCAB)
    same = record["weights_sha256"] == tiny.weights_sha256(case) and record["ids"] == tiny.token_ids(case)
    check(same, f"{case.name}: the golden logits are of other weights; run tests/golden/make.py")
    check(
        min(record["changes_without"].values()) > 2 * LIMIT, f"{case.name}: the case would not notice a missing feature"
    )
    ids = record["ids"]
    model = tiny.Model(case)
    numpy_difference = tiny.relative(forward.logits(case, model.tensors, ids), golden.astype(np.float64))
    check(numpy_difference <= LIMIT, f"{case.name}: numpy differs from transformers by {numpy_difference:.1e}")

    path = model.write(folder / f"{case.name}.gguf")
    plain = tiny.logits(path, ids, "--all", "--kv", "f32")
    difference = tiny.relative(plain, golden)
    check(difference <= LIMIT, f"{case.name}: differs from transformers by {difference:.1e}, limit {LIMIT:.0e}")
    check_cuts(case.name, path, ids, plain, "--kv", "f32")
    half = tiny.logits(path, ids, "--all", "--kv", "f16")
    half_difference = tiny.relative(half, golden)
    check(half_difference <= LIMIT_F16_KV, f"{case.name}: with an f16 cache differs by {half_difference:.1e}")
    check(half.tobytes() != plain.tobytes(), f"{case.name}: --kv f16 changes nothing")
    check_cuts(case.name + " f16 cache", path, ids, half, "--kv", "f16")
    print(f"{case.name:16} {difference:9.1e} {half_difference:9.1e} {numpy_difference:9.1e}")


def test_long_text(case, folder):
    model, ids = tiny.Model(case), tiny.token_ids(case)
    path = model.write(folder / "long.gguf")
    expected = forward.logits(case, model.tensors, ids)
    plain = tiny.logits(path, ids, "--all", "--kv", "f32")
    half = tiny.logits(path, ids, "--all", "--kv", "f16")
    difference, half_difference = tiny.relative(plain, expected), tiny.relative(half, expected)
    check(difference <= LIMIT, f"{case.name}: differs from numpy by {difference:.1e}, limit {LIMIT:.0e}")
    check(half_difference <= LIMIT_F16_KV, f"{case.name}: with an f16 cache differs by {half_difference:.1e}")
    check_cuts(case.name, path, ids, plain, "--kv", "f32")
    print(f"{case.name:16} {difference:9.1e} {half_difference:9.1e}")


def test_sinks(case, folder):
    """Sinks, which no dense model has: the case's description with them."""
    model, ids = tiny.Model(case), tiny.token_ids(case)
    for i in range(case.n_layers):
        name = f"blk.{i}.attn_sinks.weight"
        model.tensors[name] = 2 + 2 * tiny.random_normal(case.name + name, (case.n_heads,))
    text = (TESTS.parent / "models" / "llama.yaml").read_text()
    for place, more in (
        ("layer_tensors:\n", '  attn_sinks: {name: "blk.{i}.attn_sinks.weight", shape: [n_heads]}\n'),
        ("  - attention:\n", "      sinks: attn_sinks\n"),
    ):
        check(text.count(place) == 1, f"sinks: llama.yaml has no single '{place}'")
        text = text.replace(place, place + more)
    (folder / "sinks.yaml").write_text(text)
    options = ("--kv", "f32", "--arch-file", folder / "sinks.yaml")
    path = model.write(folder / "sinks.gguf")
    expected = forward.logits(case, model.tensors, ids)
    plain = tiny.logits(path, ids, "--all", *options)
    difference = tiny.relative(plain, expected)
    check(difference <= LIMIT, f"sinks in {case.name}: differs from numpy by {difference:.1e}, limit {LIMIT:.0e}")
    without = tiny.relative(tiny.logits(path, ids, "--all", "--kv", "f32", "-q"), expected)
    check(without > 3 * LIMIT, f"sinks in {case.name}: change the logits by {without:.1e} alone")
    check_cuts(f"sinks in {case.name}", path, ids, plain, *options)
    print(f"{case.name + ' sinks':16} {difference:9.1e}")


def scaled(case, q, k):
    """The case's model with queries and keys that many times as large."""
    model = tiny.Model(case)
    for name in model.tensors:
        factor = {"attn_q": q, "attn_k": k}.get(name.split(".")[-2])
        if factor:
            model.tensors[name] = model.tensors[name] * np.float32(factor)
    return model


def test_scores_beyond_f16(case, folder):
    """Scores of some 10^5 are scores as others are."""
    model, ids = scaled(case, 200, 200), tiny.token_ids(case)
    expected = forward.logits(case, model.tensors, ids)
    path = model.write(folder / "scores.gguf")
    for kv, limit in (("f32", LIMIT), ("f16", LIMIT_F16_KV)):
        difference = tiny.relative(tiny.logits(path, ids, "--all", "--kv", kv), expected)
        check(difference <= limit, f"{case.name}: large scores, {kv}: differs from numpy by {difference:.1e}")


def test_keys_beyond_f16(folder):
    """A key that overflows is an error, or the logits are right: never a position that is not seen. The score of a token with
    itself is slightly negative here, so an infinite one would be -infinity."""
    case = tiny.Case("overflow", "llama", n_layers=1, n_heads=1, n_kv_heads=1, head_dim=64)
    embedded = tiny.Model(case).tensors
    rows = forward.rms_norm(embedded["token_embd.weight"].astype(float), embedded["blk.0.attn_norm.weight"], case.norm_eps)
    sizes = np.abs(rows @ embedded["blk.0.attn_k.weight"].T).max(axis=1)
    order = [int(i) for i in np.argsort(sizes)]
    n_refused = 0
    for kv, most in (("f16", 65504), ("q8_0", 65504 * 127)):
        factor = 1.1 * most / sizes[order[-6]]  # the last six overflow as they are, the first does not
        model = scaled(case, 1, factor)
        model.tensors["blk.0.attn_q.weight"] = embedded["blk.0.attn_k.weight"] * np.float32(-0.003 / factor)
        path = model.write(folder / "keys.gguf")
        for token in order[-6:]:
            ids = [order[0], token]
            try:
                found = tiny.logits(path, ids, "--all", "--kv", kv)
                difference = tiny.relative(found, forward.logits(case, model.tensors, ids))
                check(difference < 0.05, f"a key beyond {kv}: differs from numpy by {difference:.1e}")
            except RuntimeError as error:
                n_refused += 1
                check("not finite" in str(error), f"a key beyond {kv}: {error}")
    check(n_refused >= 10, f"keys beyond f16: {n_refused} of 12 refused")


def test_tokens_see_ahead(case, folder):
    """A file may say that its attention is not causal; then a text is one batch."""
    case = dataclasses.replace(case, causal=False)
    model, ids = tiny.Model(case), tiny.token_ids(case)
    path = model.write(folder / "ahead.gguf", meta={f"{case.arch}.attention.causal": ("bool", False)})
    plain = tiny.logits(path, ids, "--all", "--kv", "f32")
    difference = tiny.relative(plain, forward.logits(case, model.tensors, ids))
    check(difference <= LIMIT, f"{case.name} seeing ahead: differs from numpy by {difference:.1e}, limit {LIMIT:.0e}")
    for cut, env in CUTS:
        same = tiny.logits(path, ids, "--all", "--kv", "f32", *cut, env=env).tobytes() == plain.tobytes()
        check(same, f"{case.name} seeing ahead {cut} {env}: not the same bytes")
    print(f"{case.name + ' ahead':16} {difference:9.1e}")


def test_weight_type(case, dtype, folder):
    model, ids = tiny.Model(case), tiny.token_ids(case)
    path = model.write(folder / "typed.gguf", dtype=dtype)
    weights, width = model.dequantized(dtype), WIDTHS.get(dtype, 256)
    differences = []
    for i in range(0, 18, 2):
        text = ids[i : i + 2]
        found = tiny.logits(path, text, "--all", "--kv", "f32")
        differences.append(tiny.relative(found, forward.logits(case, weights, text, width)))
    middle, worst = float(np.median(differences)), max(differences)
    check(middle <= LIMIT, f"{case.name} {dtype}: differs from numpy by {middle:.1e}, limit {LIMIT:.0e}")
    check(worst <= LIMIT_FLIPPED, f"{case.name} {dtype}: differs from numpy by {worst:.1e}, limit {LIMIT_FLIPPED:.0e}")
    plain = tiny.logits(path, ids, "--all", "--kv", "f32")
    check_cuts(f"{case.name} {dtype}", path, ids, plain, "--kv", "f32")
    print(f"{case.name:10} {dtype:8} {middle:9.1e} {worst:9.1e}")


def guarded(test, *arguments):
    """A run that fails is a failure of its test, and the others still run."""
    try:
        test(*arguments)
    except Exception as error:  # noqa: BLE001
        check(False, f"{[str(getattr(a, 'name', a)) for a in arguments[:-1]]}: {error}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print("largest difference / largest |logit|; every row also in", len(CUTS), "other cuts of the work")
        print(f"{'case':16} {'f32 cache':>9} {'f16 cache':>9} {'numpy':>9}")
        for case in tiny.CASES.values():
            guarded(test_golden_logits, case, folder)
        for case in tiny.LONG_CASES:
            guarded(test_long_text, case, folder)
        for case in (tiny.CASES["llama"], tiny.CASES["qwen2"]):
            guarded(test_scores_beyond_f16, case, folder)
        guarded(test_keys_beyond_f16, folder)
        for case in tiny.LONG_CASES[:2]:
            guarded(test_sinks, case, folder)
        for case in (tiny.LONG_CASES[0], tiny.CASES["qwen2"], tiny.CASES["qwen3"]):
            guarded(test_tokens_see_ahead, case, folder)
        print(f"{'case':10} {'weights':8} {'to numpy':>9} {'worst':>9}")
        for dtype in tiny.DTYPES:
            guarded(test_weight_type, tiny.WIDE, dtype, folder)
        for dtype in [dtype for dtype in tiny.DTYPES if WIDTHS.get(dtype) == 32 and dtype != "NVFP4"]:
            # 96 columns: an odd number of blocks
            guarded(test_weight_type, tiny.CASES["gemma3"], dtype, folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
