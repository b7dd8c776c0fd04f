"""The tree keeps to its own rules (docs: the layers' table of the design). Each rule is a function that takes the root of
a tree and returns what breaks it; SelfTest runs each on a made-up tree that does, so that none can pass by finding
nothing to look at.

* #include lines follow the layers; a library's header stays in the part that the library was chosen for.
* Only src/model and models name an architecture.
* The library never ends the process, and has no mutable variable outside functions.
* The library reads and writes numbers as the C locale does, whatever the host's is.
* Kernel files have no conditional compilation.
* In the library for x86-64 only what is named for an instruction set holds its instructions; all else runs on any such processor.
* Every header compiles alone as C11, the public one as C++17 too. A kernel header that is written once for several
  instruction sets may need definitions of the file that includes it, if the comment at its top says so.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = pathlib.Path(os.environ.get("TERN_BUILD", ROOT / "build" / "tests")).parent / "libtern_core.a"
PARTS = ("src", "formats", "kernels", "tools", "include", "bench", "examples")
LIBRARY_PARTS = ("src", "formats", "kernels")

# What each layer may include beside itself. "kernels.h" is kernels/kernels.h alone, "tern.h" the public header.
BELOW_SESSION = {"base", "formats", "graph", "text", "model", "plan", "exec", "kernels.h"}
MAY_INCLUDE = {
    "tern.h": set(),
    "base": set(),
    "formats": {"base"},
    "kernels": {"base", "kernels.h"},
    "kernels.h": {"base"},
    "graph": {"base"},
    "text": {"base"},
    "model": {"base", "formats", "graph"},
    "plan": {"base", "graph", "kernels.h"},
    "exec": {"base", "plan", "kernels.h"},
    "convert": {"base", "formats", "model", "text", "quantize"},
    "quantize": {"base", "formats", "exec", "kernels.h"},
    "session": BELOW_SESSION,
    "quality": BELOW_SESSION | {"session"},
    "api": BELOW_SESSION | {"session", "quality", "quantize", "convert", "tern.h"},
    "tools": {"tern.h"},
    "bench": {"tern.h"},
    "examples": {"tern.h"},
}
# Single files that cross: the list of ops is written once, and exec makes its table of run functions from it; the conversions of
# small floats and the grids are there once.
CROSSINGS = [
    (r"src/exec/.*", r"src/graph/ops\.def"),
    (r"src/quantize/.*", r"kernels/ref/(math|grids)\.h"),
]

# <...> headers: libraries and instruction sets by where they may be, and all others that may be anywhere.
LIBRARY_HEADERS = {
    "yaml.h": r"(formats|src/(model|quantize|convert)|tools)/",
    "pcre2.h": r"src/text/",
    "utf8proc.h": r"src/text/",
    "jansson.h": r"(tools|formats|src/(base|text|convert|api))/",  # src/api: conversations come as JSON text
    "histedit.h": r"tools/",
    "pthread.h": r"(src/exec|examples)/",
    "dirent.h": r"(src/convert|examples)/",  # convert: a checkpoint is a folder
    "gtk/gtk.h": r"examples/desktop/",
    "immintrin.h": r"(kernels/x86|src/exec)/",  # exec: the pause of a spinning thread, the speed of multiplies
    "cpuid.h": r"src/base/",
    "arm_neon.h": r"(kernels/arm|src/exec)/",
    "asm/hwcap.h": r"src/base/",
    "sanitizer/asan_interface.h": r"src/base/arena",  # AddressSanitizer must know what an arena has handed out
}
PLAIN_HEADERS = set(
    "assert.h ctype.h errno.h fcntl.h float.h inttypes.h limits.h locale.h math.h poll.h regex.h sched.h setjmp.h signal.h stdalign.h"
    " stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h strings.h termios.h time.h unistd.h wchar.h".split()
)

# Names beside those of models/*.yaml, and the files that hold names of tokenizers, which many architectures share.
MORE_ARCHITECTURES = {"mistral", "gemma", "qwen"}
TOKENIZER_TABLES = {
    "src/text/pretok_table.c",
    "src/text/tokenizer_load.c",
    "src/convert/vocab_json.c",
    "src/convert/vocab_pre.c",
    "src/convert/vocab_special.c",
    "src/convert/vocab_wordpiece.c",
    "src/convert/vocab_spm.c",
    "src/convert/vocab_wordpiece.c",
}

# Mutable variables that the design allows. None: the table of kernels is in the model that was opened.
MUTABLE_ALLOWED = {"was_refused"}  # src/base/json.c: a thread's own, while jansson parses

C_TOKEN = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def sources(root, parts=PARTS, suffixes=(".c", ".h", ".def")):
    """(path relative to the root, text) of every source file."""
    for part in parts:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def without_comments(text, strings=True):
    """Comments, and string literals unless `strings`, become spaces; lines stay where they are."""

    def blank(match):
        if strings and not match.group("comment"):
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return C_TOKEN.sub(blank, text)


def lines_with(text, pattern):
    for number, line in enumerate(text.split("\n"), 1):
        for match in re.finditer(pattern, line):
            yield number, match


def layer_of(path):
    if path == "kernels/kernels.h":
        return "kernels.h"
    parts = path.split("/")
    name = parts[1] if parts[0] == "src" else parts[0]
    return "tern.h" if name == "include" else name


def resolve(root, path, name):
    """The file that #include "name" in `path` means, relative to the root; None if there is none."""
    for folder in ((root / path).parent, root / "include", root):
        found = (folder / name).resolve()
        if found.is_file() and found.is_relative_to(root.resolve()):
            return found.relative_to(root.resolve()).as_posix()
    return None


