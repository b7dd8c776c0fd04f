"""What is installed is enough for others: programs are built and run from an installed tree, the shared library shows the
functions of tern.h alone, manual and completion know every command, and the Debian package holds all of that."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import tiny

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("TERN_BUILD", ROOT / "build" / "tests")).resolve().parent
SYMBOLS = ROOT / "tests" / "abi" / "tern.symbols"
LAYOUT = ROOT / "tests" / "abi" / "tern.layout"  # of the structs and enums of tern.h, as layout() below says it
LARGEST_LIBRARY = 3_400_000  # nearly half of it are the kernels of five instruction sets
# Of the C library; what the loader is called differs between machines.
SYSTEM_LIBRARIES = re.compile(r"lib(c|m|pthread)\.so\.\d+|ld-linux.*")
# Of the C library, what changes or ends the process that a library is in, or speaks for it. What is missing here on purpose:
# __assert_fail, for mistakes of ours; fprintf, for streams into memory.
NOT_A_LIBRARYS = set(
    "stdin stdout stderr printf vprintf puts putchar putchar_unlocked perror psignal __printf_chk __vprintf_chk dprintf __dprintf_chk"
    " syslog err errx warn warnx error exit _exit _Exit quick_exit abort atexit __cxa_atexit on_exit raise kill tgkill pthread_kill"
    " signal __sysv_signal sigaction sigprocmask sigaltstack alarm setitimer setlocale putenv setenv unsetenv clearenv chdir fchdir umask"
    " fork vfork execve execv execvp system popen posix_spawn pthread_atfork pthread_cancel pthread_exit prctl setrlimit mlockall"
    " feenableexcept fesetround fesetenv srand rand random srandom strtok dlopen mprotect".split()
)
SYSTEM_PACKAGES = re.compile(r"libc6( \(>= [\d.]+\))?")


def output(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def names(*command):
    """Of nm's output, the names of what is defined."""
    return {line.split()[2].split("@")[0] for line in output("nm", *command).splitlines() if len(line.split()) == 3}


def header():
    return re.sub(r"/\*.*?\*/", "", (ROOT / "include" / "tern.h").read_text(), flags=re.DOTALL)


def members(body):
    """Of a struct: int a, *b[2]; void (*c)(int d, int e);"""
    for line in body.split(";"):
        call = re.search(r"\(\*(\w+)\)\(", line)
        for part in [call.group(1)] if call else line.split(","):
            yield from re.findall(r"(\w+)(?:\[\w+\])?\s*$", part)


def layout(folder):
    """Lines that a compiler makes of tern.h: where each member of each struct is, which value each constant has."""
    lines = []
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\n\} \w+;", header(), re.DOTALL):
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for member in members(body):
            place = f"offsetof({name}, {member}), sizeof((({name} *)0)->{member})"
            lines.append(f'printf("{name}.{member} at %zu, %zu\\n", {place});')
    for body in re.findall(r"\benum(?: \w+)? \{(.*?)\}", header(), re.DOTALL):
        lines += [f'printf("{name} %d\\n", (int){name});' for name in re.findall(r"\bTERN_\w+", body)]
    program = folder / "layout.c"
    program.write_text("#include <stdio.h>\n#include <tern.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n")
    output("cc", "-I", ROOT / "include", program, "-o", folder / "layout")
    return output(folder / "layout").splitlines()


def declared():
    text = header()
    return set(re.findall(r"^TERN_API .*?\b(tern_\w+)\(", text, re.MULTILINE))


def setUpModule():
    global FOLDER, PREFIX, LIB, MODEL, PROGRAMS
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    FOLDER = pathlib.Path(folder.name)
    output("cmake", "--install", BUILD, "--prefix", FOLDER / "first")
    PREFIX = FOLDER / "moved"  # package files must find the rest wherever it lies
    (FOLDER / "first").rename(PREFIX)
    LIB = next(PREFIX.glob("lib/**/libtern.a")).parent
    PROGRAMS = FOLDER / "examples"
    output("cmake", "-S", ROOT / "examples", "-B", PROGRAMS, f"-DCMAKE_PREFIX_PATH={PREFIX}")
    output("cmake", "--build", PROGRAMS, "-j2")
    case = dataclasses.replace(tiny.CASES["llama"], n_ctx=512)
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    MODEL = tiny.Model(case).write(FOLDER / "tiny.gguf", meta={"tokenizer.chat_template": ("str", template)})


