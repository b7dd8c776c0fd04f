"""A host with a window has called setlocale, and then numbers have commas, months other names, and 'i' another capital. What the
library makes of a file, a text or a checkpoint stays the same."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import checkpoints
import tiny

TERN = pathlib.Path(tiny.tern()).resolve()
LOCALES = ("de_DE", "tr_TR")
HOST = "#include <locale.h>\n__attribute__((constructor)) static void start(void) { setlocale(LC_ALL, \"\"); }\n"
TEMPLATE = (
    "{{ 1.5 + x }} {{ 2.5e-7 * 1 }} {{ 12345678 | filesizeformat }} {{ 2.345 | round(1) }} {{ '%.3f' | format(1.25) }} "
    "{{ '2.25' | float + 1 }} {{ 'INFINITY' | float }} {{ {'a': 0.1} | tojson }} {{ strftime_now('%B %b %A %p') }} {{ 'iI' | title }}"
)
RECIPE = "target_bpw: 6.5\nladder: [Q4_0, Q5_0, Q8_0]\nrules:\n  - {tensors: token_embd.weight, type: Q8_0}\n"
CONSTRAINT = {"enum": [0.25]}


class Locale(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name in LOCALES:
            subprocess.run(["localedef", "-i", name, "-f", "UTF-8", cls.folder / f"{name}.UTF-8"], check=True)
        (cls.folder / "host.c").write_text(HOST)
        subprocess.run(["cc", "-shared", "-fPIC", "host.c", "-o", "host.so"], cwd=cls.folder, check=True)
        case = dataclasses.replace(tiny.CASES["llama"], n_ctx=512)
        cls.model = tiny.Model(case).write(cls.folder / "tiny.gguf", meta={"general.sampling.temp": ("f32", 0.75)})
        cls.checkpoint = checkpoints.Checkpoint.of(case).write(cls.folder / "Tiny-7i-1.5B-Instruct-vision")

    def run_in(self, locale, *args, program=TERN):
        env = {**os.environ, "LOCPATH": str(self.folder), "LC_ALL": locale and f"{locale}.UTF-8", "LD_PRELOAD": str(self.folder / "host.so")}
        if not locale:
            env["LC_ALL"] = "C"
        done = subprocess.run([str(a) for a in (program, *args)], capture_output=True, env=env, cwd=self.folder, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def same(self, *args, code=0, made=None):
        """What is printed and written, which no locale changes."""
        results = []
        for locale in (None, *LOCALES):
            found, out, err = self.run_in(locale, *args)
            self.assertEqual(found, code, err)
            results.append((out, err if code else b"", (self.folder / made).read_bytes() if made else b""))
            if made:
                (self.folder / made).unlink()
        for locale, result in zip(LOCALES, results[1:]):
            self.assertEqual(result, results[0], locale)
        return results[0]

    def test_the_locales_are_what_they_should_be(self):
        """Else the other tests would compare nothing."""
        for locale in LOCALES:
            code, out, _ = self.run_in(locale, "%.1f", "0", program=shutil.which("printf"))
            self.assertEqual((code, out), (0, b"0,0"))

    def test_models_open_and_compute_the_same(self):
        logits = self.same("logits", "-m", self.model, "--ids", "5 6 7", "-o", "-")[0]
        self.assertGreater(len(logits), 100)

    def test_templates_render_the_same(self):
        (self.folder / "t.jinja").write_text(TEMPLATE)
        (self.folder / "m.json").write_text("[]")
        text = self.same("template", "--file", "t.jinja", "--messages", "m.json", "--var", "x=0.25")[0].decode()
        self.assertTrue(text.startswith("1.75 2.5e-07 12.3 MB 2.3 1.250 3.25 inf {\"a\": 0.1} "), text)

    def test_recipes_and_overrides_are_read_and_written_the_same(self):
        (self.folder / "recipe.yaml").write_text(RECIPE)
        options = ("--recipe", "recipe.yaml", "--override", "general.sampling.temp=0.625", "--override", "new.number=1.5")
        made = self.same("quantize", self.model, "out.gguf", *options, made="out.gguf")[2]
        self.assertIn(b"new.number", made)

    def test_checkpoints_convert_the_same(self):
        made = self.same("convert", self.checkpoint, "-o", "out.gguf", made="out.gguf")[2]
        self.assertIn(b"Instruct", made)

    def test_numbers_by_a_schema_have_points(self):
        (self.folder / "schema.json").write_text(json.dumps(CONSTRAINT))
        options = ("--json-schema", "schema.json", "--temp", "0", "-n", "12", "-q")
        text = self.same("run", "-m", self.model, "-p", "a", *options)[0].decode()
        self.assertEqual(text.strip(), "0.25")

    def test_metadata_and_errors_have_points(self):
        for locale in (None, *LOCALES):
            self.assertIn(b"general.sampling.temp  f32  0.75\n", self.run_in(locale, "inspect", self.model)[1])
        error = self.same("quantize", self.model, "out.gguf", "--type", "Q4_0", "--override", "general.sampling.temp=a", code=1)[1]
        self.assertIn(b"general.sampling.temp", error)


if __name__ == "__main__":
    missing = [name for name in LOCALES if not pathlib.Path(f"/usr/share/i18n/locales/{name}").is_file()]
    if missing or not shutil.which("localedef"):
        print("no sources of locales to make one with a comma of")
        sys.exit(77)
    if b"__asan_init" in pathlib.Path(TERN).read_bytes() or b"__tsan_init" in pathlib.Path(TERN).read_bytes():
        print("a sanitizer's build loads no other library first")
        sys.exit(77)
    unittest.main(verbosity=2)