def check_arrow(root, path, name):
    target = resolve(root, path, name)
    if not target:
        return f'"{name}" is no file of the tree'
    layer, other = layer_of(path), layer_of(target)
    if layer not in MAY_INCLUDE:
        return f"{layer} is not a layer of the design"
    if other == layer or other in MAY_INCLUDE[layer]:
        return None
    if any(re.fullmatch(a, path) and re.fullmatch(b, target) for a, b in CROSSINGS):
        return None
    return f"{layer} may not include {target}"


def check_system_header(path, name):
    if name in LIBRARY_HEADERS:
        return None if re.match(LIBRARY_HEADERS[name], path) else f"<{name}> is for {LIBRARY_HEADERS[name]} only"
    if name in PLAIN_HEADERS or name.startswith(("sys/", "linux/")):
        return None
    return f"<{name}> is neither libc's nor a library of the design"


def check_includes(root):
    failures = []
    for path, text in sources(root):
        for line, match in lines_with(without_comments(text), r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>|(.*))'):
            own, system, other = match.groups()
            if own:
                failure = check_arrow(root, path, own)
            elif system:
                failure = check_system_header(path, system)
            else:
                failure = f"#include {other}: not a plain name"
            if failure:
                failures.append(f"{path}:{line}: {failure}")
    return failures


def check_architecture_names(root):
    names = {path.stem.lower() for path in (root / "models").glob("*.yaml")} | MORE_ARCHITECTURES
    failures = []
    for path, text in sources(root):
        if path.startswith("src/model/"):
            continue
        if path in TOKENIZER_TABLES:
            continue
        for line, match in lines_with(without_comments(text), r"[A-Za-z][A-Za-z0-9]*"):
            if match.group().lower() in names:
                failures.append(f"{path}:{line}: names the architecture {match.group()}")
    return failures


def check_never_ends(root):
    failures = []
    for path, text in sources(root, LIBRARY_PARTS):
        code = without_comments(text, strings=False)
        for line, match in lines_with(code, r"\b(abort|_?exit|_Exit|quick_exit|raise|kill)\s*\("):
            failures.append(f"{path}:{line}: {match.group(1)}() in the library")
    return failures


def check_locale(root):
    """What depends on the host's locale is in one file, which replaces it."""
    failures = []
    for path, text in sources(root, LIBRARY_PARTS):
        if path == "src/base/c_locale.c":
            continue
        code = without_comments(text)
        for line, match in lines_with(code, r"\b(strto(d|f|ld)|atof|strftime|setlocale|wcs\w+|mbs?to\w+)\s*\("):
            failures.append(f"{path}:{line}: {match.group(1)}() is as the host's locale wants it")
        for match in re.finditer(r"\b(v?(?:s|sn|f|as|d)?printf)\s*\(([^;]*);", code):
            if re.search(r'"[^"]*%[-+ #0-9.*]*[aefgAEFG]', match.group(2).replace("%%", "")):
                line = code.count("\n", 0, match.start()) + 1
                failures.append(f"{path}:{line}: {match.group(1)}() of a number with a point")
    return failures


