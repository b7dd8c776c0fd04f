"""Tokenizers by others, built from the vocabulary in a GGUF file, and tern's own behind a pipe."""

import os
import resource
import struct
import subprocess
import threading

import gguf
import sentencepiece
from tokenizers import AddedToken, Tokenizer, models
from tokenizer_rules import RULES

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BOS, SPECIAL = 1, 2  # tn_tokenize_flags

class Vocabulary:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)

        def value(key, default=None):
            field = reader.get_field("tokenizer.ggml." + key)
            return default if field is None else field.contents()

        def texts(key):
            field = reader.get_field("tokenizer.ggml." + key)
            return [] if field is None else [bytes(field.parts[i]).decode("utf-8", "replace") for i in field.data]

        self.path, self.model, self.pre = path, value("model"), value("pre")
        self.tokens, self.merges = texts("tokens"), texts("merges")
        self.types = value("token_type") or [NORMAL] * len(self.tokens)
        self.scores = value("scores")
        self.special = {kind: [t for t, k in zip(self.tokens, self.types) if k == kind and t]
                        for kind in (CONTROL, USER_DEFINED)}
        self.letters = {t for t, k in zip(self.tokens, self.types) if k == NORMAL and len(t) == 1}
        self.ids = {}
        for i, text in enumerate(self.tokens):
            self.ids.setdefault(text, i)

    def reference_bpe(self, pre, special):
        """A `tokenizers` tokenizer that also knows the control tokens if `special`."""
        rule = RULES[pre]
        pairs = [tuple(m.split(" ", 1)) for m in self.merges]
        pairs = [(a, b) for a, b in pairs if a in self.ids and b in self.ids and a + b in self.ids]
        tokenizer = Tokenizer(models.BPE(self.ids, pairs, ignore_merges=rule.ignore_merges))
        rule.apply(tokenizer)
        added = self.special[USER_DEFINED] + (self.special[CONTROL] if special else [])
        tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t in added])
        return lambda strings: [e.ids for e in tokenizer.encode_batch(strings, add_special_tokens=False)]

    @staticmethod
    def as_piece(text, kind):
        """Files of converted models write the spaces of user-defined pieces as spaces; sentencepiece knows them marked."""
        return text.replace(" ", "\u2581") if kind == USER_DEFINED else text

    def reference_spm(self, space_prefix):
        """A sentencepiece processor of a model with these pieces, scores and types and no normalization."""
        unknown = self.types.index(UNKNOWN) if UNKNOWN in self.types else self.ids["<unk>"]
        pieces = b"".join(
            field(1, field(1, self.as_piece(text, kind).encode()) + b"\x15" + struct.pack("<f", score)
                  + number(3, UNKNOWN if i == unknown else kind))
            for i, (text, score, kind) in enumerate(zip(self.tokens, self.scores, self.types)))
        trainer = number(3, 2) + number(35, 1)  # model_type BPE, byte_fallback
        normalizer = number(3, space_prefix) + number(4, 0) + number(5, 1)
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(pieces + field(2, trainer) + field(3, normalizer))
        return lambda strings: processor.encode(strings)


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(tag, data):
    return varint(tag << 3 | 2) + varint(len(data)) + data


def number(tag, n):
    return varint(tag << 3) + varint(int(n))


class Tern:
    """One tokenize_vocab process, its stack limited to 256 KiB where the machine allows that."""

    def __init__(self, path, *options):
        program = os.path.join(os.environ["TERN_BUILD"], "tokenize_vocab")
        self.sanitized = b"__asan_init" in open(program, "rb").read()
        limit = None if self.sanitized else lambda: resource.setrlimit(resource.RLIMIT_STACK, (256 << 10,) * 2)
        self.process = subprocess.Popen([program, path, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=limit)
        self.load_ms = struct.unpack("<I", self._read()[1])[0] / 1000

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def _read(self):
        status, n = struct.unpack("<II", self.process.stdout.read(8))
        return status, self.process.stdout.read(n)

    def _ask(self, letter, flags, data):
        self.process.stdin.write(letter + struct.pack("<II", flags, len(data)) + data)
        self.process.stdin.flush()
        status, answer = self._read()
        if status:
            raise RuntimeError(answer.decode())
        return answer

    def ask_ids(self, text, flags=0):
        return self._ask(b"T", flags, text if isinstance(text, bytes) else text.encode())

    def tokenize(self, text, flags=0):
        data = self.ask_ids(text, flags)
        return list(struct.unpack(f"<{len(data) // 4}i", data))

    def tokenize_all(self, texts, flags=0):
        """All requests at once: a thread writes them while the answers are read."""
        def write():
            for text in texts:
                data = text.encode()
                self.process.stdin.write(b"T" + struct.pack("<II", flags, len(data)) + data)
            self.process.stdin.flush()

        writer = threading.Thread(target=write)
        writer.start()
        answers = [self._read() for _ in texts]
        writer.join()
        return [list(struct.unpack(f"<{len(a) // 4}i", a)) if not status else a.decode() for status, a in answers]

    def detokenize(self, ids, special=False):
        return self._ask(b"D", int(special), struct.pack(f"<{len(ids)}i", *ids))

    def ends(self):
        data = self._ask(b"E", 0, b"")
        return list(struct.unpack(f"<{len(data) // 4}i", data))
