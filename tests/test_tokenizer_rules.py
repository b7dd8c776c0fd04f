"""Every pre-tokenizer and every kind of vocabulary equals an independent implementation on random texts.

Small vocabularies are trained here on texts of the same kind, across all boundaries, so that a cut at the wrong place
shows in the ids. References: `tokenizers` with the published rules (tokenizer_rules.py), sentencepiece, and for RWKV a
loop over a dictionary. Runs of one character must take linear time in all of them."""

import collections
import json
import os
import random
import re
import sys
import tempfile
import time
import unicodedata

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
try:
    import gguf
    import sentencepiece
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    from tokenizer_reference import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, Tern
    from tokenizer_rules import GROUPS, MARKED_NAMES, RULES
    from tokenizer_texts import SCRIPTS, random_text
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

N_STRINGS = int(os.environ.get("TERN_STRINGS", "10000"))
N_SAME_RULE = min(N_STRINGS, 200)  # texts for another name of a rule that was tested in full
RUN_CHARS = ["a", " ", "1", "\n", "\u00e9", "\u4e2d", ".", "\U0001f600", "\u0301"]
LONG_RUN = 1_000_000
LONG_RUNS = "TERN_LONG_RUNS" in os.environ  # a million characters for every rule: some minutes
MARK = "\u2581"

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        if len(failures) <= 20:
            print(f"FAIL {what[:600]}")


def make_texts(n, seed):
    rng = random.Random(seed)
    return [random_text(rng, []) for _ in range(n)]


def compare(name, tern, texts, wanted, same=lambda got, want: got == want):
    for text, got, want in zip(texts, tern.tokenize_all(texts), wanted):
        check(same(got, want), f"{name}: {text!r}: {got}, expected {want}")


def equal_but_for_ties(got, want):
    """sentencepiece adds scores in single precision, where the order of equal pieces decides between equal sums."""
    return sorted(got) == sorted(want)


# ---- Characters that `tokenizers` knows from an older Unicode ---------------------------------------------------

def all_chars():
    return [c for low, high in SCRIPTS for c in map(chr, range(low, high + 1)) if unicodedata.category(c) not in ("Cn", "Cs")]


def is_punctuation(char):
    return unicodedata.category(char).startswith("P") or char in "$+<=>^`|~"


def new_punctuation():
    split = pre_tokenizers.Punctuation()
    return {c for c in all_chars() if (len(split.pre_tokenize_str("a" + c + "a")) == 3) != is_punctuation(c)}


def new_marks_and_controls():
    bert = normalizers.BertNormalizer(True, False, True, False)
    kept = {c for c in all_chars() if unicodedata.category(c) in ("Mn", "Cf") and bert.normalize_str(c)}
    forms = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
    return kept | {c for c in all_chars() if forms.normalize_str(c) != unicodedata.normalize("NFD", c).lower()}


def without(texts, chars):
    table = dict.fromkeys(map(ord, chars))
    return [text.translate(table) for text in texts]


# ---- Vocabularies ----------------------------------------------------------------------------------------------

