"""tern bench and tern doctor: which tests run, that every format can be read, and that the figures agree with each other,
with the clock and with what the gguf package says about the file. Speeds themselves are not judged here."""

import csv
import hashlib
import io
import json
import math
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import gguf
import yaml

import tiny

TERN = os.path.abspath(os.environ.get("TERN", "build/tern"))
CACHE = os.environ.get("TERN_MODELS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tern")
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="tern-bench-"))
CSV_ONLY = ["model_name", "model_file", "model_type", "model_sha256", "device_cpu", "os_name", "tern"]


def setUpModule():
    for name in ("llama", "gemma3", "mistral-window"):
        tiny.Model(tiny.CASES[name]).write(FOLDER / f"{name}.gguf", dtype="Q8_0")
    tiny.Model(tiny.WIDE).write(FOLDER / "wide.gguf", dtype="Q8_0")


def tearDownModule():
    shutil.rmtree(FOLDER)


def tern(*args, **more):
    return subprocess.run([TERN, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **more)


def bench(*args, model="llama", **more):
    path = model if isinstance(model, pathlib.Path) else FOLDER / f"{model}.gguf"
    result = tern("bench", "-m", path, "-r", 1, *args, **more)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def record(*args, **more):
    return json.loads(bench("--json", *args, **more))


def rows(*args, **more):
    return [(t["test"], t["n_threads"], t["n_batch"], t["kv"]) for t in record(*args, **more)["tests"]]


def close(a, b, tolerance=1e-3):
    return math.isclose(a, b, rel_tol=tolerance)


class Grid(unittest.TestCase):
    """Which tests are run."""

    def test_defaults(self):
        default = json.loads(tern("doctor", "--json").stdout)["default_threads"]
        self.assertEqual(rows(), [("pp512", default, 512, "f16"), ("tg128", default, 512, "f16")])

    def test_one_of_p_and_n_leaves_the_other_out(self):
        self.assertEqual([r[0] for r in rows("-p", 8)], ["pp8"])
        self.assertEqual([r[0] for r in rows("-n", 8)], ["tg8"])
        self.assertEqual([r[0] for r in rows("-n", 8, "-p", 0)], ["tg8"])

    def test_lists_and_ranges(self):
        for text, expected in [("4,8", [4, 8]), ("8,4,8", [8, 4, 8]), ("2-5", [2, 3, 4, 5]), ("3-3", [3]), ("4-12+4", [4, 8, 12]),
                               ("4-11+4", [4, 8]), ("1,5-9+2,20", [1, 5, 7, 9, 20])]:
            with self.subTest(text=text):
                self.assertEqual([r[0] for r in rows("-p", text)], [f"pp{n}" for n in expected])

    def test_every_combination_is_a_row(self):
        found = rows("-p", "4,6", "-n", "2", "-d", "0,8,3", "-b", "2,16", "-t", "1-2", "--kv", "f32,f16")
        expected = [(f"{test}{depth}", threads, batch, kv) for test in ("pp4", "pp6", "tg2") for depth in ("", " @ d8", " @ d3")
                    for threads in (1, 2) for batch in (2, 16) for kv in ("f16", "f32")]
        self.assertEqual(sorted(found), sorted(expected))

    def test_a_window_that_slid_is_filled_again(self):
        tests = record("-p", 8, "-n", 4, "-d", "0,700", "-b", "16", model="mistral-window")["tests"]
        self.assertEqual([t["test"] for t in tests], ["pp8", "tg4", "pp8 @ d700", "tg4 @ d700"])


WRONG_USAGE = [
    ([], "-m: missing option"),
    (["-m", "M", "-p", "x"], "-p: expected at most 64 integers from 0 to 262144, as .*found 'x'"),
    (["-m", "M", "-p", ""], "-p: expected .*found ''"),
    (["-m", "M", "-p", "1,"], "-p: expected .*found '1,'"),
    (["-m", "M", "-p", "4-2"], "-p: expected .*found '4-2'"),
    (["-m", "M", "-p", "1-4+0"], "-p: expected .*found '1-4[+]0'"),
    (["-m", "M", "-p", "1-4+1+1"], "-p: expected"),
    (["-m", "M", "-p", "1-2-3"], "-p: expected"),
    (["-m", "M", "-p", "1+2"], "-p: expected"),
    (["-m", "M", "-p", "1-65"], "-p: expected at most 64"),
    (["-m", "M", "-p", "262145"], "-p: expected"),
    (["-m", "M", "-p", "9" * 30], "-p: expected"),
    (["-m", "M", "-n", "-1"], "-n: expected"),
    (["-m", "M", "-d", "16777217"], "-d: expected"),
    (["-m", "M", "-b", "0"], "-b: expected at most 64 integers from 1 to 65536"),
    (["-m", "M", "-t", "0,1"], "-t: expected at most 64 integers from 1 to 1024"),
    (["-m", "M", "--kv", "f16,q4"], "--kv: expected .*found 'f16,q4'"),
    (["-m", "M", "-r", "0"], "-r: expected an integer from 1 to 100"),
    (["-m", "M", "-p", "0"], "expected 1 to 4096 tests, found 0"),
    (["-m", "M", "-p", "1-64", "-d", "1-64", "-t", "1-2"], "expected 1 to 4096 tests, found 8192"),
    (["-m", "M", "--json", "--csv"], "expected one of them"),
    (["-m", "M", "--json", "--yaml", "-"], "expected one of them"),
    (["-m", "M", "--temp", "1"], "--temp: not an option of this command"),
]


class Errors(unittest.TestCase):
    def expect(self, result, code, pattern):
        self.assertEqual((result.returncode, result.stdout), (code, ""), result)
        self.assertRegex(result.stderr, r"\Atern: error: [^\n]*" + pattern + r"[^\n]*\n\Z")

    def test_wrong_usage_is_one_line_and_exit_2(self):
        for args, pattern in WRONG_USAGE:
            with self.subTest(args=args):
                self.expect(tern("bench", *args), 2, pattern)
        self.expect(tern("doctor", "-t", "1,2"), 2, "-t: expected an integer from 1 to 1024")
        self.expect(tern("doctor", "-d", "1"), 2, "-d: not an option of this command")

    def test_failures_are_one_line_and_exit_1(self):
        for command in ("bench", "doctor"):
            self.expect(tern(command, FOLDER / "absent.gguf"), 1, "absent.gguf: No such file")
            isa = tern(command, FOLDER / "llama.gguf", env=os.environ | {"TERN_ISA": "abacus"})
            self.expect(isa, 1, "TERN_ISA: 'abacus' is not a known name")
        heads = tern("doctor", FOLDER / "llama.gguf", "--kv", "q8_0")
        self.expect(heads, 1, "a cache of Q8_0 needs heads of a multiple of 32 elements, the model's have 16: use f16")

    def test_a_record_that_cannot_be_written_fails_before_the_work(self):
        self.expect(tern("bench", FOLDER / "llama.gguf", "--yaml", FOLDER / "absent" / "f.yaml"), 1, "absent/f.yaml: No such file")

    def test_interruption_leaves_nothing(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        process = subprocess.Popen(
            [TERN, "bench", FOLDER / "llama.gguf", "-n", "200000", "-r", "100", "--yaml", folder / "f.yaml"], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate(timeout=60)[1], process.returncode), ("", 130))
        self.assertEqual(os.listdir(folder), [])


class Formats(unittest.TestCase):
    ARGS = ["-p", "4", "-n", "3", "-d", "0,5", "-t", "1"]

    def check(self, found):
        self.assertEqual([t["test"] for t in found["tests"]], ["pp4", "tg3", "pp4 @ d5", "tg3 @ d5"])
        model, path = found["model"], FOLDER / "llama.gguf"
        self.assertEqual(model["sha256"], hashlib.sha256(path.read_bytes()).hexdigest())
        self.assertEqual((model["file"], model["bytes"], model["type"]), (str(path), path.stat().st_size, "Q8_0"))
        self.assertEqual(found["precision"], {"weights": "Q8_0", "kv": ["f16"]})
        self.assertEqual(found["device"]["cpus_allowed"], len(os.sched_getaffinity(0)))
        self.assertEqual((found["os"]["kernel"], found["os"]["release"]), (os.uname().sysname, os.uname().release))
        self.assertRegex(found["date"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        for test in found["tests"]:
            self.assertEqual((test["n_runs"], test["isa"]), (1, found["kernels"]))
            for key, value in test.items():
                wanted = str if key in ("test", "kind", "kv", "isa") else (int, float, type(None))
                self.assertIsInstance(value, wanted, key)

    def test_json(self):
        self.check(record(*self.ARGS))

    def test_yaml_on_standard_output(self):
        self.check(yaml.safe_load(bench("--yaml", "-", *self.ARGS)))

    def test_yaml_beside_each_of_the_others_is_the_same_record(self):
        path = FOLDER / "record.yaml"
        table = bench("--yaml", path, *self.ARGS)
        self.assertIn("tokens/s", table)
        self.check(yaml.safe_load(path.read_text()))
        found = record("--yaml", path, *self.ARGS)
        beside = yaml.safe_load(path.read_text())
        self.assertEqual(list(found), list(beside))
        for a, b in zip(found["tests"], beside["tests"], strict=True):
            self.assertEqual(list(a), list(b))
            for key in a:
                self.assertTrue(a[key] == b[key] or abs(a[key] - b[key]) <= 1e-6 + 1e-6 * abs(a[key]), key)

    def test_csv(self):
        found = list(csv.DictReader(io.StringIO(bench("--csv", *self.ARGS))))
        as_json = record(*self.ARGS)
        self.assertEqual(list(found[0]), list(as_json["tests"][0]) + CSV_ONLY)
        self.assertEqual([row["test"] for row in found], [t["test"] for t in as_json["tests"]])
        for row in found:
            self.assertNotIn(None, row)
            self.assertGreater(float(row["tokens_per_s"]), 0)
            self.assertEqual(row["ttft_ms"] == "", row["kind"] == "decode")
            self.assertEqual(row["model_sha256"], as_json["model"]["sha256"])

    def test_awkward_names_survive_csv_and_yaml(self):
        path = FOLDER / 'a "b", c: #d.gguf'
        shutil.copy(FOLDER / "llama.gguf", path)
        row = next(csv.DictReader(io.StringIO(bench("--csv", "-p", 2, model=path))))
        self.assertEqual(row["model_file"], str(path))
        self.assertEqual(yaml.safe_load(bench("--yaml", "-", "-p", 2, model=path))["model"]["file"], str(path))

    def test_table_fits_80_columns_and_has_a_row_a_test(self):
        lines = bench(*self.ARGS).splitlines()
        found = [line.split("  ")[0] for line in lines if re.match(r"(pp|tg)\d", line)]
        self.assertEqual(found, ["pp4", "tg3", "pp4 @ d5", "tg3 @ d5"])
        head = next(i for i, line in enumerate(lines) if line.startswith("test "))
        self.assertLessEqual(max(map(len, lines[head:head + 5])), 80)

    def test_sha256_at_every_length_of_the_last_block(self):
        """Bytes behind the tensors belong to the file and to its hash."""
        base = (FOLDER / "llama.gguf").read_bytes()
        for extra in (*range(0, 64, 7), 54, 55, 56, 57, 62, 63):
            path = FOLDER / "padded.gguf"
            path.write_bytes(base + bytes(range(extra)))
            self.assertEqual(record("-p", 1, model=path)["model"]["sha256"], hashlib.sha256(path.read_bytes()).hexdigest())

    def test_progress_is_for_terminals_alone(self):
        self.assertNotEqual(bench("-p", 2), "")  # bench() asserts that stderr is empty
        ours, theirs = pty.openpty()
        process = subprocess.Popen([TERN, "bench", FOLDER / "llama.gguf", "-p", "2"], stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertIn(b"bench pp2", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-40:])


def expected_work(path, depth, n, decode, kv_bytes, n_batch):
    """Multiply-adds of a test, and bytes of weights and cache a decoded token, from the file alone (no sliding windows)."""
    reader = gguf.GGUFReader(path)
    field = {key.split(".", 1)[1]: value.contents() for key, value in reader.fields.items() if key.startswith("llama.")}
    heads, kv_heads, layers = field["attention.head_count"], field["attention.head_count_kv"], field["block_count"]
    dim = field.get("attention.key_length", field["embedding_length"] // heads)
    size = {t.name: (int(t.n_elements), int(t.n_bytes), int(t.shape[1])) for t in reader.tensors if len(t.shape) == 2}
    embedding = size.pop("token_embd.weight")
    size.setdefault("output.weight", embedding)
    last = {f"blk.{layers - 1}.{part}.weight" for part in ("attn_output", "ffn_gate", "ffn_up", "ffn_down")} | {"output.weight"}
    macs = sum(s[0] * (1 if not decode and name in last else n) for name, s in size.items())
    seen = [depth + i + 1 for i in range(n)]
    inner = sum(seen)
    tail = inner if decode else seen[-1]  # the last layer attends for the rows whose logits are kept
    macs += 2 * heads * dim * (inner * (layers - 1) + tail)
    weight_bytes = sum(s[1] for s in size.values()) + embedding[1] // embedding[2]
    return macs, weight_bytes + layers * 2 * kv_heads * dim * kv_bytes * inner / n


class Figures(unittest.TestCase):
    """Relations that hold at any speed."""

    def check_test(self, t):
        self.assertTrue(0 < t["tokens_per_s_min"] <= t["tokens_per_s"] <= t["tokens_per_s_max"], t)
        self.assertTrue(0 < t["token_ms_p50"] <= t["token_ms_p90"] <= t["token_ms_p99"], t)
        self.assertTrue(t["machine_read_gb_per_s"] > 0 and t["machine_gmac_per_s"] > 0 and t["gmac_per_s"] > 0, t)
        if t["kind"] == "decode":
            self.assertIsNone(t["ttft_ms"])
            self.assertTrue(close(t["tokens_per_s"], 1e3 / t["tpot_ms"]), t)
            self.assertTrue(close(t["read_gb_per_s"], 1e-9 * t["bytes_per_token"] * t["tokens_per_s"]), t)
        else:
            self.assertIsNone(t["tpot_ms"])
            self.assertTrue(close(t["tokens_per_s"], 1e3 * t["n_tokens"] / t["ttft_ms"]), t)

    def test_figures_agree_with_each_other_and_with_the_clock(self):
        began = time.monotonic()
        found = record("-p", "40", "-n", "20", "-d", "0,30", "-b", "16", "-t", "1,2", "-r", "4")
        took = time.monotonic() - began
        self.assertEqual(len(found["tests"]), 8)
        for t in found["tests"]:
            self.check_test(t)
        runs = sum(t["n_tokens"] / t["tokens_per_s_max"] * t["n_runs"] for t in found["tests"])
        self.assertLess(runs, took)

    def test_work_is_what_the_file_says(self):
        for model, kv, kv_bytes in (("llama", "f16", 2), ("llama", "f32", 4), ("wide", "q8_0", 34 / 32)):
            path = FOLDER / f"{model}.gguf"
            for t in record("-p", "20", "-n", "5", "-d", "0,70", "-b", "8", "--kv", kv, model=model)["tests"]:
                with self.subTest(test=t["test"], kv=kv):
                    decode = t["kind"] == "decode"
                    macs, token_bytes = expected_work(path, t["depth"], t["n_tokens"], decode, kv_bytes, 8)
                    self.assertTrue(close(1e9 * t["gmac_per_s"] * t["n_tokens"] / t["tokens_per_s"], macs), (t, macs))
                    if decode:
                        self.assertLessEqual(abs(t["bytes_per_token"] - token_bytes), 1)

    def test_barriers_are_counted_and_few(self):
        for model in ("llama", "gemma3", "mistral-window"):
            for t in record("-n", "6", "-t", "1-3", "-d", "0,40", "-p", "0", model=model)["tests"]:
                self.assertLessEqual(t["barriers_per_layer"], 5)
                self.assertEqual(t["barriers_per_layer"] > 3, t["n_threads"] > 1, t)

    def test_verbose_prints_steps_and_barriers(self):
        result = tern("bench", FOLDER / "llama.gguf", "-n", "4", "-t", "2", "-r", "1", "-v")
        self.assertEqual(result.returncode, 0)
        steps, layers = map(int, re.search(r"^(\d+) steps, (\d+) layers", result.stderr, re.M).groups())
        times = [int(n) for n in re.findall(r"^ +(\d+) +\S+ \S+ +\S+  \S", result.stderr, re.M)]
        self.assertEqual(sum(times), steps, result.stderr)
        per_layer = float(re.search(r"^barriers in decode with 2 threads: (\S+) a layer$", result.stderr, re.M).group(1))
        self.assertAlmostEqual(per_layer, (steps - 1) / layers, places=2)  # one between each two steps


class RealModel(unittest.TestCase):
    def check(self, name):
        path = pathlib.Path(CACHE) / name
        if not path.is_file():
            self.skipTest(f"{name} is not in the cache (tools/fetch-model fetches it)")
        found = record("-p", "16", "-n", "4", "-t", "2", "-r", "2", model=path)
        for t in found["tests"]:
            Figures.check_test(self, t)
        decode = found["tests"][1]
        self.assertTrue(0 < decode["barriers_per_layer"] <= 5, decode)
        self.assertTrue(0.5 * path.stat().st_size < decode["bytes_per_token"] < 1.1 * path.stat().st_size, decode)
        self.assertGreater(decode["peak_memory_bytes"], 0.5 * path.stat().st_size)
        return path

    def test_smollm2(self):
        path = self.check("smollm2-135m.gguf")
        found = json.loads(tern("doctor", "-m", path, "--json").stdout)["model"]
        self.assertGreater(found["decode_tokens_per_s"], 0)
        self.assertGreater(found["n_ctx_fits"], 0)

    def test_gemma3(self):
        self.check("gemma3-270m.gguf")


class Doctor(unittest.TestCase):
    def doctor(self, *args, **more):
        result = tern("doctor", "--json", *args, **more)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def test_machine_is_what_the_system_says(self):
        found = self.doctor()
        meminfo = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
        total = int(meminfo["MemTotal"].split()[0]) << 10
        self.assertTrue(close(found["memory_bytes"], total, 0.01))
        self.assertTrue(0 < found["available_bytes"] <= total)
        self.assertEqual(found["cpus"], os.sysconf("SC_NPROCESSORS_ONLN"))
        self.assertTrue(1 <= found["default_threads"] <= found["cores"] <= found["cpus_allowed"] <= found["cpus"])
        words = set(re.findall(r"\w+", re.search(r"^(?:flags|Features)\s*:(.*)", pathlib.Path("/proc/cpuinfo").read_text(), re.M).group(1)))
        x86 = "sse4_2 avx f16c fma avx2 avx_vnni avx512f avx512bw avx512vl avx512vbmi avx512_vnni amx_int8"
        arm = "asimd asimdhp asimddp i8mm bf16 sve sve2"
        known = (x86 if os.uname().machine == "x86_64" else arm).split()
        self.assertEqual(found["features"].split(), [name for name in known if name in words])
        for isa, feature in (("avx2", "avx2"), ("avx512", "avx512bw"), ("dotprod", "asimddp"), ("i8mm", "i8mm")):
            if isa in found["isas_possible"].split(", "):
                self.assertIn(feature, found["features"].split())
        for key in ("read_gb_per_s_1_thread", "read_gb_per_s", "gmac_per_s_1_thread", "gmac_per_s"):
            self.assertGreater(found[key], 0)

    def test_affinity_and_threads_are_heeded(self):
        one = min(os.sched_getaffinity(0))
        found = self.doctor(preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        self.assertEqual([found[k] for k in ("cpus_allowed", "cores", "default_threads", "threads")], [1, 1, 1, 1])
        self.assertEqual(self.doctor("-t", 1)["threads"], 1)
        allowed = len(os.sched_getaffinity(0))
        self.assertEqual(self.doctor("-t", 1000)["threads"], allowed)
        self.assertEqual({t["n_threads"] for t in record("-p", "4", "-n", "3", "-t", "1,1000", "--pin")["tests"]}, {1, allowed})

    def test_each_level_can_be_forced_and_is_named(self):
        free = self.doctor()
        self.assertFalse(free["isa_forced"])
        levels = free["isas_possible"].split(", ")
        self.assertEqual((levels[0], levels[-1]), ("ref", free["isa"]))
        for isa in levels:
            found = self.doctor("-t", 1, env=os.environ | {"TERN_ISA": isa})
            self.assertEqual((found["isa"], found["isa_forced"]), (isa, True))
        text = tern("doctor", env=os.environ | {"TERN_ISA": "ref"}).stdout
        self.assertRegex(text, r"(?m)^kernels +ref, forced by TERN_ISA; possible here: ref")

    def test_prediction_follows_from_its_parts(self):
        path = FOLDER / "llama.gguf"
        m = self.doctor("-m", path)["model"]
        macs, token_bytes = expected_work(path, 0, 1, True, 0, 1)
        self.assertEqual(m["weight_bytes_per_token"], token_bytes)
        heads_macs = expected_work(path, 1, 1, True, 0, 1)[0] - macs  # one more position seen
        self.assertEqual(m["macs_per_token"], macs - heads_macs)
        self.assertTrue(close(m["decode_bound_memory_per_s"], 1e9 * m["read_gb_per_s"] / token_bytes))
        self.assertTrue(close(m["decode_bandwidth_share"], m["decode_tokens_per_s"] / m["decode_bound_memory_per_s"]))
        cached = expected_work(path, m["long_context"] - 1, 1, True, 2, 1)[1] - token_bytes
        self.assertEqual(m["long_kv_bytes_per_token"], cached)
        self.assertTrue(close(m["long_decode_tokens_per_s"], m["decode_tokens_per_s"] * token_bytes / (token_bytes + cached)))
        nearer = "memory" if m["decode_bound_memory_per_s"] < m["decode_bound_multiply_per_s"] else "multiplies"
        self.assertEqual(m["decode_bound_by"], nearer)

    def test_text_names_what_was_measured(self):
        text = tern("doctor", FOLDER / "llama.gguf").stdout
        for word in ("cpu", "features", "kernels", "cores", "quota", "threads", "memory", "reads", "multiplies", "model", "decode",
                     "prefill", "bound by", "fits"):
            self.assertRegex(text, rf"(?m)^{word} +\S")


if __name__ == "__main__":
    unittest.main(verbosity=2)
