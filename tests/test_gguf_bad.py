"""Bad GGUF files through the command, and files of the gguf package read back field by field.

A bad file must be refused (refusals.py) with a message that names the file and what is wrong. The bytes come from
struct.pack here or from the gguf package, never from tern.
"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import gguf
    import numpy as np

    import tiny
    from refusals import Runner
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TERN = os.environ.get("TERN", "tern")
RUNNER = Runner(TERN)
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
Q4_0, I8_TENSOR = 2, 24


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def header(n_tensors, n_meta, version=3, magic=b"GGUF"):
    return magic + struct.pack("<IQQ", version, n_tensors & (2**64 - 1), n_meta & (2**64 - 1))


def entry(key, kind, value=b""):
    return text(key) + struct.pack("<I", kind) + value


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value & (2**64 - 1))


def array(elem, count, items=b""):
    return u32(elem) + u64(count) + items


def tensor(name, dims, kind=0, offset=0, n_dims=None):
    shape = u32(len(dims) if n_dims is None else n_dims) + b"".join(map(u64, dims))
    return text(name) + shape + u32(kind) + u64(offset)


def padded(raw, align=32):
    return raw + b"\0" * (-len(raw) % align)


def sample():
    """A small good file; its last byte is the last of a tensor."""
    words = array(STRING, 2, text("a") + text(""))
    meta = entry("general.architecture", STRING, text("none")) + entry("words", ARRAY, words)
    tensors = tensor("x", [8, 2]) + tensor("y.weight", [32], Q4_0, 64)
    return padded(header(2, 2) + meta + tensors) + bytes(range(64)) + bytes(18)


def one_key(*parts):
    return header(0, 1) + b"".join(parts)


def one_tensor(*args, data=256, **kwargs):
    return padded(header(1, 0) + tensor("blk.0.w", *args, **kwargs)) + bytes(data)


def two_tensors(offset_a, offset_b, names=("a", "b"), sizes=(32, 32)):
    infos = tensor(names[0], [sizes[0]], I8_TENSOR, offset_a)
    infos += tensor(names[1], [sizes[1]], I8_TENSOR, offset_b)
    return padded(header(2, 0) + infos) + bytes(96)


def bad_files():
    """(what, bytes, words of the message): the rows of the container table."""
    yield "empty", b"", ("empty",)
    yield "bad magic", header(0, 0, magic=b"GGML"), ("47 47 4d 4c",)
    yield "three bytes", b"GGU", ("47 47 55",)
    yield "big-endian", header(0, 0, version=0x03000000), ("big-endian",)
    for version in (0, 1, 4, 2**32 - 1):
        yield f"version {version}", header(0, 0, version), (f"version {version}", "expected 2 or 3")
    for count in (2**63, 2**61, -1, 88):
        yield f"{count} keys", header(0, count) + bytes(64), ("metadata count", str(count % 2**64))
        yield f"{count} tensors", header(count, 0) + bytes(64), ("tensor count", str(count % 2**64))
    for length in (0, 65, 2**63, 2**64 - 1):
        yield f"key length {length}", one_key(u64(length), bytes(64)), ("metadata key 0",)
        yield f"name length {length}", header(1, 0) + u64(length) + bytes(64), ("tensor 0",)
    for length in (65, 2**63, 2**64 - 1):
        raw = one_key(entry("k", STRING, u64(length) + bytes(64)))
        yield f"string length {length}", raw, ("key 'k'", "truncated")
    for kind in (13, 2**32 - 1, 2**31):
        yield f"value type {kind}", one_key(entry("k", kind, bytes(64))), ("key 'k'", f"value type {kind}")
        raw = one_key(entry("k", ARRAY, array(kind, 1) + bytes(64)))
        yield f"element type {kind}", raw, ("key 'k'", f"element type {kind}")
    for what, value, word in (
        ("2^60 of unknown type", array(99, 2**60), "element type 99"),
        ("2^60 u32", array(U32, 2**60) + bytes(100), "truncated"),
        ("2^62 u32 wrap", array(U32, 2**62) + bytes(100), "too large"),
        ("2^60 strings in 100 bytes", array(STRING, 2**60) + bytes(100), "100 bytes"),
        ("array in array", array(ARRAY, 1, array(U8, 1, b"x")), "array of arrays"),
        ("arrays 10^5 deep", array(ARRAY, 1) * 100000, "array of arrays"),
    ):
        yield what, one_key(entry("k", ARRAY, value)), ("key 'k'", word)
    raw = header(0, 2) + entry("k", U8, b"1") + entry("k", U32, bytes(4))
    yield "duplicate key", raw, ("duplicate key 'k'",)
    yield "duplicate tensor", two_tensors(0, 32, "aa"), ("duplicate tensor 'a'",)
    for raw, shown in (
        (b"a\0b", r"a\x00b"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"\x1b[2J", r"\x1b[2J"),
        (b"\xc2\x9b1m", r"\xc2\x9b1m"),
    ):
        yield f"key {raw}", one_key(entry(raw, U8, b"1")), (shown,)
        yield f"tensor {raw}", padded(header(1, 0) + tensor(raw, [8])) + bytes(32), (shown,)
    key = "general.alignment"
    for align in (0, 3, 2**31, 4, 2**21):
        yield f"alignment {align}", one_key(entry(key, U32, u32(align))), (key, str(align), "power of two")
    yield "alignment u64", one_key(entry(key, U64, u64(32))), (key, "u64", "u32")
    yield "no dimension", one_tensor([]), ("'blk.0.w'", "0 dimensions")
    yield "5 dimensions", one_tensor([1] * 5), ("'blk.0.w'", "5 dimensions")
    yield "2^32-1 dimensions", one_tensor([1], n_dims=2**32 - 1), ("'blk.0.w'", "4294967295 dimensions")
    yield "dimension 0", one_tensor([8, 0]), ("'blk.0.w'", "dimension 1 is 0")
    yield "dimension -1", one_tensor([-1]), ("'blk.0.w'", "dimension 0 is -1")
    yield "2^32 x 2^32", one_tensor([2**32, 2**32]), ("'blk.0.w'", "overflows")
    yield "(2^63+2) x 2", one_tensor([2**63 + 2, 2]), ("'blk.0.w'", "dimension 0")
    yield "rows of 33 in Q4_0", one_tensor([33], Q4_0), ("'blk.0.w'", "multiple of 32")
    for kind in (4, 5, 31, 32, 33, 36, 37, 38, 2**31, 2**32 - 1):
        yield f"tensor type {kind}", one_tensor([256], kind), ("'blk.0.w'", f"type {kind}")
    yield "offset unaligned", one_tensor([8], offset=4), ("'blk.0.w'", "offset 4", "alignment 32")
    raw = one_tensor([8], offset=2**20)
    yield "offset past the end", raw, ("'blk.0.w'", "offset 1048576", "past the end")
    yield "offset wraps", one_tensor([8], offset=2**64 - 32), ("'blk.0.w'", "past the end")
    yield "last byte missing", one_tensor([8, 8])[:-1], ("'blk.0.w'", "past the end")
    yield "overlap", two_tensors(32, 32), ("overlaps",)
    yield "overlap by a byte", two_tensors(0, 32, sizes=(33, 32)), ("'b'", "overlaps tensor 'a'")
    yield "sizes wrap together", two_tensors(0, 2**62, sizes=(2**62, 2**63 - 1)), ("past the end",)
    yield "bool 2", one_key(entry("k", BOOL, b"\2")), ("key 'k'", "expected 0 or 1")


def split_meta(number, count, n_tensors):
    pack = struct.pack
    return (
        entry("split.no", U16, pack("<H", number))
        + entry("split.count", U16, pack("<H", count))
        + entry("split.tensors.count", I32, pack("<i", n_tensors))
    )


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def inspect(self, path, *options):
        return subprocess.run([TERN, "inspect", str(path), *options], capture_output=True, timeout=60)

    def expect_error(self, path, words):
        why = RUNNER.refused(["inspect", path], ("cannot open", *words), self.dir.glob("*"))
        self.assertIsNone(why, why)


class Bad(Case):
    def test_every_row_of_the_table_is_one_clean_error(self):
        n = 0
        for what, raw, words in bad_files():
            with self.subTest(what):
                path = self.dir / "bad.gguf"
                path.write_bytes(raw)
                self.expect_error(path, (str(path), *words))
                n += 1
        print(f"{n} bad files")

    def test_truncation_at_every_byte_is_an_error(self):
        raw = sample()
        path = self.dir / "cut.gguf"
        path.write_bytes(raw)
        self.assertEqual(self.inspect(path).returncode, 0)
        for size in range(len(raw)):
            path.write_bytes(raw[:size])
            self.expect_error(path, (str(path),))

    def test_a_flipped_byte_never_ends_in_a_signal(self):
        raw, dice = sample(), random.Random(1)
        path = self.dir / "flip.gguf"
        for _ in range(300):
            flipped = bytearray(raw)
            flipped[dice.randrange(len(raw) - 82)] = dice.randrange(256)
            path.write_bytes(flipped)
            done = self.inspect(path, "--json")
            self.assertIn(done.returncode, (0, 1), (bytes(flipped), done.stderr))
            if done.returncode == 0:
                json.loads(done.stdout)

    def test_what_is_no_regular_file_is_refused_at_once(self):
        os.mkfifo(self.dir / "fifo")
        zero = pathlib.Path("/dev/zero")
        for path, word in ((self.dir / "fifo", "FIFO"), (self.dir, "directory"), (zero, "device")):
            self.expect_error(path, (str(path), word))

    def test_a_long_or_strange_path_leaves_the_reason_visible(self):
        folder = self.dir
        for _ in range(8):
            folder = folder / ("d" * 120)
        folder.mkdir(parents=True)
        path = folder / "with\x1b[31mcolour\n.gguf"
        path.write_bytes(one_tensor([256], 31))
        self.expect_error(path, (r"with\x1b[31mcolour\x0a.gguf", "'blk.0.w'", "type 31"))

    def test_odd_files_load(self):
        long_key = "k" * 65535
        odd = {
            "version 2": header(0, 0, 2),
            "no tensors": one_key(entry("k", U8, b"\1")),
            "no padding at the end": sample(),
            "bytes behind the end": sample() + b"tail",
            "the longest key": one_key(entry(long_key, U8, b"\1")),
            "a value of any bytes": one_key(entry("k", STRING, text(b"\0\xff\x1b[31m\n"))),
            "a gap": two_tensors(0, 64),
        }
        for what, raw in odd.items():
            with self.subTest(what):
                path = self.dir / "odd.gguf"
                path.write_bytes(raw)
                for options in ((), ("--json",)):
                    done = self.inspect(path, *options)
                    self.assertEqual((done.returncode, done.stderr), (0, b""))
                    self.assertNotIn(b"\x1b", done.stdout)


class Split(Case):
    def shard(self, number, count, n_tensors, name, file_number=None, name_count=3):
        raw = padded(header(1, 3) + split_meta(number, count, n_tensors) + tensor(name, [8])) + bytes(32)
        file_number = number if file_number is None else file_number
        path = self.dir / f"m-{file_number + 1:05}-of-{name_count:05}.gguf"
        path.write_bytes(raw)
        return path

    def test_shards_load_by_the_first_and_no_other(self):
        paths = [self.shard(i, 3, 3, f"t{i}") for i in range(3)]
        info = json.loads(self.inspect(paths[0], "--json").stdout)
        self.assertEqual(info["n_shards"], 3)
        self.assertEqual([t["name"] for t in info["tensors"]], ["t0", "t1", "t2"])
        self.assertEqual(info["file_bytes"], sum(p.stat().st_size for p in paths))
        self.expect_error(paths[1], (str(paths[1]), "shard 2 of 3", paths[0].name))

    def test_a_wrong_shard_is_an_error_that_names_it(self):
        def whole():
            return [self.shard(i, 3, 3, f"t{i}") for i in range(3)]

        paths = whole()
        paths[2].unlink()
        self.expect_error(paths[0], (str(paths[2]), "No such file"))
        whole()
        self.shard(1, 2, 3, "t1")
        self.expect_error(paths[0], (str(paths[1]), "split.count"))
        whole()
        self.shard(2, 3, 3, "t1", file_number=1)
        self.expect_error(paths[0], (str(paths[1]), "split.no"))
        whole()
        self.shard(2, 3, 3, "t0")
        self.expect_error(paths[0], (str(paths[2]), "duplicate tensor 't0'"))
        whole()
        self.shard(0, 3, 4, "t0")
        self.shard(1, 3, 4, "t1")
        self.shard(2, 3, 4, "t2")
        self.expect_error(paths[0], (str(paths[0]), "split.tensors.count"))
        self.shard(0, 4, 3, "t0")
        self.expect_error(paths[0], (str(paths[0]), "-00001-of-00004.gguf"))
        whole()
        paths[1].write_bytes(paths[1].read_bytes()[:-1])
        self.expect_error(paths[0], (str(paths[1]), "'t1'", "past the end"))


class Package(Case):
    """The gguf package writes, tern reads."""

    VALUES = {
        "a.u8": ("u8", "add_uint8", 255),
        "a.i8": ("i8", "add_int8", -128),
        "a.u16": ("u16", "add_uint16", 65535),
        "a.i16": ("i16", "add_int16", -32768),
        "a.u32": ("u32", "add_uint32", 2**32 - 1),
        "a.i32": ("i32", "add_int32", -(2**31)),
        "a.u64": ("u64", "add_uint64", 2**63 - 1),
        "a.i64": ("i64", "add_int64", -(2**63)),
        "a.f32": ("f32", "add_float32", 0.375),
        "a.f64": ("f64", "add_float64", 1e-300),
        "a.true": ("bool", "add_bool", True),
        "a.false": ("bool", "add_bool", False),
        "a.text": ("string", "add_string", 'quoted "text"\n\u6f22'),
        "a.numbers": ("i32[]", "add_array", [1, -2, 3]),
        "a.floats": ("f32[]", "add_array", [0.5, -0.25]),
        "a.flags": ("bool[]", "add_array", [True, False]),
        "a.words": ("string[]", "add_array", ["", "one", "\u20ac"]),
        "a.many": ("i32[]", "add_array", list(range(1000))),
    }

    @staticmethod
    def arrays():
        dice = np.random.default_rng(1)
        for i, shape in enumerate(((32,), (3, 64), (2, 3, 32), (2, 2, 2, 32))):
            yield f"t{i}.f32", dice.standard_normal(shape).astype(np.float32), None
        yield "h", dice.standard_normal((3, 40)).astype(np.float16), None
        yield "i", np.arange(7, dtype=np.int8), None
        for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16"):
            quant = getattr(gguf.GGMLQuantizationType, kind)
            rows = dice.standard_normal((5, 96)).astype(np.float32)
            yield f"q.{kind}", gguf.quants.quantize(rows, quant), quant

    def write(self, path, **options):
        writer = gguf.GGUFWriter(path, "none", **options)
        for key, (_, method, value) in self.VALUES.items():
            getattr(writer, method)(key, value)
        for name, data, quant in self.arrays():
            writer.add_tensor(name, data, raw_dtype=quant)
        tiny.finish(writer)

    def check(self, info, readers):
        for key, (kind, _, value) in self.VALUES.items():
            with self.subTest(key):
                got = info["metadata"][key]
                self.assertEqual(re.sub(r"\[\d+\]$", "[]", got["type"]), kind)  # i32[3], or i32[]
                if isinstance(value, list):
                    self.assertEqual(got["count"], len(value))
                    value = value[:64]
                self.assertEqual(got["value"], value)
        expected = [
            {"name": t.name, "type": t.tensor_type.name, "dims": t.shape.tolist(), "bytes": int(t.n_bytes)}
            for reader in readers
            for t in reader.tensors
        ]
        got = [{key: t[key] for key in ("name", "type", "dims", "bytes")} for t in info["tensors"]]
        self.assertEqual(got, expected)

    def test_every_field_is_read_as_written(self):
        path = self.dir / "package.gguf"
        self.write(path)
        info = json.loads(self.inspect(path, "--json").stdout)
        self.check(info, [gguf.GGUFReader(path)])
        self.assertEqual(info["format"], "GGUF v3")
        self.assertEqual(info["file_bytes"], path.stat().st_size)
        self.assertEqual(len(info["metadata"]), len(self.VALUES) + 1)  # and general.architecture

    def test_a_split_of_the_package_is_read_as_written(self):
        self.write(self.dir / "part.gguf", split_max_tensors=5)
        paths = sorted(self.dir.glob("part-*.gguf"))
        self.assertEqual(len(paths), 3)
        info = json.loads(self.inspect(paths[0], "--json").stdout)
        self.assertEqual(info["n_shards"], 3)
        self.check(info, [gguf.GGUFReader(p) for p in paths])
        self.expect_error(paths[2], ("shard 3 of 3", paths[0].name))


if __name__ == "__main__":
    unittest.main()
