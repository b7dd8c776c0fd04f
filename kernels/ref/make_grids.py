#!/usr/bin/env python3
"""Writes grids.c: the grids of the IQ1, IQ2 and IQ3 types, sets of points that are part of the file format.

    kernels/ref/make_grids.py > kernels/ref/grids.c       (needs gguf)

The points are those that Python's gguf package publishes (gguf/quants.py). They are kept as codes, two or four bits for
each value, which macros turn into bytes when grids.c is compiled.
"""

from gguf import quants

WIDTH = 118

# name, class of the gguf package, values a point, what codes stand for, and why
GRIDS = [
    ("iq2_xxs", quants.IQ2_XXS, 8, (8, 25, 43)),
    ("iq2_xs", quants.IQ2_XS, 8, (8, 25, 43)),
    ("iq2_s", quants.IQ2_S, 8, (8, 25, 43)),
    ("iq1", quants.IQ1_S, 8, (0, 8, 16)),  # -1, 0, 1 as 8 * (value + 1)
    ("iq3_xxs", quants.IQ3_XXS, 4, (2, 6, 10, 14, 18, 22, 26, 31)),  # halves: all of the published ones are even
    ("iq3_s", quants.IQ3_S, 4, (1, 3, 5, 7, 9, 11, 13, 15)),
]

HEAD = """/* The grids of the IQ1, IQ2 and IQ3 types (grids.h), made by make_grids.py: a point is written as the codes of its values,
 * the first one in the lowest bits, and becomes bytes as this file is compiled. */
#include "grids.h"

/* clang-format off */
/* Value i of 8 two-bit codes 0, 1, 2, and of 4 four-bit codes 0..7, as byte i. */
#define TWO(code, i, a, b, c) (uint64_t)((code) >> 2 * (i) & 3 ? (code) >> 2 * (i) & 2 ? (c) : (b) : (a)) << 8 * (i)
#define EIGHT(code, ...)                                                                                     \\
    (TWO(code, 0, __VA_ARGS__) | TWO(code, 1, __VA_ARGS__) | TWO(code, 2, __VA_ARGS__) |                     \\
     TWO(code, 3, __VA_ARGS__) | TWO(code, 4, __VA_ARGS__) | TWO(code, 5, __VA_ARGS__) |                     \\
     TWO(code, 6, __VA_ARGS__) | TWO(code, 7, __VA_ARGS__)),
#define FOUR(code, value)                                                                                    \\
    (value((code) & 7) | value((code) >> 4 & 7) << 8 | value((code) >> 8 & 7) << 16 |                        \\
     value((code) >> 12 & 7) << 24),
/* 2, 6, 10 .. 26, 31 and 1, 3, 5 .. 15 */
#define IQ3_XXS(code) ((uint32_t)(4 * (code) + ((code) == 7 ? 3 : 2)))
#define IQ3_S(code)   ((uint32_t)(2 * (code) + 1))
"""

MACROS = {"iq1": "EIGHT(code, 0, 8, 16)", "iq3_xxs": "FOUR(code, IQ3_XXS)", "iq3_s": "FOUR(code, IQ3_S)"}


def main():
    print(HEAD)
    for name, kind, size, values in GRIDS:
        kind.init_grid()
        points = kind.grid.reshape(-1, size)
        published = {published: code for code, published in enumerate(kind.grid_map)}
        assert len(values) == len(published)
        bits = 16 // size
        codes = [sum(published[value] << bits * i for i, value in enumerate(point)) for point in points]
        print(f"#define P(code) {MACROS.get(name, 'EIGHT(code, 8, 25, 43)')}")
        print(f"const uint{8 * size}_t tn_grid_{name}[{len(codes)}] = {{")
        line = ""
        for code in codes:
            word = f"P({code:#x})"
            if len(line) + len(word) > WIDTH:
                print(line)
                line = ""
            line += word
        print(f"{line}\n}};\n#undef P")


if __name__ == "__main__":
    main()