def check_kernel_conditionals(root):
    failures = []
    for path, text in sources(root, ("kernels",)):
        if path.count("/") < 2:
            continue  # kernels.c chooses, once
        lines = [line.strip() for line in without_comments(text).split("\n")]
        directives = [(n, line) for n, line in enumerate(lines, 1) if re.match(r"#\s*(if|el|endif|define)", line)]
        guard = re.match(r"#ifndef (TN_\w+_H)$", directives[0][1]) if directives else None
        if path.endswith(".h"):
            closed = guard and directives[1][1] == f"#define {guard.group(1)}" and directives[-1][1].startswith("#endif")
            if not closed:
                failures.append(f"{path}: no include guard around it")
            directives = directives[2:-1] if closed else directives
        failures += [
            f"{path}:{n}: {line}: conditional compilation in a kernel file"
            for n, line in directives
            if not re.match(r"#\s*define", line)
        ]
    return failures


def check_mutable_variables(library):
    """Objects in writable sections. What is const but holds addresses is in .data.rel.ro, read-only once loaded."""
    table = subprocess.run(["objdump", "-t", library], capture_output=True, text=True, check=True).stdout
    failures, member = [], ""
    for line in table.splitlines():
        if ":     file format" in line:
            member = line.split(":")[0]
        found = re.match(r"[0-9a-f]+ .{7} (\.t?data\S*|\.t?bss\S*|\*COM\*)\t[0-9a-f]+ (?:\.hidden )?(\S+)$", line)
        if not found or found.group(1).startswith(".data.rel.ro") or found.group(2).startswith("."):
            continue
        if found.group(2) not in MUTABLE_ALLOWED:
            failures.append(f"{member}: {found.group(2)} is mutable ({found.group(1)})")
    return failures


# Instructions that x86-64's first processors lack, and what of those a level may not use. tzcnt is not among them: to them
# it is bsf, and compilers write it where both are the same.
LEVELS = {
    "avx2": r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])|vpdp",
    "avxvnni": r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])",
    "avx512": r"vpdp",
    "avx512vnni": r"\{vex\}",
}
BEYOND_BASELINE = re.compile(
    r"""v(?!err$|erw$)\w+ | (h|add)(add|sub)p[sd] | mov(ddup|shdup|sldup|be\w?|ntdqa) | lddqu | fisttp\w*
    | p(shufb|h(add|sub)\w*|maddubsw|mulhrsw|sign[bwd]|alignr|abs[bwd]) | p?blend\w+ | p(max|min)(sb|sd|uw|ud) | pmul(ld|dq)
    | p(ins|ext)r[bdq] | pmov[sz]x\w+ | ptest | pcmp(eq|gt)q | pcmp[ei]str\w+ | packusdw | phminposuw | round[ps][sd]
    | dpp[sd] | (insert|extract)ps | mpsadbw | crc32\w? | (pop|lz)cnt\w? | andn\w? | bextr\w? | bls(i|r|msk)\w? | bzhi\w?
    | p(dep|ext)\w? | mulx\w? | rorx\w? | s(ar|hl|hr)x\w? | ad[co]x\w? | aes\w+ | sha\d\w+ | pclmul\w+
    | k(mov|or|and|not|test|shift|unpck|xor|xnor|add)\w+""",
    re.VERBOSE,
)


def level_in(name):
    """Of kernels_avx2.c.o, tn_add_avx2, or what a compiler made of it, tn_add_avx2.part.0."""
    found = re.search(rf"_({'|'.join(LEVELS)})(\.|$)", name)
    return found.group(1) if found else None


