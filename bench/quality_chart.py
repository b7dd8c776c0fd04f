"""The table and the chart of what quality_table.py found."""

import math

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 860, 560, 70, 60, 20, 60
COLOURS = {"tern": "#1f5fbf", "llama.cpp": "#b0413e", "auto": "#1e8449"}
SAID = {"tern": "tern quantize --type", "llama.cpp": "llama.cpp, the same types", "auto": "tern quantize --auto"}
LEAST = 1e-4  # divergences below are those of F16 and BF16, of which there is nothing to see


def number(row, key, form):
    return form.format(row[key]) if key in row else ""


def table(data):
    """Of each type tern's row, then llama.cpp's; automatic recipes last."""
    whole = data["whole"]
    lines = [f"{whole['model']}, {whole['chunks']} chunks of {whole['context']} tokens; unquantized: perplexity "
             f"{whole['perplexity']:.3f} ± {whole['perplexity_error']:.3f}.", ""]  # fmt: skip
    head = ["type", "by", "MB", "bits a weight", "perplexity", "KLD mean", "KLD 99 %", "same top token", "prefill", "decode"]
    lines += ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    rows = list(data["rows"].values())
    order = list(dict.fromkeys(r["type"] for r in rows))
    for r in sorted(rows, key=lambda r: (r["by"] == "auto", order.index(r["type"]))):
        cells = [r["type"], r["by"], f"{r['mb']:.1f}", f"{r['bpw']:.2f}", f"{r['perplexity']:.3f}",
                 f"{r['kld_mean']:.4f} ± {r['kld_mean_error']:.4f}", f"{r['kld_99_percent']:.3f}", f"{r['same_top_percent']:.1f} %",
                 number(r, "prefill", "{:.0f}"), number(r, "decode", "{:.1f}")]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


class Axes:
    """Size from left to right, the logarithm of the divergence upwards."""

    def __init__(self, rows):
        sizes, logs = [r["mb"] for r in rows], [math.log10(r["kld_mean"]) for r in rows]
        self.low, self.high = 5 * math.floor(min(sizes) / 5), 5 * math.ceil(max(sizes) / 5)
        self.bottom, self.top = math.floor(min(logs) * 2) / 2, math.ceil(max(logs) * 2) / 2

    def x(self, mb):
        return LEFT + (mb - self.low) / (self.high - self.low or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, kld):
        return HEIGHT - BOTTOM - (math.log10(kld) - self.bottom) / (self.top - self.bottom or 1) * (HEIGHT - TOP - BOTTOM)

    def grid(self):
        parts = []
        for power in range(math.floor(self.bottom), math.ceil(self.top) + 1):
            for kld in (10.0**power, 3 * 10.0**power):
                if not self.bottom - 1e-9 <= math.log10(kld) <= self.top + 1e-9:
                    continue
                y = self.y(kld)
                parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
                parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{kld:g}</text>')
        step = 5 if self.high - self.low <= 60 else 10
        for mb in range(math.ceil(self.low / step) * step, self.high + 1, step):
            x = self.x(mb)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{mb}</text>')
        return parts


def free_place(x, y, name, taken):
    """Where a name can stand beside its point without covering another; None if nowhere."""
    wide = 6.2 * len(name)
    for dx, dy in [(6, 4), (-6 - wide, 4), (6, -6), (6, 14), (-6 - wide, -6), (-6 - wide, 14), (-wide / 2, -9), (-wide / 2, 18)]:
        box = (x + dx, y + dy - 10, x + dx + wide, y + dy + 2)
        if all(box[2] < t[0] or box[0] > t[2] or box[3] < t[1] or box[1] > t[3] for t in taken) and LEFT < box[0] and box[2] < WIDTH:
            taken.append(box)
            return x + dx, y + dy
    return None


def marks(axes, rows):
    """Points, the automatic ones joined; names of tern's and of the automatic ones, where there is room."""
    parts, taken = [], []
    auto = sorted((r for r in rows if r["by"] == "auto"), key=lambda r: r["mb"])
    points = " ".join(f"{axes.x(r['mb']):.1f},{axes.y(r['kld_mean']):.1f}" for r in auto)
    parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS["auto"]}" stroke-width="2"/>')
    for r in rows:
        x, y = axes.x(r["mb"]), axes.y(r["kld_mean"])
        taken.append((x - 4, y - 4, x + 4, y + 4))
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[r["by"]]}" fill-opacity="0.8"/>')
    for r in sorted((r for r in rows if r["by"] != "llama.cpp"), key=lambda r: r["by"] != "auto"):
        place = free_place(axes.x(r["mb"]), axes.y(r["kld_mean"]), r["type"], taken)
        if place:
            parts.append(f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" fill="{COLOURS[r["by"]]}">{r["type"]}</text>')
    return parts


def chart(rows):
    rows = [r for r in rows if r["kld_mean"] > LEAST]
    axes = Axes(rows)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 16}" text-anchor="middle" font-size="13">MB of the file</text>',
             f'<text x="{LEFT}" y="24" font-size="13">mean KL divergence from the unquantized model, nats a token</text>']  # fmt: skip
    parts += axes.grid() + marks(axes, rows)
    for i, (by, colour) in enumerate(COLOURS.items()):
        x, y = WIDTH - RIGHT - 170, TOP + 16 + 18 * i
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{colour}"/><text x="{x + 10}" y="{y}" font-size="12">{SAID[by]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
