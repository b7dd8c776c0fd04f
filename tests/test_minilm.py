"""all-MiniLM-L6-v2, as `tern convert` makes it an F16 file, gives the vectors that transformers gives (tests/golden/make_minilm.py).

Needs the checkpoint that `tools/fetch-model all-minilm-l6-v2` fetches."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(TESTS))
    import tiny
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIMIT = 1e-4  # of the cosine distance; weights and cache are rounded to half precision
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tern"
CHECKPOINT = pathlib.Path(os.environ.get("TERN_MODELS") or CACHE) / "all-minilm-l6-v2"
LINES = TESTS / "golden" / "minilm.txt"


def convert(folder, path):
    subprocess.run([tiny.tern(), "convert", str(folder), str(path), "--type", "f16", "-q"], timeout=120, check=True)


def embed(path, *options, **arguments):
    command = [tiny.tern(), "embed", "-m", str(path), *map(str, options)]
    return subprocess.run(command, capture_output=True, timeout=120, check=True, **arguments).stdout


def main():
    if not CHECKPOINT.is_dir():
        print(f"skipped: {CHECKPOINT.name} is not in the cache (tools/fetch-model fetches it)")
        return 77
    golden = np.fromfile(TESTS / "golden" / "minilm.f32", "<f4").reshape(len(LINES.read_text().splitlines()), -1)
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "minilm.gguf"
        convert(CHECKPOINT, path)
        raw = embed(path, "-f", LINES, "--raw")
        found = np.frombuffer(raw, "<f4").reshape(golden.shape)
        distances = 1 - (found.astype(np.float64) * golden).sum(axis=1)
        print(f"cosine distances to transformers: {' '.join(f'{d:.1e}' for d in distances)}")
        failures = [f"line {i + 1} is {d:.1e} away" for i, d in enumerate(distances) if not abs(d) < LIMIT]
        first = LINES.read_bytes().splitlines()[0]
        other = embed(path, "-p", first.decode(), "--raw", "-t", 1, env={**os.environ, "TERN_ISA": "ref"})
        if other != raw[: len(other)]:
            failures.append("one thread and the reference's kernels give other bytes")
        as_json = json.loads(embed(path, "-f", "-", "--json", input=LINES.read_bytes()))
        rows = np.array([list(map(float, line.split(b","))) for line in embed(path, "-f", LINES, "--csv").splitlines()])
        for what, values in (("--json", np.array(as_json["embeddings"])), ("--csv", rows)):
            if values.shape != found.shape or (values.astype(np.float32) != found).any():
                failures.append(f"{what} says something else than --raw")
    for failure in failures:
        print("  FAILED:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
