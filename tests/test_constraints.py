"""Texts made under a JSON schema or a grammar, against the package jsonschema and Python's re: random walks through the masks
(tests/helpers/constrain.c), and a real model where there is one."""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import uuid

import jsonschema

from constraint_cases import BAD_SCHEMAS, GRAMMARS, SCHEMAS

TERN = os.path.abspath(os.environ.get("TERN", "build/tern"))
BUILD = pathlib.Path(os.environ.get("TERN_BUILD", "build/tests"))
CACHE = os.environ.get("TERN_MODELS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tern")
MODEL = pathlib.Path(CACHE) / "smollm2-135m.gguf"
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"  # no settings of whoever runs the tests
WALKS, LIMIT = 25, 400

FORMATS = jsonschema.FormatChecker(formats=())
FORMATS.checks("date", ValueError)(lambda text: bool(datetime.date.fromisoformat(text)))
FORMATS.checks("time", ValueError)(lambda text: re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text) and bool(time_of(text)))
FORMATS.checks("date-time", ValueError)(lambda text: "T" in text and bool(datetime.datetime.fromisoformat(text)))
FORMATS.checks("uuid", ValueError)(lambda text: str(uuid.UUID(text)) == text.lower())


def time_of(text):
    return datetime.datetime.fromisoformat("2024-01-01T" + text)


def check(schema, text):
    value = json.loads(text)
    jsonschema.Draft202012Validator(schema, format_checker=FORMATS).validate(value)
    return value


class TestCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tern-constraints-")
        self.addCleanup(self.folder.cleanup)

    def write(self, text):
        path = pathlib.Path(self.folder.name) / "constraint"
        path.write_text(text, encoding="utf-8")
        return path

    def walks(self, kind, text, seed):
        command = [BUILD / "constrain", kind, self.write(text), str(seed), str(WALKS), str(LIMIT)]
        done = subprocess.run(command, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, (text, done.stderr))
        texts, at = [], 0
        while at < len(done.stdout):
            end = done.stdout.index(b"\n", at)
            n = int(done.stdout[at:end])
            texts.append(None if n < 0 else done.stdout[end + 1:end + 1 + n].decode("utf-8"))
            at = end + 2 + max(n, 0)
        self.assertEqual(len(texts), WALKS)
        return texts


