#!/usr/bin/env python3
"""What each type costs and keeps of a model: size, bits a weight, perplexity, divergence from the unquantized model, speed.

  bench/quality_table.py SOURCE.gguf --work DIR -f TEXT --calibrate TEXT [--types A,B] [--targets 5,6] [-c 512] [--peer]
  bench/quality_table.py --work DIR --speed-only [--peer]
  bench/quality_table.py --work DIR -o TABLE.md --svg CHART.svg

The first makes files in DIR and measures them with tern eval on TEXT: each mix of --types by tern quantize, with --peer also by
llama.cpp under the same name, and an automatic recipe for each size of --targets (bits a weight). All
with one importance matrix, of the calibration text. SOURCE is a file of F16, BF16 or F32; bench/float_weights.py makes one of a
quantized model. The second times all of these files, each with the engine that made it, twice in turn; on a machine that does
nothing else. What was found is kept in DIR/results.yaml as it comes, and is not measured again. The third writes it out.

Requires (bench only, not part of the tests): pyyaml; with --peer llama-cpp-python==0.3.36 gguf==0.19.0 numpy.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import quality_chart
import yaml

BENCH = pathlib.Path(__file__).resolve().parent
# As llama.cpp numbers its mixes.
FILE_TYPES = {"F16": 1, "BF16": 32, "Q8_0": 7, "Q6_K": 18, "Q5_K_M": 17, "Q5_K_S": 16, "Q5_1": 9, "Q5_0": 8, "Q4_K_M": 15, "Q4_K_S": 14,
              "Q4_1": 3, "Q4_0": 2, "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4": 38, "Q3_K_L": 13, "Q3_K_M": 12, "Q3_K_S": 11, "IQ3_S": 26,
              "IQ3_XXS": 23, "Q2_K": 10, "IQ2_S": 28, "IQ2_XS": 20, "IQ2_XXS": 19, "IQ1_M": 31, "IQ1_S": 24, "TQ2_0": 37, "TQ1_0": 36}  # fmt: skip
LADDER = "[IQ2_S, IQ3_XXS, Q3_K, IQ4_NL, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0]"  # 32-wide types too
PREFILL, DECODE = 256, 32
SPEED_TESTS = (f"pp{PREFILL}", f"tg{DECODE}")
KEPT = ("perplexity", "kld_mean", "kld_mean_error", "kld_99_percent", "same_top_percent")


def tern(args, *words):
    done = subprocess.run([str(args.tern), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


class Results:
    """What was found so far, on disk after each step: {"whole": of the source, "rows": {"tern Q4_0": {...}}}."""

    def __init__(self, folder):
        self.path = folder / "results.yaml"
        self.data = yaml.safe_load(self.path.read_text()) if self.path.exists() else {}
        self.data.setdefault("rows", {})

    def put(self, row):
        self.data["rows"][f"{row['by']} {row['type']}"] = row
        self.save()

    def save(self):
        new = self.path.with_suffix(".new")
        new.write_text(yaml.safe_dump(self.data, sort_keys=False))
        new.replace(self.path)


def file_of(args, by, name):
    return args.work / f"{by}-{name.replace(' ', '-')}.gguf"


def peer_quantize(args, target, name, imatrix):
    """In a process of its own: the library prints, and ends the process on some inputs."""
    call = (f"import quantize_quality as q; raise SystemExit(q.llama_quantize({str(args.source)!r}, {str(target)!r}, "
            f"{FILE_TYPES[name]}, {args.threads}, {str(imatrix)!r}, pure=False))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", call], cwd=BENCH, capture_output=True, check=False)
    if done.returncode:
        print(f"llama.cpp did not make {name}", file=sys.stderr, flush=True)
        target.unlink(missing_ok=True)
    return done.returncode == 0


def measure(args, results, by, name):
    """A row of the table, of a file that was made."""
    path, base = file_of(args, by, name), args.work / "base.logits"
    info = json.loads(tern(args, "inspect", path, "--json"))
    found = json.loads(tern(args, "eval", "kld", "-m", path, "--base", base, "-t", args.threads, "--json", "-q"))
    row = {"by": by, "type": name, "mb": path.stat().st_size / 1e6, "bpw": info["bits_per_weight"]} | {key: found[key] for key in KEPT}
    results.put(row)
    print(f"{by} {name}: {row['mb']:.1f} MB, KLD {row['kld_mean']:.4f}", file=sys.stderr, flush=True)


def wanted(args, results):
    """(by, name) of files that are not measured yet."""
    every = [(by, name) for name in args.types for by in ("tern", "llama.cpp") if by == "tern" or args.peer]
    every += [("auto", f"{bits:g} bits") for bits in args.targets]
    return [(by, name) for by, name in every if f"{by} {name}" not in results.data["rows"]]


def make(args, by, name, imatrix):
    path = file_of(args, by, name)
    if path.exists():
        return True
    if by == "llama.cpp":
        return peer_quantize(args, path, name, imatrix)
    how = ["--type", name]
    if by == "auto":
        recipe = args.work / "recipe.yaml"
        recipe.write_text(f"target_bpw: {name.split()[0]}\nladder: {LADDER}\n")
        how = ["--recipe", recipe, "--auto", "-f", args.calibrate, "--measures", args.work / "measures.txt"]
    tern(args, "quantize", args.source, path, "-t", args.threads, "-q", "--imatrix", imatrix, *how)
    return True


def quality(args, results):
    base, imatrix = args.work / "base.logits", args.work / "imatrix.gguf"
    if not base.exists():
        results.data["whole"] = json.loads(tern(args, "eval", "perplexity", "-m", args.source, "-f", args.file, "-c", args.ctx, "-t",
                                                args.threads, "--save-base", base, "--json", "-q"))  # fmt: skip
        results.save()
    if not imatrix.exists():
        tern(args, "imatrix", "-m", args.source, "-f", args.calibrate, "-c", args.ctx, "-t", args.threads, "-o", imatrix, "-q")
    for by, name in wanted(args, results):
        if make(args, by, name, imatrix):
            measure(args, results, by, name)


def seconds(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    return [float(found[test]) for test in SPEED_TESTS]


def speed(args, results):
    """Each file by its own engine, types of both engines in turn, twice: the better of two, as nothing makes a run too fast."""
    engines = {"tern": [args.tern.parent / "bench" / "tern-speed"], "llama.cpp": [sys.executable, BENCH / "llama_speed.py"]}
    by_type = {}
    for row in results.data["rows"].values():
        if "decode" not in row and (args.peer or row["by"] != "llama.cpp"):
            by_type.setdefault(row["type"], []).append(row)
    for name, rows in by_type.items():
        best = [[float("inf")] * 2 for _ in rows]
        for row, kept in list(zip(rows, best)) * 2:
            engine = engines.get(row["by"], engines["tern"])
            path = file_of(args, row["by"], row["type"])
            kept[:] = map(min, kept, seconds([*engine, path, args.threads, "f16", *SPEED_TESTS]))
        for row, kept in zip(rows, best):
            row["prefill"], row["decode"] = PREFILL / kept[0], DECODE / kept[1]
            print(f"{row['by']} {name}: {row['prefill']:.0f} / {row['decode']:.1f} tokens/s", file=sys.stderr, flush=True)
        results.save()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=lambda s: pathlib.Path(s).resolve())
    parser.add_argument("--work", type=lambda s: pathlib.Path(s).resolve(), required=True)
    parser.add_argument("-f", "--file")
    parser.add_argument("--calibrate")
    parser.add_argument("--types", type=lambda s: s.split(",") if s else [], default=list(FILE_TYPES))
    parser.add_argument("--targets", type=lambda s: [float(x) for x in s.split(",")], default=[])
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--speed-only", action="store_true")
    parser.add_argument("-c", "--ctx", type=int, default=512)
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tern", type=pathlib.Path, default=BENCH.parent / "build" / "tern")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    args = parser.parse_args()
    if args.source and not (args.file and args.calibrate):
        parser.error("SOURCE needs -f and --calibrate")
    args.work.mkdir(parents=True, exist_ok=True)
    results = Results(args.work)
    if args.source:
        quality(args, results)
    if args.speed_only:
        speed(args, results)
    if args.output:
        args.output.write_text(quality_chart.table(results.data))
    if args.svg:
        args.svg.write_text(quality_chart.chart(results.data["rows"].values()))


if __name__ == "__main__":
    main()