def check_instructions(library):
    """The level is that of the member or, if it has functions of several, of the function."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    failures = []
    for part in re.split(r"\n(?=\S+:     file format)", listing):
        member = part.lstrip().split(":")[0]
        functions = re.split(r"\n[0-9a-f]+ <(\S+)>:\n", part)
        names, bodies = functions[1::2], functions[2::2]
        levels = {level_in(name) for name in names} - {None}
        of_member = level_in(member) or (levels.pop() if len(levels) == 1 else None)
        for name, body in zip(names, bodies):
            level = level_in(name) or of_member
            for line in body.splitlines():
                code = line.split("\t", 2)[-1]
                prefixed = re.sub(r"^((rep\w*|lock|data16|bnd|notrack|[c-gs]s) )*(\{\w+\} )?", "", code)
                mnemonic = prefixed.split(None, 1)[0] if prefixed.split() else ""
                if re.search(LEVELS[level], code) if level else BEYOND_BASELINE.fullmatch(mnemonic):
                    failures.append(f"{member}: {name}: '{code.strip()}' is not for {level or 'any processor'}")
                    break
    return failures


def is_sanitized(library):
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    return any(name in symbols for name in ("__asan_init", "__ubsan", "__tsan_init"))


WARNINGS = "-Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wstrict-prototypes -Werror".split()
KERNEL_TARGETS = {  # every instruction set that a header of the folder may use
    "kernels/x86/": ("x86_64", "x86_64-linux-gnu-gcc", ["-march=sapphirerapids"]),
    "kernels/arm/": ("aarch64", "aarch64-linux-gnu-gcc", ["-march=armv8.6-a+fp16"]),
}


def compiler_for(path):
    """The compiler and flags for a header, or (None, name of what is missing)."""
    for folder, (machine, cross, flags) in KERNEL_TARGETS.items():
        if path.startswith(folder):
            compiler = os.environ.get("CC", "cc") if platform.machine() == machine else cross
            return (compiler, flags) if shutil.which(compiler) else (None, compiler)
    return os.environ.get("CC", "cc"), []


def is_template(path, text):
    """A header that gets an instruction set's primitives from the including file, and says so at its top."""
    head = re.match(r"/\*.*?\*/", text, re.DOTALL)
    return bool(
        re.match(r"kernels/\w+/", path) and head and re.search(r"included?\s+after|including\s+(\*\s+)?file", head.group())
    )


def compile_failure(root, path, command):
    done = subprocess.run(
        [*command, "-fsyntax-only", f"-I{root / 'include'}", f"-I{root}", "-"],
        input=f'#include "{root / path}"\n',
        capture_output=True,
        text=True,
    )
    return [f"{path}: does not compile alone: {done.stderr.strip()[:400]}"] if done.returncode else []


def check_headers(root, unchecked):
    """What cannot be checked here for want of a compiler is added to `unchecked`."""
    failures = []
    for path, text in sources(root, suffixes=(".h",)):
        if is_template(path, text):
            continue
        compiler, flags = compiler_for(path)
        if not compiler:
            unchecked.append(f"{path}: no {flags}")
            continue
        defines = ["-D_GNU_SOURCE", "-DPCRE2_CODE_UNIT_WIDTH=8"]
        failures += compile_failure(root, path, [compiler, "-std=c11", "-x", "c", *WARNINGS, *defines, *flags])
    return failures