def write_vocabulary(path, model, tokens, types=None, scores=None, merges=None, pre=None, **more):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types or [NORMAL] * len(tokens))
    if scores:
        writer.add_token_scores(scores)
    if merges:
        writer.add_token_merges(merges)
    if pre:
        writer.add_tokenizer_pre(pre)
    for key, value in more.items():
        if isinstance(value, bool):
            writer.add_bool("tokenizer.ggml." + key, value)
        elif isinstance(value, bytes):
            writer.add_array("tokenizer.ggml." + key, value)
        else:
            writer.add_uint32("tokenizer.ggml." + key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def trained(model, trainer, texts, pre_tokenizer=None, normalizer=None):
    tokenizer = Tokenizer(model)
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(texts, trainer)
    ids = tokenizer.get_vocab()
    return tokenizer, sorted(ids, key=ids.get)


def merges_of(tokenizer):
    return [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in
            json.loads(tokenizer.to_str())["model"]["merges"]]


# ---- Byte-level BPE -------------------------------------------------------------------------------------------

def check_byte_level(folder, training, texts):
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)  # merges across every boundary
    trainer = trainers.BpeTrainer(vocab_size=3000, show_progress=False, max_token_length=16,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer, tokens = trained(models.BPE(), trainer, training, whole)
    merges, ids = merges_of(tokenizer), {t: i for i, t in enumerate(tokens)}
    path = os.path.join(folder, "bpe.gguf")
    write_vocabulary(path, "gpt2", tokens, merges=[" ".join(m) for m in merges], pre="gpt-2")
    old_texts = without(texts, new_punctuation())
    for names, rule in GROUPS:
        reference = Tokenizer(models.BPE(ids, merges, ignore_merges=rule.ignore_merges))
        rule.apply(reference)
        of_rule = old_texts if rule.old_punctuation else texts
        wanted = [e.ids for e in reference.encode_batch_fast(of_rule, add_special_tokens=False)]
        for i, name in enumerate(names.split()):
            n = N_SAME_RULE if i else len(texts)
            with Tern(path, "--pre", name) as tern:
                compare(name, tern, of_rule[:n], wanted[:n])
                if i == 0:
                    check_runs(name, tern, LONG_RUN if name == "gpt-2" or LONG_RUNS else LONG_RUN // 4)


def check_merges_of_whole_words(folder):
    """ignore_merges: a piece that is a token is that token, even where the merges do not lead there."""
    tokens = [*pre_tokenizers.ByteLevel.alphabet(), "ab", "bc", "abc"]
    ids = {t: i for i, t in enumerate(tokens)}
    merges = [("b", "c"), ("a", "b")]
    path = os.path.join(folder, "ignore.gguf")
    write_vocabulary(path, "gpt2", tokens, merges=[" ".join(m) for m in merges], pre="gpt-2")
    for names, rule in GROUPS:
        want = [ids["abc"]] if rule.ignore_merges else [ids["a"], ids["bc"]]
        for name in names.split():
            with Tern(path, "--pre", name) as tern:
                check(tern.tokenize("abc") == want, f"{name}: ignore_merges is not {rule.ignore_merges}")


# ---- SentencePiece's alphabet with ranked merges -----------------------------------------------------------------

def check_marked_bpe(folder, training, texts):
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=3000, show_progress=False, special_tokens=["<unk>", *byte_tokens],
                                  max_token_length=12, limit_alphabet=800)
    tokenizer, tokens = trained(models.BPE(), trainer, training, normalizer=normalizers.Replace(" ", MARK))
    merges = merges_of(tokenizer)
    reference = Tokenizer(models.BPE(tokenizer.get_vocab(), merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    reference.normalizer = normalizers.Replace(" ", MARK)
    reference.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    wanted = [e.ids for e in reference.encode_batch_fast(texts, add_special_tokens=False)]
    types = [UNKNOWN] + [BYTE] * 256 + [NORMAL] * (len(tokens) - 257)
    for i, (model, pre) in enumerate([("gemma4", "gemma4"), *(("gpt2", pre) for pre in MARKED_NAMES)]):
        path = os.path.join(folder, f"marked-{i}.gguf")
        write_vocabulary(path, model, tokens, types, merges=[" ".join(m) for m in merges], pre=pre, unknown_token_id=0)
        n = N_SAME_RULE if i else len(texts)
        with Tern(path) as tern:
            compare(f"{model}/{pre}", tern, texts[:n], wanted[:n])
            for text, ids in zip(texts[:500], wanted):
                check(tern.detokenize(ids) == text.encode(), f"{model}/{pre}: {text!r} does not come back")
            if i == 0:
                check_runs(model, tern)


# ---- Unigram ---------------------------------------------------------------------------------------------------

def train_unigram(folder, name, training, **options):
    prefix = os.path.join(folder, name)
    common = {c for c, _ in collections.Counter("".join(training)).most_common(600)}
    training = without(training, set("".join(training)) - common)  # else each character would be a token
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training), model_prefix=prefix, vocab_size=2500, model_type="unigram",
        hard_vocab_limit=False, minloglevel=2, num_threads=1, num_sub_iterations=1, character_coverage=1.0,
        **options)
    return sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")


def charsmap_of(processor):
    """normalizer_spec (field 3 of the model) . precompiled_charsmap (field 2)."""
    def fields(data):
        i = 0
        while i < len(data):
            (tag, i), kind = varint(data, i), None
            kind, tag = tag & 7, tag >> 3
            if kind == 2:
                n, i = varint(data, i)
                yield tag, data[i:i + n]
                i += n
            elif kind == 0:
                _, i = varint(data, i)
            else:
                i += 4 if kind == 5 else 8

    def varint(data, i):
        value = shift = 0
        while True:
            value |= (data[i] & 127) << shift
            shift, i = shift + 7, i + 1
            if data[i - 1] < 128:
                return value, i

    spec = next(data for tag, data in fields(processor.serialized_model_proto()) if tag == 3)
    return next((data for tag, data in fields(spec) if tag == 2), b"")


def type_of(processor, i):
    kinds = [(processor.is_unknown, UNKNOWN), (processor.is_control, CONTROL), (processor.is_unused, UNUSED),
             (processor.is_byte, BYTE)]
    return next((kind for test, kind in kinds if test(i)), NORMAL)


def write_unigram(path, processor, **more):
    n = processor.get_piece_size()
    write_vocabulary(path, "t5", [processor.id_to_piece(i) for i in range(n)], [type_of(processor, i) for i in range(n)],
                     [processor.get_score(i) for i in range(n)], unknown_token_id=processor.unk_id(), **more)


def check_unigram_charsmap(folder, training, texts):
    """As T5 and XLM-RoBERTa: NFKC with SentencePiece's additions, extra spaces removed."""
    processor = train_unigram(folder, "nfkc", training)
    path = os.path.join(folder, "nfkc.gguf")
    write_unigram(path, processor, precompiled_charsmap=charsmap_of(processor), add_space_prefix=True,
                  remove_extra_whitespaces=True)
    with Tern(path) as tern:
        compare("unigram with NFKC", tern, texts, processor.encode(texts), equal_but_for_ties)
        check_runs("unigram with NFKC", tern)


def check_unigram_plain(folder, training, texts):
    """No normalization and byte fallback; `tokenizers` as the reference too."""
    processor = train_unigram(folder, "plain", training, normalization_rule_name="identity", byte_fallback=True,
                              remove_extra_whitespaces=False)
    path = os.path.join(folder, "plain.gguf")
    write_unigram(path, processor, add_space_prefix=True, remove_extra_whitespaces=False)
    texts = [text.replace("\0", "") for text in texts]
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.get_piece_size())]
    reference = Tokenizer(models.Unigram(pieces, processor.unk_id(), byte_fallback=True))
    reference.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    reference.decoder = decoders.ByteFallback()
    with Tern(path) as tern:
        compare("unigram against sentencepiece", tern, texts, processor.encode(texts), equal_but_for_ties)
        compare("unigram against tokenizers", tern, texts,
                [e.ids for e in reference.encode_batch_fast(texts, add_special_tokens=False)])
        check_runs("unigram", tern)


