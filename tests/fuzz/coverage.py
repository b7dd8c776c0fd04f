"""A table of what llvm-cov exported: lines and branches of the parsers that were reached. usage: coverage.py ALL.json"""

import json
import re
import sys

GROUPS = {
    "formats": r"formats/(?!gguf_writer).*",
    "templates": r"src/text/template.*",
    "grammars": r"src/text/grammar.*",
    "schemas": r"src/text/schema.*",
    "tokenizers: loading": r"src/text/(tokenizer_load|special|vocab_index|charsmap)\.c",
    "descriptions": r"src/model/(arch.*|expr)\.c",
    "vocabulary, hyper-parameters": r"src/model/(vocab|hparams)\.c",
    "recipes": r"src/quantize/recipe.*",
    "importance matrices": r"src/quantize/imatrix\.c",
    "states": r"src/session/state\.c",
    "convert": r"src/convert/.*",
    "command line": r"tools/(options|profile|eval_base|ids|bench_grid)\.c",
}


def percent(counts):
    return f"{100 * counts[0] / counts[1]:5.1f}" if counts[1] else "    -"


def main():
    files = json.load(open(sys.argv[1]))["data"][0]["files"]
    print(f"{'':38} lines  branches")
    for group, pattern in GROUPS.items():
        rows, total = [], {"lines": [0, 0], "branches": [0, 0]}
        for file in files:
            name = re.sub(r".*/(?=(src|formats|tools)/)", "", file["filename"])
            if not re.fullmatch(pattern, name):
                continue
            counts = {kind: (file["summary"][kind]["covered"], file["summary"][kind]["count"]) for kind in total}
            rows.append(f"  {name:36} {percent(counts['lines'])}  {percent(counts['branches'])}")
            for kind, (covered, count) in counts.items():
                total[kind][0] += covered
                total[kind][1] += count
        print(f"{group:38} {percent(total['lines'])}  {percent(total['branches'])}", *rows, sep="\n")


main()
