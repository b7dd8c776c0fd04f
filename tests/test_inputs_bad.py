"""Every other input of a command than a model or a checkpoint, made wrong: prompts, grammars, schemas, templates, messages,
descriptions of architectures, recipes, importance matrices, saved states, questions. Each is refused (refusals.py) with
the words of its reason; what only looks wrong is done."""

import json
import os
import pathlib
import struct
import sys
import tempfile

try:
    import gguf
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(TESTS))
    import tiny
    from refusals import Runner
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

os.environ["XDG_CONFIG_HOME"] = "/nonexistent"  # no settings of whoever runs the tests
DEEP, LONG = 100_000, 60_000
GOOD = None  # in place of words: the command does it

# Grammars of `tern run --grammar`.
GRAMMARS = [
    ("60,000 parentheses", "root ::= " + "(" * LONG, ["nested deeper"]),
    ("a star of a star", 'root ::= ("a"*)*', GOOD),
    ("60,000 stars", 'root ::= "a"' + "*" * LONG, GOOD),
    ("left recursion", 'root ::= root "a" | "b"', ["rule 'root' is left-recursive"]),
    ("left recursion behind what may be empty", 'root ::= "x"* root "a"', ["left-recursive"]),
    ("a chain of 5,000 rules", 'root ::= r0\n' + "".join(f"r{i} ::= r{i + 1}\n" for i in range(4999)) + 'r4999 ::= "x"', GOOD),
    ("5,000 rules in a circle", "root ::= r0\n" + "".join(f"r{i} ::= r{(i + 1) % 5000}\n" for i in range(5000)), ["left-recursive"]),
    ("2^31 repetitions", 'root ::= "a"{0,2147483648}', ["expected at most 10000"]),
    ("2^64 repetitions", 'root ::= "a"{18446744073709551616}', ["expected at most 10000"]),
    ("fewer than at least", 'root ::= "a"{3,2}', ["below the least"]),
    ("repetitions of repetitions", 'root ::= "a"' + "{0,10000}" * 20, ["too many ways at once"]),
    ("no root", 'start ::= "a"', ["root"]),
    ("an unknown rule", "root ::= thing", ["thing"]),
    ("a rule twice", 'root ::= "a"\nroot ::= "b"', ["root"]),
    ("a text without end", 'root ::= "a', ["end"]),
    ("a class without end", "root ::= [a-z", ["end"]),
    ("a class backwards", "root ::= [z-a]", ["ends before it begins"]),
    ("an unknown escape", r'root ::= "\q"', ["escape"]),
    ("half an escape", r'root ::= "\x4"', ["hexadecimal"]),
    ("beyond Unicode", r'root ::= "\U00110000"', ["no character"]),
    ("a terminal escape", 'root ::= \x1b[31m"a"', ["expected"]),
    ("bad UTF-8", b'root ::= "\xff"', ["UTF-8"]),
    ("a NUL", b'root ::= "a\0b"', GOOD),
    ("nothing", "", ["root"]),
    ("nothing that ends", 'root ::= "a" root', GOOD),
    ("nothing at all matches", "root ::= []", ["no text matches"]),
]