def check_public_header(root):
    cxx = os.environ.get("CXX", "c++")
    flags = ["-std=c++17", "-x", "c++", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    c = [os.environ.get("CC", "cc"), "-std=c11", "-x", "c", *WARNINGS, "-Wpedantic"]
    return compile_failure(root, "include/tern.h", [cxx, *flags]) + compile_failure(root, "include/tern.h", c)


class Tree(unittest.TestCase):
    def expect_none(self, failures):
        self.assertFalse(failures, "\n" + "\n".join(failures))

    def test_includes_follow_the_layers(self):
        self.assertGreater(len(list(sources(ROOT))), 50)
        self.expect_none(check_includes(ROOT))

    def test_only_the_model_layer_names_an_architecture(self):
        self.expect_none(check_architecture_names(ROOT))

    def test_library_never_ends_the_process(self):
        self.expect_none(check_never_ends(ROOT))

    def test_library_asks_no_locale(self):
        self.expect_none(check_locale(ROOT))

    def test_kernel_files_have_no_conditional_compilation(self):
        self.expect_none(check_kernel_conditionals(ROOT))

    def test_library_has_no_mutable_variable(self):
        if not LIBRARY.exists():
            self.skipTest(f"no {LIBRARY}")
        if is_sanitized(LIBRARY):
            self.skipTest("a sanitizer's own variables are in the library")
        self.expect_none(check_mutable_variables(LIBRARY))

    @unittest.skipUnless(platform.machine() == "x86_64", "the instructions known are those of x86-64")
    def test_only_code_of_a_level_holds_its_instructions(self):
        if not LIBRARY.exists():
            self.skipTest(f"no {LIBRARY}")
        if is_sanitized(LIBRARY):
            self.skipTest("a sanitizer's instructions are in the library")
        self.expect_none(check_instructions(LIBRARY))

    def test_every_header_compiles_alone(self):
        unchecked = []
        self.expect_none(check_headers(ROOT, unchecked))
        for line in unchecked:
            print("not checked:", line)

    def test_public_header_is_c11_and_cxx17(self):
        self.expect_none(check_public_header(ROOT))


class SelfTest(unittest.TestCase):
    """Every check finds what it is for, and lets pass what it must."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("models/alpaca.yaml", "")
        self.write("include/tern.h", "int tern_version(void);\n")
        self.write("src/base/status.h", "#include <stddef.h>\n")
        self.write("kernels/kernels.h", '#include "../src/base/status.h"\n')
        self.write("src/graph/graph.h", '#include "../base/status.h"\n')
        self.write("src/graph/ops.def", "")
        self.write("src/plan/plan.h", '#include "../../kernels/kernels.h"\n#include "../graph/graph.h"\n')

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def expect(self, failures, *parts):
        self.assertEqual(len(failures), 1 if parts else 0, failures)
        for part in parts:
            self.assertIn(part, failures[0])

    def expect_include(self, path, text, *parts):
        with self.subTest(path=path, text=text):
            self.write(path, text)
            self.expect(check_includes(self.root), *parts)
            (self.root / path).unlink()

    def test_arrows(self):
        self.expect_include("src/base/a.c", '#include "status.h"\n')
        self.expect_include("src/base/a.c", '#include "../graph/graph.h"\n', "src/base/a.c:1", "base may not")
        self.expect_include("src/text/a.c", '\n # include "../graph/graph.h"\n', "src/text/a.c:2", "text may not")
        self.expect_include("src/text/a.c", '/* #include "../graph/graph.h" */\n')
        self.expect_include("formats/a.c", '#include "../src/plan/plan.h"\n', "formats may not")
        self.expect_include("kernels/ref/a.c", '#include "../../src/graph/graph.h"\n', "kernels may not")
        self.expect_include("kernels/ref/a.c", '#include "../kernels.h"\n')
        self.expect_include("src/exec/a.c", '#include "../graph/ops.def"\n#include "../plan/plan.h"\n')
        self.expect_include("src/exec/a.c", '#include "../graph/graph.h"\n', "exec may not")
        self.expect_include("src/session/a.c", '#include "../plan/plan.h"\n')
        self.expect_include("src/api/api.c", '#include "tern.h"\n#include "../plan/plan.h"\n')
        self.expect_include("src/session/a.c", '#include "tern.h"\n', "session may not")
        self.expect_include("tools/a.c", '#include "tern.h"\n')
        self.expect_include("tools/a.c", '#include "src/base/status.h"\n', "tools may not")
        self.expect_include("include/more.h", '#include "../src/base/status.h"\n', "tern.h may not")
        self.expect_include("src/new/a.c", '#include "../base/status.h"\n', "new is not a layer")
        self.expect_include("src/base/a.c", '#include "gone.h"\n', "no file of the tree")
        self.expect_include("src/base/a.c", "#include HEADER\n", "not a plain name")

    def test_kernels_are_seen_through_their_header(self):
        self.write("kernels/ref/math.h", "")
        self.expect_include("src/plan/a.c", '#include "../../kernels/ref/math.h"\n', "plan may not")
        self.expect_include("src/session/a.c", '#include "../../kernels/ref/math.h"\n', "session may not")

    def test_library_headers(self):
        self.expect_include("src/model/a.c", "#include <yaml.h>\n#include <string.h>\n")
        self.expect_include("src/base/a.c", "#include <yaml.h>\n", "<yaml.h>")
        self.expect_include("src/model/a.c", "#include <pcre2.h>\n", "<pcre2.h>")
        self.expect_include("src/base/a.c", "#include <utf8proc.h>\n", "<utf8proc.h>")
        self.expect_include("src/model/a.c", "#include <jansson.h>\n", "<jansson.h>")
        self.expect_include("src/session/a.c", "#include <pthread.h>\n", "<pthread.h>")
        self.expect_include("src/plan/a.c", "#include <immintrin.h>\n", "<immintrin.h>")
        self.expect_include("tools/a.c", "#include <curl/curl.h>\n", "neither libc's")

    def test_architecture_names(self):
        for path, text, parts in (
            ("src/model/a.c", 'const char *a = "alpaca";', ()),
            ("src/graph/a.c", "/* alpaca */ int alpacas; // alpaca", ()),
            ("src/graph/a.c", 'const char *a = "alpaca.block_count";', ("src/graph/a.c:1",)),
            ("src/graph/a.c", "enum { TN_ARCH_ALPACA };", ("src/graph/a.c:1",)),
            ("tools/a.c", "int\nis_mistral;", ("tools/a.c:2",)),
            ("src/text/a.c", 'const char *a = "llama", *b = "gpt2", *c = "qwen2";', ()),
            ("src/text/a.c", 'const char *a = "alpaca";', ("src/text/a.c:1",)),
            ("formats/a.c", 'const char *a = "qwen";', ("formats/a.c:1",)),
        ):
            with self.subTest(path=path, text=text):
                self.write(path, text)
                self.expect(check_architecture_names(self.root), *parts)
                (self.root / path).unlink()

    def test_ends_of_the_process(self):
        for text, parts in (
            ("/* exit(1) */ void a(void) { puts(\"abort()\"); b.on_exit(); }", ()),
            ("void a(void) {\n    abort();\n}", ("formats/a.c:2", "abort")),
            ("void a(void) { exit (1); }", ("exit",)),
            ("void a(void) { _exit(1); }", ("_exit",)),
        ):
            with self.subTest(text=text):
                self.write("formats/a.c", text)
                self.expect(check_never_ends(self.root), *parts)

    def test_locales(self):
        for text, parts in (
            ('/* strtod(a) */ int n = tn_snprintf(a, 9, "%g", 1.0) + tn_strtod(a, 0);', ()),
            ('int n = snprintf(a, 9, "%d %%g", 1) + printf("%s", b);', ()),
            ("double n =\n strtod (a, 0);", ("formats/a.c:2", "strtod")),
            ('int n = snprintf(a, 9,\n "%d %-*.3g", 1, 2, 3.0);', ("formats/a.c:1", "snprintf")),
            ('int n = fprintf(f, "%5.1f", 1.0);', ("fprintf",)),
        ):
            with self.subTest(text=text):
                self.write("formats/a.c", text)
                self.expect(check_locale(self.root), *parts)

    def test_kernel_conditionals(self):
        guarded = "/* A */\n#ifndef TN_A_H\n#define TN_A_H\n#define TN_B 1\n%sint a(void);\n#endif\n"
        for path, text, parts in (
            ("kernels/x86/a.h", guarded % "", ()),
            ("kernels/x86/a.h", guarded % "#ifdef __AVX2__\n#endif\n", ("a.h:5", "__AVX2__")),
            ("kernels/x86/a.h", "int a(void);\n", ("no include guard",)),
            ("kernels/ref/a.c", "#define TN_B 1\nint a;\n", ()),
            ("kernels/ref/a.c", "int a;\n  # if defined(__AVX2__)\n", ("a.c:2",)),
            ("kernels/choose.c", "#if defined(__x86_64__)\n#endif\n", ()),
        ):
            with self.subTest(path=path, text=text):
                self.write(path, text)
                failures = check_kernel_conditionals(self.root)
                self.expect(failures[:1], *parts)
                (self.root / path).unlink()

    def test_mutable_variables(self):
        clean = 'static const char *const t[] = {"a", "b"};\nconst int n = 3;\nconst char *at(int i) { return t[i]; }\n'
        for name, text in (
            ("", clean),
            ("counter", clean + "int counter;\n"),
            ("counter", clean + "static int counter = 1;\nint next(void) { return counter++; }\n"),
            ("counter", "int next(void) { static int counter; return counter++; }\n"),
            ("counter", "_Thread_local int counter;\n"),
            ("names", 'const char *names[] = {"a", "b"};\n'),
        ):
            with self.subTest(text=text):
                self.write("a.c", text)
                compiler = [os.environ.get("CC", "cc"), "-fPIC", "-fdata-sections", "-c", "a.c", "-o", "a.o"]
                subprocess.run(compiler, cwd=self.root, check=True)
                (self.root / "a.a").unlink(missing_ok=True)
                subprocess.run(["ar", "rc", "a.a", "a.o"], cwd=self.root, check=True)
                self.expect(check_mutable_variables(self.root / "a.a"), *([name, "a.o"] if name else []))

    @unittest.skipUnless(platform.machine() == "x86_64", "the instructions known are those of x86-64")
    def test_instructions(self):
        add = "void add%s(float *x) { for (int i = 0; i < 64; i++) x[i] += 1; }\n"
        target = '__attribute__((target("avx2"))) '
        for name, text, flags, parts in (
            ("a", add % "", [], ()),
            ("a", add % "", ["-mavx2"], ("a.o: add:", "any processor")),
            ("a_avx2", add % "", ["-mavx2"], ()),
            ("a_avx2", add % "", ["-mavx512f", "-mprefer-vector-width=512"], ("add:", "%zmm", "not for avx2")),
            ("a_avxvnni", add % "", ["-mavx512f", "-mprefer-vector-width=512"], ("not for avxvnni",)),
            ("a", add % "_avx2" + "static int b;\n", ["-mavx2"], ()),
            ("a", target + add % "_avx2" + add % "_avx512" + add % "", [], ()),
            ("a", add % "_avx2" + add % "_avx512" + add % "", ["-mavx2"], ("a.o: add:", "any processor")),
            ("a", "int count(unsigned x) { return __builtin_popcount(x); }\n", ["-mpopcnt"], ("popcnt",)),
            ("a", "int first(unsigned x) { return __builtin_ctz(x); }\n", [], ()),
        ):
            with self.subTest(name=name, text=text, flags=flags):
                self.write("a.c", text)
                for old in self.root.glob("*.[ao]"):
                    old.unlink()
                compiler = [os.environ.get("CC", "cc"), "-O3", *flags, "-c", "a.c", "-o", f"{name}.o"]
                subprocess.run(compiler, cwd=self.root, check=True)
                subprocess.run(["ar", "rc", "a.a", f"{name}.o"], cwd=self.root, check=True)
                self.expect(check_instructions(self.root / "a.a"), *parts)

    def test_headers_alone(self):
        self.expect(check_headers(self.root, []))
        self.write("src/base/size.h", "size_t tn_n(void);\n")
        self.expect(check_headers(self.root, []), "src/base/size.h", "size_t")
        self.write("src/base/size.h", "/* Included after stddef.h. */\nsize_t tn_n(void);\n")
        self.expect(check_headers(self.root, []), "src/base/size.h", "size_t")

    def test_kernel_templates(self):
        """Only a kernel header may lean on the including file, and only if it says so."""
        self.write("kernels/ref/a.h", "/* Dots; an including\n * file gives tn_vi. */\ntn_vi tn_dot(void);\n")
        self.expect(check_headers(self.root, []))
        self.write("kernels/ref/a.h", "/* Dots. */\ntn_vi tn_dot(void);\n")
        self.expect(check_headers(self.root, []), "kernels/ref/a.h", "tn_vi")

    def test_public_header(self):
        self.expect(check_public_header(self.root))
        self.write("include/tern.h", "int tern_new(int class);\n")  # C, not C++
        self.expect(check_public_header(self.root), "include/tern.h", "class")
        self.write("include/tern.h", "struct tern_a { int n; int items[]; };\n")  # an extension in C++
        self.expect(check_public_header(self.root), "include/tern.h", "pedantic")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
