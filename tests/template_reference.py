"""What chat templates render to: jinja2 set up as transformers does it, and tern's interpreter behind a pipe."""

import datetime
import functools
import json
import os
import struct
import subprocess
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

HELPER = os.path.join(os.environ.get("TERN_BUILD", "build/tests"), "render")


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks the assistant's words for training; in a prompt, only a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals |= {
        "raise_exception": raise_exception, "dict": Dict(), "namespace": Namespace,
        "strftime_now": lambda form: datetime.datetime.now().strftime(form)}
    return env


ENVIRONMENT = environment()


@functools.lru_cache(8)
def compiled(template):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the Python that jinja2 makes
        return ENVIRONMENT.from_string(template)


def expected(template, variables):
    """The text, or None where jinja2 refuses."""
    try:
        text = compiled(template).render(**variables)
        text.encode()
        return text
    except RecursionError:
        raise
    except Exception:
        return None


METADATA = {0: "b", 1: "b", 2: "h", 3: "h", 4: "i", 5: "i", 6: "f", 7: "?", 10: "q", 11: "q", 12: "d"}


def metadata(path, prefix="tokenizer."):
    """Of a GGUF file, the values whose keys begin so; quicker than a reader that makes arrays of every string."""
    values = {}
    with open(path, "rb") as file:
        def number(form):
            return struct.unpack("<" + form, file.read(struct.calcsize(form)))[0]

        def value(kind):
            if kind == 8:
                return file.read(number("Q")).decode()
            if kind != 9:
                return number(METADATA[kind])
            inner, n = number("I"), number("Q")
            if inner not in METADATA:
                return [value(inner) for _ in range(n)]
            return list(struct.unpack(f"<{n}{METADATA[inner]}", file.read(n * struct.calcsize(METADATA[inner]))))

        file.seek(16)
        for _ in range(number("Q")):
            key = value(8)
            entry = value(number("I"))
            if key.startswith(prefix):
                values[key.removeprefix(prefix)] = entry
    return values


class Tern:
    """One process renders many templates."""

    def __enter__(self):
        self.process = subprocess.Popen([HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def _read(self, n):
        data = self.process.stdout.read(n)
        if len(data) != n:
            raise RuntimeError(f"the renderer ended: {self.process.wait(timeout=60)}")
        return data

    def _number(self):
        return struct.unpack("<I", self._read(4))[0]

    def render(self, template, variables=None, trusted=None):
        """(text, None, ranges of bytes) or (None, message, [])."""
        variables = variables if isinstance(variables, str) else json.dumps(variables or {}, ensure_ascii=False)
        for text in (template, variables, json.dumps(trusted or {})):
            data = text if isinstance(text, bytes) else text.encode()
            self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        status = self._number()
        text = self._read(self._number()).decode()
        ranges = [(self._number(), self._number()) for _ in range(self._number())]
        return (None, text, []) if status else (text, None, ranges)
