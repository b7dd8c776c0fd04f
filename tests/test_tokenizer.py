"""Tokenizing equals Hugging Face's tokenizers and Google's sentencepiece, and the published ids, text for text.

Vocabularies: TERN_DATA/vocab (default ../shared/data) and the real models in TERN_MODELS (default
${XDG_CACHE_HOME:-~/.cache}/tern). What is absent is counted and printed; without any vocabulary the test is skipped.
"""

import glob
import os
import random
import sys
import time
import unicodedata

try:
    from tokenizer_reference import BOS, CONTROL, SPECIAL, USER_DEFINED, Tern, Vocabulary
    from tokenizer_rules import RULES
    from tokenizer_texts import random_text
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

DATA = os.path.join(os.environ.get("TERN_DATA", "../shared/data"), "vocab")
MODELS = os.environ.get("TERN_MODELS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tern")
N_STRINGS = int(os.environ.get("TERN_STRINGS", "10000"))
MAX_LOAD_MS = {"smollm2-135m": 20, "gemma3-270m": 80}  # of CPU on a machine of 2021; half as fast is no failure
FRAMES = {  # BOS by default, and the tokens that end a text
    "gpt-2": (None, {"<|endoftext|>"}), "qwen2": (None, {"<|endoftext|>", "<|im_end|>"}),
    "llama-bpe": ("<|begin_of_text|>", {"<|end_of_text|>", "<|eot_id|>"}), "llama-spm": ("<s>", {"</s>"}),
    "smollm2-135m": (None, {"<|endoftext|>", "<|im_end|>"}), "gemma3-270m": ("<bos>", {"<eos>", "<end_of_turn>"}),
}
RUN_CHARS = ["a", " ", "\n", ".", "\u4e2d", "\U0001f600", "\u0301", "7", "<"]

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        if len(failures) <= 20:
            print(f"FAIL {what}")


def random_texts(vocabulary, n, seed):
    rng = random.Random(seed)
    special = vocabulary.special[CONTROL][:200] + vocabulary.special[USER_DEFINED]
    special += [t[:-1] for t in special if len(t) > 1]  # almost
    return [random_text(rng, special) for _ in range(n)]


# ---- Checks --------------------------------------------------------------------------------------------------

def compare(name, tern, texts, wanted, flags, form=str):
    """`form` is the normalization that the vocabulary's texts go through: they come back in it."""
    for text, want in zip(texts, wanted):
        got = tern.tokenize(text, flags)
        check(got == want, f"{name}: {text!r}: {got}, expected {want}")
        back = tern.detokenize(got, special=True).decode()
        check(form(back) == form(text), f"{name}: {text!r} comes back as {back!r}")


def form_of(vocabulary, pre):
    if vocabulary.model == "gpt2" and pre in RULES and RULES[pre].nfc:
        return lambda text: unicodedata.normalize("NFC", text)
    return str


