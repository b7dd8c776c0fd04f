"""No system call that fails, whichever, makes tern do anything but its work or say one clear error, and nothing is half written.
Nor does a signal or a kill at any call, nor a model that changes there.

A sample; with TERN_LONG set each call of each command goes wrong in each way."""

import collections
import os
import re
import shutil
import sys
import tempfile
import unittest

from fault_commands import HELPER, LONG, Workplace

HARMLESS = ("EINTR", "short")  # to be survived
HOW = {
    "open": ("EIO", "EINTR", "EMFILE"),
    "read": ("EIO", "EINTR", "short"),
    "write": ("EIO", "ENOSPC", "EINTR", "short"),
    "mmap": ("ENOMEM",),
    "mremap": ("ENOMEM",),
    "ftruncate": ("EIO", "EINTR"),
    "fallocate": ("EIO", "ENOSPC", "EINTR"),
    "fsync": ("EIO", "EINTR"),
    "rename": ("EIO", "EACCES"),
    "link": ("EIO", "ENOSPC"),
    "close": ("EIO", "EINTR"),
    "flock": ("EIO", "EINTR"),
}
OTHERS = ("EIO",)
MACHINE = r"/sys/|/proc/(self|meminfo|cpuinfo|\d+/cgroup)"  # what is asked of the machine, alike in all commands
SIGNALS = {"SIGTERM": 143, "SIGHUP": 129, "SIGINT": 130}


class TestCase(unittest.TestCase):
    as_user = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.place = Workplace(folder.name + "/work")
        cls.log = folder.name + "/log"

    def setUp(self):
        self.n_done = 0

    def hit(self):
        with open(self.log) as log:
            return log.read().strip()

    def calls(self, command, old):
        """(number, name, file) of the calls that could go wrong. A sample, also of a command that makes hundreds of the same: of
        those that commands have in common, one command's; of many alike, four."""
        result = self.place.run(command, old=old, wrap=[HELPER, "list", self.log, *self.as_user])
        if result.code == 77:
            self.skipTest("system calls cannot be traced here")
        self.assertEqual(result.code, 0, result.stderr)
        lines = re.findall(r"^(\d+) (\w+) (.*)$", self.hit(), re.M)
        self.assertGreater(len(lines), 6)
        calls = [(int(number), name, path) for number, name, path in lines]
        if LONG and command.name != "quantize by measuring":
            return calls
        alike = collections.defaultdict(list)
        for number, *what in calls:
            if command.name == "run" or not re.match(MACHINE, what[1]):
                alike[tuple(what)].append(number)
        kept = {n for numbers in alike.values() for n in (*numbers[:2], numbers[len(numbers) // 2], numbers[-1])}
        return [call for call in calls if call[0] in kept]

    def spoil(self, command, number, how, old, **judged):
        result = None
        with self.subTest(command=command.name, how=how, number=number):
            result = self.place.run(command, old=old, wrap=[HELPER, number, how, self.log, *self.as_user])
            hit = self.hit()
            self.assertRegex(hit, r"\A\d+ .*\Z", "the call was not made, or its accident did not come")
            self.place.judge(command, result, f"{how} at {hit}", old=old, **judged)
        self.n_done += 1
        return result


class Calls(TestCase):
    def test_each_call_that_fails_is_survived_or_told(self):
        n_survived = 0
        for old in (True, False) if LONG else (True,):
            for command in self.place.commands:
                for number, name, _ in self.calls(command, old):
                    hows = HOW.get(name, OTHERS)
                    for how in hows if LONG else [hows[self.n_done % len(hows)]]:
                        result = self.spoil(command, number, how, old, must_do=how in HARMLESS)
                        n_survived += result is not None and result.code == 0
        print(f"{self.n_done} calls went wrong, {n_survived} of them survived")


class Ends(TestCase):
    def writing(self, command, old):
        """Calls by which a killed process could leave something."""
        calls = self.calls(command, old) if command.outputs else []
        return [number for number, name, path in calls if LONG or name == "link" or "/out" in path]

    def test_killed_at_each_call_it_leaves_the_old_file_or_the_new_one(self):
        for i, command in enumerate(self.place.commands):
            old = i % 2 == 0
            for number in self.writing(command, old):
                if LONG or number % 2 == 0:
                    self.spoil(command, number, "SIGKILL", old, ended=(137,), strays=True)
        print(f"killed at {self.n_done} calls")

    def test_a_signal_at_each_call_ends_it_and_leaves_nothing(self):
        for i, command in enumerate(self.place.commands):
            calls = [number for number, *_ in self.calls(command, True)]
            writing = set(self.writing(command, True))
            for number in calls:
                for j, (how, code) in enumerate(SIGNALS.items()):
                    if LONG or (number + i) % 9 == j or (number in writing and (number + i) % 3 == j):
                        self.spoil(command, number, how, True, ended=(code,))
        print(f"ended by signals at {self.n_done} calls")


class Models(TestCase):
    """The model is copied, since it is changed while a command is at a call; the copy comes back before the next."""

    def drop_rights(self):
        """For root there is no file that may not be read: commands run as somebody else, where there is a way. Whether so."""
        if os.geteuid() != 0:
            return True
        self.place.folder.parent.chmod(0o755)
        self.place.out.chmod(0o777)
        as_user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        try:
            possible = self.place.run(self.place.commands[0], wrap=as_user).code == 0
        except OSError:
            possible = False
        self.as_user = as_user if possible else ()
        return possible

    def test_a_model_that_changes_is_the_same_result_or_an_error(self):
        model = self.place.folder / "model.gguf"
        copy, other = self.place.folder / "copy", self.place.folder / "other"
        shutil.copyfile(model, copy)
        other.write_bytes(b"GGUF" + bytes(1000))
        size = model.stat().st_size
        changes = {"cut": f"truncate -s 8192 {model}", "cut in its last page": f"truncate -s {size - 40} {model}",
                   "emptied": f"truncate -s 0 {model}", "replaced": f"cp {other} {other}2 && mv {other}2 {model}",
                   "removed": f"rm {model}", "forbidden": f"chmod 0 {model}"}  # fmt: skip
        forbidding = self.drop_rights()
        codes = set()
        for i, command in enumerate(c for c in self.place.commands if "model.gguf" in c.args):
            calls = [number for number, *_ in self.calls(command, True)]
            step = 1 if LONG else len(calls) // 7 + 1
            for number in calls[i % step :: step]:
                for j, (name, change) in enumerate(changes.items()):
                    if not LONG and (number + i) % len(changes) != j:
                        continue
                    # SIGBUS leaves shards that are complete; inspect tells what it finds where it looks.
                    allowed = {"strays": command.name == "quantize to shards", "silent": command.name == "inspect"}
                    result = self.spoil(command, number, "do:" + change, True, inputs=False, **allowed)
                    codes.add((name, result and result.code))
                    model.unlink(missing_ok=True)
                    shutil.copyfile(copy, model)
        print(f"the model changed at {self.n_done} calls{'' if forbidding else ', but no permission can be taken here'}")
        self.assertIn(("cut", 1), codes)
        result = self.spoil(self.place.commands[0], 0, "do:" + changes["forbidden"], True, inputs=False)
        self.assertEqual(result.code, 1 if forbidding else 0, "the first call opens the model")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