class Library(unittest.TestCase):
    def test_shared_library_shows_the_functions_of_the_header_and_no_other(self):
        listed = SYMBOLS.read_text().split()
        self.assertEqual(listed, sorted(listed))
        self.assertEqual(declared(), set(listed), "tests/abi/tern.symbols and include/tern.h differ")
        found = names("-D", "--defined-only", LIB / "libtern.so")
        self.assertEqual(found - {"TERN_0"}, set(listed))

    def test_structs_and_constants_are_where_compiled_programs_expect_them(self):
        """A member more at the end of options is allowed: it, and the new size, are to be added to the file."""
        if struct.calcsize("P") != 8:
            self.skipTest("the file is for 64-bit machines")
        found = layout(FOLDER)
        self.assertGreater(len(found), 300)
        self.assertEqual(found, LAYOUT.read_text().splitlines())

    def test_libraries_leave_the_process_alone(self):
        for library in ("libtern.so", "libtern.a"):
            needed = {line.split()[-1].split("@")[0] for line in output("nm", "-u", LIB / library).splitlines() if " U " in line}
            self.assertGreater(len(needed), 50)
            self.assertIn("malloc", needed)
            self.assertEqual(needed & NOT_A_LIBRARYS, set(), library)

    def test_patterns_are_matched_without_machine_code_made_at_run_time(self):
        """Where PCRE2's archive has the parts that cmake/no_jit.c knows: its compiler, and with it memory to execute, is left out."""
        if "TERN_LEAVES_JIT_OUT:INTERNAL=TRUE" not in (BUILD / "CMakeCache.txt").read_text():
            self.skipTest("PCRE2 is shared, or of another make")
        symbols = output("nm", BUILD / "libtern.so") + output("nm", BUILD / "tern")
        self.assertIn("pcre2_match_8", symbols)
        self.assertNotIn("jit_compile", symbols)

    def test_the_manual_counts_the_functions(self):
        (said,) = re.findall(r"the (\d+) functions", (ROOT / "docs" / "EMBEDDING.md").read_text())
        self.assertEqual(int(said), len(SYMBOLS.read_text().split()))

    def test_static_library_has_no_other_names_either(self):
        self.assertEqual(names("-g", "--defined-only", LIB / "libtern.a"), set(SYMBOLS.read_text().split()))
        if "-ljansson" not in (LIB / "pkgconfig" / "tern.pc").read_text():  # where its archive is there, it is inside
            self.assertNotRegex(output("nm", "-u", LIB / "libtern.a"), r"\b(yaml|json|pcre2|utf8proc)_")

    def test_shared_library_needs_the_c_library_alone(self):
        dynamic = output("readelf", "-d", LIB / "libtern.so")
        self.assertIn("Library soname: [libtern.so.0.1]", dynamic)
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
            self.assertTrue(SYSTEM_LIBRARIES.fullmatch(needed), needed)

    def test_stripped_library_is_small(self):
        stripped = FOLDER / "stripped.so"
        output("strip", "-o", stripped, LIB / "libtern.so")
        print(f"libtern.so stripped: {stripped.stat().st_size} bytes")
        self.assertLess(stripped.stat().st_size, LARGEST_LIBRARY)

    def test_header_compiles_alone_with_every_compiler(self):
        for compiler, language in (("gcc", "c11"), ("clang", "c11"), ("g++", "c++17"), ("clang++", "c++17")):
            with self.subTest(compiler=compiler):
                if not shutil.which(compiler):
                    self.skipTest(f"no {compiler}")
                flags = ["-fsyntax-only", f"-std={language}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *(["-Wstrict-prototypes"] if language == "c11" else [])]
                header = PREFIX / "include" / "tern.h"
                output(compiler, *flags, "-x", "c++" if "+" in language else "c", "-include", header, "/dev/null")

    def test_pkg_config_says_how_to_compile_and_link(self):
        if not shutil.which("pkg-config"):
            self.skipTest("no pkg-config")
        env = {**os.environ, "PKG_CONFIG_PATH": str(LIB / "pkgconfig")}
        flags = output("pkg-config", "--cflags", "--libs", "tern", env=env).split()
        program = FOLDER / "by_pkg_config"
        output("cc", ROOT / "examples" / "complete.c", *flags, "-o", program)
        static = output("pkg-config", "--static", "--libs-only-l", "tern", env=env).replace("-ltern", "").split()
        output("cc", ROOT / "examples" / "complete.c", *flags[:-1], LIB / "libtern.a", *static, "-o", f"{program}_static")
        self.assertTrue(output(f"{program}_static", MODEL, "the", 8))
        env["LD_LIBRARY_PATH"] = str(LIB)
        self.assertTrue(output(program, MODEL, "the", 8, env=env))
        version = output("pkg-config", "--modversion", "tern", env=env).strip()
        self.assertEqual(output(PREFIX / "bin" / "tern", "--version").strip(), f"tern {version}")


# Somebody's own project, in C++: a model from memory, a session, the sum of its logits.
CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(other LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(tern 0.1 REQUIRED)
foreach(kind tern static)
  add_executable(other_${kind} other.cpp)
  target_compile_options(other_${kind} PRIVATE -Wall -Wextra -Wpedantic -Werror)
  target_link_libraries(other_${kind} PRIVATE tern::${kind})
endforeach()
"""
CPP_PROGRAM = """
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>
#include <tern.h>
int main(int argc, char **argv) {
    std::ifstream file(argv[argc - 1], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    tern_source source;
    tern_source_defaults(&source);
    source.data = bytes.data();
    source.n_bytes = bytes.size();
    tern_model *model = nullptr;
    tern_session *session = nullptr;
    tern_error err;
    const std::int32_t ids[] = {5, 6, 7};
    const bool good = tern_model_open_source(&source, nullptr, &model, &err) == TERN_OK &&
        tern_session_new(model, nullptr, &session, &err) == TERN_OK && tern_session_eval(session, ids, 3, 1, &err) == TERN_OK;
    if (good) std::fwrite(tern_session_row(session, 0, nullptr), sizeof(float), 8, stdout);
    else std::fputs(err.message, stderr);
    tern_session_free(session);
    tern_model_close(model);
    return good ? 0 : 1;
}
"""


class OtherProject(unittest.TestCase):
    def test_a_cpp_project_finds_and_links_both_libraries(self):
        if not shutil.which("g++"):
            self.skipTest("no g++")
        source, build = FOLDER / "other", FOLDER / "other-build"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CMAKE_PROJECT)
        (source / "other.cpp").write_text(CPP_PROGRAM)
        output("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={PREFIX}")
        output("cmake", "--build", build)
        whole = subprocess.run([PREFIX / "bin" / "tern", "logits", "-m", MODEL, "--ids", "5 6 7", "-o", "-"], capture_output=True)
        for kind in ("tern", "static"):
            done = subprocess.run([build / f"other_{kind}", MODEL], capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(done.stdout, whole.stdout[:32])


# A process of its own: what does not look at its parameters ends it.
CALL_WITH_NOTHING = """
import ctypes, sys
library, *calls = sys.argv[1:]
library = ctypes.CDLL(library)
for call in calls:
    name, *types = call.split()
    error = ctypes.create_string_buffer(516)
    given = [{"double": ctypes.c_double(0), "int": 0}.get(kind) for kind in types] + [error]
    status = getattr(library, name)(*given)
    print(name, status, ctypes.c_int.from_buffer(error).value, error.raw[4:].split(bytes(1))[0].decode(), flush=True)
"""


class NoArguments(unittest.TestCase):
    def test_every_function_that_can_fail_refuses_null(self):
        calls = []
        for name, parameters in re.findall(r"^TERN_API tern_status (\w+)\(([^;]*)\);", header(), re.MULTILINE):
            *kinds, last = parameters.split(",")
            self.assertIn("tern_error *err", last)
            calls.append(" ".join([name, *("pointer" if "*" in k else "double" if "double" in k else "int" for k in kinds)]))
        self.assertGreater(len(calls), 25)
        said = output(sys.executable, "-c", CALL_WITH_NOTHING, LIB / "libtern.so", *calls).splitlines()
        self.assertEqual(len(said), len(calls), said[-1:])
        for line in said:
            name, status, code, message = line.split(" ", 3)
            self.assertEqual((status, code), ("1", "1"), line)  # TERN_ERR_ARG
            self.assertIn(name, message)


# A window without a window: what it tells the talker and what it is told. It asks, and asks again as soon as it may; stops the second
# answer at its third piece, gets a third, and leaves amid the fourth.
TALKER_PROGRAM = """
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include "talker.h"
static atomic_int n_pieces, n_opening;
static _Atomic talker_event last = TALKER_OPENING;
static void tell(void *user, talker_event event, const char *text) {
    (void)user;
    if (event == TALKER_OPENING) n_opening++;
    if (event == TALKER_PIECE) n_pieces++;
    if (event == TALKER_FAILED) puts(text);
    if (event == TALKER_READY || event == TALKER_DONE || event == TALKER_FAILED) last = event;
}
static void wait_for(talker_event event) {
    while (last != event) usleep(100);
}
static int ask(talker *t, int n) {
    atomic_store(&last, TALKER_OPENING);
    atomic_store(&n_pieces, 0);
    talker_ask(t, "the rest");
    while (last != TALKER_DONE && n_pieces < n) usleep(100);
    return n_pieces;
}
int main(int argc, char **argv) {
    (void)argc;
    talker *none = talker_new("/none.gguf", tell, NULL), *t;
    wait_for(TALKER_FAILED);
    talker_free(none);
    t = talker_new(argv[1], tell, NULL);
    wait_for(TALKER_READY);
    printf("opened %d\\n", n_opening > 0);
    printf("answered %d\\n", ask(t, 1 << 30) > 20);
    ask(t, 3);
    talker_cancel(t);
    wait_for(TALKER_DONE);
    printf("stopped %d\\n", n_pieces >= 3);
    printf("answered %d\\n", ask(t, 1 << 30) > 0);
    ask(t, 1);
    talker_free(t);
    return 0;
}
"""


class Examples(unittest.TestCase):
    def said(self, example, *args, **options):
        return output(PROGRAMS / example, *args, **options)

    def test_are_short(self):
        for path in (ROOT / "examples").glob("*.*"):
            self.assertLess(len(path.read_text().splitlines()), 62 if path.suffix == ".py" else 150, path.name)

    def test_shared_static_and_python_complete_alike(self):
        text = self.said("complete", MODEL, "on the", 24)
        self.assertGreater(len(text), 8)
        self.assertEqual(self.said("complete_static", MODEL, "on the", 24), text)
        env = {**os.environ, "TERN_LIBRARY": str(LIB / "libtern.so.0.1")}
        self.assertEqual(output(sys.executable, ROOT / "examples" / "complete.py", MODEL, "on the", 24, env=env), text)

    def test_sessions_on_threads_say_what_each_would_alone(self):
        start = "the rest of the sea is " * 20  # shared by the last two: more than a block of the cache
        for prompts in (["the rest", "at sea", "in a", "he"], [start + "the", start + "not a"]):
            alone = [
                prompt + output(PREFIX / "bin" / "tern", "run", "-m", MODEL, "-p", prompt, "-n", 20, "--temp", 0, "-q").rstrip("\n")
                for prompt in prompts
            ]
            self.assertEqual(self.said("sessions", MODEL, 20, *prompts).rstrip("\n"), "\n".join(alone))

    def test_json_is_valid_by_the_schema(self):
        value = json.loads(self.said("json", MODEL, "A city: "))
        self.assertEqual(set(value), {"name", "people"})
        self.assertLessEqual(len(value["name"]), 20)
        self.assertTrue(isinstance(value["people"], int) and 0 <= value["people"] <= 99999999)

    def test_search_finds_the_query_itself_first(self):
        texts = {"one.txt": "the rest is at sea", "two.txt": "zzz, xxx. qqq", "three.txt": "in a cat"}
        folder = FOLDER / "texts"
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).write_text(text)
        for name, text in texts.items():
            lines = self.said("search", MODEL, folder, text).splitlines()
            self.assertEqual(lines[0].split(), ["1.000", name])
            self.assertEqual(len(lines), 3)
            nearness = [float(line.split()[0]) for line in lines]
            self.assertEqual(nearness, sorted(nearness, reverse=True))

    def test_chat_answers_each_line(self):
        text = self.said("chat", MODEL, 12, input="hello\nand then\n")
        self.assertGreaterEqual(text.count("\n"), 2)

    def test_a_model_is_opened_from_a_descriptor(self):
        with MODEL.open("rb") as file:
            text = self.said("complete", f"/proc/self/fd/{file.fileno()}", "on the", 24, pass_fds=[file.fileno()])
        self.assertEqual(text, self.said("complete", MODEL, "on the", 24))

    def test_the_chat_window_builds_where_gtk_is(self):
        if subprocess.run(["pkg-config", "--exists", "gtk4"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no GTK 4")
        folder = FOLDER / "desktop"
        output("cmake", "-S", ROOT / "examples" / "desktop", "-B", folder, f"-DCMAKE_PREFIX_PATH={PREFIX}")
        output("cmake", "--build", folder)
        done = subprocess.run([folder / "tern-window"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "usage: tern-window MODEL.gguf\n"))

    def test_the_chat_window_s_other_half_answers_stops_and_leaves(self):
        program, desktop = FOLDER / "talker", ROOT / "examples" / "desktop"
        (FOLDER / "window.c").write_text(TALKER_PROGRAM)
        flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", desktop, "-I", PREFIX / "include", "-L", LIB]
        output("cc", *flags, FOLDER / "window.c", desktop / "talker.c", "-o", program, "-ltern", "-lpthread", f"-Wl,-rpath,{LIB}")
        said = output(program, MODEL).splitlines()
        self.assertRegex(said[0], r"none\.gguf")
        self.assertEqual(said[1:], ["opened 1", "answered 1", "stopped 1", "answered 1"])

    def test_valgrind_finds_nothing(self):
        if not shutil.which("valgrind"):
            self.skipTest("no valgrind")
        checks = ["-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all", "--errors-for-leak-kinds=all"]
        output("valgrind", *checks, PROGRAMS / "complete", MODEL, "on the", 4)
        output("valgrind", *checks, PROGRAMS / "chat", MODEL, 4, input="hello\nand then\n")
        output("valgrind", *checks, PROGRAMS / "sessions", MODEL, 4, "the rest", "at sea")
        output("valgrind", *checks, PROGRAMS / "json", MODEL, "A city: ")
        output("valgrind", *checks, PROGRAMS / "search", MODEL, ROOT / "tests" / "data", "the sea")

    def test_a_model_that_is_none_is_one_line_of_error(self):
        for example, args in {"complete": ["a"], "chat": [], "search": [FOLDER, "a"], "json": ["a"], "sessions": ["1", "a"]}.items():
            command = [str(part) for part in (PROGRAMS / example, FOLDER / "none.gguf", *args)]
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"^{example}: error: .*none\.gguf.*\n$")


class Manual(unittest.TestCase):
    def commands(self):
        return re.findall(r"^  ([a-z]\w*) +\S", output(PREFIX / "bin" / "tern", "--help"), re.MULTILINE)

    def test_every_command_has_a_page_without_mistakes(self):
        pages = {path.name: path for path in (PREFIX / "share" / "man").rglob("*.*")}
        self.assertGreater(len(self.commands()), 10)
        self.assertEqual(set(pages), {"tern.1", "tern.h.3"} | {f"tern-{name}.1" for name in self.commands()})
        if not shutil.which("groff"):
            self.skipTest("no groff")
        for name, path in pages.items():
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Wbreak", path], capture_output=True, text=True)
            self.assertEqual(done.stderr, "", name)
        self.assertIn("\n.B \\-\\-state FILE\n", pages["tern-run.1"].read_text())
        self.assertIn("tern_session_truncate", pages["tern.h.3"].read_text())

    def complete(self, *words):
        script = PREFIX / "share" / "bash-completion" / "completions" / "tern"
        line = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tern; echo "${COMPREPLY[@]}"'
        return output("bash", "-c", line, script, "tern", *words).split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.complete("te"), ["template"])
        self.assertEqual(set(self.complete("")), {*self.commands(), "--help", "--version"})
        self.assertEqual(self.complete("run", "--temp-r"), ["--temp-range"])
        self.assertEqual(self.complete("inspect", "--temp"), [])
        self.assertEqual(self.complete("eval", "k"), ["kld"])
        self.assertEqual(self.complete("run", "--kv", "q"), ["q8_0"])
        self.assertEqual(self.complete("run", "-m", ""), [])  # names of files are the shell's

    def test_zsh_reads_its_script(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        output("zsh", "-n", PREFIX / "share" / "zsh" / "vendor-completions" / "_tern")


class Debian(unittest.TestCase):
    def test_package_holds_all_and_depends_on_the_c_library_alone(self):
        for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
            if not shutil.which(tool):
                self.skipTest(f"no {tool}")
        output("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", FOLDER / "package")
        (package,) = (FOLDER / "package").glob("*.deb")
        depends = output("dpkg-deb", "-f", package, "Depends").strip().split(", ")
        self.assertTrue(all(SYSTEM_PACKAGES.fullmatch(name) for name in depends), depends)
        root = FOLDER / "root"
        output("dpkg-deb", "-x", package, root)
        installed = {path.relative_to(PREFIX).as_posix() for path in PREFIX.rglob("*") if not path.is_dir()}
        packaged = {path.relative_to(root / "usr").as_posix() for path in (root / "usr").rglob("*") if not path.is_dir()}
        self.assertEqual(packaged, installed)
        for library in ("yaml", "pcre2", "utf8proc", "jansson", "edit"):  # their archives are inside
            licence = pathlib.Path(f"/usr/share/doc/lib{library}-dev/copyright")
            copies = [path for path in root.rglob(f"copyright.lib{library}-dev")] if licence.exists() else []
            self.assertEqual([copy.read_bytes() for copy in copies], [licence.read_bytes()] if licence.exists() else [])
        self.runs_in(root)

    def runs_in(self, root):
        """As the whole system: the package, the C library, a model and a program that uses the library; no /proc, no /sys, no /dev."""
        shutil.copy(MODEL, root / "model.gguf")
        shutil.copy(PROGRAMS / "complete", root / "usr" / "bin")
        for path in re.findall(r"(/\S+) \(0x", output("ldd", root / "usr" / "bin" / "tern")):
            (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path.lstrip("/"))
        enter = ["chroot", root] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot", root]
        if subprocess.run([*enter, "/usr/bin/tern", "--version"], capture_output=True).returncode:
            self.skipTest("another root cannot be entered here")
        options = ["-p", "the", "-n", 8, "--temp", 0, "-q"]
        text = output(*enter, "/usr/bin/tern", "run", "-m", "/model.gguf", *options)
        self.assertEqual(text, output(PREFIX / "bin" / "tern", "run", "-m", MODEL, *options))
        text = output(*enter, "/usr/bin/complete", "/model.gguf", "on the", 24)
        self.assertEqual(text, output(PROGRAMS / "complete", MODEL, "on the", 24))


if __name__ == "__main__":
    unittest.main(verbosity=2)