# ---- WordPiece -------------------------------------------------------------------------------------------------

def as_in_file(token):
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[2:] if token.startswith("##") else MARK + token


def check_wordpiece(folder, training, texts):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    texts = without(texts, new_punctuation() | new_marks_and_controls() | {MARK})
    for lowercase, strip in [(True, True), (False, False), (True, False)]:
        normalizer = normalizers.BertNormalizer(True, True, strip, lowercase)
        trainer = trainers.WordPieceTrainer(vocab_size=3000, show_progress=False, special_tokens=special, limit_alphabet=600)
        split = pre_tokenizers.BertPreTokenizer()
        _, tokens = trained(models.WordPiece(unk_token="[UNK]"), trainer, training, split, normalizer)
        tokens = [t for t in tokens if MARK not in t]
        reference = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]",
                                               max_input_chars_per_word=100))
        reference.normalizer, reference.pre_tokenizer = normalizer, split
        path, name = os.path.join(folder, "bert.gguf"), f"WordPiece lowercase={lowercase} strip_accents={strip}"
        flags = {} if lowercase and strip else {"normalizer.lowercase": lowercase, "normalizer.strip_accents": strip}
        write_vocabulary(path, "bert", [as_in_file(t) for t in tokens],
                         [CONTROL if t in special else NORMAL for t in tokens], **flags)
        n = len(texts) if lowercase and strip else len(texts) // 4
        with Tern(path) as tern:
            compare(name, tern, texts[:n], [e.ids for e in reference.encode_batch_fast(texts[:n], add_special_tokens=False)])
            check(tern.tokenize("", 1) == [2, 3], f"{name}: not between [CLS] and [SEP]")
            check(tern.detokenize(tern.tokenize("the world")) == b"the world", f"{name}: does not come back")
            if lowercase and strip:
                check_runs(name, tern)


