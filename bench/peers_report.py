"""The record of bench/peers as Markdown tables and an SVG chart of ratios."""

import html
import re
import statistics

ENGINES = ("tern", "llama.cpp")


class Entry:
    """One file with one type of cache: medians of what both engines did with it."""

    def __init__(self, data):
        self.name, self.kv, self.tests, self.data = data["name"], data["kv"], data["tests"], data
        self.label = re.sub(r"\.gguf$", "", self.name)

    def values(self, engine, key):
        return self.data["seconds"][engine][key]

    def median(self, engine, key):
        return statistics.median(self.values(engine, key))

    def rate(self, engine, test):
        """Tokens a second."""
        return int(re.match(r"..(\d+)", test).group(1)) / self.median(engine, test)

    def ratio(self, test):
        return self.median("llama.cpp", test) / self.median("tern", test)

    def spread(self, test):
        """The larger of the engines' (longest - shortest) / median."""
        return max((max(v) - min(v)) / statistics.median(v) for v in (self.values(engine, test) for engine in ENGINES))

    def read_rate(self, test):
        """Bytes of weights and cache that tern's decode read a second."""
        n, depth = re.match(r"tg(\d+)(?:@(\d+))?$", test).groups()
        seen = int(depth or 0) + int(n) / 2
        return (self.median("tern", "weights") + seen * self.median("tern", "position")) * self.rate("tern", test)

    def overhead(self, engine):
        """Memory resident beyond the file and a full cache, in MiB."""
        cache = self.median("tern", "cache")
        return (self.median(engine, "resident") - self.data["file_bytes"] - cache) / 2**20


def number(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}"


def cells(entry, test):
    return [number(entry.rate("tern", test)), number(entry.rate("llama.cpp", test)), f"**{entry.ratio(test):.2f}**"]


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def prefill_table(entries, tests):
    head = ["model"] + [part for test in tests for part in (f"{test}: tern", "llama.cpp", "ratio")] + ["spread"]
    rows = []
    for e in entries:
        spread = max(e.spread(test) for test in tests)
        rows.append([e.label] + [cell for test in tests for cell in cells(e, test)] + [f"{100 * spread:.0f} %"])
    yield from table(head, rows)


def decode_table(entries, one, four):
    head = ["model", f"{one}: tern", "llama.cpp", "ratio", "GB/s", "of read", "spread"]
    head += [f"{four}: tern", "llama.cpp", "ratio", "of one"] if four else []
    rows = []
    for e in entries:
        rate = e.read_rate(one)
        row = [e.label, *cells(e, one), f"{rate / 1e9:.1f}", f"{100 * rate / e.median('tern', 'read'):.0f} %"]
        row.append(f"{100 * e.spread(one):.0f} %")
        if four:
            row += [*cells(e, four), f"{e.rate('tern', four) / e.rate('tern', one):.2f}"]
        rows.append(row)
    yield from table(head, rows)


def deep_table(entries):
    head = ["model", "cache", "test", "tern", "llama.cpp", "ratio", "spread"]
    rows = []
    for e in entries:
        for test in e.tests:
            rows.append([e.label, e.kv, test, *cells(e, test), f"{100 * e.spread(test):.0f} %"])
    yield from table(head, rows)


def memory_table(entries):
    head = ["model", "file", "tern", "llama.cpp"]
    rows = []
    for e in entries:
        size = f"{e.data['file_bytes'] / 2**20:.0f}"
        rows.append([e.label, size, *(f"{e.overhead(engine):+.0f}" for engine in ENGINES)])
    yield from table(head, rows)


def first_table(entries):
    rows = [
        [e.label, *(f"{1e3 * e.median(engine, 'first'):.0f}" for engine in ENGINES), f"**{e.ratio('first'):.2f}**"]
        for e in entries
    ]
    yield from table(["model", "tern", "llama.cpp", "ratio"], rows)


