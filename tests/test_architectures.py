"""Each architecture of tests/architectures.py, architectures_encoders.py and architectures_moe.py computes what transformers computes, and
the same bits however the work is cut: one batch, token by token, other threads, the reference's kernels, and every weight type that its
widths allow.

Two of them run from their YAML file alone, in a program that has no architecture built in."""

import os
import pathlib
import sys
import tempfile

try:
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(TESTS))
    import architectures
    import architectures_encoders
    import architectures_moe
    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Largest difference over the largest |logit|: far below the change that any feature of a case makes.
LIMIT, LIMIT_F16_KV = 3e-5, 1e-2
CUTS = [(["-b", 1], {}), (["-b", 7, "-t", 3], {}), (["-b", 1, "-t", 2], {"TERN_ISA": "ref"}), ([], {"TERN_ISA": "ref"})]
BY_FILE_ALONE = ("granite", "gptneox")

failures = []


def check(good, what):
    if not good:
        failures.append(what)
        print("  FAILED:", what)


def rows(case, path, ids, *options, env=None):
    """A row for each token."""
    if case.embeds:
        options = ("--pooling", "none", "--no-normalize", *options)
        return tiny.embeddings(path, ids, case.config["hidden_size"], *options, env=env)
    return tiny.logits(path, ids, "--all", *options, env=env, n_vocab=architectures.N_VOCAB)


def last_row(case, path, ids, *options):
    if case.embeds:
        options = ("--pooling", "last", "--no-normalize", *options)
        return tiny.embeddings(path, ids, case.config["hidden_size"], *options)
    return tiny.logits(path, ids, *options, n_vocab=architectures.N_VOCAB)


def check_cuts(what, case, path, ids, plain, *options):
    for cut, env in CUTS:
        found = rows(case, path, ids, *options, *cut, env=env)
        same = found.tobytes() == plain.tobytes()
        check(same, f"{what} {cut} {env}: other bytes, off by {tiny.relative(found, plain):.1e}")
    for n in {len(ids)} if case.ahead else {len(ids), len(ids) - 1, len(ids) // 2 + 1}:
        last = last_row(case, path, ids[:n], *options)
        check(last.tobytes() == plain[n - 1].tobytes(), f"{what}: the row of position {n - 1} depends on what follows")


def check_pooling(case, path, ids, plain):
    """The vectors of `tern embed` are made of the rows: the one that the file asks for, and the others."""
    said = {0: "none", 1: "mean", 2: "cls", 3: "last"}[dict(case.keys(case.config)).get("pooling_type", ("u32", 1))[1]]
    pooled = {"mean": plain.astype(np.float64).mean(axis=0), "cls": plain[0], "last": plain[-1]}
    for name, row in pooled.items():
        expected = row / np.sqrt((row.astype(np.float64) ** 2).sum())
        for options in [("--pooling", name)] + ([()] if name == said else []):
            found = tiny.embeddings(path, ids, len(row), "--kv", "f32", *options)
            check(
                found.shape == (1, len(row)) and np.allclose(found[0], expected, rtol=1e-5, atol=1e-7),
                f"{case.name}: tern embed {options} is not the {name} of the rows",
            )
    if case.ahead:
        found = tiny.floats("logits", path, ids, "--all", "--kv", "f32", "-b", "1")
        check(found.tobytes() == plain.tobytes(), f"{case.name}: tern logits writes other rows than tern embed")


def test(case, folder):
    record, golden = architectures.golden(case.name)
    ids = record["ids"]
    check(ids == architectures.token_ids(case), f"{case.name}: other ids; run tests/golden/make_arch.py")
    changes = record["changes_without"]
    check(min(changes.values()) > 3 * LIMIT, f"{case.name}: the case would not notice a missing feature: {changes}")
    model = architectures.Model(case)
    path = model.write(folder / f"{case.name}.gguf")
    plain = rows(case, path, ids, "--kv", "f32")
    difference = tiny.relative(plain, golden)
    check(difference <= LIMIT, f"{case.name}: differs from transformers by {difference:.1e}, limit {LIMIT:.0e}")
    check_cuts(case.name, case, path, ids, plain, "--kv", "f32")
    if case.embeds:
        check_pooling(case, path, ids, plain)
    half = tiny.relative(rows(case, path, ids), golden)
    check(half <= LIMIT_F16_KV, f"{case.name}: with an f16 cache differs by {half:.1e}")
    quantized = model.write(folder / "quantized.gguf", dtype="Q8_0")
    check_cuts(case.name + " Q8_0", case, quantized, ids, rows(case, quantized, ids))
    print(f"{case.name:20} {difference:9.1e} {half:9.1e}  {min(changes, key=changes.get)} {min(changes.values()):.1e}")


def test_file_alone(case, folder):
    """TERN_BARE is tern without any architecture built in (tests/CMakeLists.txt)."""
    ids, path = architectures.token_ids(case), architectures.Model(case).write(folder / "alone.gguf")
    with_it = rows(case, path, ids)
    os.environ["TERN"], usual = os.environ["TERN_BARE"], tiny.tern()
    try:
        rows(case, path, ids)
        check(False, f"{case.name}: runs without a description")
    except RuntimeError as error:
        check("unknown architecture" in str(error), f"{case.name}: {error}")
    file = TESTS.parent / "models" / f"{case.arch}.yaml"
    alone = rows(case, path, ids, "--arch-file", file)
    os.environ["TERN"] = usual
    check(alone.tobytes() == with_it.tobytes(), f"{case.name}: other logits with --arch-file")
    print(f"{case.name:20} by --arch-file alone")


def guarded(function, case, folder):
    """A run that fails is a failure of its test, and the others still run."""
    try:
        function(case, folder)
    except Exception as error:  # noqa: BLE001
        check(False, f"{case.name}: {error}")


def main():
    cases = architectures.CASES + architectures_encoders.CASES + architectures_moe.CASES
    chosen = [case for case in cases if not sys.argv[1:] or case.name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        print(f"{'case':20} {'f32 cache':>9} {'f16 cache':>9}  the feature that changes least")
        for case in chosen:
            guarded(test, case, pathlib.Path(name))
        for case in chosen:
            if case.name in BY_FILE_ALONE:
                guarded(test_file_alone, case, pathlib.Path(name))
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
