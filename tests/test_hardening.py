"""What is shipped has the protections of docs/SECURITY.md: the command and the shared library as the linker made them, and
each of our own objects as the compiler did."""

import os
import pathlib
import platform
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TERN = pathlib.Path(os.environ.get("TERN", ROOT / "build" / "tern")).resolve()
BUILD = pathlib.Path(os.environ.get("TERN_BUILD", ROOT / "build" / "tests")).resolve().parent
LIBRARY = BUILD / "libtern.so"
OBJECTS = BUILD / "libtern_core.a"
SHIPPED = [TERN, LIBRARY]


def output(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True, timeout=120).stdout


def segments(path):
    """(type, flags) of each program header."""
    rows = re.findall(r"^  (\w+) +0x\w+ 0x\w+ 0x\w+ 0x\w+ 0x\w+ ([R ][W ][E ]) ", output("readelf", "-lW", path), re.M)
    return [(kind, flags.replace(" ", "")) for kind, flags in rows]


def dynamic(path):
    return dict(re.findall(r"\((\w+)\) +(.*)", output("readelf", "-dW", path)))


class Linked(unittest.TestCase):
    def each(self):
        for path in SHIPPED:
            with self.subTest(file=path.name):
                yield path

    def test_addresses_are_random(self):
        for path in self.each():
            self.assertRegex(output("readelf", "-h", path), r"Type: +DYN")
        self.assertRegex(dynamic(TERN)["FLAGS_1"], r"\bPIE\b")

    def test_tables_of_the_loader_are_read_only_once_it_is_done(self):
        for path in self.each():
            self.assertIn("GNU_RELRO", [kind for kind, _ in segments(path)])
            self.assertRegex(dynamic(path)["FLAGS_1"], r"\bNOW\b")

    def test_nothing_is_writable_and_executable(self):
        for path in self.each():
            found = segments(path)
            self.assertIn(("GNU_STACK", "RW"), found)
            self.assertIn(("LOAD", "RE"), found)
            self.assertEqual([s for s in found if {"W", "E"} <= set(s[1])], [])

    def test_code_is_not_changed_by_the_loader(self):
        for path in self.each():
            entries = dynamic(path)
            self.assertNotIn("TEXTREL", entries)
            self.assertNotRegex(entries.get("FLAGS", ""), "TEXTREL")

    def test_no_folder_is_searched_for_libraries(self):
        for path in self.each():
            self.assertFalse({"RPATH", "RUNPATH"} & set(dynamic(path)))


class Compiled(unittest.TestCase):
    def test_stacks_are_guarded(self):
        guarded = {line.split(":")[1] for line in output("nm", "-A", OBJECTS).splitlines() if "U __stack_chk_fail" in line}
        # Of functions with arrays on the stack, all parsers have some.
        self.assertLessEqual({"gguf.c.o", "json.c.o", "template_format.c.o", "status.c.o", "arch.c.o"}, guarded)

    def test_calls_of_the_c_library_are_checked(self):
        self.assertLessEqual({"__snprintf_chk", "__vsnprintf_chk", "__memcpy_chk"}, set(re.findall(r" U (\w+)", output("nm", OBJECTS))))

    @unittest.skipUnless(platform.machine() == "x86_64", "the marks of another instruction set")
    def test_every_object_marks_where_jumps_and_returns_may_go(self):
        notes = re.split(r"^File: ", output("readelf", "-n", OBJECTS), flags=re.M)[1:]
        self.assertGreater(len(notes), 100)
        unmarked = [note.split("\n")[0] for note in notes if "x86 feature: IBT, SHSTK" not in note]
        self.assertEqual(unmarked, [])


if __name__ == "__main__":
    if "__asan_init" in output("nm", OBJECTS) or "__tsan_init" in output("nm", OBJECTS):
        print("a sanitizer's build is not what is shipped")
        sys.exit(77)
    unittest.main(verbosity=2)