def check_published_lines(name, vocabulary, tern, path):
    """The lines were made without a normalizer, even where the model's own tokenizer has one: those count that have its form."""
    with open(path + ".inp", encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")[:-1]
    with open(path + ".out", encoding="utf-8") as file:
        wanted = [[int(i) for i in line.split()] for line in file.read().split("\n")][:len(texts)]
    form = form_of(vocabulary, vocabulary.pre)
    lines = [(text, ids) for text, ids in zip(texts, wanted) if form(text) == text]
    for text, want in lines:
        got = tern.tokenize(text)
        check(got == want, f"{name}: {text!r}: {got}, expected {want}")
    return len(lines)


def check_bpe(name, vocabulary, pre, n):
    for special in (False, True):
        lacking = lacking_bytes(vocabulary)
        texts = [t for t in random_texts(vocabulary, n, f"{name} {pre} {special}") if not lacking & set(t.encode())]
        wanted = vocabulary.reference_bpe(pre, special)(texts)
        with Tern(vocabulary.path, "--pre", pre) as tern:
            compare(f"{name}/{pre} special={special}", tern, texts, wanted, SPECIAL if special else 0, form_of(vocabulary, pre))
    return 2 * n


def check_spm(name, vocabulary, n):
    for prefix in (False, True):
        texts = random_texts(vocabulary, n, f"{name} {prefix}")
        wanted = vocabulary.reference_spm(prefix)(texts)
        with Tern(vocabulary.path, "--space-prefix", str(int(prefix))) as tern:
            compare(f"{name} prefix={prefix}", tern, texts, wanted, 0)
            # Between control tokens each stretch is a text of its own.
            parts = texts[:200]
            bos = vocabulary.ids["<s>" if "<s>" in vocabulary.ids else "<bos>"]
            joined = vocabulary.tokens[bos].join(parts)
            if not any(t in p for t in vocabulary.special[CONTROL] for p in parts):
                want = [i for ids in wanted[:200] for i in [bos] + ids][1:]
                check(tern.tokenize(joined, SPECIAL) == want, f"{name}: stretches between control tokens")
    return 2 * n


def lacking_bytes(vocabulary):
    """Bytes of characters that some vocabularies have no token for: U+FFFD here, dropped by `tokenizers`."""
    in_characters = [b for b in range(256) if b not in (0xC0, 0xC1) and b < 0xF5]
    return {b for b in in_characters if vocabulary.model == "gpt2" and byte_letter(b) not in vocabulary.letters}


def check_bad_bytes(name, vocabulary, tern):
    """Valid stretches as if alone, but for the space prefix, and each bad byte as its own token."""
    rng = random.Random(name)
    bad = [b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"]
    lacking = lacking_bytes(vocabulary)
    for _ in range(500):
        parts = [rng.choice(bad) if rng.random() < 0.4 else random_text(rng, []).encode() for _ in range(6)]
        data = b"".join(parts)
        want, run, i = [], b"", 0
        while i <= len(data):
            width = next((w for w in range(1, 5) if i + w <= len(data) and is_char(data[i:i + w])), 0)
            if width:
                run += data[i:i + width]
                i += width
                continue
            want += tern.tokenize(run)
            if i < len(data):
                want += byte_ids(vocabulary, data[i], tern)
            run, i = b"", i + 1
        got = tern.tokenize(data)
        check(got == want, f"{name}: bad bytes {data!r}: {got}, expected {want}")
        if lacking & set(data):
            continue  # comes back as U+FFFD
        shown, form = tern.detokenize(got).decode(), form_of(vocabulary, vocabulary.pre)
        check(form(shown) == form(data.decode("utf-8", "replace")), f"{name}: bad bytes {data!r} come back as {shown!r}")


def is_char(data):
    try:
        return len(data.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def byte_letter(byte):
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return chr(byte) if byte in printable else chr(256 + others.index(byte))


def byte_ids(vocabulary, byte, tern):
    if vocabulary.model == "llama":
        return [vocabulary.ids[f"<0x{byte:02X}>"]]
    letter = byte_letter(byte)
    return [vocabulary.ids[letter]] if letter in vocabulary.letters else tern.tokenize("\ufffd")


def check_runs(name, tern):
    """Runs of one character: in quadratic time, even of some bytes copied, a million would take a minute."""
    for char in RUN_CHARS:
        for n in (500_000, 1_000_000):
            for attempt in range(4):  # the machine may be busy with something else
                start = time.perf_counter()
                ids = tern.tokenize(char * n)
                seconds = time.perf_counter() - start
                if attempt == 0:
                    check(tern.detokenize(ids) == (char * n).encode(), f"{name}: {n} of {char!r} do not come back")
                if seconds < 3:
                    break
            else:
                check(False, f"{name}: {char!r}: {n} in {seconds:.2f} s")


def check_framing(name, vocabulary, tern):
    """BOS where the file or the family says so, once."""
    bos_text, expected = FRAMES[name]
    plain, framed = tern.tokenize("Hello"), tern.tokenize("Hello", BOS)
    check(framed == ([vocabulary.ids[bos_text]] if bos_text else []) + plain, f"{name}: framed {framed}")
    if bos_text:
        check(tern.tokenize(bos_text + "Hello", BOS | SPECIAL) == framed, f"{name}: BOS twice")
    ends = {vocabulary.tokens[i] for i in tern.ends()}
    check(ends == expected, f"{name}: ends at {ends}")


def main():
    published = sorted(glob.glob(os.path.join(DATA, "*.gguf")))
    real = [p for p in (os.path.join(MODELS, n) for n in ("smollm2-135m.gguf", "gemma3-270m.gguf")) if os.path.exists(p)]
    print(f"{len(published)} vocabularies, {len(real)} of 2 real models ({2 - len(real)} skipped)")
    if not published and not real:
        print(f"skipped: neither {DATA} nor a model in {MODELS}")
        return 77
    for path in published + real:
        name = os.path.basename(path).removeprefix("ggml-vocab-").removesuffix(".gguf")
        start = time.perf_counter()
        vocabulary = Vocabulary(path)
        n_random = 0
        by_rule = vocabulary.model == "gpt2" and vocabulary.pre in RULES
        if vocabulary.model == "llama" or by_rule:
            with Tern(path, *(["--space-prefix", "0"] if vocabulary.model == "llama" else [])) as tern:
                check_bad_bytes(name, vocabulary, tern)
        with Tern(path) as tern:
            n_lines = check_published_lines(name, vocabulary, tern, path) if os.path.exists(path + ".inp") else 0
            if name in FRAMES:
                check_runs(name, tern)
                check_framing(name, vocabulary, tern)
            load_ms = tern.load_ms
            check(load_ms < 2 * MAX_LOAD_MS.get(name, 1000) or tern.sanitized, f"{name}: loads in {load_ms} ms")
        if vocabulary.model == "llama":
            n_random = check_spm(name, vocabulary, N_STRINGS // 2)
        elif by_rule:
            n_random = check_bpe(name, vocabulary, vocabulary.pre, N_STRINGS // 2)
        print(f"{name}: {n_lines} published lines, {n_random} random texts, loaded in {load_ms:.1f} ms of CPU, "
              f"{time.perf_counter() - start:.0f} s in all")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