def markdown(record, entries):
    shallow = [e for e in entries if not any("@" in test for test in e.tests)]
    deep = [e for e in entries if e not in shallow]
    about = entries[0].data["about"]
    yield f"# Speed of tern beside llama.cpp, {record['date']}"
    yield ""
    limited = ", nothing above AVX2 in either" if record["avx2"] else ""
    rounds = f"Medians of {record['runs']} rounds" if record["runs"] > 1 else "One round, in which noise shows"
    yield f"{record['cpu']}, {record['threads']} threads{limited}. {rounds}, by `bench/peers`."
    yield f"{record['version']} ({about['tern']['isa']}); {about['llama.cpp']['version']} ({about['llama.cpp']['system']})."
    yield ""
    yield "Tokens a second. Models named by a weight type have the shape of Llama 3.2 1B and random weights. ppN: prefill of N tokens;"
    yield "tgN: decode of N tokens, x4: four at once, their logits all computed; @D: after D positions. Ratio: above 1, tern is faster."
    yield "Spread: (longest - shortest) / median, of the engine and test that varied most; where it is above some 10 %, other programs"
    yield "had the cores and the ratio says little."
    yield ""
    prefills = [test for test in (shallow[0].tests if shallow else []) if test.startswith("pp")]
    one = next((test for test in (shallow[0].tests if shallow else []) if re.fullmatch(r"tg\d+", test)), None)
    four = next((test for test in (shallow[0].tests if shallow else []) if "x" in test), None)
    if prefills:
        yield "## Prefill\n"
        yield from prefill_table(shallow, prefills)
    if one:
        yield "## Decode\n"
        yield "GB/s: weights and cache read by tern; of read: beside plain reads by the same threads, measured in the same process."
        yield "Of one: tern's rate of four at once beside one at a time.\n"
        yield from decode_table(shallow, one, four)
    if deep:
        yield "## At depth\n"
        yield from deep_table(deep)
    yield "## Memory\n"
    yield "MiB: the file, and what is resident beyond the file and a full KV cache after the tests.\n"
    yield from memory_table([e for e in entries if e not in deep])
    with_first = [e for e in entries if "first" in e.data["seconds"]["tern"]]
    if with_first:
        yield "## One token, from start to end of the program\n"
        yield "Milliseconds; llama.cpp's without the start of Python.\n"
        yield from first_table(with_first)


# ---- The chart ----------------------------------------------------------------------------------------------------------

BAR, GAP, LEFT, SCALE, FONT = 11, 8, 130, 110, 'font-family="sans-serif" font-size="12"'
COLORS = ("#3465a4", "#c17d11")


def chart(record, entries):
    """Bars of llama.cpp's time over tern's: the first prefill longest measured, and decode."""
    groups = []
    for e in entries:
        prefill = max((t for t in e.tests if t.startswith("pp")), key=lambda t: int(re.match(r"pp(\d+)", t).group(1)))
        decode = next(t for t in e.tests if re.match(r"tg\d+(@|$)", t))
        label = e.label + (f", {e.kv}" if "@" in decode else "")
        groups.append((label, [(prefill, e.ratio(prefill)), (decode, e.ratio(decode))]))
    longest = max(ratio for _, bars in groups for _, ratio in bars)
    width, height = LEFT + int(SCALE * (longest + 1.2)), 60 + len(groups) * (2 * BAR + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {FONT}>']
    out.append(f'<rect width="{width}" height="{height}" fill="#ffffff"/>')
    title = f"llama.cpp's time / tern's, {record['threads']} threads, {record['cpu']}"
    out.append(f'<text x="8" y="18">{html.escape(title)}</text>')
    for i, text in enumerate(("prefill", "decode")):
        out.append(f'<rect x="{LEFT + 90 * i}" y="27" width="{BAR}" height="{BAR}" fill="{COLORS[i]}"/>')
        out.append(f'<text x="{LEFT + 90 * i + 16}" y="37">{text}</text>')
    y = 50
    for label, bars in groups:
        out.append(f'<text x="{LEFT - 8}" y="{y + BAR + 4}" text-anchor="end">{html.escape(label)}</text>')
        for (test, ratio), color in zip(bars, COLORS):
            out.append(f'<rect x="{LEFT}" y="{y}" width="{SCALE * ratio:.1f}" height="{BAR}" fill="{color}"/>')
            x = LEFT + SCALE * ratio + 4
            out.append(f'<text x="{x:.1f}" y="{y + BAR - 1}" font-size="10">{ratio:.2f} {html.escape(test)}</text>')
            y += BAR
        y += GAP
    x = LEFT + SCALE
    out.append(f'<line x1="{x}" y1="44" x2="{x}" y2="{height - 6}" stroke="#000000" stroke-dasharray="3 3"/>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def write(record, output):
    entries = [Entry(data) for data in record["entries"]]
    text = "\n".join(markdown(record, entries))
    if not output:
        print(text)
        return
    picture = output.with_name(output.stem.lower() + ".svg")
    head, rest = text.split("\n\n", 1)
    output.write_text(f"{head}\n\n![Ratios, above 1 tern is faster]({picture.name})\n\n{rest}")
    picture.write_text(chart(record, entries))
