#!/usr/bin/env python3
"""What each type costs and keeps of a model: size, bits a weight, perplexity, divergence from the unquantized model, speed.

  bench/quality_table.py SOURCE.gguf -f TEXT [--calibrate TEXT] [--types A,B] [--targets 4.5,5] [--peer] [--speed]
                         [-c 512] [-t N] [--tern build/tern] [-o TABLE.md] [--svg CHART.svg]

SOURCE is a file of F16, BF16 or F32 (bench/float_weights.py makes one of a quantized model). Each mix of --types is made by tern
quantize, and so is a recipe for each size of --targets (bits a weight), by squared error and (with --calibrate) automatic; all with
an importance matrix of --calibrate if that is given. --peer adds llama.cpp's quantization of the same file by the same names, with
the same matrix. All files are measured by tern eval on TEXT. --speed adds decode tokens/s (tern bench), which needs a machine that
does nothing else.

--peer requires (bench only, not part of the tests): llama-cpp-python==0.3.36 gguf==0.19.0 numpy.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

# As llama.cpp numbers its mixes.
FILE_TYPES = {"Q8_0": 7, "Q6_K": 18, "Q5_K_M": 17, "Q5_K_S": 16, "Q4_K_M": 15, "Q4_K_S": 14, "Q4_0": 2, "IQ4_XS": 30, "IQ4_NL": 25,
              "Q3_K_L": 13, "Q3_K_M": 12, "Q3_K_S": 11, "IQ3_S": 26, "IQ3_XXS": 23, "Q2_K": 10}  # fmt: skip
LADDER = "[Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0]"  # 32-wide types too
WIDTH, HEIGHT, MARGIN = 720, 440, 60
COLOURS = {"tern": "#1f5fbf", "target": "#c0392b", "auto": "#1e8449", "llama.cpp": "#7f8c8d"}


def tern(args, *words):
    done = subprocess.run([str(args.tern), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def peer_quantize(source, target, name, threads, imatrix):
    """In a process of its own: the library prints, and ends the process on some inputs."""
    call = (f"import quantize_quality as q; raise SystemExit(q.llama_quantize({str(source)!r}, {str(target)!r}, {FILE_TYPES[name]}, "
            f"{threads}, {str(imatrix) if imatrix else None!r}, pure=False))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", call], cwd=pathlib.Path(__file__).resolve().parent, capture_output=True, check=False)
    if done.returncode:
        print(f"llama.cpp did not make {name}", file=sys.stderr, flush=True)
    return done.returncode == 0


def measure(args, who, name, path, base):
    """A row of the table."""
    info = json.loads(tern(args, "inspect", path, "--json"))
    found = json.loads(tern(args, "eval", "kld", "-m", path, "--base", base, "-t", args.threads, "--json", "-q"))
    size = path.stat().st_size
    row = {"who": who, "name": name, "mb": size / 1e6, "bpw": info["bits_per_weight"]}
    row |= {key: found[key] for key in ("perplexity", "kld_mean", "kld_mean_error", "kld_99_percent", "same_top_percent")}
    if args.speed:
        bench = json.loads(tern(args, "bench", "-m", path, "-n", 64, "-t", args.threads, "--json", "-q"))
        row["speed"] = bench["tests"][-1]["tokens_per_s"]
    print(f"{who} {name}: {row['mb']:.1f} MB, KLD {row['kld_mean']:.4f}", file=sys.stderr, flush=True)
    return row


def rows(args, folder):
    base, made = folder / "base.logits", folder / "made.gguf"
    whole = json.loads(tern(args, "eval", "perplexity", "-m", args.source, "-f", args.file, "-c", args.ctx, "-t", args.threads,
                            "--save-base", base, "--json", "-q"))  # fmt: skip
    imatrix = None
    if args.calibrate:
        imatrix = folder / "imatrix.gguf"
        tern(args, "imatrix", "-m", args.source, "-f", args.calibrate, "-c", args.ctx, "-t", args.threads, "-o", imatrix, "-q")
    more = ["--imatrix", imatrix] if imatrix else []
    out = []
    for name in args.types:
        tern(args, "quantize", args.source, made, "--type", name, "-t", args.threads, "-q", *more)
        out.append(measure(args, "tern", name, made, base))
        if args.peer and peer_quantize(args.source, made, name, args.threads, imatrix):
            out.append(measure(args, "llama.cpp", name, made, base))
    for bits in args.targets:
        recipe = folder / "recipe.yaml"
        recipe.write_text(f"target_bpw: {bits}\nladder: {LADDER}\n")
        for who, how in [("target", [])] + [("auto", ["--auto", "-f", args.calibrate])] * bool(args.calibrate):
            tern(args, "quantize", args.source, made, "--recipe", recipe, "-t", args.threads, "-q", *more, *how)
            out.append(measure(args, who, f"{bits} bits", made, base))
    return whole, out


def table(args, whole, found):
    head = ["by", "type", "MB", "bits a weight", "perplexity", "KLD mean", "KLD 99 %", "same top token"] + ["tokens/s"] * args.speed
    lines = [f"{whole['model']}, {pathlib.Path(args.file).name}, {whole['chunks']} chunks of {whole['context']} tokens; unquantized: "
             f"perplexity {whole['perplexity']:.3f} ± {whole['perplexity_error']:.3f}.", ""]  # fmt: skip
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for r in found:
        cells = [r["who"], r["name"], f"{r['mb']:.1f}", f"{r['bpw']:.2f}", f"{r['perplexity']:.3f}",
                 f"{r['kld_mean']:.4f} ± {r['kld_mean_error']:.4f}", f"{r['kld_99_percent']:.3f}", f"{r['same_top_percent']:.1f} %"]  # fmt: skip
        if args.speed:
            cells.append(f"{r['speed']:.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def chart(found):
    """KLD, on a logarithmic scale, over size."""
    sizes, klds = [r["mb"] for r in found], [math.log10(max(r["kld_mean"], 1e-6)) for r in found]
    low, high, bottom, top = min(sizes), max(sizes), math.floor(min(klds)), math.ceil(max(klds))

    def x(mb):
        return MARGIN + (mb - low) / (high - low or 1) * (WIDTH - 2 * MARGIN)

    def y(log):
        return HEIGHT - MARGIN - (log - bottom) / (top - bottom or 1) * (HEIGHT - 2 * MARGIN)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">MB</text>',
             f'<text x="{MARGIN}" y="24">mean KL divergence from the unquantized model</text>']  # fmt: skip
    for power in range(bottom, top + 1):
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y(power):.1f}" y2="{y(power):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 8}" y="{y(power) + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for mb in (low, (low + high) / 2, high):
        parts.append(f'<text x="{x(mb):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{mb:.0f}</text>')
    for r, log in zip(found, klds):
        parts.append(f'<circle cx="{x(r["mb"]):.1f}" cy="{y(log):.1f}" r="4" fill="{COLOURS[r["who"]]}"/>')
        if r["who"] != "llama.cpp":
            parts.append(f'<text x="{x(r["mb"]) + 6:.1f}" y="{y(log) - 6:.1f}" fill="{COLOURS[r["who"]]}">{r["name"]}</text>')
    for i, (who, colour) in enumerate(COLOURS.items()):
        parts.append(f'<text x="{WIDTH - MARGIN}" y="{MARGIN + 14 * i}" text-anchor="end" fill="{colour}">{who}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=lambda s: pathlib.Path(s).resolve())
    parser.add_argument("-f", "--file", required=True)
    parser.add_argument("--calibrate")
    parser.add_argument("--types", type=lambda s: s.split(","), default=list(FILE_TYPES))
    parser.add_argument("--targets", type=lambda s: [float(x) for x in s.split(",")], default=[])
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("-c", "--ctx", type=int, default=512)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--tern", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "build" / "tern")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, found = rows(args, pathlib.Path(folder))
    text = table(args, whole, found)
    if args.output:
        args.output.write_text(text)
    else:
        print(text, end="")
    if args.svg:
        args.svg.write_text(chart(found))


if __name__ == "__main__":
    main()