CIRCLE = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
DOUBLING = {"$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)} | {"a40": {}}, "$ref": "#/$defs/a0"}

# Schemas of `tern run --json-schema`.
SCHEMAS = [
    ("a reference to itself", {"$ref": "#"}, ["leads back to itself"]),
    ("a circle of references", CIRCLE, ["leads back to itself"]),
    ("a reference to nothing", {"$ref": "#/$defs/none"}, ["nothing in this schema is '#/$defs/none'"]),
    ("a reference elsewhere", {"$ref": "http://example.com/x"}, ["nothing in this schema"]),
    ("2^40 copies", DOUBLING, ["more than 20000 schemas"]),
    ("60,000 lists", "[" * LONG, ["maximum parsing depth"]),
    ("60,000 objects", '{"a":' * LONG, ["maximum parsing depth"]),
    ("no JSON", "nul", ["line 1", "nul"]),
    ("nothing", "", ["line 1"]),
    ("a number", "3", ["expected"]),
    ("a key twice", '{"type": "string", "type": "null"}', ["duplicate"]),
    ("bad UTF-8", b'{"const": "\xff"}', ["0xff"]),
    ("a number beyond all", '{"const": 1e999}', ["overflow"]),
    ("an unknown keyword", {"x-y": 1}, ["x-y"]),
    ("a keyword that no grammar holds", {"not": {}}, ["not"]),
    ("an unknown type", {"type": "text"}, ["type"]),
    ("a length of -1", {"type": "string", "minLength": -1}, ["minLength"]),
    ("a length of 2^40", {"type": "string", "minLength": 2**40}, ["minLength"]),
    ("more than at most", {"type": "array", "minItems": 3, "maxItems": 2}, ["'maxItems' is below 'minItems'"]),
    ("a bound that is a text", {"type": "integer", "minimum": "1"}, ["minimum"]),
    ("nothing between the bounds", {"type": "integer", "minimum": 3, "maximum": 2}, ["no number lies between"]),
    ("an empty enum", {"enum": []}, ["enum"]),
    ("a pattern of 60,000 groups", {"pattern": "(" * LONG}, ["pattern"]),
    ("a pattern of groups without end", {"pattern": "^(a"}, ["pattern"]),
    ("a pattern of large repetitions", {"pattern": "^(a{1,9999}){1,9999}$"}, GOOD),
    ("a pattern that looks ahead", {"pattern": "^(?=a)"}, ["pattern"]),
    ("alternatives that overlap", {"oneOf": [{"type": "integer"}, {"type": "number"}]}, ["oneOf"]),
]

# Templates of `tern template --file`.
TEMPLATES = [
    ("10^5 parentheses", "{{ " + "(" * DEEP + "1" + ")" * DEEP + " }}", ["nested too deeply"]),
    ("10^5 lists", "{{ " + "[" * DEEP + "]" * DEEP + " }}", ["nested too deeply"]),
    ("10^5 times not", "{{ " + "not " * DEEP + "1 }}", ["nested too deeply"]),
    ("10^5 minus signs", "{{ " + "-" * DEEP + "1 }}", ["nested too deeply"]),
    ("10^5 attributes", "{{ x" + ".a" * DEEP + " }}", ["nested too deeply"]),
    ("10^5 filters", "{{ x" + "|string" * DEEP + " }}", ["nested too deeply"]),
    ("10^5 times if", "{% if 1 %}" * DEEP, ["nested too deeply"]),
    ("10^5 times for", "{% for i in x %}" * DEEP, ["nested too deeply"]),
    ("a macro that calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ["nested too deeply"]),
    ("a range of 10^9", "{% for i in range(1000000000) %}{% endfor %}", ["Range too big"]),
    ("a list of a range of 10^9", "{{ range(1000000000)|list }}", ["Range too big"]),
    ("loops in loops", "{% for i in range(9999) %}" * 3 + "{% endfor %}" * 3, ["too many steps"]),
    ("output without end", "{% for i in range(9999) %}{% for j in range(9999) %}{{ 'x' * 9999 }}{% endfor %}{% endfor %}", ["64 MiB"]),
    ("a text of 2^44", "{% set y = 'y' * 5000000 %}{{ 'x' * 16 * 1099511627776 }}", ["64 MiB"]),
    ("a text of a negative number of times", "{{ 'x' * -3 }}", GOOD),
    ("a text that doubles", "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", ["64 MiB"]),
    ("a list that doubles", "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", ["64 MiB"]),
    ("a number of 10^9 digits", "{{ 10 ** 1000000000 }}", ["64 bits"]),
    ("a division by zero", "{{ 1 // 0 }}", ["by zero"]),
    ("a width of 10^12", "{{ 'x'|center(1000000000000) }}", ["64 MiB"]),
    ("a format of 10^12", "{{ '%1000000000000d'|format(1) }}", ["too large"]),
    ("an unknown tag", "a\n{% foo %}", ["line 2", "unknown tag 'foo'"]),
    ("an unknown filter", "{{ 1|foo }}", ["no filter is named 'foo'"]),
    ("an unknown test", "{{ 1 is foo }}", ["no test is named 'foo'"]),
    ("an unknown function", "{{ foo() }}", ["'foo' is undefined"]),
    ("its own exception", "{{ raise_exception('roles must \x1b[1m alternate') }}", [r"roles must \x1b[1m alternate"]),
    ("a file beside it", "{% include '/etc/passwd' %}", ["'include' is not supported"]),
    ("Python's insides", "{{ ''.__class__.__mro__ }}", ["has no attribute"]),
    ("an expression without end", "{{ 1 +", ["unexpected end"]),
    ("a comment without end", "{# x", ["comment has no end"]),
    ("bad UTF-8", b"a\xff", ["UTF-8"]),
    ("a NUL", b"a\0{{ 1 }}", GOOD),
    ("nothing", "", GOOD),
]

# Messages of `tern template --messages`, for a template that prints roles and texts.
MESSAGES = [
    ("nothing", "", ["messages"]),
    ("half a list", '[{"role": "user"', ["messages", "line 1"]),
    ("10^5 lists", "[" * DEEP, ["messages: line 1", "depth"]),
    ("a text", '"hello"', ["expected an array, found a string"]),
    ("an object", "{}", ["expected an array, found an object"]),
    ("a list of numbers", "[1, 2]", GOOD),
    ("bad UTF-8", b'[{"role": "user", "content": "\xff"}]', ["messages"]),
    ("a lone surrogate", r'[{"role": "user", "content": "\ud800"}]', ["invalid Unicode"]),
    ("a key twice", '[{"role": "user", "role": "x", "content": ""}]', GOOD),
    ("a number beyond all", '[{"role": "user", "content": 1e999}]', ["overflow"]),
    ("a NUL in a text", r'[{"role": "user", "content": "a\u0000b"}]', GOOD),
]

LLAMA = (TESTS.parent / "models" / "llama.yaml").read_text()


def described(old, new):
    assert LLAMA.count(old) >= 1, old
    return LLAMA.replace(old, new, 1)


# Descriptions of `--arch-file`.
BOMB = "a: &a [x, x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(24))
DESCRIPTIONS = [
    ("nothing", "", ["bad.txt"]),
    ("no YAML", "name: [", ["bad.txt:"]),
    ("10^5 lists", "[" * DEEP, ["nested deeper"]),
    ("10^5 objects", "{a: " * DEEP, ["nested deeper"]),
    ("10^5 lists in lines", "- " * DEEP, ["nested deeper"]),
    ("10^5 keys", "name: x\nhparams: {" + ",".join(f"k{i}: 1" for i in range(DEEP)) + "}\n", ["keys in a mapping"]),
    ("10^5 anchors", "name: [" + ",".join(f"&a{i} x" for i in range(DEEP)) + "]\n", ["anchors"]),
    ("10^5 directives", "".join(f"%TAG !{i:x}! x\n" for i in range(DEEP // 2)) + "---\nname: x\n", ["directive"]),
    ("aliases of aliases", BOMB, ["unknown field"]),
    ("a list", "- 1\n", ["bad.txt:"]),
    ("a terminal escape", 'name: "\\e[31m"\n', ["bad.txt:"]),
    ("bad UTF-8", b"name: \xff\n", ["bad.txt"]),
    ("a NUL", b"name: a\0b\n", ["bad.txt"]),
    ("an unknown field", LLAMA + "\nsurprise: 1\n", ["surprise"]),
    ("no number", described("min: 1,", "min: one,"), ["bad.txt:6:47: expected a number"]),
    ("an unknown name in a shape", described("shape: [n_embd", "shape: [n_nothing"), ["n_nothing"]),
    ("10^5 parentheses in a shape", described("shape: [n_embd", f'shape: ["{"(" * DEEP}"'), ["nested too deep"]),
    ("10^5 minus signs in a shape", described("shape: [n_embd", f'shape: ["{"-" * DEEP}n_embd"'), ["nested too deep"]),
    ("a shape divided by zero", described("shape: [n_embd", 'shape: ["n_embd / 0"'), ["division by zero"]),
    ("a shape of 2^60", described("shape: [n_embd", 'shape: ["n_embd * 1152921504606846976"'), ["expected a whole number"]),
    ("a negative shape", described("shape: [n_embd", 'shape: ["0 - n_embd"'), ["is -64 in layer 0"]),
    ("half a shape", described("shape: [n_embd", 'shape: ["n_embd *"'), ["expected a number, a name"]),
]

# Recipes of `tern quantize --recipe`.
RECIPES = [
    ("nothing", "", ["is empty"]),
    ("no YAML", "type: [", ["bad.txt:2:1"]),
    ("10^5 lists", "[" * DEEP, ["nested deeper"]),
    ("10^5 anchors", "type: [" + ",".join(f"&a{i} x" for i in range(DEEP)) + "]\n", ["anchors"]),
    ("aliases of aliases", BOMB, ["unknown field"]),
    ("an unknown type", "type: Q9_X", ["'Q9_X'"]),
    ("an unknown field", "type: Q4_0\nwhat: 1", [":2:1: unknown field 'what'"]),
    ("a field twice", "type: Q4_0\ntype: Q4_0", ["given twice"]),
    ("layers backwards", "type: Q4_0\nrules: [{tensors: x, type: Q4_0, layers: '5-3'}]", ["not layers"]),
    ("a layer of 2^64", "type: Q4_0\nrules: [{tensors: x, type: Q4_0, layers: '18446744073709551616'}]", ["not layers"]),
    ("a terminal escape", 'type: "\\e[31m"', [r"\x1b[31m"]),
    ("a pattern of 10^5 stars", f"type: Q4_0\nrules: [{{tensors: '{'*a' * DEEP}', type: Q4_0}}]", GOOD),
    ("a target that nothing meets", "target_bpw: 0.01", ["the smallest types need"]),
    ("a target that is no number", "target_bpw: .nan", ["bits a weight"]),
]


def dat(*entries, count=None):
    """llama.cpp's first form of an importance matrix: a count, then names, calls and values."""
    raw = struct.pack("<i", len(entries) if count is None else count)
    for name, n_calls, n_values, values in entries:
        raw += struct.pack("<i", len(name)) + name + struct.pack("<ii", n_calls, n_values) + values
    return raw


# Importance matrices of `tern quantize --imatrix`; the tensor is 64 wide.
NAME = b"blk.0.ffn_up.weight"
ONES = struct.pack("<64f", *[1.0] * 64)
MATRICES = [
    ("nothing", b"", ["bad.txt"]),
    ("three bytes", b"abc", ["neither GGUF"]),
    ("no entry", dat(), ["neither GGUF"]),
    ("a name of no bytes", dat((b"", 1, 64, ONES)), ["entry 0 is truncated"]),
    ("no values", dat((NAME, 1, 0, ONES)), ["entry 0 is truncated"]),
    ("cut behind a name", dat((NAME, 1, 64, b""))[:-8], ["bad.txt"]),
    ("2^31 - 1 entries", dat((NAME, 1, 64, ONES), count=2**31 - 1), ["neither GGUF"]),
    ("-1 entries", dat((NAME, 1, 64, ONES), count=-1), ["neither GGUF"]),
    ("a name of 2^31 - 1", struct.pack("<ii", 1, 2**31 - 1), ["bad.txt"]),
    ("a name of -1", struct.pack("<ii", 1, -1) + bytes(100), ["bad.txt"]),
    ("values of 2^31 - 1", dat((NAME, 1, 2**31 - 1, ONES)), ["entry 0 is truncated"]),
    ("values of -64", dat((NAME, 1, -64, ONES)), ["entry 0 is truncated"]),
    ("values of another length", dat((NAME, 1, 63, ONES[:-4])), [NAME.decode(), "63"]),
    ("a value that is NaN", dat((NAME, 1, 64, ONES[:-4] + struct.pack("<f", float("nan")))), [NAME.decode(), "nan"]),
    ("a value that is infinite", dat((NAME, 1, 64, ONES[:-4] + struct.pack("<f", float("inf")))), [NAME.decode(), "inf"]),
    ("a negative value", dat((NAME, 1, 64, ONES[:-4] + struct.pack("<f", -1))), [NAME.decode(), "-1"]),
    ("zeros", dat((NAME, 1, 64, bytes(256))), GOOD),
    ("no calls", dat((NAME, 0, 64, ONES)), GOOD),
    ("-1 calls", dat((NAME, -1, 64, ONES)), GOOD),
    ("a name with NUL", dat((NAME + b"\0", 1, 64, ONES)), ["the name of entry 0 is not text"]),
    ("of another model", dat((b"other", 1, 64, ONES)), ["none of its entries"]),
    ("a name with a terminal escape", dat((b"\x1b[31m", 1, 64, ONES)), ["the name of entry 0 is not text"]),
    ("an entry twice", dat((NAME, 1, 64, ONES), (NAME, 1, 64, ONES)), ["is there twice"]),
]



def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


# Those in GGUF: a dictionary of tensors; `fits` is the one that is right.
SUMS, COUNTS = NAME.decode() + ".in_sum2", NAME.decode() + ".counts"
fits = {SUMS: ones(1, 64), COUNTS: ones(1, 1)}
TENSOR_MATRICES = [
    ("it fits", fits, GOOD),
    ("tensors beside", fits | {"other": ones(4), ".in_sum2": ones(4), "in_sum2": ones(4)}, GOOD),
    ("nothing counted", fits | {COUNTS: ones(1, 1) * 0}, GOOD),
    ("no importances", {"other": ones(4)}, ["holds no importances"]),
    ("a name that is the suffix alone", {".in_sum2": ones(1, 64), ".counts": ones(1, 1)}, ["holds no importances"]),
    ("no counts", {SUMS: ones(1, 64)}, [SUMS, "no '.counts' beside it"]),
    ("a name of 600 bytes", {"n" * 600 + ".in_sum2": ones(1, 64), "n" * 600 + ".counts": ones(1, 1)}, ["nnn"]),
    ("sums of another type", fits | {SUMS: ones(1, 64, dtype=np.float16)}, [SUMS, "types or shapes"]),
    ("counts of another type", fits | {COUNTS: ones(1, 1, dtype=np.int32)}, [SUMS, "types or shapes"]),
    ("three dimensions", fits | {SUMS: ones(2, 1, 64)}, [SUMS, "types or shapes"]),
    ("four dimensions", fits | {SUMS: ones(2, 1, 1, 64)}, [SUMS, "types or shapes"]),
    ("a count more", fits | {COUNTS: ones(2, 1)}, [SUMS, "types or shapes"]),
    ("a count less", fits | {SUMS: ones(2, 32)}, [SUMS, "types or shapes"]),
    ("another width", fits | {SUMS: ones(1, 63)}, [NAME.decode(), "63"]),
    ("a count that is NaN", fits | {COUNTS: ones(1, 1) * np.nan}, [NAME.decode(), "nan"]),
    ("a count below 0", fits | {COUNTS: -ones(1, 1)}, [NAME.decode(), "-1"]),
    ("an infinite count", fits | {COUNTS: ones(1, 1) * np.inf}, [NAME.decode(), "inf"]),
    ("a count of almost 0", fits | {COUNTS: ones(1, 1) * np.float32(1e-44)}, [NAME.decode(), "finite mean"]),
    ("a sum that is NaN", fits | {SUMS: ones(1, 64) * np.nan}, [NAME.decode(), "nan"]),
    ("a sum below 0", fits | {SUMS: -ones(1, 64)}, [NAME.decode(), "-1"]),
]

# Questions of `tern eval choice`.
QUESTIONS = [
    ("nothing", "", ["bad.txt"]),
    ("no JSON", "hello\n", ["bad.txt", "1"]),
    ("a list", "[]\n", ["bad.txt"]),
    ("10^5 lists", "[" * DEEP + "\n", ["bad.txt"]),
    ("no choices", '{"question": "a", "answer": 0}\n', ["choices"]),
    ("one choice", '{"question": "a", "choices": ["b"], "answer": 0}\n', ["choices"]),
    ("an answer outside", '{"question": "a", "choices": ["b", "c"], "answer": 2}\n', ["answer"]),
    ("an answer of 2^63", '{"question": "a", "choices": ["b", "c"], "answer": 9223372036854775808}\n', ["bad.txt"]),
    ("an answer that is a text", '{"question": "a", "choices": ["b", "c"], "answer": "b"}\n', ["answer"]),
    ("a choice that is a number", '{"question": "a", "choices": ["b", 3], "answer": 0}\n', ["a choice is no text"]),
    ("an empty choice", '{"question": "a", "choices": ["b", ""], "answer": 0}\n', ["choice"]),
    ("bad UTF-8", b'{"question": "\xff", "choices": ["b", "c"], "answer": 0}\n', ["bad.txt"]),
    ("the second line", '{"question": "a", "choices": ["b", "c"], "answer": 0}\n{"question": 1}\n', ["2"]),
]


class Bench:
    def __init__(self, folder):
        self.folder, self.runner = folder, Runner()
        self.model = tiny.Model(tiny.Case("inputs", "llama", n_layers=1)).write(folder / "model.gguf")
        self.input, self.out = folder / "bad.txt", folder / "out"
        self.messages, self.template = folder / "messages.json", folder / "t.jinja"
        self.messages.write_text('[{"role": "user", "content": "hello"}]')
        self.template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
        self.failures, self.n = [], 0

    def check(self, what, arguments, words):
        self.n += 1
        if words is GOOD:
            done = self.runner.run(*arguments)
            why = f"exit {done.code}: {done.stderr}" if done.code or done.stderr else self.runner.over(done, self.input.stat().st_size)
        else:
            why = self.runner.refused(arguments, words, [self.input, self.model])
        if not why and words is not GOOD and self.out.exists():
            why = "an output file was left"
        self.out.unlink(missing_ok=True)
        if why:
            self.failures.append(what)
            print(f"  FAILED: {what}: {why}")

    def table(self, kind, rows, *arguments):
        for what, content, words in rows:
            if isinstance(content, dict):
                content = json.dumps(content)
            self.input.write_bytes(content if isinstance(content, bytes) else content.encode())
            self.check(f"{kind}: {what}", arguments, words)

    def tensor_matrices(self, *arguments):
        for what, tensors, words in TENSOR_MATRICES:
            writer = gguf.GGUFWriter(self.input, "none")
            for name, values in tensors.items():
                writer.add_tensor(name, values)
            tiny.finish(writer)
            self.check(f"importance matrix in GGUF: {what}", arguments, words)

    def states(self):
        """Those that are cut, and numbers in the head that are too large; then the same run without it gives the same text."""
        run = ["run", "-m", self.model, "-p", "hello " * 15, "-n", "4", "--temp", "0", "-q"]
        fresh = self.runner.run(*run)
        state = self.folder / "state"
        first = self.runner.run(*run, "--state", state)
        whole = state.read_bytes()
        assert fresh.code == 0 and first.stdout == fresh.stdout and len(whole) > 4096
        cuts = [("empty", b""), *((f"cut at {n}", whole[:n]) for n in range(4096, len(whole), 4096)), ("a byte short", whole[:-1])]
        heads = [(f"2^31 at byte {at}", whole[:at] + struct.pack("<I", 1 << 31) + whole[at + 4 :]) for at in range(0, 64, 4)]
        for what, data in cuts + heads + [("a byte long", whole + b"\0"), ("zeros", bytes(len(whole)))]:
            if data == whole:
                continue
            state.write_bytes(data)
            self.check(f"state: {what}", [*run, "--state", state], [str(state)])
            if state.read_bytes() != data:
                self.failures.append(f"state: {what}: was changed")
        assert self.runner.run(*run).stdout == fresh.stdout


def main():
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(pathlib.Path(name))
        model, path, out = bench.model, bench.input, bench.out
        generate = ["run", "-m", model, "-p", "hello", "-n", "2", "--temp", "0", "-q"]
        template = ["template", "--bos", "", "--eos", ""]
        quantize = ["quantize", model, out, "-q"]
        logits = ["logits", "-m", model, "--ids", "1 2", "-o", out]
        bench.table("grammar", GRAMMARS, *generate, "--grammar", path)
        bench.table("schema", SCHEMAS, *generate, "--json-schema", path)
        bench.table("template", TEMPLATES, *template, "--file", path, "--messages", bench.messages)
        bench.table("messages", MESSAGES, *template, "--file", bench.template, "--messages", path)
        bench.table("description", DESCRIPTIONS, *logits, "--arch-file", path)
        bench.table("recipe", RECIPES, *quantize, "--recipe", path)
        weighted = [*quantize, "--type", "Q4_0", "--imatrix", path]
        bench.table("importance matrix", MATRICES, *weighted)
        bench.tensor_matrices(*weighted)
        bench.table("questions", QUESTIONS, "eval", "choice", "-m", model, "-f", path)
        bench.states()
        print(f"{bench.n} inputs, {len(bench.failures)} failures")
        return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
