"""What tern does where the machine is small or fails around it: full disks, kills at any moment, limits on memory, stack and descriptors,
streams that are closed, full or gone. Each command ends as on a sound machine, or with one clear error.

A sample; with TERN_LONG set more of it. TERN_TEST_KILLS is the number of kills of each command (200 then)."""

import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time
import unittest

from fault_commands import LONG, TERN, Workplace

KILLS = int(os.environ.get("TERN_TEST_KILLS", 200 if LONG else 5))
MIB = 1 << 20


class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.place = Workplace(folder.name + "/work")
        cls.writers = [command for command in cls.place.commands if command.outputs]

    def setUp(self):
        self.n_done = self.n_survived = 0

    def check(self, command, what, old=False, **more):
        judged = {name: more.pop(name) for name in ("silent", "strays", "ended") if name in more}
        result = self.place.run(command, old=old, **more)
        self.judge(command, result, what, old=old, **judged)
        return result

    def judge(self, command, result, what, **judged):
        with self.subTest(command=command.name, what=what):
            self.place.judge(command, result, what, **judged)
        self.n_done += 1
        self.n_survived += result.code == 0

    def report(self, what):
        print(f"{self.n_done} times {what}, {self.n_survived} of them done all the same")


class Disks(TestCase):
    def sizes(self, command, step):
        """Places within the largest output, its edges first."""
        size = max(map(len, self.place.whole[command].files.values()))
        return sorted({0, 1, size // 2, size - 1} | (set(range(0, size, max(1, size // step))) if LONG else set()))

    def test_a_file_that_may_not_grow_is_an_error(self):
        for command in self.writers:
            for size in self.sizes(command, 64):
                self.check(command, f"{size} bytes", old=size % 2 == 1,
                           prepare=lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        self.assertLess(self.n_survived, self.n_done / 10)  # those whose last bytes are another file's
        self.report("no more than some bytes")

    def test_a_full_disk_is_an_error(self):
        for command in self.writers:
            size = sum(map(len, self.place.whole[command].files.values()))
            pages = -(-size // 4096)
            for n in range(1, 2 * pages + 6) if LONG and pages < 64 else sorted({1, 2, pages // 2 + 1, pages}):
                mount = ["mount", "-t", "tmpfs", "-o", f"size={n * 4096}", "none", self.place.out]
                if subprocess.run(list(map(str, mount)), capture_output=True, check=False).returncode:
                    self.skipTest("a small disk cannot be mounted here (not root)")
                try:
                    self.check(command, f"{n} pages")
                finally:
                    subprocess.run(["umount", str(self.place.out)], check=True)
        self.assertLess(self.n_survived, self.n_done)
        self.report("a disk of some pages")

    def test_killed_at_any_moment_it_leaves_the_old_file_or_the_new_one(self):
        rng = random.Random(8)
        names = ("quantize", "quantize to shards", "convert", "imatrix", "run with a state", "chat")
        for command in (c for c in self.writers if c.name in names):
            start = time.monotonic()
            self.place.run(command)
            seconds = time.monotonic() - start
            for i in range(KILLS):
                process = self.place.start(command, old=i % 2 == 0)
                if command.stdin:
                    process.stdin.write(command.stdin.encode())
                    process.stdin.flush()
                time.sleep(rng.uniform(0, 1.2 * seconds))
                process.kill()
                result = self.place.end(process, command)
                self.judge(command, result, "a kill", old=i % 2 == 0, strays=True, ended=(-9,))
        self.report("a kill")


class Limits(TestCase):
    def limited(self, what, kind, limits, commands=None):
        for command in commands or self.place.commands:
            for limit in limits:
                self.check(command, f"{what} {limit}", prepare=lambda limit=limit: resource.setrlimit(kind, (limit, limit)))

    def lowest(self, kind):
        """The limit that the program itself needs, in MiB."""
        for mib in range(2, 200):
            done = subprocess.run([TERN, "--version"], capture_output=True, check=False,
                                  preexec_fn=lambda mib=mib: resource.setrlimit(kind, (mib * MIB, mib * MIB)))
            if done.returncode == 0:
                return mib
        self.skipTest("the program needs much address space (a sanitizer's)")

    def test_little_address_space_is_refused_or_enough(self):
        lowest = self.lowest(resource.RLIMIT_AS)
        more = range(0, 24) if LONG else (0, 1, 4, 11)
        self.limited("address space", resource.RLIMIT_AS, [(lowest + mib) * MIB for mib in more])
        self.assertGreater(self.n_survived, 0)
        self.assertLess(self.n_survived, self.n_done)
        self.report("little address space")

    def test_too_little_address_space_is_refused_with_numbers(self):
        model = self.place.folder / "model.gguf"
        limit = self.lowest(resource.RLIMIT_AS) + 8
        large = self.place.folder.parent / "large.gguf"  # the same, and a hole behind it
        large.write_bytes(model.read_bytes())
        os.truncate(large, 2 * limit * MIB)
        for args, why in ((("-m", model, "-c", 1 << 20), r"\d+ MiB for the cache of \d+ positions .*refused"),
                          (("-m", large), rf"cannot map {2 * limit * MIB} bytes")):
            done = subprocess.run([TERN, "run", *map(str, args), "-p", "at the", "-n", "1", "-t", "1"], capture_output=True, text=True,
                                  env=self.place.environment(), check=False,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit * MIB, limit * MIB)))
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertRegex(done.stderr, rf"\Atern: error: .*{why}.*\n\Z")

    def test_little_memory_of_its_own_is_refused_or_enough(self):
        self.limited("data", resource.RLIMIT_DATA, [n * MIB // 4 for n in (range(1, 30) if LONG else (2, 5, 14))])
        self.report("little memory")

    def test_a_small_stack_is_enough(self):
        self.limited("stack", resource.RLIMIT_STACK, [256 << 10])
        self.assertEqual(self.n_survived, self.n_done)

    def test_few_descriptors_are_an_error_or_enough(self):
        self.limited("descriptors", resource.RLIMIT_NOFILE, range(4, 12) if LONG else (4, 5, 8))
        self.report("few descriptors")

    def test_eight_descriptors_are_enough(self):
        self.limited("descriptors", resource.RLIMIT_NOFILE, [8], [c for c in self.place.commands if "shards" not in c.name])
        self.assertEqual(self.n_survived, self.n_done)


class Groups(TestCase):
    """Memory that a control group gives."""

    def group(self, n_bytes):
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            path = pathlib.Path(root) / f"tern-test-{os.getpid()}"
            try:
                path.mkdir()
            except OSError:
                continue
            self.addCleanup(path.rmdir)
            try:
                (path / limit).write_text(str(n_bytes))
                return path
            except OSError:
                continue
        return self.skipTest("no control group can be made here")

    def test_a_group_with_little_memory_is_refused_with_numbers(self):
        group = self.group(64 * MIB)
        join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        run = next(c for c in self.place.commands if c.name == "run")
        self.check(run, "a group of 64 MiB", prepare=join)
        self.assertEqual(self.n_survived, 1)
        for context, code in ((4096, 0), (1 << 20, 1)):
            done = subprocess.run([TERN, *map(str, run.args), "-c", str(context)], cwd=self.place.folder, preexec_fn=join,
                                  env=self.place.environment(), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                self.assertRegex(done.stderr, r"tern: error: not enough memory: .*available \d\d? MiB; a context of \d+ would fit")


class Streams(TestCase):
    def test_closed_streams_are_an_error_or_not_missed(self):
        for command in self.place.commands:
            for closed in ((0,), (1,), (2,), (0, 1, 2)):
                def prepare(closed=closed):
                    for fd in closed:
                        os.close(fd)

                if 0 in closed and command.stdin:
                    continue  # another input: nothing to compare with
                prints = 1 in closed and bool(self.place.whole[command].stdout)
                result = self.check(command, f"closed {closed}", prepare=prepare, silent=bool({1, 2} & set(closed)))
                self.assertEqual(result.code, int(prints), (command.name, closed, result.stderr))
        self.report("closed streams")

    def test_full_and_broken_streams_are_an_error(self):
        for command in self.place.commands:
            if not self.place.whole[command].stdout:
                continue
            reader, writer = os.pipe()
            os.close(reader)
            with open("/dev/full", "wb") as full, os.fdopen(writer, "wb") as broken:
                for stdout, why in ((full, b"No space left on device"), (broken, b"Broken pipe")):
                    result = self.check(command, why, stdout=stdout)
                    self.assertEqual(result.code, 1, command.name)
                    self.assertIn(why, result.stderr, command.name)
                    self.n_survived -= result.code == 0
            with open("/dev/full", "wb") as full:
                result = self.check(command, "no place for messages", stderr=full, silent=True)
                self.assertEqual(result.code, 0)
        self.report("full or broken streams")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