class Walks(TestCase):
    def test_every_text_is_valid_by_its_schema(self):
        self.assertGreaterEqual(len(SCHEMAS), 100)
        n_ended = 0
        for i, schema in enumerate(SCHEMAS):
            with self.subTest(schema=schema):
                texts = [text for text in self.walks("schema", json.dumps(schema, ensure_ascii=i % 2 == 0), i) if text is not None]
                self.assertTrue(texts)
                for text in texts:
                    check(schema, text)
                n_ended += len(texts)
        self.assertGreater(n_ended, 0.8 * WALKS * len(SCHEMAS))

    def test_every_text_matches_its_grammar(self):
        self.assertGreaterEqual(len(GRAMMARS), 30)
        n_different = 0
        for i, (grammar, pattern) in enumerate(GRAMMARS):
            with self.subTest(grammar=grammar):
                texts = [text for text in self.walks("grammar", grammar, i) if text is not None]
                self.assertTrue(texts)
                for text in texts:
                    self.assertRegex(text, rf"\A(?:{pattern})\Z")
                n_different += len(set(texts))
        self.assertGreater(n_different, 300)

    def test_both_ends_of_a_range_are_reached(self):
        """The grammar is no narrower than it must be: all whole numbers of small ranges come."""
        for low, high in [(0, 12), (-12, 3), (95, 105), (7, 7)]:
            schema = {"type": "integer", "minimum": low, "maximum": high}
            found = {int(text) for seed in range(30) for text in self.walks("schema", json.dumps(schema), seed)}
            self.assertEqual(found, set(range(low, high + 1)))

    def test_thousands_of_words_are_no_limit(self):
        """Each is allowed, and nothing else: by all that a walk in which every letter is a token of its own finds."""
        words = [f"{i * 7919 % 100003:05d}-{i:x}" for i in range(12000)]
        for text in self.walks("schema", json.dumps({"enum": words}), 1):
            self.assertIn(json.loads(text), words)
        self.refuses("schema", json.dumps({"enum": [str(i) for i in range(45000)]}), "in too many ways at once")

    def refuses(self, kind, text, pattern):
        done = subprocess.run([BUILD / "constrain", kind, self.write(text), "1", "1", "9"], capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1))
        self.assertRegex(done.stderr.decode(), pattern)

    def test_what_a_grammar_cannot_hold_is_named(self):
        for schema, pattern in BAD_SCHEMAS:
            with self.subTest(schema=schema):
                self.refuses("schema", json.dumps(schema), pattern)

    def test_hostile_schemas_end_in_bounded_time(self):
        parts = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)}
        doubling = {"$defs": parts | {"a40": {}}, "$ref": "#/$defs/a0"}
        deep = {}
        for _ in range(400):
            deep = {"items": deep}
        many = {"anyOf": [{"const": i} for i in range(20000)]}
        names = "abcdefghij"
        node = {"type": "object", "properties": {name: {"$ref": "#/$defs/n"} for name in names}, "required": list(names)}
        again = {"$defs": {"n": node}, "oneOf": [{"$ref": "#/$defs/n"}] * 2}
        wide = {"properties": {f"p{i}": {"type": "integer", "minimum": i} for i in range(3000)}}
        texts = [json.dumps(doubling), json.dumps(deep), json.dumps(many), json.dumps(again), json.dumps(wide), "[" * 60000, "{" * 60000,
                 '{"pattern": "' + "(" * 60000 + '"}', '{"pattern": "^(a{1,9999}){1,9999}$"}', '{"a": 1, "a": 2}', "", "nul",
                 '{"type": "string", "minLength": 9999, "maxLength": 9999}',
                 '{"pattern": "^' + "[^a]" * 30000 + '$"}', json.dumps({"enum": ["x" * 100000] * 80})]
        for text in texts:
            with self.subTest(text=text[:60]):
                done = subprocess.run([BUILD / "constrain", "schema", self.write(text), "1", "1", "20"], capture_output=True, timeout=20)
                self.assertIn(done.returncode, (0, 1))
                self.assertEqual(done.stderr.count(b"\n"), done.returncode)


@unittest.skipUnless(MODEL.is_file(), f"{MODEL.name} is not in the cache (tools/fetch-model fetches it)")
class Model(TestCase):
    def run_model(self, *args, n=160):
        prompt = "<|im_start|>user\nDescribe a person.<|im_end|>\n<|im_start|>assistant\n"
        command = [TERN, "run", "-m", str(MODEL), "-p", prompt, "-n", str(n), "-q", *args]
        done = subprocess.run(command, capture_output=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode("utf-8")

    def test_a_model_is_held_to_a_schema(self):
        properties = {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 1, "maximum": 99},
                      "mood": {"enum": ["good", "bad"]},
                      "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3}}
        schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        path = self.write(json.dumps(schema))
        for options in [["--temp", "0"], ["--temp", "1.5", "-s", "1", "--top-k", "0"], ["-s", "2", "--samplers", "min-p,temperature"]]:
            check(schema, self.run_model("--json-schema", str(path), *options))
        check(schema, self.run_model("--json-schema", json.dumps(schema), "--ignore-eos", "-s", "3"))

    def test_a_model_is_held_to_a_grammar(self):
        path = self.write('root ::= "Answer: " ("yes" | "no") ", " [a-z ]{5,30} "."')
        for options in [["--temp", "0"], ["--temp", "2", "-s", "4", "--top-p", "1"]]:
            self.assertRegex(self.run_model("--grammar", str(path), *options), r"\AAnswer: (yes|no), [a-z ]{5,30}\.\Z")

    def test_greedy_text_that_fits_anyway_is_not_changed(self):
        path = self.write("root ::= .*")
        self.assertEqual(self.run_model("--grammar", str(path), "--temp", "0", n=30), self.run_model("--temp", "0", n=30))
        drawn = ["-s", "7", "--temp", "1"]
        self.assertEqual(self.run_model("--grammar", str(path), *drawn, n=30), self.run_model(*drawn, n=30))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