# ---- RWKV ------------------------------------------------------------------------------------------------------

def check_rwkv(folder, training, texts):
    rng = random.Random("rwkv")
    tokens = {bytes([b]) for b in range(256)}
    for text in training[:4000]:
        data = text.encode()
        for _ in range(3):
            start = rng.randrange(len(data) + 1)
            tokens.add(data[start:start + rng.randint(1, 12)] or b"a")
    tokens = [None] + sorted(tokens, key=lambda t: (len(t), t))
    ids = {token: i for i, token in enumerate(tokens) if token}
    longest = max(map(len, ids))
    path = os.path.join(folder, "rwkv.gguf")
    pads = [f"[PAD{i}]" for i in range(len(tokens), len(tokens) + 5)]
    write_vocabulary(path, "rwkv", ["<s>", *(repr(t)[2:-1] for t in tokens[1:]), *pads],
                     [CONTROL] + [NORMAL] * (len(tokens) - 1) + [UNUSED] * 5)

    def greedy(data):
        i, out = 0, []
        while i < len(data):
            token = next(data[i:i + n] for n in range(longest, 0, -1) if i + n <= len(data) and data[i:i + n] in ids)
            out.append(ids[token])
            i += len(token)
        return out

    texts = texts + pads
    with Tern(path) as tern:
        compare("rwkv", tern, texts, [greedy(text.encode()) for text in texts])
        for text in texts[:500]:
            check(tern.detokenize(tern.tokenize(text)) == text.encode(), f"rwkv: {text!r} does not come back")
        check_runs("rwkv", tern)


# ---- Names -----------------------------------------------------------------------------------------------------

def check_names():
    """A name in the engine's table has a rule here and a line in the documentation, once each."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    with open(os.path.join(root, "src/text/pretok_table.c"), encoding="utf-8") as file:
        rows = re.findall(r"\.names = \{([^}]*)\}", file.read())
    with open(os.path.join(root, "docs/TOKENIZERS.md"), encoding="utf-8") as file:
        documented = [name.strip() for line in file if line.startswith("| ") for name in line.split("|")[1].split(",")]
    known = re.findall(r'"([^"]+)"', " ".join(rows))
    check(sorted(known) == sorted([*RULES, *MARKED_NAMES]), f"names in the table and not here, or here only: "
          f"{set(known) ^ {*RULES, *MARKED_NAMES}}")
    check(all(documented.count(name) == 1 for name in known), "a name is not documented once")


# ---- Time ------------------------------------------------------------------------------------------------------

def check_runs(name, tern, long=LONG_RUN):
    """Runs of one character, loosely: in quadratic time the long one would take a hundred times the short one's."""
    long = long // 10 if tern.sanitized else long
    for char in RUN_CHARS:
        for attempt in range(4):  # the machine may be busy with something else
            seconds = []
            for n in (long // 10, long):
                start = time.perf_counter()
                tern.ask_ids(char * n)
                seconds.append(time.perf_counter() - start)
            if seconds[1] < 30 * max(seconds[0], 0.002):
                break
        else:
            check(False, f"{name}: {char!r}: {long // 10} in {seconds[0]:.3f} s, {long} in {seconds[1]:.3f} s")


def main():
    training, texts = make_texts(6000, "training"), make_texts(N_STRINGS, "texts")
    with tempfile.TemporaryDirectory() as folder:
        checks = [("byte-level BPE", check_byte_level), ("ranked merges", check_marked_bpe),
                  ("unigram with NFKC", check_unigram_charsmap), ("unigram", check_unigram_plain),
                  ("WordPiece", check_wordpiece), ("RWKV", check_rwkv)]
        wanted = sys.argv[1:]
        for name, run in checks:
            if wanted and name not in wanted:
                continue
            start = time.perf_counter()
            run(folder, training, texts)
            print(f"{name}: {time.perf_counter() - start:.1f} s, {len(failures)} failures so far", flush=True)
        check_merges_of_whole_words(folder)
    check_names()
    print(f"{len(GROUPS)} rules and {len(RUN_CHARS)} runs, {N_STRINGS} texts each, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
